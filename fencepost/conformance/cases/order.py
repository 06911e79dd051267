"""Which reason is told first where several apply: the first one leads, and those of the rules
from 4 on are all told."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

from .law import law
from .store import Caller, Json, Lease, Store, command, on_lease, replayed, worker

MAX_RESULT = 100
Wrong = Callable[[Store, Lease], dict[str, Any]]


def _too_large(store: Store, lease: Lease) -> dict[str, Any]:
    return {"result": "x" * MAX_RESULT}


def _epoch(store: Store, lease: Lease) -> dict[str, Any]:
    return {"epoch": lease.told["epoch"] + 1}


def _policy(store: Store, lease: Lease) -> dict[str, Any]:
    return {"policy_version": lease.told["policy_version"] + 1}


def _cancelled(store: Store, lease: Lease) -> dict[str, Any]:
    store.accept(command("cancel", task_id=lease.task_id))
    return {}


def _worker(store: Store, lease: Lease) -> dict[str, Any]:
    return {"worker_id": "w2"}


def _fence(store: Store, lease: Lease) -> dict[str, Any]:
    return {"fencing_token": lease.fence + 1}


def _expired(store: Store, lease: Lease) -> dict[str, Any]:
    store.wait()
    return {}


def _revision(store: Store, lease: Lease) -> dict[str, Any]:
    return {"expected_revision": 7}


# In the order of the contract; each makes one thing wrong and nothing else.
WRONGS: dict[str, Wrong] = {
    "payload_too_large": _too_large,
    "stale_epoch": _epoch,
    "stale_policy": _policy,
    "task_cancelled": _cancelled,
    "wrong_worker": _worker,
    "unknown_fence": _fence,
    "lease_expired": _expired,
    "stale_revision": _revision,
}


@law(controls="clock", verbs="submit cancel queue.set", code="stale_epoch")
def of_two_reasons_both_are_told_and_the_earlier_leads(store: Store) -> None:
    """Every pair of reasons from rule 4 on: both are told, in the order of the contract."""
    store.settings(max_result_bytes=MAX_RESULT)
    for pair in combinations(WRONGS, 2):
        lease = store.lease("w1")
        members: dict[str, Any] = {}
        for issue in pair:
            members.update(WRONGS[issue](store, lease))
        with store.unchanged(pair[0]):
            store.refuse(on_lease("submit", lease, **members), *pair)


@law(controls="clock", verbs="submit cancel queue.set", code="payload_too_large")
def all_reasons_at_once_are_told_in_order(store: Store) -> None:
    """A command that is wrong in every way is told all of it."""
    store.settings(max_result_bytes=MAX_RESULT)
    lease = store.lease("w1")
    members: dict[str, Any] = {}
    for wrong in WRONGS.values():
        members.update(wrong(store, lease))
    with store.unchanged("payload_too_large"):
        store.refuse(on_lease("submit", lease, **members), *WRONGS)


@law(controls="clock", verbs="submit cancel", code="idempotency_key_reused")
def a_reused_key_is_told_before_any_lost_lease_and_alone(store: Store) -> None:
    """The key is looked up before any rule that can change between two tries: a replay is
    answered, and a reused key refused, whatever has become of the lease."""
    lease = store.lease("w1")
    sent = on_lease("submit", lease, "op-1", result="one")
    first = store.accept(sent)
    other = on_lease("submit", lease, "op-1", result="two", epoch=9, expected_revision=7)
    store.wait()
    store.accept(command("cancel", task_id=lease.task_id))
    with store.unchanged("idempotency_key_reused"):
        store.refuse(other, "idempotency_key_reused")
        replayed(store.send(sent), first)


@law(verbs="submit scope.revoke", code="scope_revoked")
def who_may_not_ask_learns_no_more_than_that(store: Store) -> None:
    """Rules of authority come first and alone: forbidden before revoked, revoked before all that
    depends on the task or the key."""
    lease = store.lease("w1")
    store.accept(on_lease("submit", lease, "op-1", result="one"))
    reused = on_lease("submit", lease, "op-1", result="two")
    for_another = reused._replace(by=worker("w2"))
    elsewhere = reused._replace(by=Caller("worker", "w1", "elsewhere"))
    with store.unchanged("forbidden"):
        store.refuse(for_another, "forbidden")
        store.refuse(elsewhere, "not_found")
    store.accept(command("scope.revoke"))
    with store.unchanged("scope_revoked"):
        store.refuse(for_another, "forbidden")
        store.refuse(reused, "scope_revoked")


@law(verbs="submit complete fail release renew cancel requeue resolve review sweep erase purge "
     "queue.set scope.set_policy scope.revoke clock.reset",
     kinds="producer human dispatcher auditor", code="forbidden")  # fmt: skip
def each_kind_of_caller_may_send_its_own_verbs_only(store: Store) -> None:
    """A worker works, a producer enqueues and cancels, a human judges, a dispatcher delivers, an
    auditor only reads; review is for a human alone."""
    lease = store.lease("w1")
    task: Json = {"task_id": lease.task_id}
    works = [on_lease(verb, lease) for verb in ("submit", "complete", "fail", "release", "renew")]
    works.append(command("claim", worker_id="w1", queues=["intake"]))
    judges = [
        command("requeue", **task),
        command("resolve", **task, to="retry"),
        command("review", **task, revision=1, verdict="accepted"),
    ]
    orders = [
        command("sweep"), command("erase", **task), command("purge"),
        command("queue.set", queue="intake", settings={"paused": True}),
        command("scope.set_policy", policy_version=9), command("scope.revoke"),
        command("clock.reset"),
    ]  # fmt: skip
    enqueue = command("enqueue", queue="intake", tasks=[{"payload": 1}])
    cancel = command("cancel", **task)
    barred = {
        "worker": [enqueue, cancel, *judges, *orders],
        "dispatcher": [enqueue, cancel, *judges, *orders],
        "producer": [*works, *judges, *orders],
        "human": [enqueue, *works, *orders],
        "auditor": [enqueue, cancel, *works, *judges, *orders],
        "operator": [judges[-1]],
    }
    with store.unchanged("forbidden"):
        for kind, commands in barred.items():
            for sent in commands:
                store.refuse(sent._replace(by=Caller(kind, "w1")), "forbidden")
