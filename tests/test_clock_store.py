"""A store's time never runs backwards, whatever the clocks of those who use it do."""

from __future__ import annotations

import json
import random
from contextlib import suppress

import pytest
from helpers.lab import QUEUE, START, Lab

from fencepost import commands as c
from fencepost.clock import FakeClock
from fencepost.issues import StaleEpoch

HOUR = 3_600


def second(lab, seconds=0):
    """Another handle with a clock of its own, `seconds` off the lab's."""
    clock = FakeClock(lab.clock.wall() + seconds * 1_000_000)
    return lab.open(clock=clock), clock


def told(lab):
    """When each entry says it was, in the journal's order."""
    with lab.sql() as own:
        rows = own.execute("select body from fencepost_entry order by number").fetchall()
    return [json.loads(body)["at"] for (body,) in rows]


def jumps(handle):
    return [jump.seconds for jump in handle.stats()["clock_jumps"]]


@pytest.mark.parametrize("seed", range(6))
def test_time_never_runs_backwards_for_any_user_of_a_store(tmp_path, seed):
    print(f"seed {seed}")
    dice = random.Random(seed)
    lab = Lab(tmp_path / "work.db")
    others = [second(lab, dice.randrange(-HOUR, HOUR)) for _ in range(2)]
    users = [(lab.fp, lab.clock), *others]
    for step in range(150):
        handle, clock = dice.choice(users)
        act = dice.randrange(6)
        if act == 0:
            clock.jump_wall(dice.choice((-HOUR, -2, -0.5, 0.5, 6, HOUR)))
        elif act == 1 and handle is not lab.fp:
            users.remove((handle, clock))
            handle.close()
            users.append(second(lab, dice.randrange(-HOUR, HOUR)))
        else:
            passed = dice.choice((0, 0.001, 1, 30))
            for _, other in users:
                other.advance(passed)
            handle.enqueue(QUEUE, step)
    assert told(lab) == sorted(told(lab))
    with lab.sql() as own:
        ((mark,),) = own.execute("select mark from fencepost_store").fetchall()
    assert mark >= START
    assert lab.fp.now() >= mark
    assert lab.fp.verify().clean
    lab.close()


def test_while_the_clock_is_behind_time_goes_on_as_fast_as_it_passes(lab):
    lease = lab.lease(lease_seconds=60)
    lab.clock.jump_wall(-HOUR)
    lab.clock.advance(59)
    assert lease.renew(60) == START + (59 + 60) * 1_000_000
    lab.clock.advance(60)
    (again,) = lab.fp.claim(QUEUE, worker_id="w2")
    assert again.task_id == lease.task_id, "a lease ends though the clock was set back"


def test_a_second_user_whose_clock_is_behind_goes_on_from_the_mark(lab):
    behind, clock = second(lab, -HOUR)
    lease = lab.lease(lease_seconds=60)
    fresh = behind.enqueue(QUEUE, "x")
    assert fresh.entry["at"] >= told(lab)[0]
    assert behind.claim(QUEUE, worker_id="w2")[0].task_id == fresh.task_id
    clock.advance(60)
    lab.clock.advance(60)
    assert behind.claim(QUEUE, worker_id="w2")[0].task_id == lease.task_id


def test_after_reopening_time_does_not_fall_behind_what_was_committed(lab):
    lab.clock.jump_wall(HOUR)
    lab.offer()
    lab.close()
    lab.clock.jump_wall(-HOUR)
    reopened = lab.open()
    receipt = reopened.enqueue(QUEUE, "later")
    assert receipt.entry["at"] >= told(lab)[-2]
    assert reopened.now() >= START + HOUR * 1_000_000


@pytest.mark.parametrize(("seconds", "reported"), [(-HOUR, 1), (-2, 1), (-0.5, 0), (4, 0), (6, 1)])
def test_a_jump_is_reported_once(lab, seconds, reported):
    lab.offer()
    lab.clock.jump_wall(seconds)
    for _ in range(5):
        lab.offer()
        lab.clock.advance(0.1)
    assert len(jumps(lab.fp)) == reported
    if reported:
        assert jumps(lab.fp)[0] == pytest.approx(seconds, abs=0.2)


def test_a_reset_ends_all_leases_and_lowers_the_time_for_everybody(lab):
    """Also for one whose own reckoning had been ahead: it must not push the time up again."""
    ahead, clock = second(lab, HOUR)
    ahead.enqueue(QUEUE, "in the future")
    held = ahead.claim(QUEUE, worker_id="w2", lease_seconds=900)[0]
    mine = lab.lease(lease_seconds=900)
    assert lab.fp.now() >= START + HOUR * 1_000_000
    clock.jump_wall(-HOUR)
    lab.fp.clock_reset()
    assert lab.fp.now() == START
    for lease in (held, mine):
        with pytest.raises(StaleEpoch):
            lease.complete("late")
        with pytest.raises(StaleEpoch):
            lease.renew()
    lab.clock.advance(1)
    clock.advance(1)
    receipt = ahead.enqueue(QUEUE, "now")
    assert receipt.entry["at"] == "2026-01-01T00:00:01.000000Z"
    taken = ahead.claim(QUEUE, worker_id="w2", limit=10)
    assert {lease.task_id for lease in taken} == {held.task_id, mine.task_id, receipt.task_id}
    assert min(lease.fence for lease in taken) > 1 << 32, "fences of the new epoch"
    assert lab.fp.verify().clean


def test_a_reset_holds_for_a_handle_that_was_opened_later_too(lab):
    lab.clock.jump_wall(HOUR)
    lease = lab.lease(lease_seconds=900)
    lab.clock.jump_wall(-HOUR)
    lab.fp.clock_reset()
    lab.close()
    reopened = lab.open()
    assert reopened.now() == START
    assert reopened.claim(QUEUE, worker_id="w9")[0].task_id == lease.task_id


def test_what_was_due_at_once_before_a_reset_is_due_after_it(lab):
    """A task that was requeued or resolved by the clock that was wrong does not wait for it."""
    ids = [lab.offer(number) for number in range(3)]
    (stuck,) = lab.fp.claim(worker_id="w1", task_id=ids[1])
    lab.clock.jump_wall(HOUR)
    lab.fp.cancel(ids[0])
    lab.fp.requeue(ids[0])
    lab.fp.claim(worker_id="w1", task_id=ids[2])[0].release()
    (stuck,) = lab.fp.claim(worker_id="w1", task_id=stuck.task_id)
    stuck.fail("stuck", then="block")
    lab.fp.resolve(stuck.task_id, "retry")
    lab.clock.jump_wall(-HOUR)
    lab.fp.clock_reset()
    assert [lease.task_id for lease in lab.fp.claim(QUEUE, worker_id="w2", limit=9)] == ids


def test_a_reset_that_is_rolled_back_with_its_block_changes_nothing(lab):
    lease = lab.lease(lease_seconds=900)
    lab.clock.jump_wall(-HOUR)
    with suppress(ZeroDivisionError), lab.sql() as app, lab.fp.within(app) as tx:
        tx.clock_reset()
        raise ZeroDivisionError
    lab.clock.advance(1)
    assert lease.renew(60) >= START + 60 * 1_000_000, "the time is what it was"
    assert lease.complete("done").entry["epoch"] == 0


def test_a_reset_twice_is_two_epochs_and_the_same_bytes_are_one(lab):
    request = c.Request.of(c.ClockReset(), "reset-1")
    first, again = (lab.fp.execute([request])[0] for _ in range(2))
    assert first.receipt == again.receipt and again.replayed
    other = lab.fp.execute([c.Request.of(c.ClockReset(), "reset-2")])[0]
    assert other.receipt.entry["epoch"] == first.receipt.entry["epoch"] + 1
