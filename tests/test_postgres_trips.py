"""What is asked of a server in which order, and in how many round trips."""

from __future__ import annotations

import pytest
from helpers import postgres

import fencepost
from fencepost.commands import Claim, NewTask, Request
from fencepost.storage import loading
from fencepost.storage.postgres import talk
from fencepost.storage.steps import one, together

LOCKING = {"hold_alone", "store_shared", "tasks_by_id", "tasks_by_key"}


@pytest.fixture
def fp():
    with postgres.database() as url, fencepost.open(url, create=True) as handle:
        handle.queue_set("work", destinations=["out"])
        yield handle


@pytest.fixture
def trips(monkeypatch):
    """The names asked in each round trip, those of a transaction in a list."""
    found: list[list[list[str]]] = []
    real = talk.exchange
    writer: list[object] = [None]

    def noted(link, asks):
        names = [ask.name for ask in [*link.first, *asks]]
        if "begin" in names:
            found.append([])
            writer[0] = link
        if link is writer[0]:
            found[-1].append(names)
        return (yield from real(link, asks))

    monkeypatch.setattr(talk, "exchange", noted)
    return found


def life(fp, *, key=None):
    """One task, from its beginning to a result told twice."""
    fp.enqueue("work", {"n": 1}, key=key)
    (lease,) = fp.claim("work", worker_id="w")
    lease.complete({"ok": True})
    return lease


def writing(trips):
    return [trip for trip in trips if any("insert_entry" in names for names in trip)]


def test_an_enqueue_takes_two_round_trips_a_claim_two_a_completion_three_and_a_commit(fp, trips):
    life(fp)  # the first learns which queues are needed
    trips.clear()
    life(fp)
    assert [len(trip) for trip in writing(trips)] == [2, 2, 3]


def history(fp):
    """Commands that name tasks, keys and receipts, each told twice."""
    lease = life(fp)
    life(fp, key="one")
    life(fp, key="two")
    lease.complete({"ok": True})
    fp.enqueue("work", {"n": 1}, key="one")
    fp.enqueue_many("work", [NewTask(n) for n in range(3)])
    claim = Request.of(Claim("w", ("work",)), "claim-1")
    first, again = (fp.execute([claim])[0] for _ in range(2))
    assert again.replayed
    assert [g.task_id for g in again.grants] == [g.task_id for g in first.grants]
    fp.erase(lease.task_id)
    fp.queue_set("work", paused=True)


def early(trips):
    """Transactions that asked the time before a lock that may have been waited for."""
    flat = [[name for names in trip for name in names] for trip in trips]
    assert sum("clock" in names for names in flat) >= 12
    return [names for names in flat if "clock" in names and any(
        name in LOCKING for name in names[len(names) - names[::-1].index("clock"):]
    )]  # fmt: skip


def test_the_time_is_asked_after_every_lock_that_may_have_been_waited_for(fp, trips):
    history(fp)
    assert early(trips) == []


@pytest.mark.parametrize("part", ["_receipts", "_children"])
def test_a_lock_behind_the_time_is_seen(fp, trips, part, monkeypatch):
    real = getattr(loading, part)

    def bent(*given):
        yield from real(*given)
        return False

    monkeypatch.setattr(loading, part, bent)
    history(fp)
    assert len(early(trips)) == 1


def test_numbers_are_drawn_once_and_after_the_time_and_the_locks(fp, trips):
    life(fp)
    fp.erase(life(fp).task_id)
    for trip in writing(trips):
        names = [name for names in trip for name in names]
        assert names.count("numbers") == 1, names
        assert all(
            names.index("numbers") > place
            for place, name in enumerate(names)
            if name in LOCKING or name == "clock"
        ), names


def test_a_statement_may_be_asked_twice_in_the_first_round_trip_that_knows_it(fp):
    asks = [one("node", level=0, position=place) for place in (0, 1)]
    fp.seal()
    with fp._store.snapshot() as read:
        (first,), second = read(answers(asks))
    assert len(first[0]) == 32
    assert second == []


def answers(asks):
    return (yield together(asks))
