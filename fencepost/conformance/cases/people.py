"""What a human is owed and may say: reviews, and erasure that leaves a tombstone."""

from __future__ import annotations

from .law import law
from .store import ANN, OPERATOR, OUTBOX, QUEUE, Json, Store, command, equal, on_lease


@law(verbs="submit review", kinds="human", code="commitment_closed")
def a_review_closes_one_revision_once(store: Store) -> None:
    """A human's word closes the commitment of the revision that it names, once; the task's state
    stays; a new result opens a new commitment."""
    lease = store.lease("w1")
    store.accept(on_lease("submit", lease, result="one"))
    review: Json = {"task_id": lease.task_id, "verdict": "accepted"}
    with store.unchanged("stale_revision"):
        store.refuse(command("review", ANN, revision=2, **review), "stale_revision")
    store.accept(command("review", ANN, revision=1, **review))
    equal("state", "leased", store.task(lease.task_id)["state"])
    store.accept(on_lease("submit", lease, result="two"))
    equal("commitments", ["accepted", "open"], store.commitments(lease.task_id))
    with store.unchanged("commitment_closed"):
        again = command("review", ANN, task_id=lease.task_id, revision=1, verdict="rejected")
        store.refuse(again, "commitment_closed")


@law(verbs="complete review", kinds="human", code="invalid_request")
def a_rejected_result_may_be_asked_for_again(store: Store) -> None:
    """A rejection may start a new round at once; the rejected result stays, and the next one
    opens a commitment of its own. An acceptance may not."""
    lease = store.lease("w1")
    store.accept(on_lease("complete", lease, result="one"))
    named: Json = {"task_id": lease.task_id, "revision": 1, "requeue": True}
    with store.unchanged("invalid_request"):
        store.refuse(command("review", ANN, verdict="accepted", **named), "invalid_request")
    store.accept(command("review", ANN, verdict="rejected", **named))
    equal("state", "ready", store.task(lease.task_id)["state"])
    store.accept(on_lease("complete", store.claim("w2"), result="one"))
    equal("commitments", ["rejected", "open"], store.commitments(lease.task_id))


@law(verbs="complete erase queue.set", code="receipt_erased")
def an_erased_task_leaves_a_tombstone(store: Store) -> None:
    """Erasure takes payload, results, task key and openings, and what was owed for them. What is
    left refuses the task's key and its commands' keys: nothing is carried out a second time."""
    store.settings(destinations=[OUTBOX])
    tasks = [{"payload": {"name": "synthetic"}, "key": "page-17"}]
    enqueues = [command("enqueue", key=key, queue=QUEUE, tasks=tasks) for key in ("in-1", "in-2")]
    (task_id,), _ = (store.accept(enqueue)["task_ids"] for enqueue in enqueues)
    lease = store.claim("w1", task_id=task_id)
    sent = on_lease("complete", lease, "op-1", result="an answer")
    first = store.accept(sent)
    (message,) = store.tasks(OUTBOX)
    store.accept(command("erase", task_id=lease.task_id))
    task = store.task(lease.task_id)
    equal("the tombstone", ("done", True, None, None),
          (task["state"], task["erased"], task["key"], task["payload"]))  # fmt: skip
    (row,) = store.results(lease.task_id)
    equal("its result", (False, None, None), (row["kept"], row["value"], row["result_sha256"]))
    owed = store.task(message["task_id"])
    equal("its message", (True, None), (owed["erased"], owed["payload"]))
    told = store.read("receipt", OPERATOR, key="op-1", actor="w1")
    hidden = told.get("issues") in (["receipt_erased"], ["not_found"])
    equal("the receipt is not shown", True, hidden, "receipt_erased")
    with store.unchanged("receipt_erased"):
        store.refuse(sent, "receipt_erased")
        store.refuse(on_lease("complete", lease, "op-2"), "receipt_erased")
        for enqueue in (*enqueues, enqueues[0]._replace(key="in-3")):
            store.refuse(enqueue, "receipt_erased")
    bodies = {entry["number"]: entry["entry"] for entry in store.entries()}
    number, body = first["receipt"]["number"], first["receipt"]["entry"]
    equal("the entry stays as it was", body, bodies.get(number))


@law(verbs="complete erase", code="receipt_erased")
def an_open_task_that_is_erased_is_cancelled(store: Store) -> None:
    """Erasing a task that somebody holds ends it: the worker is told, and nothing is accepted."""
    lease = store.lease("w1")
    store.accept(command("erase", task_id=lease.task_id))
    equal("state", "cancelled", store.task(lease.task_id)["state"])
    with store.unchanged("receipt_erased"):
        store.refuse(on_lease("complete", lease, result="late"), "receipt_erased")
    equal("results", [], store.results(lease.task_id))


@law(controls="clock", verbs="complete purge queue.set", code="receipt_erased")
def a_purge_takes_only_what_has_been_kept_long_enough(store: Store) -> None:
    """Ended tasks go when their retention is over, and not a microsecond earlier; open ones and
    tasks of a queue without retention stay. The keys of what is gone stay refused."""
    store.settings(retain_seconds=100)
    first = command("enqueue", key="in-1", queue=QUEUE, tasks=[{"payload": 1, "key": "k1"}])
    store.accept(first)
    ended = store.claim("w1")
    store.accept(on_lease("complete", ended, result="one"))
    kept = store.claim("w1", task_id=store.offer(queue="kept"))
    store.accept(on_lease("complete", kept))
    waiting = store.offer()
    store.wait_microseconds(99_999_999)
    equal("purged before", [], store.accept(command("purge"))["task_ids"])
    store.wait_microseconds(1)
    equal("purged", [ended.task_id], store.accept(command("purge"))["task_ids"])
    equal("what is left", {kept.task_id, waiting}, {task["task_id"] for task in store.tasks()})
    with store.unchanged("receipt_erased"):
        store.refuse(first, "receipt_erased")
        store.refuse(first._replace(key="in-2"), "receipt_erased")


@law(controls="clock", verbs="complete cancel purge queue.set", code="receipt_erased")
def a_receipt_stays_as_long_as_what_it_is_about(store: Store) -> None:
    """A completion is answered again though its follow-up and its message have been purged, and an
    enqueue as long as one of its tasks is kept; when the last is gone, its key stays refused."""
    for queue in ("next", OUTBOX):
        store.settings(queue, retain_seconds=0)
    store.settings(destinations=[OUTBOX])
    two = command("enqueue", key="in-1", queue="next", tasks=[{"payload": 1}, {"payload": 2}])
    enqueued = store.accept(two)
    lease = store.lease("w1")
    follow = [{"queue": "next", "payload": 3}]
    done = on_lease("complete", lease, "op-1", result="answer", followups=follow)
    completed = store.accept(done)
    brought = [task["task_id"] for task in store.tasks() if task["task_id"] != lease.task_id]
    last = enqueued["task_ids"][1]
    for task_id in [*(other for other in brought if other != last), last]:
        equal("what opens the enqueue", enqueued["receipt"], store.accept(two)["receipt"])
        store.accept(command("cancel", task_id=task_id))
        store.wait(1)
        equal("purged", [task_id], store.accept(command("purge"))["task_ids"])
        equal("the completion's", completed["receipt"], store.accept(done)["receipt"])
    with store.unchanged("receipt_erased"):
        store.refuse(two, "receipt_erased")
