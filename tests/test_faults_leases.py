"""Faults of leases (4, 6, 13, 22, 52, 112, 116): who holds what, and for how long."""

from __future__ import annotations

import signal
from collections import Counter

import pytest
from helpers.children import ended, start
from helpers.lab import QUEUE, SECOND, START, ask, completion, submission
from helpers.work import claim_and_die

from fencepost import InvalidRequest, LeaseExpired, LeaseTooLong, OutcomeUnknown, Unavailable
from fencepost import commands as c
from fencepost.storage.sqlite.transaction import SqliteTransaction


def late_commands(lease):
    bound = (lease.task_id, lease.worker_id, lease.fence)
    return [
        c.Complete(*bound, result="late"), c.Submit(*bound, result="late"), c.Complete(*bound),
        c.Fail(*bound), c.Renew(*bound), c.Release(*bound),
    ]  # fmt: skip


# 4: a lease that ran out but was not yet taken by anyone still completes, renews and fails


@pytest.mark.parametrize("place", range(6))
def test_a_lease_that_ran_out_changes_nothing_though_nobody_has_taken_the_task(lab, place):
    lease = lab.lease(lease_seconds=2)
    lab.clock.advance(3)
    before = lab.dump()
    assert ask(lab.fp, late_commands(lease)[place]).issues == ("lease_expired",)
    assert lab.dump() == before


@pytest.mark.parametrize("worker", ["w1", "w2"])
def test_a_task_whose_lease_ran_out_is_claimable_at_once_under_a_higher_fence(lab, worker):
    lease = lab.lease("w1", lease_seconds=2)
    lab.clock.advance(2)
    again = lab.claim(worker)
    assert (again.task_id, again.fence, again.attempt) == (lease.task_id, lease.fence + 1, 2)


# 6, refusals: a late heartbeat revives a lease that had ended, or takes it back


@pytest.mark.parametrize("place", range(6))
def test_a_worker_that_wakes_late_neither_takes_the_task_back_nor_moves_the_new_end(lab, place):
    old = lab.lease("w1")
    lab.clock.advance(61)
    new = lab.claim("w2")
    before = lab.dump()
    outcome = ask(lab.fp, late_commands(old)[place])
    assert outcome.issues == ("wrong_worker", "stale_fence")
    assert lab.dump() == before
    assert lab.fp.task(old.task_id).lease_expires_at == new.lease_expires_at


def test_a_late_heartbeat_does_not_extend_a_lease_from_the_past(lab):
    lease = lab.lease()
    ends = lease.lease_expires_at
    lab.clock.advance(60)
    with pytest.raises(LeaseExpired):
        lease.renew(900)
    assert lab.fp.task(lease.task_id).lease_expires_at == ends


def test_a_renewal_in_time_moves_the_end_and_keeps_the_fence(lab):
    lease = lab.lease()
    lab.clock.advance(59.999_999)
    assert lease.renew(30) == START + 89_999_999
    lab.clock.advance(29)
    assert lab.fp.claim(QUEUE, worker_id="w2") == []
    assert lease.complete("in time").entry["tasks"][0]["fence"] == lease.fence


# 13: a killed worker never counts as an attempt, so a poison task is handed out for ever


def killed_claims(lab, times):
    """Workers that claim and are killed at once, one after another, each past the last lease."""
    for _ in range(times):
        child = start(claim_and_die, str(lab.path), lab.clock.wall())
        assert ended(child)[0] == -signal.SIGKILL
        lab.clock.advance(61)


def test_a_task_that_kills_its_worker_is_dead_after_its_attempts_with_the_reason(lab):
    task_id = lab.offer("poison", max_attempts=3)
    killed_claims(lab, 3)
    assert lab.fp.claim(QUEUE, worker_id="w5") == []
    task = lab.fp.task(task_id)
    assert (task.state, task.attempt, task.fence) == ("dead", 3, 3)
    assert task.reason == "lease lapsed in attempt 3 of 3"
    assert lab.counts() == (0, 0, 0)
    lab.clock.advance(3_600)
    assert lab.fp.claim(QUEUE, worker_id="w5") == []


def test_a_poison_task_can_be_cancelled_while_it_goes_round(lab):
    task_id = lab.offer("poison", max_attempts=3)
    killed_claims(lab, 1)
    lab.fp.cancel(task_id, reason="it kills")
    assert lab.fp.claim(QUEUE, worker_id="w5") == []
    assert lab.fp.task(task_id).state == "cancelled"


def test_a_queue_that_reconciles_blocks_a_lapsed_task_for_a_person(lab):
    lab.fp.queue_set(QUEUE, on_lapse="reconcile")
    lease = lab.lease()
    lab.clock.advance(60)
    assert lab.fp.claim(QUEUE, worker_id="w2") == []
    assert lab.fp.task(lease.task_id).state == "blocked"


# 22: lease length zero, negative, NaN, endless or huge

IMPOSSIBLE = [
    0, -1, 0.0001, float("nan"), float("inf"), "inf", 1e308, 2**31, 2**53, 9 * 10**15, True,
]  # fmt: skip


@pytest.mark.parametrize("seconds", IMPOSSIBLE, ids=str)
def test_an_impossible_lease_length_is_refused_with_the_range_and_changes_nothing(lab, seconds):
    lab.offer()
    held = lab.lease()
    before = lab.dump()
    for call in (
        lambda: lab.fp.claim(QUEUE, worker_id="w1", lease_seconds=seconds),
        lambda: held.renew(seconds),
        lambda: lab.fp.queue_set(QUEUE, lease_seconds=seconds),
        lambda: held.fail(retry_seconds=-1 if seconds == 0 else seconds),  # 0 is "at once" there
    ):
        with pytest.raises(InvalidRequest, match=r"is outside \d+ to \d+|is not an integer"):
            call()
    assert lab.dump() == before


@pytest.mark.parametrize("seconds", [901, 86_400, 10 * 366 * 86_400])
def test_a_lease_longer_than_the_queue_allows_is_refused_and_changes_nothing(lab, seconds):
    lab.offer()
    held = lab.lease()
    before = lab.dump()
    for call in (
        lambda: lab.fp.claim(QUEUE, worker_id="w1", lease_seconds=seconds),
        lambda: held.renew(seconds),
    ):
        with pytest.raises(LeaseTooLong):
            call()
    assert lab.dump() == before


def test_the_longest_lease_that_can_be_set_reaches_no_overflow(lab):
    longest = 10 * 366 * 86_400
    lab.fp.queue_set(QUEUE, max_lease_seconds=longest, max_hold_seconds=longest)
    lease = lab.lease(lease_seconds=longest)
    assert lease.lease_expires_at == START + longest * SECOND
    assert lease.grant.to_json()["lease_expires_at"].startswith("2036-01-")
    lease.fail(retry_seconds=longest)
    assert lab.fp.task(lease.task_id).due_at == START + longest * SECOND


# 52: a full page of rows that must be skipped hides all rows behind it

PAGE = 200


def test_tasks_that_cannot_be_claimed_do_not_hide_one_behind_them_that_can(lab):
    later = [c.NewTask(n, priority=9, due_at="2027-01-01T00:00:00Z") for n in range(2 * PAGE)]
    held = [c.NewTask(n, priority=8) for n in range(2 * PAGE)]
    list(lab.fp.enqueue_many(QUEUE, [*later, *held]))
    for _ in range(4):
        assert len(lab.fp.claim(QUEUE, worker_id="w", limit=100, lease_seconds=900)) == 100
    gone = [i for r in lab.fp.enqueue_many(QUEUE, held) for i in r.task_ids]
    lab.fp.execute([c.Cancel(task_id) for task_id in gone])
    eligible = lab.offer("me")
    assert lab.claim().task_id == eligible


def test_lapsed_tasks_without_attempts_do_not_hide_one_behind_them_for_good(lab):
    """A claim settles a bounded number of them on its way, so a few claims get to the one."""
    spent = [c.NewTask(n, max_attempts=1) for n in range(2 * PAGE)]
    list(lab.fp.enqueue_many(QUEUE, spent))
    for _ in range(4):
        lab.fp.claim(QUEUE, worker_id="w", limit=100, lease_seconds=1)
    eligible = lab.lease(lease_seconds=2).task_id
    lab.clock.advance(2)
    claims = 0
    while not (leases := lab.fp.claim(QUEUE, worker_id="w2")):
        claims += 1
        assert claims <= 2 * PAGE // 100, "the passes do not get on"
    assert [lease.task_id for lease in leases] == [eligible]


def test_a_sweep_gets_past_leases_that_still_run_and_settles_the_one_that_ended(lab):
    list(lab.fp.enqueue_many(QUEUE, [c.NewTask(n) for n in range(2 * PAGE)]))
    for _ in range(4):
        lab.fp.claim(QUEUE, worker_id="w", limit=100, lease_seconds=900)
    lapsed = lab.lease(lease_seconds=1).task_id
    lab.clock.advance(1)
    assert lab.fp.sweep(QUEUE, limit=1).task_ids == (lapsed,)


# 112: everything expires at once after an outage


def test_when_5000_leases_expire_at_once_old_fences_are_refused_and_each_pass_is_bounded(lab):
    list(lab.fp.enqueue_many(QUEUE, [c.NewTask(n) for n in range(5_000)]))
    claims = [c.Claim("w1", (QUEUE,), limit=100) for _ in range(50)]
    leases = [g for outcome in lab.fp.execute(claims) for g in outcome.grants]
    assert len(leases) == 5_000
    lab.clock.advance(120)
    late = lab.fp.execute([completion(lease, 1) for lease in leases[::10]])
    assert {outcome.issues for outcome in late} == {("lease_expired",)}
    assert len(lab.fp.sweep(QUEUE, limit=100).task_ids) == 100
    assert len(lab.fp.sweep(QUEUE, limit=200).task_ids) == 200
    with pytest.raises(InvalidRequest):
        lab.fp.sweep(QUEUE, limit=201)
    (again,) = lab.fp.claim(QUEUE, worker_id="w2")
    assert again.fence == 5_001 and again.attempt == 2
    states = Counter(task.state for task in lab.fp.tasks())
    assert states == {"ready": 300, "leased": 4_700}
    assert lab.counts() == (0, 0, 0)


# 116: a fence is wasted, or issued twice, when raising it fails at commit


def test_a_hundred_claims_that_fail_at_commit_waste_no_fence_and_change_nothing(lab, monkeypatch):
    first = lab.lease()
    task_id = lab.offer()
    before = lab.dump()
    commit = SqliteTransaction.commit

    def fails(transaction):
        transaction.rollback()
        raise OutcomeUnknown("the disk is full")

    monkeypatch.setattr(SqliteTransaction, "commit", fails)
    for _ in range(100):
        with pytest.raises((OutcomeUnknown, Unavailable)):
            lab.fp.claim(QUEUE, worker_id="w1")
    monkeypatch.setattr(SqliteTransaction, "commit", commit)
    assert lab.dump() == before
    lease = lab.claim("w2")
    assert (lease.task_id, lease.fence, lease.attempt) == (task_id, first.fence + 1, 1)


def test_no_fence_that_a_client_saw_is_given_to_another_though_commits_fail_after_it_happened(
    lab, monkeypatch
):
    """The commit happens and its answer is an error: the fence is used, and never comes again."""
    commit = SqliteTransaction.commit

    def happens_and_fails(transaction):
        commit(transaction)
        raise OutcomeUnknown("cut after the commit")

    for _ in range(10):
        lab.offer()
    seen = []
    for number in range(10):
        monkeypatch.setattr(SqliteTransaction, "commit", happens_and_fails)
        claim = c.Request.of(c.Claim("w1", (QUEUE,)), f"claim-{number}")
        outcome = ask(lab.fp, claim)
        monkeypatch.setattr(SqliteTransaction, "commit", commit)
        seen += [grant.fence for grant in outcome.grants]
        assert ask(lab.fp, submission(lab_lease(lab, outcome.grants[0]), 1)).accepted
    assert seen == list(range(1, 11))


def lab_lease(lab, grant):
    return lab.fp.lease(grant.task_id, worker_id=grant.worker_id, fence=grant.fence)


# 48: a claim takes more rows than its limit


@pytest.mark.parametrize("limit", [1, 5, 100])
def test_a_claim_never_takes_more_than_it_asked_for(lab, limit):
    list(lab.fp.enqueue_many(QUEUE, [c.NewTask(n) for n in range(260)]))
    lab.fp.claim(QUEUE, worker_id="first", limit=100, lease_seconds=1)
    lab.clock.advance(1)  # 160 are ready and 100 have lapsed
    claims = [c.Claim(f"w{n}", (QUEUE,), limit=limit) for n in range(4)]
    taken = [len(outcome.grants) for outcome in lab.fp.execute(claims)]
    assert taken == ([limit] * 4 if limit < 100 else [100, 100, 60, 0])
    assert sum(task.state == "leased" and task.worker_id != "first"
               for task in lab.fp.tasks(QUEUE)) == sum(taken)  # fmt: skip
