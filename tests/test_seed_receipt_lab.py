"""The receipt lab's table (seed 2), row by row, on a store file with independent handles.

`counts` is (results, receipts of results, outbox rows), read by a connection of the test's own.
"""

from __future__ import annotations

from functools import partial

import pytest
from helpers.lab import OUTBOX, QUEUE, SCOPE, ask, completion, submission
from helpers.together import at_once

from fencepost import GuardTripped, LeaseExpired, OutcomeUnknown
from fencepost import commands as c
from fencepost.storage.sqlite.transaction import SqliteTransaction

NOTHING_KEPT, ONE_OF_EACH = (0, 0, 0), (1, 1, 1)


class Cut(Exception):
    """The interruption that a test makes."""


def human_state_is_open(handle, task_id):
    return [result.commitment for result in handle.results(task_id)] == ["open"]


def refused(handle, command):
    """The issue codes of a command that must not be accepted."""
    outcome = ask(handle, command)
    assert not outcome.accepted and outcome.receipt is None
    return outcome.issues


# | Failure before commit | No result, receipt or outbox row survives |


@pytest.mark.parametrize("place", ["between load and save", "between save and commit"])
def test_failure_before_commit_leaves_no_result_receipt_or_outbox_row(lab, monkeypatch, place):
    lease = lab.lease()
    before = lab.dump()
    save = SqliteTransaction.save

    def cut(transaction, changes, loaded):
        if place == "between save and commit":
            save(transaction, changes, loaded)
        raise Cut

    monkeypatch.setattr(SqliteTransaction, "save", cut)
    with pytest.raises(Cut):
        lease.complete("answer", key="op-1")
    monkeypatch.undo()

    assert lab.dump() == before
    assert lab.counts() == NOTHING_KEPT
    lab.open().lease(lease.task_id, worker_id="w1", fence=lease.fence).complete(
        "answer", key="op-1"
    )
    assert lab.counts() == ONE_OF_EACH


# | Lost acknowledgement after commit | Retry recovers one receipt and creates no second effect |


def test_after_a_lost_acknowledgement_a_retry_recovers_one_receipt_and_no_second_effect(lab):
    lease = lab.lease()
    request = c.Request.of(submission(lease, "answer", expected_revision=0), "op-1")
    committed = ask(lab.fp, request)  # and this answer never arrives
    retried = ask(lab.open(), request)
    assert retried.receipt == committed.receipt
    assert (committed.replayed, retried.replayed) == (False, True)
    assert lab.counts() == ONE_OF_EACH
    assert human_state_is_open(lab.fp, lease.task_id)


def test_a_commit_that_reports_an_error_after_it_happened_is_answered_with_its_receipt(
    lab, monkeypatch
):
    lease = lab.lease()
    commit = SqliteTransaction.commit

    def commits_and_fails(transaction):
        commit(transaction)
        monkeypatch.setattr(SqliteTransaction, "commit", commit)
        raise OutcomeUnknown("cut after the commit")

    monkeypatch.setattr(SqliteTransaction, "commit", commits_and_fails)
    receipt = lease.submit("answer", key="op-1")
    assert lab.open().receipt("op-1", actor="w1") == receipt
    assert lab.counts() == ONE_OF_EACH


# | Outbox insert fails | Result and receipt roll back too |


def test_when_the_outbox_insert_fails_result_and_receipt_roll_back_too(lab):
    lease = lab.lease()
    before = lab.dump()
    with lab.sql() as own:
        own.execute(
            "create trigger no_outbox before insert on fencepost_task when new.queue_id = "
            f"(select id from fencepost_queue where queue = '{OUTBOX}') "
            "begin select raise(abort, 'the outbox takes nothing'); end"
        )
    with pytest.raises(GuardTripped, match="the outbox takes nothing"):
        lease.complete("answer", key="op-1")
    assert lab.dump() == before
    assert lab.counts() == NOTHING_KEPT
    with lab.sql() as own:
        own.execute("drop trigger no_outbox")
    lease.complete("answer", key="op-1")
    assert lab.counts() == ONE_OF_EACH


# | Same key from two connections | Both callers can recover the same receipt; one effect |


def test_the_same_key_from_two_connections_gives_both_the_same_receipt_and_one_effect(lab):
    one, other = lab.open(), lab.open()
    for number in range(1, 21):
        lease = lab.lease()
        request = c.Request.of(submission(lease, "answer"), f"op-{number}")
        outcomes = at_once(partial(ask, one, request), partial(ask, other, request))
        assert [o.status for o in outcomes] == ["accepted"] * 2
        assert outcomes[0].receipt == outcomes[1].receipt
        assert sorted(o.replayed for o in outcomes) == [False, True]
        assert one.receipt(f"op-{number}", actor="w1") == outcomes[0].receipt
        assert lab.counts() == (number, number, number)


# | Different keys targeting the same revision | One accepts; the other conflicts |


def test_of_different_keys_targeting_the_same_revision_one_accepts_and_the_other_conflicts(lab):
    one, other = lab.open(), lab.open()
    for number in range(1, 21):
        lease = lab.lease()
        first = c.Request.of(submission(lease, "A", expected_revision=0), f"a-{number}")
        second = c.Request.of(submission(lease, "B", expected_revision=0), f"b-{number}")
        outcomes = at_once(partial(ask, one, first), partial(ask, other, second))
        assert sorted(o.issues for o in outcomes) == [(), ("stale_revision",)]
        (kept,) = lab.fp.results(lease.task_id)
        assert kept.value == ("A" if outcomes[0].accepted else "B")
        assert lab.counts() == (number, number, number)


# | Expired/replaced lease | Obsolete writer is refused at the committing owner |


def test_an_expired_lease_is_refused_at_the_committing_owner(lab):
    lease = lab.lease()
    lab.clock.advance(60)
    with pytest.raises(LeaseExpired):
        lease.submit("late")
    assert lab.counts() == NOTHING_KEPT


def test_a_replaced_lease_is_refused_at_the_committing_owner_whichever_handle_it_comes_through(lab):
    old = lab.lease()
    lab.clock.advance(60)
    lab.claim("w2")
    for handle in (lab.fp, lab.open()):
        assert refused(handle, submission(old, "late"))[0] == "wrong_worker"
    assert lab.counts() == NOTHING_KEPT


# | Same holder, wrong fence | Refused independently of the holder test |


def test_the_same_holder_with_a_wrong_fence_is_refused_by_the_fence_alone(lab):
    old = lab.lease()
    lab.clock.advance(60)
    new = lab.claim("w1")
    assert refused(lab.fp, submission(old, "late")) == ("stale_fence",)
    forged = c.Submit(new.task_id, "w1", new.fence + 1, result="forged")
    assert refused(lab.fp, forged) == ("unknown_fence",)
    assert lab.counts() == NOTHING_KEPT


# | Same fence, wrong holder | Refused independently of the fence test |


def test_the_same_fence_with_a_wrong_holder_is_refused_by_the_holder_alone(lab):
    lease = lab.lease("w1")
    stolen = c.Submit(lease.task_id, "w2", lease.fence, result="stolen")
    assert refused(lab.fp, stolen) == ("wrong_worker",)
    assert lab.counts() == NOTHING_KEPT


# | Revoked scope, including replay | No result or receipt disclosure through accept |


def test_a_revoked_scope_discloses_no_result_and_no_receipt_not_even_to_a_replay(lab):
    lease = lab.lease()
    request = c.Request.of(submission(lease, "answer"), "op-1")
    receipt = ask(lab.fp, request).receipt
    lab.fp.revoke()
    for handle in (lab.fp, lab.open()):
        for sent in (request, c.Request.of(submission(lease, "other"), "op-2")):
            outcome = ask(handle, sent)
            assert (outcome.status, outcome.issues) == ("blocked", ("scope_revoked",))
            assert (outcome.receipt, outcome.task_ids, dict(outcome.facts)) == (None, (), {})
    assert lab.counts() == ONE_OF_EACH
    lab.fp.revoke(revoked=False)
    assert ask(lab.fp, request).receipt == receipt


# | Stale revision/policy/epoch | Refused independently for each dimension |


def test_a_stale_revision_is_refused_by_itself(lab):
    lease = lab.lease()
    lease.submit("first", expected_revision=0)
    second = submission(lease, "second", expected_revision=0)
    assert refused(lab.fp, second) == ("stale_revision",)
    assert lab.counts() == ONE_OF_EACH


def test_a_stale_policy_is_refused_by_itself_whether_or_not_the_command_names_it(lab):
    lease = lab.lease()
    lab.fp.set_policy(1)
    assert refused(lab.fp, submission(lease, "answer")) == ("stale_policy",)
    assert refused(lab.fp, submission(lease, "answer", policy_version=0)) == ("stale_policy",)
    assert refused(lab.fp, submission(lease, "answer", policy_version=1)) == ("stale_policy",)
    assert lab.counts() == NOTHING_KEPT


def test_a_stale_epoch_is_refused_by_itself_whether_or_not_the_command_names_it(lab):
    lease = lab.lease()
    assert refused(lab.fp, submission(lease, "answer", epoch=1)) == ("stale_epoch",)
    with lab.sql() as own:  # the fact alone, without the end of leases that clock.reset brings
        own.execute("update fencepost_store set epoch = 1, floor = 1")
    assert refused(lab.fp, submission(lease, "answer")) == ("stale_epoch",)
    assert refused(lab.fp, submission(lease, "answer", epoch=0)) == ("stale_epoch",)
    assert lab.counts() == NOTHING_KEPT


def test_revision_policy_and_epoch_at_once_are_all_told_and_the_epoch_leads(lab):
    lease = lab.lease()
    lab.fp.set_policy(1)
    with lab.sql() as own:
        own.execute("update fencepost_store set epoch = 1, floor = 1")
    late = submission(lease, "answer", expected_revision=7)
    assert refused(lab.fp, late) == ("stale_epoch", "stale_policy", "stale_revision")


# | Cancelled work plus late success | Work remains cancelled; no accepted result |


def test_cancelled_work_stays_cancelled_when_a_success_comes_late_and_no_result_is_accepted(lab):
    lease = lab.lease()
    lab.open().cancel(lease.task_id)
    assert refused(lab.fp, completion(lease, "late")) == ("task_cancelled",)
    assert lab.fp.task(lease.task_id).state == "cancelled"
    assert list(lab.fp.results(lease.task_id)) == []
    assert lab.counts() == NOTHING_KEPT


# What stands around the table


def test_neither_a_result_nor_a_staged_event_completes_a_human_commitment(lab):
    lease = lab.lease()
    lease.complete("answer")
    assert lab.fp.task(lease.task_id).state == "done"
    assert human_state_is_open(lab.fp, lease.task_id)
    dispatcher = lab.fp.as_caller("mailer", "dispatcher")
    (sending,) = dispatcher.claim(OUTBOX, worker_id="mailer")
    assert sending.payload["task_id"] == lease.task_id
    sending.complete({"sent": True})
    assert human_state_is_open(lab.fp, lease.task_id)
    lab.fp.as_caller("ann", "human").review(lease.task_id, 1, "accepted")
    assert [r.commitment for r in lab.fp.results(lease.task_id)] == ["accepted"]


def test_one_outbox_row_is_one_persisted_obligation_and_not_a_delivery(lab):
    lab.lease().complete("answer")
    (owed,) = lab.fp.tasks(OUTBOX)
    assert (owed.state, owed.attempt, lab.counts()) == ("ready", 0, ONE_OF_EACH)


def test_a_current_replay_returns_the_saved_receipt_even_after_the_old_lease_expires(lab):
    lease = lab.lease()
    request = c.Request.of(submission(lease, "answer", expected_revision=0), "op-1")
    receipt = ask(lab.fp, request).receipt
    lab.clock.advance(3_600)
    lab.claim("w2").complete("later")
    replay = ask(lab.open(), request)
    assert (replay.receipt, replay.replayed) == (receipt, True)
    assert lab.counts() == (2, 2, 2)


def test_a_key_that_comes_again_with_other_content_conflicts_and_shows_no_receipt(lab):
    lease = lab.lease()
    lease.submit("answer", key="op-1")
    other = c.Request.of(submission(lease, "other answer"), "op-1")
    assert refused(lab.fp, other) == ("idempotency_key_reused",)
    assert lab.counts() == ONE_OF_EACH


def test_a_claim_names_a_worker_an_expiry_and_an_increasing_fence(lab):
    grants = [lab.lease(f"w{n}").grant for n in range(3)]
    assert [(g.worker_id, g.fence) for g in grants] == [("w0", 1), ("w1", 2), ("w2", 3)]
    assert {g.lease_expires_at - g.granted_at for g in grants} == {60_000_000}


def test_a_receipt_binds_scope_work_actor_key_revision_epoch_fence_and_result(lab):
    lease = lab.lease()
    receipt = lease.submit("answer", expected_revision=0, key="op-1")
    entry = receipt.entry
    assert (entry["scope"], entry["actor"], entry["epoch"]) == (SCOPE, "w1", 0)
    (task, owed) = entry["tasks"]
    assert (task["task_id"], task["fence"], task["revision"]) == (lease.task_id, lease.fence, 1)
    assert (owed["role"], owed["queue"], entry["queue"]) == ("obligation", OUTBOX, QUEUE)
    assert {"key", "request", "result"} <= entry.keys()
