"""The statements of the two back ends side by side, and what is prepared of them on a server."""

from __future__ import annotations

import re

import pytest
from helpers.pg_stand import PgStand
from helpers.stand import UNKNOWN

from fencepost import commands as c
from fencepost.issues import ISSUES
from fencepost.storage import sqltext
from fencepost.storage.postgres.driver import link_of

SQLITE, POSTGRES = "fencepost.storage.sqlite", "fencepost.storage.postgres"
TWINS = ("queries.sql", "writes.sql", "forget.sql", "reads.sql", "verify.sql",
         "destinations.sql")  # fmt: skip


def names(package, file):
    return sqltext.NAME.findall(sqltext.text_of(package, file))


# what one of them alone has to ask, in the same files: why
ALONE = {
    "integrity": "SQLite's own check of its file",
    "shorten_log": "SQLite's write-ahead log is ours to shorten",
}


@pytest.mark.parametrize("file", TWINS)
def test_both_dialects_have_the_same_statements_in_the_same_order(file):
    ours, theirs = (
        [name for name in names(package, file) if name not in ALONE]
        for package in (POSTGRES, SQLITE)
    )
    assert ours == theirs


def test_what_one_dialect_has_alone_is_not_in_both():
    here, there = ({name for file in TWINS for name in names(package, file)}
                   for package in (POSTGRES, SQLITE))  # fmt: skip
    assert here ^ there == set(ALONE)


@pytest.mark.parametrize("file", TWINS)
def test_a_statement_is_given_the_same_values_by_name_in_both_dialects(file):
    """A list goes as one array, a list of pairs as two: `keys_1`, `keys_2`. What is written for
    many rows has numbers there and `c1`, `c2` here: as many."""
    ours, theirs = sqltext.statements(POSTGRES, file), sqltext.statements(SQLITE, file)
    for name, sql in ours.items():
        if name in ALONE:
            continue
        columns = set(re.findall(r"%\((c\d+)\)s", sql))
        if columns:
            assert len(columns) == places(theirs[name]), name
            continue
        given = {re.sub(r"_\d+$", "", found) for found in re.findall(r"%\((\w+)\)s", sql)}
        used = set(re.findall(r"(?<!:):(\w+)", without_remarks(theirs[name])))
        assert given == used - COUNTED_THERE.get(name, set()), name


# the store's row has no counters here: numbers come from sequences
COUNTED_THERE = {"update_store": {"last_task", "last_entry", "loaded_fence", "loaded_entry"}}


def places(sql):
    """How many values SQLite's statement takes for a row."""
    sql = without_remarks(sql)
    numbered = [int(number) for number in re.findall(r"\?(\d+)", sql)]
    return max(numbered) if numbered else sql.count("?")


def without_remarks(sql):
    return re.sub(r"--.*", "", sql)


@pytest.mark.parametrize("package", [SQLITE, POSTGRES])
def test_no_rule_stands_in_sql(package):
    """No code of an issue, no verb's decision: SQL finds rows and guards them."""
    codes = set(ISSUES)
    for file in TWINS:
        for name, sql in sqltext.statements(package, file).items():
            words = set(re.findall(r"\w+", without_remarks(sql)))
            assert not words & codes, (file, name, words & codes)
            assert not re.search(r"'(retry|give_up|block|rejected)'", sql), (file, name)


def test_what_psycopg_does_on_our_connection_leaves_what_is_prepared_there():
    """It used to clear all away at the first rollback after statements that it had prepared."""
    with PgStand() as stand:
        connection = stand.store._main.connection
        for _ in range(9):
            connection.execute("select 1")
        assert stand.ask(c.Cancel(UNKNOWN)).issues == ("not_found",)
        for _ in range(9):
            connection.execute("select 1")
            assert stand.ask(c.Cancel(UNKNOWN)).issues == ("not_found",)
        stand.leased().complete()
        ours = connection.execute("select name from pg_prepared_statements").fetchall()
        assert {name for (name,) in ours} == {
            name.decode() for name in link_of(connection).prepared
        }


def test_verify_names_an_entry_that_is_neither_in_the_tree_nor_waiting_for_it():
    with PgStand() as stand:
        stand.fp.set_policy(1)
        stand.fp.set_policy(2)
        assert stand.fp.verify().clean
        stand.connection.execute(
            "delete from fencepost_unsealed where number = "
            "(select min(number) from fencepost_unsealed)"
        )
        assert ("stray", "stray_entries") in {
            (problem.code, problem.place) for problem in stand.fp.verify().problems
        }
