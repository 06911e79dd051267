"""The fenced queue (seed 0): its five acceptance criteria, its fields, its defaults."""

from __future__ import annotations

import json
import re
from functools import partial

import pytest
from helpers.children import results_of, start
from helpers.lab import QUEUE, START, ask, completion, submission
from helpers.together import at_once
from helpers.work import claim_one_each

from fencepost import (
    InvalidRequest,
    KeyReused,
    LeaseExpired,
    LeaseTooLong,
    StaleFence,
    TooManyFollowups,
)
from fencepost import commands as c
from fencepost.model import STATES

# "Two concurrent claimants produce exactly one active owner."


@pytest.mark.parametrize("by", ["queue", "task id"])
def test_two_concurrent_claimants_produce_exactly_one_active_owner(lab, by):
    handles = [lab.open() for _ in range(2)]
    for _ in range(20):
        task_id = lab.offer()
        named = {"queues": QUEUE} if by == "queue" else {"task_id": task_id}
        calls = [
            partial(handle.execute, [c.Claim(f"w{n}", **claim_of(named))])
            for n, handle in enumerate(handles)
        ]
        outcomes = [outcome for (outcome,) in at_once(*calls)]
        (grant,) = [g for outcome in outcomes for g in outcome.grants]
        task = lab.fp.task(task_id)
        assert (task.state, task.worker_id, task.fence) == ("leased", grant.worker_id, grant.fence)
        lab.fp.cancel(task_id)


def claim_of(named):
    return {"queues": (QUEUE,)} if "queues" in named else named


def test_concurrent_claimants_in_processes_of_their_own_never_share_a_task(lab):
    ids = {lab.offer(n) for n in range(40)}
    lab.fp.close()
    children = [start(claim_one_each, str(lab.path), f"w{n}") for n in range(4)]
    taken = results_of(children)
    grants = [tuple(grant) for grants in taken for grant in grants]
    assert {task_id for task_id, _ in grants} == ids and len(grants) == 40
    assert sorted(fence for _, fence in grants) == list(range(1, 41))


# "Reclaim increments the fence and a stale submit changes no data."


@pytest.mark.parametrize("claimant", ["w1", "w2"])
@pytest.mark.parametrize("verb", ["submit", "complete", "fail", "release", "renew"])
def test_reclaim_increments_the_fence_and_a_stale_worker_changes_no_data(lab, claimant, verb):
    old = lab.lease("w1")
    lab.clock.advance(60)
    new = lab.claim(claimant)
    assert new.task_id == old.task_id and new.fence == old.fence + 1
    before = lab.dump()
    late = {
        "submit": submission(old, "late"), "complete": completion(old, "late"),
        "fail": c.Fail(old.task_id, "w1", old.fence),
        "release": c.Release(old.task_id, "w1", old.fence),
        "renew": c.Renew(old.task_id, "w1", old.fence),
    }[verb]  # fmt: skip
    outcome = ask(lab.open(), late)
    wrong = ("wrong_worker",) if claimant == "w2" else ()
    assert outcome.issues == (*wrong, "stale_fence")
    assert lab.dump() == before


def test_a_stale_fence_is_an_exception_of_its_own_in_python(lab):
    old = lab.lease()
    lab.clock.advance(60)
    lab.claim()
    with pytest.raises(StaleFence) as refusal:
        old.complete("late")
    assert refusal.value.outcome.facts["fencing_token"] == old.fence + 1


# "Timeout-after-commit replay returns the original receipt."


def test_timeout_after_commit_replay_returns_the_original_receipt_byte_for_byte(lab):
    lease = lab.lease()
    request = c.Request.of(completion(lease, {"b": 1, "a": [1.5, "é"]}), "op-1")
    lab.fp.execute([request])  # the answer times out on its way
    with lab.sql() as own:
        ((stored,),) = own.execute(
            "select body from fencepost_entry where result_sha256 is not null"
        ).fetchall()
    lab.clock.advance(3_600)
    replay = ask(lab.open(), c.Request.read(request.body, "op-1"))
    assert replay.replayed and replay.receipt.body == stored
    assert lab.fp.lease(lease.task_id, worker_id="w1", fence=lease.fence).complete(
        {"a": [1.5, "é"], "b": 1}, key="op-1"
    ).to_json() == replay.receipt.to_json()  # fmt: skip
    assert lab.counts() == (1, 1, 1)


# "Same idempotency key with different content fails."


@pytest.mark.parametrize("changed", ["result", "fence", "task", "verb", "revision", "spelling"])
def test_the_same_idempotency_key_with_different_content_fails(lab, changed):
    lease, other = lab.lease(), lab.lease()
    lease.submit(1, expected_revision=0, key="op-1")
    before = lab.dump()
    first = c.Request.of(submission(lease, 1, expected_revision=0))
    sent = {
        "result": submission(lease, 2, expected_revision=0),
        "fence": c.Submit(lease.task_id, "w1", lease.fence + 1, result=1, expected_revision=0),
        "task": submission(other, 1, expected_revision=0),
        "verb": completion(lease, 1, expected_revision=0),
        "revision": submission(lease, 1, expected_revision=1),
        "spelling": c.Request.read(first.body.replace(b":", b": "), "op-1"),
    }[changed]
    request = sent if isinstance(sent, c.Request) else c.Request.of(sent, "op-1")
    outcome = ask(lab.fp, request)
    assert (outcome.issues, outcome.receipt) == (("idempotency_key_reused",), None)
    assert lab.dump() == before


def test_a_reused_key_is_an_exception_of_its_own_in_python(lab):
    lease = lab.lease()
    lease.submit(1, key="op-1")
    with pytest.raises(KeyReused):
        lease.submit(2, key="op-1")


# "The exact expiry boundary rejects new completion."


@pytest.mark.parametrize("verb", ["submit", "complete", "fail", "release", "renew"])
def test_the_exact_expiry_boundary_rejects_what_was_right_a_microsecond_before(lab, verb):
    early, late = lab.lease(), lab.lease()
    assert early.lease_expires_at == late.lease_expires_at == START + 60_000_000
    arguments = ["answer"] if verb in ("submit", "complete") else []
    lab.clock.advance(59.999_999)
    getattr(early, verb)(*arguments)
    lab.clock.advance(0.000_001)
    before = lab.dump()
    with pytest.raises(LeaseExpired) as refusal:
        getattr(late, verb)(*arguments)
    assert refusal.value.issues == ("lease_expired",)
    assert lab.dump() == before


# Fields, states and figures of the contract


def test_the_contracts_fields_stand_under_their_names_with_their_types(lab):
    lease = lab.lease()
    given = lease.grant.to_json()
    told = lab.fp.task(lease.task_id).to_json()
    for fields in (given, told):
        assert isinstance(fields["task_id"], str) and isinstance(fields["worker_id"], str)
        assert type(fields["fencing_token"]) is int and fields["fencing_token"] > 0
        assert fields["lease_expires_at"] == "2026-01-01T00:01:00.000000Z"
    assert told["state"] == "leased"
    receipt = lease.submit("answer", key="op-1").to_json()
    assert re.fullmatch("[0-9a-f]{64}", receipt["opening"]["request_sha256"])


def test_commands_take_the_contracts_field_names_and_no_other_type(lab):
    lease = lab.lease()
    good = {"task_id": lease.task_id, "worker_id": "w1", "fencing_token": 1}
    for name, wrong in (
        ("task_id", 7), ("worker_id", None), ("fencing_token", 0), ("fencing_token", -1),
        ("fencing_token", True), ("fencing_token", "1"), ("fencing_token", 1.0),
    ):  # fmt: skip
        with pytest.raises(InvalidRequest, match=name):
            c.Request.read(raw_complete({**good, name: wrong}))
    for key in ("", "a b", "é", "x" * 256, 'quo"te', 7):
        with pytest.raises(InvalidRequest, match="idempotency_key"):
            c.Request.read(raw_complete(good), key)
    assert ask(lab.fp, c.Request.read(raw_complete(good), "op-1")).accepted


def raw_complete(fields):
    return json.dumps({"verb": "complete", **fields}).encode()


def test_the_contracts_three_states_are_passed_through_in_order(lab):
    assert {"ready", "leased", "done"} <= set(STATES)
    task_id = lab.offer()
    seen = [lab.fp.task(task_id).state]
    lease = lab.claim()
    seen.append(lab.fp.task(task_id).state)
    lease.complete()
    seen.append(lab.fp.task(task_id).state)
    assert seen == ["ready", "leased", "done"]


def test_an_outcome_says_accepted_failed_or_blocked_with_machine_readable_issues(lab):
    lease = lab.lease()
    accepted = ask(lab.fp, submission(lease, 1)).to_json()
    failed = ask(lab.fp, submission(lease, 1, epoch=5, expected_revision=9)).to_json()
    lab.fp.queue_set(QUEUE, paused=True)
    blocked = ask(lab.fp, c.Claim("w1", (QUEUE,))).to_json()
    assert [o["status"] for o in (accepted, failed, blocked)] == ["accepted", "failed", "blocked"]
    assert [o["issues"] for o in (accepted, failed, blocked)] == [
        [], ["stale_epoch", "duplicate_result", "stale_revision"], ["queue_paused"],
    ]  # fmt: skip


def test_a_worker_that_is_not_heard_of_holds_a_task_for_900_seconds_at_most_by_default(lab):
    lab.offer()
    with pytest.raises(LeaseTooLong):
        lab.claim(lease_seconds=901)
    lease = lab.claim(lease_seconds=900)
    assert lease.lease_expires_at - lease.grant.granted_at == 900_000_000
    with pytest.raises(LeaseTooLong):
        lease.renew(901)
    assert lab.fp.queue(QUEUE).max_lease_seconds == 900
    lab.clock.advance(899.999999)
    assert lab.fp.claim(QUEUE, worker_id="w2") == []
    lab.clock.advance(0.000001)
    assert [each.attempt for each in lab.fp.claim(QUEUE, worker_id="w2")] == [2]


def test_a_worker_that_renews_holds_a_task_for_a_day_at_most_by_default(lab):
    lab.offer()
    lease = lab.claim(lease_seconds=900)
    began = lease.grant.granted_at
    while lease.lease_expires_at < began + 86_400_000_000:
        lab.clock.advance(800)
        assert lease.renew(900) <= began + 86_400_000_000
    with pytest.raises(LeaseTooLong):
        lease.renew(900)


def test_a_completion_brings_at_most_two_follow_up_tasks_by_default(lab):
    lease = lab.lease()
    three = [{"queue": "next", "payload": n} for n in range(3)]
    with pytest.raises(TooManyFollowups):
        lease.complete("answer", followups=three)
    assert lab.counts() == (0, 0, 0) and lab.fp.task(lease.task_id).state == "leased"
    lease.complete("answer", followups=three[:2])
    assert [task.parent for task in lab.fp.tasks("next")] == [lease.task_id] * 2
    assert lab.fp.queue(QUEUE).max_followups == 2
