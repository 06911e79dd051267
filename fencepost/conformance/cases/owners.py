"""Two owners: what a copy of a store can do, with its identity pinned and without."""

from __future__ import annotations

from .law import law
from .store import OUTBOX, Store, command, equal, on_lease, rising

ONE = (1, 1, 1)


@law(controls="copy", verbs="submit queue.set")
def two_restored_owners_of_one_identity_both_accept(store: Store) -> None:
    """Two copies of one store that both go on as if they were it accept different results under
    one copied fence: one each here and there, and what a human is owed stays open in both. No
    queue can prevent it alone; the case shows the limit and qualifies no fail-over."""
    store.settings(destinations=[OUTBOX])
    lease = store.lease()
    other = store.copy(pinned=True)
    for owner, result in ((store, "one"), (other, "two")):
        sent = on_lease("submit", lease, f"op-{result}", result=result, expected_revision=0)
        owner.accept(sent)
    for owner, result in ((store, "one"), (other, "two")):
        equal("counts", ONE, owner.counts())
        found = owner.results(lease.task_id)
        equal("results and commitments", [(result, "open")],
              [(row["value"], row["commitment"]) for row in found])  # fmt: skip


@law(controls="copy clock", verbs="submit complete renew", code="stale_epoch")
def a_copied_lease_is_refused_by_a_copy_that_knows_itself(store: Store) -> None:
    """A copy that is recognised as one honours no lease that was given before: its epoch and its
    floor are raised. After new claims both stores accept, under fences that differ."""
    lease = store.lease("w1", max_attempts=9)
    other = store.copy(pinned=False)
    with other.unchanged("stale_epoch"):
        for verb in ("submit", "complete", "renew"):
            other.refuse(on_lease(verb, lease), "stale_epoch", "lease_expired")
    store.accept(on_lease("submit", lease, result="one"))
    there = other.claim("w2", task_id=lease.task_id)
    store.wait()
    here = store.claim("w3", task_id=lease.task_id)
    rising((lease.fence, here.fence, there.fence))
    equal("the copy's epoch is higher", True, there.told["epoch"] > here.told["epoch"])
    again = other.claim("w4", task_id=other.offer("more"))
    for owner, held in ((store, here), (other, again)):
        owner.accept(on_lease("complete", held, result="done"))
    with store.unchanged("unknown_fence"):
        foreign = on_lease("submit", here, fencing_token=there.fence, epoch=there.told["epoch"])
        store.refuse(foreign, "stale_epoch", "task_done", "unknown_fence")


@law(verbs="clock.reset submit complete", code="stale_epoch")
def a_new_epoch_ends_every_lease_and_fences_go_on_rising(store: Store) -> None:
    """When an operator sets the clock back, a new epoch begins that is also the floor: every lease
    ends at once, and the next fence lies above all that were ever drawn."""
    leases = [store.lease(name) for name in ("w1", "w2")]
    store.accept(command("clock.reset"))
    with store.unchanged("stale_epoch"):
        for lease in leases:
            for verb in ("submit", "complete"):
                store.refuse(on_lease(verb, lease), "stale_epoch", "lease_expired")
    new = [store.claim("w3"), store.claim("w4")]
    rising(lease.fence for lease in (*leases, *new))
    equal("the same tasks", [lease.task_id for lease in leases], [held.task_id for held in new])
    for held in new:
        store.accept(on_lease("complete", held))
