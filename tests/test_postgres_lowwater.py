"""The mark from which claims look for ready tasks while old rows lie before them."""

from __future__ import annotations

import pytest
from helpers.pg_stand import PgStand

from fencepost.clock import SECOND
from fencepost.commands import NewTask
from fencepost.storage.postgres import lowwater
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
