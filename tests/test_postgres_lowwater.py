"""The mark from which claims look for ready tasks while old rows lie before them."""

from __future__ import annotations

import psycopg
import pytest
from helpers.pg_stand import PgStand

from fencepost import commands as c
from fencepost.clock import SECOND, to_rfc3339
from fencepost.commands import NewTask
from fencepost.issues import GuardTripped
from fencepost.storage import saving
from fencepost.storage.looking import EVER
from fencepost.storage.postgres import lowwater, talk
from fencepost.storage.postgres.lowwater import LONG, LONGEST, SHARE, LowWater


class Watch:
    """A steady clock that is moved by hand."""

    def __init__(self):
        self.now = 10 * SECOND

    def steady(self):
        return self.now


@pytest.fixture
def watch():
    return Watch()


@pytest.fixture
def low(watch):
    return LowWater(watch)


def look(low, watch, microseconds, first):
    mark = low.mark(1)
    watch.now += microseconds
    low.found(1, first, mark is not None)
    return mark


def test_a_look_that_was_quick_leaves_no_mark(low, watch):
    assert look(low, watch, LONG - 1, (0, 7)) is None
    assert low.mark(1) is None


def test_after_a_long_look_the_next_begin_where_the_last_has_found(low, watch):
    assert look(low, watch, LONG, (0, 7)) is None
    assert look(low, watch, 100, (0, 107)) == (0, 7)
    assert look(low, watch, 100, (0, 207)) == (0, 107)
    assert low.mark(2) is None


def test_a_mark_stays_where_only_another_rank_was_found(low, watch):
    look(low, watch, LONG, (0, 7))
    for first in ((-1, 300), (1, 300), None):
        look(low, watch, 1, first)
        assert low.mark(1) == (0, 7)


@pytest.mark.parametrize("taken", [LONG, 200_000])
def test_it_is_looked_from_the_beginning_again_after_a_while(low, watch, taken):
    look(low, watch, taken, (0, 7))
    watch.now += min(SHARE * taken, LONGEST) - 1
    assert low.mark(1) == (0, 7)
    watch.now += 1
    assert low.mark(1) is None


def test_what_was_given_back_ends_the_marks(low, watch):
    look(low, watch, LONG, (0, 7))
    low.forget(2)
    assert low.mark(1) == (0, 7)
    low.forget()
    assert low.mark(1) is None


def look_over(low, watch, microseconds, lapsed, due):
    since = low.since(1)
    watch.now += microseconds
    low.looked(1, lapsed, due)
    return since


def test_after_a_long_look_leases_and_delays_are_looked_for_from_where_it_has_found(low, watch):
    assert look_over(low, watch, LONG - 1, 50, 70) == (EVER, EVER)
    assert look_over(low, watch, LONG, 51, 71) == (EVER, EVER)
    assert look_over(low, watch, 2 * LONG, 52, 72) == (51, 71)
    assert low.since(1) == (52, 72)
    assert low.since(2) == (EVER, EVER)


@pytest.mark.parametrize("taken", [LONG, 10 * SECOND])
def test_they_are_looked_for_from_the_beginning_again_after_a_while(low, watch, taken):
    look_over(low, watch, taken, 51, 71)
    watch.now += min(SHARE * taken, LONGEST) - 1
    assert look_over(low, watch, 0, 52, 72) == (51, 71)
    watch.now += 1
    assert low.since(1) == (EVER, EVER)


def test_under_another_floor_nothing_is_known(low, watch):
    low.under(0)
    look(low, watch, LONG, (0, 7))
    look_over(low, watch, LONG, 51, 71)
    low.under(0)
    assert (low.mark(1), low.since(1)) == ((0, 7), (51, 71))
    low.under(1)
    assert (low.mark(1), low.since(1)) == (None, (EVER, EVER))


@pytest.fixture
def marked(monkeypatch):
    """A store each of whose looks is long: from the second claim on, a mark stands."""
    monkeypatch.setattr(lowwater, "LONG", 0)
    monkeypatch.setattr(lowwater, "LONGEST", 3_600 * SECOND)
    monkeypatch.setattr(lowwater, "SHARE", 10**9)
    with PgStand() as stand:
        stand.fp.enqueue_many("work", ({"payload": n} for n in range(20)))
        yield stand


def claimed(stand, limit):
    return [lease.payload for lease in stand.fp.claim("work", worker_id="w", limit=limit)]


def hide(stand):
    """Put the first two tasks out of sight and back, as a transaction that commits late does."""
    for place in (9, 0):
        yield stand.connection.execute(f"update fencepost_task set place = {place} where id <= 2")


def test_claims_from_a_mark_take_all_in_their_order(marked):
    assert [claimed(marked, 3) for _ in range(7)] == [
        [*range(n, min(n + 3, 20))] for n in range(0, 20, 3)
    ]
    assert claimed(marked, 3) == []


def test_a_higher_priority_is_first_though_a_mark_stands(marked):
    assert claimed(marked, 5) == [0, 1, 2, 3, 4]
    marked.fp.enqueue_many("work", [NewTask("urgent", priority=5)])
    assert claimed(marked, 3) == ["urgent", 5, 6]
    marked.fp.enqueue_many("work", [NewTask("later", priority=-5)])
    assert claimed(marked, 20) == [*range(7, 20), "later"]


def test_what_comes_late_before_the_mark_is_found_before_a_claim_finds_too_little(marked):
    steps = hide(marked)
    next(steps)
    assert claimed(marked, 5) == [2, 3, 4, 5, 6]
    next(steps)
    assert claimed(marked, 5) == [7, 8, 9, 10, 11]
    assert claimed(marked, 10) == [0, 1, *range(12, 20)]


def test_what_is_given_back_here_is_first_again(marked):
    (lease,) = marked.fp.claim("work", worker_id="w", limit=1)
    assert claimed(marked, 2) == [1, 2]
    lease.release()
    assert claimed(marked, 2) == [0, 3]


def since(stand):
    """From when on the store's own connection looks for what is over on its one queue."""
    ((queue,),) = stand.connection.execute("select id from fencepost_queue")
    return stand.store._main._low.since(queue)


def test_what_has_come_due_or_ended_since_is_found_though_a_mark_stands(marked):
    fp, clock = marked.fp, marked.clock
    assert claimed(marked, 20) == [*range(20)]
    looked = fp.now()
    assert since(marked) == (looked, looked)
    fp.enqueue("work", "delayed", due_at=to_rfc3339(looked + 30 * SECOND))
    fp.enqueue("work", "at once", due_at=to_rfc3339(looked - 30 * SECOND))
    assert claimed(marked, 30) == ["at once"]
    clock.advance(30)
    assert claimed(marked, 30) == ["delayed"]
    assert since(marked)[0] == fp.now()
    clock.advance(60)
    assert sorted(map(str, claimed(marked, 30))) == sorted(
        map(str, [*range(20), "at once", "delayed"])
    )


def test_a_claim_that_was_undone_leaves_what_it_has_found_to_the_next(marked, monkeypatch):
    claimed(marked, 20)
    marked.fp.enqueue("work", "delayed", due_at=to_rfc3339(marked.fp.now() + SECOND))
    marked.clock.advance(60)
    lapsed = [*range(20), "delayed"]
    with monkeypatch.context() as patch:
        patch.setattr(saving, "save", broken)
        with pytest.raises(GuardTripped):
            marked.fp.claim("work", worker_id="w", limit=30)
    assert sorted(map(str, claimed(marked, 30))) == sorted(map(str, lapsed))


def broken(*_):
    raise GuardTripped("made to")
    yield


def test_after_the_clock_was_set_back_what_ends_by_it_is_found(marked):
    claimed(marked, 20)
    marked.clock.advance(3_600)
    assert len(claimed(marked, 20)) == 20
    assert claimed(marked, 20) == []
    looked, _ = since(marked)
    marked.clock.jump_wall(-3_000)
    marked.fp.clock_reset()
    assert marked.fp.now() < looked
    assert len(claimed(marked, 30)) == 20


def test_a_look_steps_over_none_of_what_was_before_though_no_vacuum_may_take_it_away(marked):
    fp = marked.fp
    fp.enqueue_many("work", ({"payload": n} for n in range(2_000)))
    with psycopg.connect(marked.url) as pinned:
        pinned.execute("begin isolation level repeatable read")
        pinned.execute("select 1 from fencepost_store")
        soon = to_rfc3339(fp.now() + SECOND)
        fp.enqueue_many("work", (NewTask(n, due_at=soon) for n in range(2_000)))
        marked.clock.advance(1)
        while leases := fp.claim("work", worker_id="w", limit=100, lease_seconds=1):
            for done in fp.execute([c.Complete(n.task_id, "w", n.fence) for n in leases]):
                assert done.status == "accepted"
        marked.clock.advance(10)
        assert claimed(marked, 1) == []
        for name, first in zip(("lapsed_tasks", "promote_due"), since(marked), strict=True):
            assert touched(marked, name, EVER) > 80
            assert touched(marked, name, first) < 20


def touched(stand, name, first):
    """How many pages the look goes through that begins so."""
    ((queue,),) = stand.connection.execute("select id from fencepost_queue")
    values = {"queue_id": queue, "since": first, "now": stand.fp.now(), "limit": 200}
    with psycopg.connect(stand.url) as connection:
        connection.execute(talk.STATEMENTS["settings"])
        ((told,),) = connection.execute(
            f"explain (analyze, buffers, timing off, format json) {talk.STATEMENTS[name]}", values
        ).fetchall()
        connection.rollback()
    return told[0]["Plan"]["Shared Hit Blocks"] + told[0]["Plan"]["Shared Read Blocks"]
