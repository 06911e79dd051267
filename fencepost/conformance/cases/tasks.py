"""Tasks from outside a lease: enqueue, failures, cancel, requeue, resolve."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from .law import law
from .leases import instant
from .store import ANN, QUEUE, Json, Store, command, equal, on_lease


@law(code="key_conflict")
def a_task_key_names_one_task_of_its_queue(store: Store) -> None:
    """The same key and payload give the task that is there; another payload is refused; the key
    means nothing on another queue."""
    first = store.offer({"page": 17}, key="page-17")
    equal("the same task", first, store.offer({"page": 17}, key="page-17"))
    with store.unchanged("key_conflict"):
        other = [{"payload": "new"}, {"payload": {"page": 18}, "key": "page-17"}]
        store.refuse(command("enqueue", queue=QUEUE, tasks=other), "key_conflict")
    equal("another task", False, first == store.offer({"page": 18}, "elsewhere", key="page-17"))
    lease = store.claim("w1")
    equal("its state told by a second enqueue", first, store.offer({"page": 17}, key="page-17"))
    equal("it is still held", "leased", store.task(lease.task_id)["state"])


@law()
def an_enqueue_is_all_or_nothing_and_keeps_its_order(store: Store) -> None:
    """One command of many tasks is one command: one receipt, tasks in its order, and sent again
    under its key it adds none."""
    tasks = [{"payload": number} for number in range(20)]
    sent = command("enqueue", key="batch-1", queue=QUEUE, tasks=tasks)
    first = store.accept(sent)
    again = store.accept(sent)
    equal("the receipt", (first["receipt"], True), (again["receipt"], again["replayed"]))
    equal("tasks", first["task_ids"], [task["task_id"] for task in store.tasks(QUEUE)])
    leases = store.take("w1", limit=20)
    equal("payloads", list(range(20)), [lease.told["payload"] for lease in leases])


@law()
def a_payload_comes_back_as_it_was_given(store: Store) -> None:
    """Text in any script, null, nested values and numbers to 2^53 - 1 come back unchanged."""
    values: list[Any] = [
        None, True, 0, -1, 2**53 - 1, 0.5, "", "žluť – 雪 – 🌲", '"\\/\b\f\n\r\t\u0001\u007f',
        [], {}, {"": {"ž": [1, [2, [3]]]}},
    ]  # fmt: skip
    for value in values:
        task_id = store.offer(value)
        equal("the payload of a lease", value, store.claim("w1").told["payload"])
        equal("the payload of a task", value, store.task(task_id)["payload"])


@law(controls="clock", verbs="fail queue.set")
def a_failed_task_is_tried_again_after_its_time(store: Store) -> None:
    """A failure with attempts left waits: as long as the worker asks, to the microsecond, or the
    queue's back-off, which doubles up to a limit and of which at most half is taken off."""
    store.settings(backoff_seconds=1, max_backoff_seconds=3)
    lease = store.lease("w1")
    store.accept(on_lease("fail", lease, retry_seconds=30, reason="busy"))
    task = store.task(lease.task_id)
    equal("state and reason", ("ready", "busy"), (task["state"], task["reason"]))
    store.wait_microseconds(29_999_999)
    equal("leases before its time", [], store.take("w2"))
    store.wait_microseconds(1)
    again = store.claim("w2")
    for longest in (2, 3, 3):
        store.accept(on_lease("fail", again))
        task = store.task(again.task_id)
        waits = instant(task["due_at"]) - instant(task["changed_at"])
        within = timedelta(seconds=longest / 2) <= waits <= timedelta(seconds=longest)
        equal(f"half to all of {longest} seconds", (True, waits), (within, waits))
        store.wait(longest)
        again = store.claim("w2")


@law(verbs="fail", code="task_dead")
def a_failed_task_ends_when_it_is_given_up_or_has_no_attempt_left(store: Store) -> None:
    """give_up ends a task at once, a failure in the last attempt does, and neither is claimed
    again."""
    given_up, last = store.lease("w1"), store.lease("w1", max_attempts=1)
    store.accept(on_lease("fail", given_up, then="give_up"))
    store.accept(on_lease("fail", last))
    states = [store.task(lease.task_id)["state"] for lease in (given_up, last)]
    equal("states", ["dead", "dead"], states)
    equal("leases", [], store.take("w2"))
    with store.unchanged("task_dead"):
        claim = command("claim", worker_id="w2", task_id=last.task_id)
        store.refuse(claim, "task_dead")


@law(verbs="fail resolve", kinds="human", code="task_blocked")
def a_blocked_task_waits_until_it_is_resolved(store: Store) -> None:
    """A task of which nobody knows the truth is claimed by nobody; it is resolved as done with
    evidence, which is a result, or tried again, or given up."""
    leases = {to: store.lease("w1", to) for to in ("done", "retry", "give_up")}
    for lease in leases.values():
        store.accept(on_lease("fail", lease, then="block"))
    equal("leases", [], store.take("w2"))
    with store.unchanged("task_blocked"):
        task_id = leases["done"].task_id
        store.refuse(command("claim", worker_id="w2", task_id=task_id), "task_blocked")
        store.refuse(command("resolve", task_id=task_id, to="done"), "invalid_request")
    for to, lease in leases.items():
        evidence: Json = {"evidence": "it was sent"} if to == "done" else {}
        store.accept(command("resolve", ANN, task_id=lease.task_id, to=to, **evidence))
    states = [store.task(lease.task_id)["state"] for lease in leases.values()]
    equal("states", ["done", "ready", "dead"], states)
    found = [(r["value"], r["commitment"]) for r in store.results(leases["done"].task_id)]
    equal("the evidence", [("it was sent", "open")], found)
    with store.unchanged("task_ready"):
        again = command("resolve", task_id=leases["retry"].task_id, to="retry")
        store.refuse(again, "task_ready")


@law(verbs="cancel release", code="stale_fence")
def a_cancel_may_name_the_fence_that_its_author_saw(store: Store) -> None:
    """A cancel that names a fence is refused if the task has moved on, and one that names none
    is not."""
    lease = store.lease("w1")
    store.accept(on_lease("release", lease))
    new = store.claim("w2")
    with store.unchanged("stale_fence"):
        seen = command("cancel", task_id=lease.task_id, fencing_token=lease.fence)
        store.refuse(seen, "stale_fence")
        forged = command("cancel", task_id=lease.task_id, fencing_token=new.fence + 1)
        store.refuse(forged, "unknown_fence")
    store.accept(command("cancel", task_id=lease.task_id, fencing_token=new.fence))
    with store.unchanged("task_cancelled"):
        store.refuse(command("cancel", task_id=lease.task_id), "task_cancelled")
    store.accept(command("cancel", task_id=store.offer()))


@law(verbs="complete requeue", code="task_ready")
def a_requeue_starts_a_new_round_and_keeps_what_was_accepted(store: Store) -> None:
    """An ended task can be started again: attempts anew, earlier results and revisions stay. One
    that has not ended cannot."""
    lease = store.lease("w1", max_attempts=1)
    store.accept(on_lease("complete", lease, result="first"))
    store.accept(command("requeue", task_id=lease.task_id))
    task = store.task(lease.task_id)
    told = (task["state"], task["round"], task["attempt"], task["revision"])
    equal("state, round, attempt, revision", ("ready", 2, 0, 1), told)
    with store.unchanged("task_ready"):
        store.refuse(command("requeue", task_id=lease.task_id), "task_ready")
    again = store.claim("w1")
    with store.unchanged("task_leased"):
        store.refuse(command("requeue", task_id=lease.task_id), "task_leased")
    store.accept(on_lease("complete", again, result="second"))
    results = [(row["value"], row["round"]) for row in store.results(lease.task_id)]
    equal("results", [("first", 1), ("second", 2)], results)
