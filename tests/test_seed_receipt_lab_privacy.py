"""What the receipt lab asks of a product beside its table: hashing, scopes, retention, silence."""

from __future__ import annotations

import hashlib
import json
import logging

import pytest
import rfc8785
from helpers.lab import OUTBOX, QUEUE, ask, completion, submission

from fencepost import (
    InvalidRequest,
    LeaseLost,
    NotFound,
    OutcomeUnknown,
    ReceiptErased,
    Refused,
    ScopeRevoked,
)
from fencepost import commands as c
from fencepost.storage.sqlite.transaction import SqliteTransaction

# Command hashing


def test_a_command_from_python_is_hashed_over_its_rfc_8785_bytes(lab):
    lease = lab.lease()
    receipt = lease.submit({"b": 1.0, "a": "é"}, expected_revision=0, key="op-1")
    named = {
        "verb": "submit", "task_id": lease.task_id, "worker_id": "w1", "fencing_token": 1,
        "result": {"a": "é", "b": 1}, "expected_revision": 0,
    }  # fmt: skip
    assert receipt.request_sha256 == hashlib.sha256(rfc8785.dumps(named)).digest()
    assert receipt.result_sha256 == hashlib.sha256('{"a":"é","b":1}'.encode()).digest()


def test_raw_bytes_are_hashed_as_they_came_and_same_means_byte_equal(lab):
    lease = lab.lease()
    body = json.dumps(
        {"verb": "submit", "result": 1, "task_id": lease.task_id, "worker_id": "w1",
         "fencing_token": 1}
    ).encode()  # fmt: skip
    receipt = ask(lab.fp, c.Request.read(body, "op-1")).receipt
    assert receipt.request_sha256 == hashlib.sha256(body).digest()
    spaced = c.Request.read(body + b" ", "op-1")
    assert ask(lab.fp, spaced).issues == ("idempotency_key_reused",)
    assert lab.counts() == (1, 1, 1)


# Scope is part of both key uniqueness and receipt identity


def test_scope_is_part_of_key_uniqueness_and_of_receipt_identity(lab):
    other = lab.open(scope="other")
    other.queue_set(QUEUE, destinations=[OUTBOX])
    receipts = []
    for handle in (lab.fp, other):
        task_id = handle.enqueue(QUEUE, "same", key="same-task").task_id
        (lease,) = handle.claim(QUEUE, worker_id="w1")
        assert lease.task_id == task_id
        receipts.append(lease.submit("same", expected_revision=0, key="op-1"))
    assert [r.entry["scope"] for r in receipts] == ["lab", "other"]
    assert receipts[0].number != receipts[1].number and lab.counts() == (2, 2, 2)
    for handle, receipt in zip((lab.fp, other), receipts, strict=True):
        assert handle.receipt("op-1", actor="w1") == receipt


def test_another_scopes_task_is_answered_like_one_that_never_was(lab):
    lease = lab.lease()
    lease.submit("answer", key="op-1")
    other = lab.open(scope="other")
    unknown = "00000000-0000-7000-8000-000000000000"
    theirs = ask(other, submission(lease, "answer"))
    nobodys = ask(other, c.Submit(unknown, "w1", 1, result="answer"))
    assert theirs == nobodys and theirs.issues == ("not_found",)


def test_reads_are_scoped(lab):
    lease = lab.lease(key="k")
    lease.submit("answer", key="op-1")
    digest = lab.fp.receipt("op-1", actor="w1").request_sha256.hex()
    other = lab.open(scope="other")
    reads = [
        lambda: other.task(lease.task_id), lambda: other.task_by_key(QUEUE, "k"),
        lambda: list(other.results(lease.task_id)), lambda: list(other.refused(lease.task_id)),
        lambda: other.receipt("op-1", actor="w1"), lambda: other.receipt(digest),
        lambda: other.queue(QUEUE),
    ]  # fmt: skip
    for read in reads:
        with pytest.raises(NotFound):
            read()
    assert (list(other.tasks()), other.queue_rows(), other.stats()["queues"]) == ([], [], [])


def test_a_revoked_scope_shows_nothing_to_a_worker_a_producer_or_a_human(lab):
    lease = lab.lease()
    lease.submit("answer", key="op-1")
    lab.fp.revoke()
    for kind in ("worker", "producer", "human", "dispatcher"):
        reader = lab.fp.as_caller("w1", kind)
        for read in (
            lambda r=reader: r.task(lease.task_id), lambda r=reader: r.receipt("op-1"),
            lambda r=reader: list(r.tasks()), lambda r=reader: list(r.results(lease.task_id)),
        ):  # fmt: skip
            with pytest.raises(ScopeRevoked):
                read()


# Retention, deletion, tombstones


def test_retention_purges_ended_tasks_only_once_their_time_is_over(lab):
    lab.fp.queue_set(QUEUE, retain_seconds=100)
    done, waiting = lab.lease(), lab.offer("waits")
    done.complete("answer")
    lab.clock.advance(99)
    assert lab.fp.purge(QUEUE).task_ids == ()
    lab.clock.advance(1)
    assert lab.fp.purge(QUEUE).task_ids == (done.task_id,)
    with pytest.raises(NotFound):
        lab.fp.task(done.task_id)
    assert lab.fp.task(waiting).state == "ready"


def test_the_keys_of_a_purged_task_stay_refused_for_the_published_horizon(lab):
    lab.fp.queue_set(QUEUE, retain_seconds=0)
    lease = lab.lease(key="page-1")
    lease.complete("answer", key="op-1")
    lab.fp.purge(QUEUE)
    for command in (
        c.Request.of(completion(lease, "answer"), "op-1"),
        c.Enqueue(QUEUE, (c.NewTask("work", "page-1"),)),
    ):
        assert ask(lab.fp, command).issues[0] in ("receipt_erased", "not_found")
    with pytest.raises(ReceiptErased):
        lab.fp.enqueue(QUEUE, "work", key="page-1")


def test_a_deleted_task_leaves_a_tombstone_and_its_keys_execute_nothing_again(lab):
    lease = lab.lease(payload="raw transcript", key="page-1")
    request = c.Request.of(submission(lease, "secret answer"), "op-1")
    ask(lab.fp, request)
    lab.fp.erase(lease.task_id)
    task = lab.fp.task(lease.task_id)
    assert (task.erased, task.payload, task.key, task.state) == (True, None, None, "cancelled")
    assert ask(lab.fp, request).issues == ("receipt_erased",)
    with pytest.raises(ReceiptErased):
        lab.fp.enqueue(QUEUE, "raw transcript", key="page-1")
    for path in lab.path.parent.iterdir():
        content = path.read_bytes()
        assert b"raw transcript" not in content and b"secret answer" not in content, path.name
        assert b"op-1" not in content and b"page-1" not in content, path.name


def test_a_queue_that_stores_digests_keeps_no_result(lab):
    lab.fp.queue_set(QUEUE, result_storage="digest", destinations=[])
    lease = lab.lease()
    lease.complete({"text": "a long private answer"})
    (result,) = lab.fp.results(lease.task_id)
    digest = hashlib.sha256(b'{"text":"a long private answer"}').hexdigest()
    assert (result.result_sha256, result.kept, result.value) == (digest, False, None)
    with lab.sql() as own:
        assert "private" not in "".join(own.iterdump())


# Secrets and raw transcripts stay out of telemetry


def secret_workload(lab, monkeypatch):
    """Accepted, refused, replayed, undone, unknown: everything that is ever logged about."""
    lease = lab.lease(payload={"password": "PAYLOAD-SECRET"}, key="TASKKEY-SECRET")
    lease.submit("RESULT-SECRET", key="OPKEY-SECRET")
    lease.submit("RESULT-SECRET", key="OPKEY-SECRET")
    for call in (
        lambda: lease.submit("OTHER-SECRET", key="OPKEY-SECRET"),
        lambda: lease.submit(float("nan"), key="NAN-SECRET"),
        lambda: lab.fp.enqueue(QUEUE, "CONFLICT-SECRET", key="TASKKEY-SECRET"),
    ):
        with pytest.raises((Refused, InvalidRequest)):
            call()
    commit = SqliteTransaction.commit

    def fails(transaction):
        monkeypatch.setattr(SqliteTransaction, "commit", commit)
        transaction.rollback()
        raise OutcomeUnknown("cut")

    monkeypatch.setattr(SqliteTransaction, "commit", fails)
    outcome = ask(lab.fp, c.Request.of(submission(lease, "LOST-SECRET"), "LOSTKEY-SECRET"))
    assert outcome.issues == ("store_unavailable",)
    with lab.sql() as own:
        own.execute(
            "create trigger no before insert on fencepost_result "
            "begin select raise(abort, 'no'); end"
        )
    tripped = ask(lab.fp, submission(lease, "TRIPPED-SECRET"))
    assert tripped.issues == ("guard_tripped",)
    lab.clock.jump_wall(3_600)
    with pytest.raises(LeaseLost):
        lease.fail("REASON-SECRET")


def test_no_payload_result_reason_or_key_reaches_the_log(lab, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    secret_workload(lab, monkeypatch)
    messages = [record.getMessage() for record in caplog.records]
    assert any("clock_jump" in m for m in messages)
    assert any("outcome of a commit is unknown" in m for m in messages)
    assert any("was undone" in m for m in messages)
    assert "SECRET" not in caplog.text
    assert not [r for r in caplog.records if "SECRET" in repr(vars(r))]


def test_the_journal_names_no_payload_result_reason_or_key(lab, monkeypatch):
    secret_workload(lab, monkeypatch)
    with lab.sql() as own:
        bodies = own.execute("select group_concat(cast(body as text), ' ') from fencepost_entry")
        ((text,),) = bodies.fetchall()
    assert '"verb":"submit"' in text and "SECRET" not in text
    assert hashlib.sha256(b'"RESULT-SECRET"').hexdigest() not in text
