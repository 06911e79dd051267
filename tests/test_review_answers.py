"""What an answer says beside its status: at the first time, at a replay, within a batch."""

from __future__ import annotations

import sqlite3

import pytest
from helpers.stand import QUEUE, Stand, binding

import fencepost
from fencepost import commands as c
from fencepost.clock import to_rfc3339
from fencepost.issues import InvalidRequest

WORK = ({"queue": "next", "payload": 1},)


def test_a_replay_names_the_tasks_that_the_first_answer_named():
    with Stand() as stand:
        stand.fp.queue_set(QUEUE, destinations=["out"])
        lease = stand.leased()
        resolved = stand.leased()
        resolved.fail(then="block")
        for command, key in (
            (c.Submit(**binding(lease), result=1), None),
            (c.Complete(**binding(lease), result=2, followups=WORK), None),
            (c.Resolve(resolved.task_id, to="done", evidence=3), "settle"),
        ):
            request = c.Request.of(command, key)
            first, again = (stand.fp.execute([request])[0] for _ in range(2))
            assert len(first.receipt.task_ids) > 1 and again.replayed
            assert again.task_ids == first.task_ids == (command.task_id,)


def test_rules_1_to_3_end_the_list_of_issues():
    with Stand() as stand:
        gone = stand.task(queue="next", key="gone")
        stand.fp.erase(gone)
        lease = stand.leased()
        stand.clock.advance(60)
        follow = {"queue": "next", "payload": 1, "key": "gone"}
        late = c.Complete(**binding(lease), result=1, followups=(follow,))
        assert stand.ask(late).issues == ("receipt_erased",)


def test_whoever_completed_a_task_is_told_the_receipt_at_a_renewal_too():
    with Stand() as stand:
        lease = stand.leased()
        receipt = lease.complete(1)
        with pytest.raises(fencepost.TaskDone) as told:
            lease.renew()
        assert told.value.outcome.facts["receipt"] == receipt.number
        other = stand.ask(c.Renew(lease.task_id, "somebody", lease.fence))
        assert "receipt" not in other.facts


def test_leases_given_after_a_clock_reset_in_its_batch_are_in_the_answer():
    with Stand() as stand:
        task_id = stand.task()
        stand.clock.jump_wall(-100_000)
        _, claimed = stand.fp.execute([c.ClockReset(), c.Claim("w", (QUEUE,))])
        assert [grant.task_id for grant in claimed.grants] == [task_id]


def test_a_lease_that_a_clock_reset_of_the_batch_ended_is_in_no_answer():
    with Stand() as stand:
        stand.task()
        claimed, _ = stand.fp.execute([c.Claim("w", (QUEUE,)), c.ClockReset()])
        assert claimed.accepted and claimed.grants == ()


def test_after_a_clock_reset_the_rest_of_the_batch_lists_what_a_later_one_would():
    with Stand() as stand:
        lease = stand.leased()
        _, late = stand.fp.execute([c.ClockReset(), c.Complete(**binding(lease), result=1)])
        assert late.issues == ("stale_epoch", "lease_expired")
        assert stand.ask(c.Complete(**binding(lease), result=1)).issues == late.issues


def test_a_task_enqueued_without_a_time_is_due_when_the_clock_was_set_back():
    with Stand() as stand:
        first, second = stand.task(), stand.task()
        timed = c.NewTask("timed", due_at=to_rfc3339(stand.clock.wall() - 1))
        stand.fp.execute([c.Enqueue(QUEUE, (timed,))])
        stand.clock.jump_wall(-86_400)
        stand.fp.clock_reset()
        lease = stand.claim()
        assert lease.task_id == first
        lease.release()
        assert [stand.claim().task_id for _ in range(2)] == [first, second]
        assert stand.fp.claim(QUEUE, worker_id="w") == []  # the other waits for its time
        assert stand.fp.verify().clean


def test_what_a_purge_takes_away_spoils_no_later_command_of_its_batch(caplog):
    with Stand() as stand:
        stand.fp.queue_set(QUEUE, destinations=["out"])
        stand.fp.set_policy(retain_seconds=0)
        lease = stand.leased()
        lease.complete(1)
        (owed,) = stand.fp.tasks("out")
        stand.fp.cancel(owed.task_id)
        told = stand.fp.execute([
            c.Requeue(lease.task_id), c.Cancel(lease.task_id), c.Purge(QUEUE),
            c.Claim("w", (QUEUE,)),
        ])  # fmt: skip
        assert [o.status for o in told] == ["accepted"] * 4 and told[3].task_ids == ()
        lease = stand.leased()
        lease.complete(1)
        (*_, owed) = stand.fp.tasks("out")
        stand.fp.cancel(owed.task_id)
        told = stand.fp.execute([c.Purge("out"), c.Erase(lease.task_id)])
        assert told[0].task_ids and told[1].task_ids == (lease.task_id,)
        assert not caplog.records, "no batch had to be undone"
        assert stand.fp.verify().clean


def test_what_needs_the_turn_is_refused_inside_within_and_the_block_goes_on(tmp_path):
    path = str(tmp_path / "work.db")
    connection = sqlite3.connect(path)
    with fencepost.open(path, create=True) as fp:
        with fp.within(connection) as tx:
            tx.enqueue("q", 1)
            for call in (fp.seal, fp.purge, fp.close, lambda: fp.within(connection).__enter__()):
                with pytest.raises(InvalidRequest, match="within"):
                    call()
            tx.enqueue("q", 2)
        assert [task.state for task in fp.tasks("q")] == ["ready", "ready"]
        assert fp.seal().size == 2
    connection.close()


def test_in_a_revoked_scope_its_settings_are_told_to_operator_and_auditor_alone():
    with Stand() as stand:
        stand.fp.set_policy(7)
        stand.fp.revoke()
        for kind in ("operator", "auditor"):
            assert stand.fp.as_caller("a", kind).scope().policy_version == 7
        for kind in ("producer", "worker", "human", "dispatcher"):
            with pytest.raises(fencepost.ScopeRevoked, match=r"^the scope has been revoked"):
                stand.fp.as_caller("a", kind).scope()


def test_a_policy_that_does_not_rise_is_told_which_would():
    with Stand() as stand:
        stand.fp.set_policy(7)
        with pytest.raises(fencepost.StalePolicy, match="above 7"):
            stand.fp.set_policy(7)


def test_a_path_may_be_an_object(tmp_path):
    with fencepost.open(tmp_path / "work.db", create=True) as fp:
        assert fp.enqueue("q", 1).number == 1


def test_a_queue_is_a_destination_as_long_as_another_names_it():
    with fencepost.open(":memory:", create=True) as fp:
        worker = fp.as_caller("w1", "worker")
        fp.enqueue("out", "a mistyped name")
        fp.queue_set("q", destinations=["out"])
        with pytest.raises(fencepost.Forbidden):
            worker.claim("out", worker_id="w1")

        fp.queue_set("q", destinations=["outbox"])

        assert [lease.payload for lease in worker.claim("out", worker_id="w1")] == [
            "a mistyped name"
        ]
        with pytest.raises(fencepost.Forbidden):
            worker.claim("outbox", worker_id="w1")
        assert fp.verify().problems == ()
