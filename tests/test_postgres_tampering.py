"""Whatever somebody who can write the database may do to the store, verify names by its place: the
tamperings of a file, and those of what only this store has."""

from __future__ import annotations

import psycopg
import pytest
from helpers import postgres
from helpers.lab import START
from helpers.pg_tamperings import HERE, NEXT, OTHERS, in_postgres, of
from helpers.tamperings import TAMPERINGS
from helpers.workload import every_verb, opened

from fencepost.clock import FakeClock
from fencepost.handle.journal import verified
from fencepost.storage.postgres.driver import reader


@pytest.fixture(scope="module")
def history():
    """A connection to a store that has lived through every verb, sealed; each test in a
    transaction that is undone."""
    with postgres.database() as url:
        clock = FakeClock(START)
        with opened(url, clock) as fp:
            every_verb(fp, clock)
            fp.seal()
        with psycopg.connect(url) as connection:
            yield connection


@pytest.fixture
def copy(history):
    yield history
    history.rollback()


def tampered(copy, statement):
    assert copy.execute(statement).rowcount, f"changed nothing: {statement}"
    return verified(reader(copy, "a store")).problems


def codes(problems):
    return {problem.code for problem in problems}


def test_a_whole_store_is_clean_and_its_parts_are_counted(copy):
    found = verified(reader(copy, "a store"))
    (counted,) = copy.execute(
        "select (select count(body) from fencepost_entry), (select count(*) from fencepost_entry "
        "where body is null), (select count(*) from fencepost_task), "
        "(select count(*) from fencepost_result)"
    )
    assert (found.problems, found.unsealed) == ((), 0)
    assert (found.entries, found.purged, found.tasks, found.results) == counted
    assert found.sealed == found.entries + found.purged > 50


@pytest.mark.parametrize("name", [*TAMPERINGS, *HERE])
def test_verify_names(name, copy):
    statement, expected, place = of(name)
    if place == NEXT:
        place = f"entry {verified(reader(copy, 'a store')).sealed + 1}"
    found = tampered(copy, statement)
    assert codes(found) == expected, found
    assert place is None or place in {problem.place for problem in found}, found
    assert all(problem.place and problem.message for problem in found), found
    assert not any("None" in problem.place for problem in found), found


def test_every_tampering_of_a_file_is_put_to_the_server():
    assert OTHERS.keys() <= TAMPERINGS.keys() and not HERE.keys() & TAMPERINGS.keys()
    assert in_postgres("update t set body = x'7b7d' where task = 3 and number = 7") == (
        "update t set body = '\\x7b7d'::bytea where task = (select id from fencepost_task order by "
        "id offset 2 limit 1) and number = (select number from fencepost_node where level = 0 and "
        "position = 6)"
    )


# An epoch begins without an entry where another writer is recognised, and the mark is carried
# forward by the sealer alone: of both the journal does not say how high they are.
COUNTERS = {
    "floor": "update fencepost_store set floor = 0",
    "writer_id": "update fencepost_store set writer_id = 'somebody'",
    "last_fence": "select setval('fencepost_fence_number', 1)",
    "last_entry": "select setval('fencepost_entry_number', 1)",
    "last_task": "select setval('fencepost_task_number', 1)",
}


@pytest.mark.parametrize("column", COUNTERS)
def test_a_tampered_counter_is_named(column, copy):
    drawn = [f"{name}_number" for name in ("fence", "entry", "task")]
    before = [copy.execute(f"select last_value from fencepost_{n}").fetchone()[0] for n in drawn]
    try:
        found = tampered(copy, COUNTERS[column])
    finally:  # a sequence goes back with no transaction
        for name, value in zip(drawn, before, strict=True):
            copy.execute(f"select setval('fencepost_{name}', {value})")
    named = [p.message for p in found if p.code == "counter" and p.place == "store"]
    assert [message.split()[0] for message in named] == [column]
