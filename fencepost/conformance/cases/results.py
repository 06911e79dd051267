"""Results, receipts, follow-ups and obligations: what a worker hands in, and what stays of it."""

from __future__ import annotations

import hashlib
import json

from .law import law
from .store import (
    OUTBOX,
    Caller,
    Json,
    Store,
    command,
    equal,
    on_lease,
    replayed,
    worker,
)


def digest(text: str) -> str:
    """SHA-256 of text in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


@law(verbs="submit complete", code="idempotency_key_reused")
def the_same_bytes_get_the_same_receipt_and_equal_is_not_same(store: Store) -> None:
    """A command sent again with the same bytes gets its receipt byte for byte; bytes that mean
    the same are other bytes, and under the same key they are refused."""
    lease = store.lease()
    sent = on_lease("submit", lease, "op-1", result={"a": 1})
    first = store.accept(sent)
    equal("replayed", False, first["replayed"])
    replayed(store.send(sent), first)
    spaced = sent._replace(body=sent.body.replace(":", ": "))
    equal("the same JSON", json.loads(sent.body), json.loads(spaced.body))
    with store.unchanged("idempotency_key_reused"):
        store.refuse(spaced, "idempotency_key_reused")
    unkeyed = on_lease("complete", lease, result={"b": 2})
    receipt = store.accept(unkeyed)
    replayed(store.send(unkeyed), receipt)


@law(controls="clock", verbs="submit cancel requeue scope.set_policy clock.reset")
def a_receipt_is_found_whatever_has_happened_since(store: Store) -> None:
    """Lease, fence, policy, state and epoch may have changed since: the same bytes still get the
    same receipt, and nothing happens a second time."""
    lease = store.lease("w1", max_attempts=9)
    sent = on_lease("submit", lease, "op-1", result="one", expected_revision=0)
    first = store.accept(sent)
    store.wait()
    replayed(store.send(sent), first)
    other = store.claim("w2", task_id=lease.task_id)
    replayed(store.send(sent), first)
    store.accept(command("scope.set_policy", policy_version=5))
    replayed(store.send(sent), first)
    store.accept(command("cancel", task_id=other.task_id))
    replayed(store.send(sent), first)
    store.accept(command("requeue", task_id=other.task_id))
    replayed(store.send(sent), first)
    store.accept(command("clock.reset"))
    replayed(store.send(sent), first)
    equal("results", ["one"], [result["value"] for result in store.results(lease.task_id)])


@law(verbs="submit")
def a_receipt_says_what_was_done_and_opens_to_it(store: Store) -> None:
    """The receipt is the journal's entry of the command: it names scope, actor, task, fence and
    revision, and commits to request, key and result, which its opening shows."""
    begun = len(store.entries())
    lease = store.lease("w1", key="page-17")
    sent = on_lease("submit", lease, "op-1", result="answer")
    receipt = store.accept(sent)["receipt"]
    entry, opening = json.loads(receipt["entry"]), receipt["opening"]
    store.judge("entry", entry)
    (item,) = entry["tasks"]
    equal("what the entry names", ("submit", store.scope_of(), "w1", lease.told["epoch"]),
          (entry["verb"], entry["scope"], entry["actor"], entry["epoch"]))  # fmt: skip
    told = (item["task_id"], item["fence"], item["revision"], item["before"], item["state"])
    equal("what it says of the task", (lease.task_id, lease.fence, 1, "leased", "leased"), told)
    equal("the digests", (digest(sent.body), digest('"answer"')),
          (opening["request_sha256"], opening["result_sha256"]))  # fmt: skip
    salt = bytes.fromhex(opening["salt"])
    for label, value in (
        ("request", bytes.fromhex(opening["request_sha256"])),
        ("result", bytes.fromhex(opening["result_sha256"])),
        ("key", b"op-1"),
    ):
        made = b"fencepost-commit-v1\0" + label.encode() + b"\0" + salt + value
        equal(f"the commitment to the {label}", hashlib.sha256(made).hexdigest(), entry[label])
    view = store.entries()[begun + 2]
    equal("its number", view["number"], receipt["number"])
    equal("the journal's entry", receipt["entry"], view["entry"])
    equal("content in the entry", [], [word for word in ("answer", "op-1", "page-17")
                                       if word in receipt["entry"]])  # fmt: skip


@law(verbs="submit complete cancel renew", code="stale_fence")
def every_accepted_command_leaves_one_entry_and_a_refusal_none(store: Store) -> None:
    """The journal grows by one with each accepted command but renew, in their order, and by
    nothing with refusals and replays."""
    lease = store.lease("w1")
    begun = len(store.entries())
    sent = on_lease("submit", lease, "op-1")
    store.accept(sent)
    store.accept(sent)
    store.accept(on_lease("renew", lease))
    forged = on_lease("submit", lease, fencing_token=lease.fence + 1, result="other")
    store.refuse(forged, "unknown_fence")
    store.accept(on_lease("complete", lease))
    store.refuse(command("cancel", task_id=lease.task_id), "task_done")
    entries = store.entries()
    equal("entries", ["submit", "complete"],
          [json.loads(entry["entry"])["verb"] for entry in entries[begun:]])  # fmt: skip
    numbers = [entry["number"] for entry in entries]
    equal("numbers rise from entry to entry", sorted(set(numbers)), numbers)


@law(verbs="submit complete requeue", code="duplicate_result")
def a_result_is_recorded_once_a_round(store: Store) -> None:
    """The same result under another key is refused and names the earlier receipt; a completion
    with it ends the task and adds none; a new round may bring it again. Nobody else learns whether
    what he guesses is recorded."""
    lease = store.lease("w1")
    first = store.accept(on_lease("submit", lease, "k1", result="42"))["receipt"]
    with store.unchanged("duplicate_result"):
        told = store.refuse(on_lease("submit", lease, "k2", result="42"), "duplicate_result")
        equal("the earlier receipt", first["number"], told["facts"].get("receipt"),
              "duplicate_result")  # fmt: skip
        guess = on_lease("submit", lease, "k2", worker_id="w2", result="42")
        told = store.refuse(guess, "wrong_worker")
    equal("the same, told to another", None, told["facts"].get("receipt"), "wrong_worker")
    store.accept(on_lease("complete", lease, "k3", result="42"))
    task = store.task(lease.task_id)
    equal("state and revision", ("done", 1), (task["state"], task["revision"]))
    store.accept(command("requeue", task_id=lease.task_id))
    again = store.claim("w1", task_id=lease.task_id)
    store.accept(on_lease("submit", again, "k4", result="42"))
    found = [(row["revision"], row["round"], row["value"]) for row in store.results(lease.task_id)]
    equal("results", [(1, 1, "42"), (2, 2, "42")], found)


@law(verbs="complete", code="task_done")
def a_completion_may_bring_no_result(store: Store) -> None:
    """A task can end without a result: it is done, at the revision that it had, and what comes
    after it is told so; its own worker is told which receipt counts."""
    lease = store.lease("w1")
    receipt = store.accept(on_lease("complete", lease))["receipt"]
    task = store.task(lease.task_id)
    equal("state and revision", ("done", 0), (task["state"], task["revision"]))
    with store.unchanged("task_done"):
        own = store.refuse(on_lease("complete", lease, "k2", result="late"), "task_done")
        other = on_lease("complete", lease, "k3", worker_id="w2")
        told = store.refuse(other, "task_done", "wrong_worker")
    equal("the receipt that counts", receipt["number"], own["facts"].get("receipt"), "task_done")
    equal("the same, told to another", None, told["facts"].get("receipt"), "task_done")


@law(controls="faults", verbs="complete queue.set")
def followups_and_obligations_are_one_with_their_result(store: Store) -> None:
    """A completion's result, follow-ups and obligations come into being in one transaction, or
    none of them does."""
    store.settings(destinations=[OUTBOX, "archive"])
    lease = store.lease("w1")
    follow = [{"queue": "next", "payload": number, "key": f"n{number}"} for number in (1, 2)]
    sent = on_lease("complete", lease, "op-1", result="answer", followups=follow)
    for place in ("obligation_insert", "before_commit"):
        with store.unchanged():
            store.fail_next(place)
            equal("accepted", False, store.send(sent)["status"] == "accepted")
    told = store.accept(sent)
    made = {queue: store.tasks(queue) for queue in ("next", OUTBOX, "archive")}
    equal("new tasks", {"next": 2, OUTBOX: 1, "archive": 1},
          {queue: len(tasks) for queue, tasks in made.items()})  # fmt: skip
    parents = {task["parent"] for tasks in made.values() for task in tasks}
    equal("their parent", {lease.task_id}, parents)
    roles = [item.get("role") for item in json.loads(told["receipt"]["entry"])["tasks"]]
    equal("roles in the one entry", [None, "followup", "followup", "obligation", "obligation"],
          [None, *sorted(role for role in roles if role)])  # fmt: skip
    equal("counts", (1, 1, 2), store.counts())


def owed(store: Store, task_id: str) -> list[Json]:
    """The payloads of the outbox that are about this task."""
    tasks = [store.task(task["task_id"]) for task in store.tasks(OUTBOX)]
    return [task["payload"] for task in tasks if task["payload"]["task_id"] == task_id]


@law(verbs="submit complete queue.set")
def each_accepted_result_owes_one_message_that_says_all(store: Store) -> None:
    """Every command that accepts a result enqueues one message for each destination, which
    carries the result, its revision and its fence; a replay and a refusal owe nothing."""
    store.settings(destinations=[OUTBOX])
    lease = store.lease("w1")
    sent = on_lease("submit", lease, "op-1", result={"page": 1})
    store.accept(sent)
    store.accept(sent)
    store.refuse(on_lease("submit", lease, "op-2", result={"page": 1}), "duplicate_result")
    store.accept(on_lease("complete", lease, "op-3", result={"page": 2}))
    told = [(m["revision"], m["fencing_token"], m["result"]) for m in owed(store, lease.task_id)]
    equal("messages", [(1, lease.fence, {"page": 1}), (2, lease.fence, {"page": 2})], told)
    quiet = store.lease("w1")
    store.accept(on_lease("complete", quiet))
    equal("messages for a completion without result", [], owed(store, quiet.task_id))


@law(verbs="submit complete queue.set", kinds="dispatcher", code="forbidden")
def only_a_dispatcher_works_on_a_destination(store: Store) -> None:
    """Obligations are claimed and settled by a dispatcher, and a dispatcher works nowhere else;
    nobody slips a message among them."""
    store.settings(destinations=[OUTBOX])
    store.accept(on_lease("submit", store.lease("w1")))
    store.offer()
    mailer = Caller("dispatcher", "mailer")
    with store.unchanged("forbidden"):
        claim = command("claim", worker("w1"), worker_id="w1", queues=[OUTBOX])
        store.refuse(claim, "forbidden")
        other = command("claim", mailer, worker_id="mailer", queues=["intake"])
        store.refuse(other, "forbidden")
    sending = store.claim("mailer", by=mailer, queues=[OUTBOX])
    with store.unchanged("forbidden"):
        stolen = on_lease("complete", sending, worker_id="w1")
        store.refuse(stolen, "forbidden")
    store.accept(on_lease("complete", sending)._replace(by=mailer))


@law(verbs="submit complete queue.set", code="payload_too_large")
def what_is_too_large_is_refused_whole(store: Store) -> None:
    """A result of one byte more than the queue allows is refused, and so is a task; what has just
    the size is accepted."""
    store.settings(max_result_bytes=100, max_payload_bytes=100)
    lease = store.lease("w1")
    with store.unchanged("payload_too_large"):
        for verb in ("submit", "complete"):
            store.refuse(on_lease(verb, lease, result="x" * 99), "payload_too_large")
        tasks = [{"payload": "small"}, {"payload": "x" * 99}]
        store.refuse(command("enqueue", queue="intake", tasks=tasks), "payload_too_large")
    store.offer("x" * 98)
    store.accept(on_lease("complete", lease, result="x" * 98))


@law(verbs="complete queue.set")
def a_queue_may_keep_digests_only(store: Store) -> None:
    """Where the queue says so, a result's digest is kept and its content is not."""
    store.settings(result_storage="digest")
    lease = store.lease("w1")
    store.accept(on_lease("complete", lease, result="answer"))
    (row,) = store.results(lease.task_id)
    equal("what is kept", (digest('"answer"'), False, None, "open"),
          (row["result_sha256"], row["kept"], row["value"], row["commitment"]))  # fmt: skip
