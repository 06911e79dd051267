"""Faults of answers and of operators' tools (106, 124): one stable code a reason, in one order,
and no forced step that hits another lease than the one its author saw.
"""

from __future__ import annotations

import itertools

import pytest
from helpers.lab import QUEUE, ask, completion

import fencepost
from fencepost import ISSUES, LeaseLost, Refused, StaleFence, TaskCancelled, UnknownFence
from fencepost import commands as c
from fencepost.issues import ORDER, error_for

# 106: an operator's forced unlock hits the wrong lease or reports falsely

FORCED = {
    "cancel": lambda fp, task_id, fence: fp.cancel(task_id, fence=fence, reason="stuck"),
    "requeue": lambda fp, task_id, fence: fp.requeue(task_id, fence=fence, reason="stuck"),
    "resolve": lambda fp, task_id, fence: fp.resolve(task_id, "retry", fence=fence),
}


def ready_for(lab, verb):
    """A task on which the verb may be used, and the fence that its author sees now."""
    lease = lab.lease()
    if verb == "requeue":
        lease.fail(then="give_up")
    if verb == "resolve":
        lease.fail(then="block")
    return lease.task_id, lab.fp.task(lease.task_id).fence


def moved_on(lab, verb, task_id):
    """Somebody else has gone through the same again since: the same state under a new fence."""
    if verb == "cancel":
        lab.clock.advance(60)
        lab.claim("w2")
        return
    FORCED[verb](lab.fp, task_id, None)
    lease = lab.claim("w2")
    lease.fail(then="give_up" if verb == "requeue" else "block")


@pytest.mark.parametrize("verb", FORCED)
def test_a_forced_step_with_the_fence_its_author_saw_hits_that_lease_and_tells_who_and_why(
    lab, verb
):
    task_id, fence = ready_for(lab, verb)
    receipt = FORCED[verb](lab.fp.as_caller("ann"), task_id, fence)
    assert (receipt.entry["verb"], receipt.entry["actor"]) == (verb, "ann")
    assert receipt.entry["tasks"][0]["fence"] == fence
    if verb != "resolve":
        assert lab.fp.task(task_id).reason == "stuck"


@pytest.mark.parametrize("verb", FORCED)
def test_a_forced_step_is_refused_once_the_task_has_moved_on(lab, verb):
    task_id, seen = ready_for(lab, verb)
    moved_on(lab, verb, task_id)
    before = lab.dump()
    with pytest.raises(StaleFence) as refusal:
        FORCED[verb](lab.fp, task_id, seen)
    assert refusal.value.outcome.facts["fencing_token"] > seen
    with pytest.raises(UnknownFence):
        FORCED[verb](lab.fp, task_id, 10**15 - 1)
    assert lab.dump() == before


@pytest.mark.parametrize("verb", FORCED)
def test_a_forced_step_used_twice_says_the_second_time_what_the_state_is(lab, verb):
    task_id, fence = ready_for(lab, verb)
    FORCED[verb](lab.fp, task_id, fence)
    before = lab.dump()
    with pytest.raises(Refused) as refusal:
        FORCED[verb](lab.fp, task_id, fence)
    state = lab.fp.task(task_id).state
    assert refusal.value.issues == (f"task_{state}",)
    assert refusal.value.outcome.facts["state"] == state
    assert lab.dump() == before


def test_after_a_forced_step_the_old_worker_can_change_nothing(lab):
    lease = lab.lease()
    lab.fp.cancel(lease.task_id, fence=lease.fence)
    with pytest.raises(TaskCancelled):
        lease.complete("late")
    lab.fp.requeue(lease.task_id)
    again = lab.claim("w2")
    assert again.fence == lease.fence + 1
    with pytest.raises(LeaseLost):
        lease.complete("late")
    assert lab.counts() == (0, 0, 0)


def test_a_listing_shows_id_owner_end_and_fence_of_what_is_leased(lab):
    lease = lab.lease("w7")
    (shown,) = lab.fp.tasks(state="leased")
    assert (shown.task_id, shown.worker_id) == (lease.task_id, "w7")
    assert (shown.fence, shown.lease_expires_at) == (lease.fence, lease.lease_expires_at)


# 124: answers that mislead: each reason alone, and two at once

ALONE = {
    "stale_policy": lambda lab, lease: lab.fp.set_policy(1),
    "stale_revision": lambda lab, lease: lease.submit("first"),
    "lease_expired": lambda lab, lease: lab.clock.advance(60),
    "wrong_worker": None,  # by the command
    "unknown_fence": None,
    "stale_epoch": None,
    "payload_too_large": lambda lab, lease: lab.fp.queue_set(QUEUE, max_result_bytes=1),
    "task_cancelled": lambda lab, lease: lab.fp.cancel(lease.task_id),
    "task_done": lambda lab, lease: lease.complete(),
    "task_dead": lambda lab, lease: lease.fail(then="give_up"),
    "task_blocked": lambda lab, lease: lease.fail(then="block"),
    "not_leased": lambda lab, lease: lease.release(),
    "scope_revoked": lambda lab, lease: lab.fp.revoke(),
}
STATES = [code for code in ALONE if code.startswith("task_") or code == "not_leased"]


def provoke(lab, codes):
    """A fresh lease in a situation in which these reasons hold, and the command they refuse."""
    lease = lab.lease()
    bound = {"task_id": lease.task_id, "worker_id": "w1", "fence": lease.fence}
    if "wrong_worker" in codes:
        bound["worker_id"] = "w2"
    if "unknown_fence" in codes:
        bound["fence"] += 1
    if "stale_epoch" in codes:
        bound["epoch"] = 9
    if "stale_revision" in codes:
        bound["expected_revision"] = 0
    # what needs the live lease comes first, the end of time and of the scope last
    last = ("task_done", "lease_expired", "stale_policy", "scope_revoked")
    steps = sorted(codes, key=lambda code: (last.index(code) + 1 if code in last else 0,
                                            code in STATES))  # fmt: skip
    for code in steps:
        if ALONE[code] is not None:
            ALONE[code](lab, lease)
    return c.Complete(**bound, result="the result")


def expected(codes):
    return ("scope_revoked",) if "scope_revoked" in codes else tuple(sorted(codes, key=ORDER.get))


PAIRS = [
    pair
    for pair in itertools.combinations(ALONE, 2)
    if not set(pair) <= set(STATES)  # a task is in one state
]


@pytest.mark.parametrize("codes", [(code,) for code in ALONE] + PAIRS, ids="+".join)
def test_each_reason_alone_and_each_two_at_once_have_one_stable_answer(lab, codes):
    command = provoke(lab, codes)
    before = lab.dump()
    outcome = ask(lab.fp, command)
    assert outcome.issues == expected(codes)
    assert outcome.status == ISSUES[outcome.issues[0]].status
    error = error_for(outcome)
    assert isinstance(error, ISSUES[outcome.issues[0]].raises) and error.code == outcome.issues[0]
    assert isinstance(error, Refused) and error.issues == outcome.issues
    with pytest.raises(type(error)):
        lab.fp.lease(command.task_id, worker_id=command.worker_id, fence=command.fence)._send(
            command, None
        )
    assert lab.dump() == before


def test_a_stale_fence_that_is_expired_too_is_told_with_both(lab):
    old = lab.lease()
    lab.clock.advance(60)
    lab.claim("w1", lease_seconds=1)
    lab.clock.advance(1)
    assert ask(lab.fp, completion(old, "late")).issues == ("stale_fence", "lease_expired")


def test_the_worker_and_fence_that_completed_a_task_are_told_the_receipt_and_nobody_else(lab):
    lease = lab.lease()
    number = lease.complete("answer").number
    own = ask(lab.fp, completion(lease, "another"))
    assert (own.issues, own.facts["receipt"]) == (("task_done",), number)
    for worker, fence in (("w2", lease.fence), ("w1", lease.fence + 1)):
        other = ask(lab.fp, c.Complete(lease.task_id, worker, fence, result="another"))
        assert other.issues[0] == "task_done" and "receipt" not in other.facts


def test_every_code_says_whether_sending_the_same_again_can_ever_help(lab):
    helps = {code for code, issue in ISSUES.items() if issue.retry}
    assert helps == {
        "scope_revoked", "store_read_only", "queue_paused", "task_leased", "store_unavailable",
        "outcome_unknown", "rate_limited", "clock_skew",
    }  # fmt: skip
    for code in ("scope_revoked", "queue_paused"):
        assert ISSUES[code].status == "blocked"
    lab.fp.queue_set(QUEUE, paused=True)
    claim = c.Claim("w1", (QUEUE,))
    assert ask(lab.fp, claim).issues == ("queue_paused",)
    lab.fp.queue_set(QUEUE, paused=False)
    assert ask(lab.fp, claim).accepted


def test_a_lost_lease_can_be_told_from_every_other_refusal_by_one_class():
    lost = {code for code, issue in ISSUES.items() if issubclass(issue.raises, LeaseLost)}
    assert lost == {
        "stale_epoch", "stale_policy", "task_cancelled", "task_done", "task_dead", "task_blocked",
        "not_leased", "wrong_worker", "unknown_fence", "stale_fence", "lease_expired",
    }  # fmt: skip
    assert all(issubclass(issue.raises, fencepost.FencepostError) for issue in ISSUES.values())
