"""The fenced queue: the five acceptance criteria of the contract this one came from."""

from __future__ import annotations

from .law import law
from .store import (
    QUEUE,
    Store,
    accepted,
    command,
    equal,
    leases_of,
    on_lease,
    replayed,
    undone,
    worker,
)


@law(controls="threads", verbs="complete")
def two_concurrent_claimants_make_one_active_owner(store: Store) -> None:
    """Two concurrent claimants produce exactly one active owner."""
    for _ in range(5):
        task_id = store.offer()
        claims = [
            command("claim", worker(name), worker_id=name, queues=[QUEUE]) for name in ("w1", "w2")
        ]
        outcomes = [accepted(outcome) for outcome in store.race(*claims)]
        owners = [lease for outcome in outcomes for lease in leases_of(outcome)]
        equal("owners of the one task", [task_id], [lease.task_id for lease in owners])
        task = store.task(task_id)
        equal("the owner", (owners[0].worker, owners[0].fence), (task["worker_id"],
              task["fencing_token"]))  # fmt: skip
        store.accept(on_lease("complete", owners[0]))


@law(controls="clock", verbs="submit", code="stale_fence")
def a_reclaim_raises_the_fence_and_a_stale_submit_changes_nothing(store: Store) -> None:
    """Reclaim increments the fence and a stale submit changes no data."""
    old = store.lease("w1")
    store.wait()
    new = store.claim("w2")
    equal("the same task under a higher fence", (old.task_id, True),
          (new.task_id, new.fence > old.fence))  # fmt: skip
    with store.unchanged("stale_fence"):
        store.refuse(on_lease("submit", old), "wrong_worker", "stale_fence")
    store.accept(on_lease("submit", new))


@law(controls="faults", verbs="complete")
def a_replay_after_a_timeout_after_commit_returns_the_original_receipt(store: Store) -> None:
    """Timeout-after-commit replay returns the original receipt."""
    lease = store.lease()
    for key in ("op-1", None):
        sent = on_lease("complete", lease, key, result="answer")
        store.fail_next("after_commit")
        undone(store.send(sent))
        first = store.accept(sent)
        equal("replayed", True, first["replayed"])
        replayed(store.send(sent), first)
        equal("results", 1, len(store.results(lease.task_id)))
        lease = store.lease()


@law(verbs="submit", code="idempotency_key_reused")
def the_same_key_with_other_content_fails(store: Store) -> None:
    """Same idempotency key with different content fails, and shows no receipt."""
    lease = store.lease()
    first = store.accept(on_lease("submit", lease, "op-1", result="one"))
    with store.unchanged("idempotency_key_reused"):
        store.refuse(on_lease("submit", lease, "op-1", result="two"), "idempotency_key_reused")
        other = on_lease("submit", lease, "op-1", result="one", expected_revision=0)
        store.refuse(other, "idempotency_key_reused")
    replayed(store.send(on_lease("submit", lease, "op-1", result="one")), first)


@law(controls="clock", verbs="complete", code="lease_expired")
def the_exact_expiry_boundary_rejects_a_completion(store: Store) -> None:
    """The exact expiry boundary rejects new completion: a lease is [granted, expires)."""
    in_time, at_the_end = store.lease("w1"), store.lease("w2")
    store.wait_microseconds(59_999_999)
    store.accept(on_lease("complete", in_time, result="in time"))
    store.wait_microseconds(1)
    with store.unchanged("lease_expired"):
        store.refuse(on_lease("complete", at_the_end, result="late"), "lease_expired")
