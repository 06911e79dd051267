"""The receipt lab: its eleven rows by their words, and what it says around them.

Counts are (results, receipts of results, obligations).
"""

from __future__ import annotations

from .law import law
from .store import (
    OUTBOX,
    Caller,
    Json,
    Store,
    accepted,
    command,
    equal,
    on_lease,
    refused,
    replayed,
    said,
    undone,
)

NONE, ONE = (0, 0, 0), (1, 1, 1)


def owing(store: Store) -> None:
    """Each accepted result of the queue owes a message to the outbox."""
    store.settings(destinations=[OUTBOX])


@law(controls="faults", verbs="complete queue.set")
def a_failure_before_commit_leaves_no_result_receipt_or_outbox_row(store: Store) -> None:
    """Failure before commit: no result, receipt or outbox row survives."""
    owing(store)
    lease = store.lease()
    sent = on_lease("complete", lease, "op-1", result="answer")
    with store.unchanged():
        store.fail_next("before_commit")
        undone(store.send(sent))
    equal("counts", NONE, store.counts())
    equal("replayed", False, store.accept(sent)["replayed"])
    equal("counts", ONE, store.counts())


@law(controls="faults", verbs="submit queue.set")
def after_a_lost_acknowledgement_a_retry_recovers_one_receipt(store: Store) -> None:
    """Lost acknowledgement after commit: retry recovers one receipt and creates no second
    effect."""
    owing(store)
    lease = store.lease()
    sent = on_lease("submit", lease, "op-1", expected_revision=0)
    store.fail_next("after_commit")
    equal("the answer is lost", "failed: outcome_unknown", said(store.send(sent)))
    first = store.accept(sent)
    equal("replayed", True, first["replayed"])
    equal("the receipt read by its key", first["receipt"],
          store.read("receipt", key="op-1", actor="w1"))  # fmt: skip
    equal("counts", ONE, store.counts())


@law(controls="faults", verbs="complete queue.set", code="store_unavailable")
def when_the_outbox_insert_fails_result_and_receipt_roll_back_too(store: Store) -> None:
    """Outbox insert fails: result and receipt roll back too."""
    owing(store)
    lease = store.lease()
    sent = on_lease("complete", lease, "op-1", result="answer")
    with store.unchanged():
        store.fail_next("obligation_insert")
        undone(store.send(sent))
    equal("counts", NONE, store.counts())
    store.accept(sent)
    equal("counts", ONE, store.counts())


@law(controls="threads", verbs="submit queue.set")
def the_same_key_from_two_connections_gives_both_one_receipt(store: Store) -> None:
    """Same key from two connections: both callers can recover the same receipt; one effect."""
    owing(store)
    for number in range(1, 6):
        sent = on_lease("submit", store.lease(), f"op-{number}")
        one, other = (accepted(outcome) for outcome in store.race(sent, sent))
        equal("the two receipts", one["receipt"], other["receipt"])
        equal("replayed", [False, True], sorted((one["replayed"], other["replayed"])))
        equal("counts", (number, number, number), store.counts())


@law(controls="threads", verbs="submit queue.set", code="stale_revision")
def of_different_keys_at_one_revision_one_accepts(store: Store) -> None:
    """Different keys targeting the same revision: one accepts; the other conflicts."""
    owing(store)
    for number in range(1, 6):
        lease = store.lease()
        sends = [
            on_lease("submit", lease, f"{name}-{number}", result=name, expected_revision=0)
            for name in "ab"
        ]
        outcomes = store.race(*sends)
        equal("the two outcomes", ["accepted", "failed: stale_revision"],
              sorted(map(said, outcomes)), "stale_revision")  # fmt: skip
        winner = "a" if outcomes[0]["status"] == "accepted" else "b"
        equal("the result", [winner], [r["value"] for r in store.results(lease.task_id)])
        equal("counts", (number, number, number), store.counts())


@law(controls="clock", verbs="submit", code="lease_expired")
def an_expired_or_replaced_lease_is_refused_at_the_owner(store: Store) -> None:
    """Expired/replaced lease: the obsolete writer is refused at the committing owner."""
    lease = store.lease("w1")
    store.wait()
    with store.unchanged("lease_expired"):
        store.refuse(on_lease("submit", lease), "lease_expired")
    store.claim("w2")
    with store.unchanged("wrong_worker"):
        store.refuse(on_lease("submit", lease), "wrong_worker", "stale_fence")
    equal("counts", NONE, store.counts())


@law(controls="clock", verbs="submit", code="stale_fence")
def the_same_holder_with_a_wrong_fence_is_refused(store: Store) -> None:
    """Same holder, wrong fence: refused independently of the holder test."""
    old = store.lease("w1")
    store.wait()
    new = store.claim("w1")
    with store.unchanged("stale_fence"):
        store.refuse(on_lease("submit", old), "stale_fence")
        store.refuse(on_lease("submit", new, fencing_token=new.fence + 1), "unknown_fence")


@law(verbs="submit", code="wrong_worker")
def the_same_fence_with_a_wrong_holder_is_refused(store: Store) -> None:
    """Same fence, wrong holder: refused independently of the fence test."""
    lease = store.lease("w1")
    with store.unchanged("wrong_worker"):
        store.refuse(on_lease("submit", lease, worker_id="w2"), "wrong_worker")


@law(verbs="submit scope.revoke queue.set", code="scope_revoked")
def a_revoked_scope_discloses_nothing_not_even_to_a_replay(store: Store) -> None:
    """Revoked scope, including replay: no result or receipt disclosure through accept."""
    owing(store)
    lease = store.lease()
    sent = on_lease("submit", lease, "op-1")
    first = store.accept(sent)
    store.accept(command("scope.revoke"))
    with store.unchanged("scope_revoked"):
        for again in (sent, on_lease("submit", lease, "op-2", result="other")):
            told = store.refuse(again, "scope_revoked")
            equal("what is told", ([], {}), (told["task_ids"], told["facts"]), "scope_revoked")
    equal("counts", ONE, store.counts())
    store.accept(command("scope.revoke", revoked=False))
    replayed(store.send(sent), first)


@law(verbs="submit scope.set_policy", code="stale_revision")
def stale_revision_policy_and_epoch_are_refused_one_by_one(store: Store) -> None:
    """Stale revision/policy/epoch: refused independently for each dimension."""
    lease = store.lease()
    store.accept(on_lease("submit", lease, result="first", expected_revision=0))
    with store.unchanged():
        stale = on_lease("submit", lease, result="second", expected_revision=0)
        store.refuse(stale, "stale_revision")
        epoch = lease.told["epoch"] + 1
        store.refuse(on_lease("submit", lease, result="second", epoch=epoch), "stale_epoch")
    store.accept(command("scope.set_policy", policy_version=lease.told["policy_version"] + 1))
    with store.unchanged("stale_policy"):
        store.refuse(on_lease("submit", lease, result="second"), "stale_policy")
    store.accept(on_lease("submit", store.lease(), result="second"))


@law(verbs="complete cancel", code="task_cancelled")
def cancelled_work_stays_cancelled_when_a_success_comes_late(store: Store) -> None:
    """Cancelled work plus late success: work remains cancelled; no accepted result."""
    lease = store.lease()
    store.accept(command("cancel", task_id=lease.task_id))
    with store.unchanged("task_cancelled"):
        store.refuse(on_lease("complete", lease, result="late"), "task_cancelled")
    equal("state", "cancelled", store.task(lease.task_id)["state"])
    equal("results", [], store.results(lease.task_id))


@law(verbs="complete queue.set", kinds="dispatcher")
def neither_a_result_nor_a_delivery_closes_what_a_human_is_owed(store: Store) -> None:
    """Neither a recorded result nor a staged event completes a human commitment."""
    owing(store)
    lease = store.lease()
    store.accept(on_lease("complete", lease, result="answer"))
    equal("commitments", ["open"], store.commitments(lease.task_id))
    mailer = Caller("dispatcher", "mailer")
    sending = store.claim("mailer", by=mailer, queues=[OUTBOX])
    message = sending.told["payload"]
    told = (message["task_id"], message["result"], message["revision"])
    equal("what is delivered", (lease.task_id, "answer", 1), told)
    sent = on_lease("complete", sending, result="sent")
    store.accept(sent._replace(by=mailer))
    equal("commitments", ["open"], store.commitments(lease.task_id))


@law(verbs="complete queue.set")
def one_outbox_row_is_an_obligation_and_not_a_delivery(store: Store) -> None:
    """outbox=1 means one persisted obligation, not one delivery."""
    owing(store)
    store.accept(on_lease("complete", store.lease(), result="answer"))
    equal("the outbox", [("ready", 0)], [(t["state"], t["attempt"]) for t in store.tasks(OUTBOX)])
    equal("counts", ONE, store.counts())


@law(controls="clock", verbs="submit complete queue.set")
def a_replay_returns_the_saved_receipt_after_the_lease_has_expired(store: Store) -> None:
    """A current-authorized replay of the same operation and hash returns the saved receipt even
    after the old lease expires and another worker has finished."""
    owing(store)
    sent = on_lease("submit", store.lease(), "op-1", expected_revision=0)
    first = store.accept(sent)
    store.wait(3_600)
    replayed(store.send(sent), first)
    store.accept(on_lease("complete", store.claim("w2"), result="later"))
    replayed(store.send(sent), first)
    equal("counts", (2, 2, 2), store.counts())


@law(verbs="submit", code="idempotency_key_reused")
def a_key_is_bound_to_scope_and_actor(store: Store) -> None:
    """Scope is part of both the operation-key uniqueness boundary and receipt identity, and so
    is the actor: the same key of another is another key."""
    first = store.accept(on_lease("submit", store.lease("w1"), "op-1"))
    second = store.accept(on_lease("submit", store.lease("w2"), "op-1"))
    far = Caller("operator", "op", "elsewhere")
    members: Json = {"queue": "intake", "tasks": [{"payload": "far"}]}
    store.accept(command("enqueue", far, "op-1", **members))
    here = store.accept(command("enqueue", key="op-1", **members))
    equal("replayed", [False] * 3, [o["replayed"] for o in (first, second, here)])
    there = command("enqueue", far, "op-1", queue="intake", tasks=[{"payload": "other"}])
    refused(store.send(there), "idempotency_key_reused")
