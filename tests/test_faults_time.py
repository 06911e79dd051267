"""Faults of time (3, 41, 54, 56, 110): instants, zones, due times, the moment of a grant."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, timezone

import pytest
from helpers.lab import QUEUE, SECOND, START, ask

from fencepost import InvalidRequest
from fencepost import commands as c

HALF = 500_000
# one instant, START + 90 s, as clients spell it
SPELLINGS = [
    "2026-01-01T00:01:30Z",
    "2026-01-01T00:01:30.000000Z",
    "2026-01-01T00:01:30.000000000Z",
    "2026-01-01T05:31:30+05:30",
    "2025-12-31T13:01:30.0-11:00",
    "2026-01-01T00:01:30.5Z",
    "2026-01-01T00:01:30.500001+00:00",
]
NAIVE = datetime(2026, 1, 1, tzinfo=UTC).replace(tzinfo=None)
OFFSETS = [0, 0, 0, 0, 0, HALF, HALF + 1]


# 3: expiry stored as text in two spellings, compared as bytes


@pytest.mark.parametrize("microseconds", [0, HALF, HALF + 1, 999_999])
def test_a_lease_ends_at_its_true_instant_whatever_its_fraction(lab, microseconds):
    lab.clock.advance(microseconds / SECOND)
    ends = lab.lease(lease_seconds=2).lease_expires_at
    assert ends == START + 2 * SECOND + microseconds
    lab.clock.advance(1.999_999)
    assert lab.fp.claim(QUEUE, worker_id="w2") == []
    lab.clock.advance(0.000_001)
    (lease,) = lab.fp.claim(QUEUE, worker_id="w2")
    assert lease.fence == 2


def test_leases_that_end_within_one_second_are_taken_over_in_the_order_of_their_ends(lab):
    steps = [0, HALF, 1, HALF - 1]  # ends at .000000, .500000, .500001 and on the next second
    leases = []
    for step in steps:
        lab.clock.advance(step / SECOND)
        leases.append(lab.lease(lease_seconds=2))
    for lease in leases:
        lab.clock.advance((lease.lease_expires_at - 1 - lab.fp.now()) / SECOND)
        assert lab.fp.claim(QUEUE, worker_id="w2") == []
        lab.clock.advance(1 / SECOND)
        (taken,) = lab.fp.claim(QUEUE, worker_id="w2", lease_seconds=60)
        assert taken.task_id == lease.task_id


@pytest.mark.parametrize(("text", "extra"), list(zip(SPELLINGS, OFFSETS, strict=True)))
def test_a_due_time_counts_by_its_instant_and_not_by_its_spelling(lab, text, extra):
    task_id = lab.offer(due_at=text)
    due = START + 90 * SECOND + extra
    assert lab.fp.task(task_id).due_at == due
    lab.clock.advance((due - 1 - START) / SECOND)
    assert lab.fp.claim(QUEUE, worker_id="w1") == []
    lab.clock.advance(1 / SECOND)
    assert [lease.task_id for lease in lab.fp.claim(QUEUE, worker_id="w1")] == [task_id]


def test_an_instant_finer_than_a_microsecond_is_refused_and_not_rounded(lab):
    with pytest.raises(InvalidRequest, match="microsecond"):
        lab.offer(due_at="2026-01-01T00:01:30.500000001Z")


def test_a_due_time_at_the_very_beginning_of_the_epoch_is_told_like_any_other(lab):
    task_id = lab.offer(due_at="1970-01-01T00:00:00Z")
    assert lab.fp.task(task_id).to_json()["due_at"] == "1970-01-01T00:00:00.000000Z"


# 41: naive times taken for UTC, the session's zone leaks in


@pytest.fixture(params=["UTC", "Asia/Kathmandu", "America/New_York"])
def zone(request, monkeypatch):
    """The process lives in this time zone."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


def test_behaviour_is_the_same_in_every_time_zone(lab, zone):
    aware = datetime(2026, 1, 1, 5, 46, 30, tzinfo=timezone(timedelta(hours=5, minutes=45)))
    task_id = lab.offer(due_at=aware)
    assert lab.fp.task(task_id).to_json()["due_at"] == "2026-01-01T00:01:30.000000Z"
    lab.clock.advance(90)
    grant = lab.claim().grant.to_json()
    assert (grant["granted_at"], grant["lease_expires_at"]) == (
        "2026-01-01T00:01:30.000000Z", "2026-01-01T00:02:30.000000Z",
    )  # fmt: skip


def test_a_lease_across_a_change_to_summer_time_lasts_as_long_as_it_says(lab, zone):
    lab.clock.advance((datetime(2026, 3, 8, 6, 59, 50, tzinfo=UTC).timestamp() * SECOND - START)
                      / SECOND)  # ten seconds before New York's clocks go forward
    lease = lab.lease()
    lab.clock.advance(59.999_999)
    lease.renew()
    assert lease.lease_expires_at == lab.fp.now() + 60 * SECOND


@pytest.mark.parametrize(
    "due",
    [NAIVE, "2026-01-01T00:00:00", "2026-01-01 00:00:00Z", "2026-01-01", 1767225600],
)
def test_a_time_without_a_zone_is_refused_and_never_guessed(lab, due):
    with pytest.raises(InvalidRequest, match="due_at"):
        lab.offer(due_at=due)
    assert list(lab.fp.tasks()) == []


# 54: scheduled-for-later tasks held under a ticking lease


def test_a_task_due_later_is_claimed_once_and_its_lease_begins_with_the_claim(lab):
    task_id = lab.offer(due_at="2026-01-01T00:03:00Z")  # three leases from now
    for _ in range(3):
        assert lab.fp.claim(QUEUE, worker_id="w1") == []
        assert lab.fp.claim(worker_id="w1", task_id=task_id) == []
        lab.clock.advance(60)
    lease = lab.claim()
    assert (lease.grant.granted_at, lease.attempt) == (START + 180 * SECOND, 1)
    assert lab.fp.claim(QUEUE, worker_id="w2") == []


def test_a_retry_with_a_delay_holds_no_lease_while_it_waits(lab):
    lease = lab.lease()
    lease.fail("later", retry_seconds=180)
    task = lab.fp.task(lease.task_id)
    assert (task.state, task.due_at) == ("ready", START + 180 * SECOND)
    lab.clock.advance(179.999_999)
    assert lab.fp.claim(QUEUE, worker_id="w2") == []
    lab.clock.advance(0.000_001)
    (again,) = lab.fp.claim(QUEUE, worker_id="w2")
    assert (again.attempt, again.fence) == (2, 2)


# 56, the grant's part: a lease counts from the grant, not from when the claim was sent


def test_a_lease_counts_from_its_grant_however_long_the_claim_waited_for_its_turn(lab):
    lab.offer()
    other = lab.open()
    with lab.fp._store.turn():  # somebody else writes meanwhile
        waiting = other.send([c.Claim("w1", (QUEUE,), lease_seconds=2)])
        lab.clock.advance(29)
    (outcome,) = waiting.result(30)
    (grant,) = outcome.grants
    assert grant.granted_at == START + 29 * SECOND
    assert grant.lease_expires_at == START + 31 * SECOND
    told = grant.to_json()
    assert told["granted_at"] < told["lease_expires_at"] == "2026-01-01T00:00:31.000000Z"


def test_a_replayed_claim_gives_no_lease_that_has_ended_meanwhile(lab):
    lab.offer()
    claim = c.Request.of(c.Claim("w1", (QUEUE,), lease_seconds=2), "claim-1")
    first = ask(lab.fp, claim)
    lab.clock.advance(1.999_999)
    assert [g.fence for g in ask(lab.fp, claim).grants] == [1]
    lab.clock.advance(0.000_001)
    late = ask(lab.fp, claim)
    assert (late.replayed, late.receipt, late.grants) == (True, first.receipt, ())


# 110: identity and ordering by created_at


def test_a_thousand_tasks_of_one_microsecond_are_claimed_in_the_order_of_their_enqueueing(lab):
    ids = [i for r in lab.fp.enqueue_many(QUEUE, many(1_000)) for i in r.task_ids]
    assert len(set(ids)) == 1_000
    assert {task.created_at for task in lab.fp.tasks()} == {START}
    claimed = []
    while leases := lab.fp.claim(QUEUE, worker_id="w1", limit=100):
        claimed += [lease.task_id for lease in leases]
    assert claimed == ids


def many(number):
    return [c.NewTask(place) for place in range(number)]


def test_a_clock_that_steps_back_between_enqueues_does_not_turn_their_order(lab):
    ids = []
    for seconds in (0, -1, -3_600, 5, -7):
        lab.clock.jump_wall(seconds)
        ids.append(lab.offer(seconds))
    assert [task.task_id for task in lab.fp.tasks()] == ids
    created = [task.created_at for task in lab.fp.tasks()]
    assert created == sorted(created)
    assert [lease.task_id for lease in lab.fp.claim(QUEUE, worker_id="w", limit=9)] == ids


@pytest.mark.parametrize("number", [199, 200, 201, 400, 600])
def test_pages_of_a_listing_neither_repeat_nor_skip(lab, number):
    ids = [i for r in lab.fp.enqueue_many(QUEUE, many(number)) for i in r.task_ids]
    assert [task.task_id for task in lab.fp.tasks(QUEUE)] == ids


def test_a_listing_does_not_skip_while_tasks_change_their_state_between_its_pages(lab):
    ids = [i for r in lab.fp.enqueue_many(QUEUE, many(450)) for i in r.task_ids]
    seen = []
    for place, task in enumerate(lab.fp.tasks(QUEUE)):
        seen.append(task.task_id)
        if place % 50 == 0:
            lab.fp.claim(QUEUE, worker_id="w", limit=10)
    assert seen == ids
