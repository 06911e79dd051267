"""Every dimension that a worker's command binds, refused alone while all others are right.

`renew submit complete fail release` meet the same rules: an old owner can neither extend, hand
in, fail nor free a task that is no longer its own.
"""

from __future__ import annotations

from typing import Any

from .law import law
from .store import LEASE_VERBS, Lease, Store, command, equal, on_lease, worker

ALL = "renew submit complete fail release"


def refused_alone(store: Store, lease: Lease, *issues: str, **wrong: Any) -> None:
    """Each verb on this lease is refused for just these reasons, and nothing changes.

    It bears a key, so that no bytes are those of a command that was accepted before."""
    with store.unchanged(issues[0]):
        for verb in LEASE_VERBS:
            store.refuse(on_lease(verb, lease, f"{verb}-again", **wrong), *issues)


@law(verbs=ALL, code="not_found")
def another_scope_is_refused_alone(store: Store) -> None:
    """A task of another scope is answered as one that does not exist."""
    lease = store.lease("w1")
    far = worker("w1", "elsewhere")
    nobody = "00000000-0000-7000-8000-000000000000"
    with store.unchanged("not_found"):
        for verb in LEASE_VERBS:
            there = store.refuse(on_lease(verb, lease)._replace(by=far), "not_found")
            nowhere = on_lease(verb, lease, task_id=nobody)._replace(by=far)
            told = store.refuse(nowhere, "not_found")["facts"]
            equal("what is told of a task elsewhere and of none", told, there["facts"])


@law(verbs=ALL, code="wrong_worker")
def another_worker_is_refused_alone(store: Store) -> None:
    """Right fence, another worker: refused, whatever else is right."""
    refused_alone(store, store.lease("w1"), "wrong_worker", worker_id="w2")


@law(verbs=ALL, code="unknown_fence")
def a_fence_that_was_never_drawn_is_refused_alone(store: Store) -> None:
    """A fence above the task's own is forged, or the store was rolled back."""
    lease = store.lease("w1")
    for above in (lease.fence + 1, 10**15 - 1):
        refused_alone(store, lease, "unknown_fence", fencing_token=above)
    newer = store.lease("w1")  # drawn, but for another task
    refused_alone(store, lease, "unknown_fence", fencing_token=newer.fence)


@law(controls="clock", verbs=ALL, code="stale_fence")
def a_stale_fence_changes_nothing(store: Store) -> None:
    """The same worker with the fence of its earlier claim: refused by the fence alone."""
    old = store.lease("w1", max_attempts=9)
    store.wait()
    store.claim("w1")
    refused_alone(store, old, "stale_fence")


@law(verbs=ALL, code="stale_fence")
def a_fence_is_not_an_attempt_number(store: Store) -> None:
    """A release gives the attempt back and not the fence: what was drawn before stays stale."""
    old = store.lease("w1")
    store.accept(on_lease("release", old))
    new = store.claim("w1", task_id=old.task_id)
    equal("attempts", [1, 1], [lease.told["attempt"] for lease in (old, new)])
    refused_alone(store, old, "stale_fence")


@law(verbs=ALL, code="stale_epoch")
def another_epoch_is_refused_alone(store: Store) -> None:
    """A command that names another epoch than its lease has is refused for that alone."""
    lease = store.lease("w1")
    refused_alone(store, lease, "stale_epoch", epoch=lease.told["epoch"] + 1)


@law(verbs=f"{ALL} scope.set_policy", code="stale_policy")
def a_raised_policy_is_refused_alone(store: Store) -> None:
    """A lease claimed under an older policy is refused, whether or not the command repeats the
    version, and a new version in the command does not help."""
    lease = store.lease("w1")
    held = lease.told["policy_version"]
    store.accept(command("scope.set_policy", policy_version=held + 1))
    refused_alone(store, lease, "stale_policy")
    refused_alone(store, lease, "stale_policy", policy_version=held)
    refused_alone(store, lease, "stale_policy", policy_version=held + 1)


@law(verbs=ALL, code="stale_policy")
def another_policy_is_refused_alone(store: Store) -> None:
    """A command that names another policy version than its lease has is refused for that alone."""
    lease = store.lease("w1")
    refused_alone(store, lease, "stale_policy", policy_version=lease.told["policy_version"] + 1)


@law(verbs="submit complete", code="stale_revision")
def another_revision_is_refused_alone(store: Store) -> None:
    """A result that builds on another revision than the task has is refused, older or newer."""
    lease = store.lease("w1")
    store.accept(on_lease("submit", lease, result="first", expected_revision=0))
    with store.unchanged("stale_revision"):
        for verb in ("submit", "complete"):
            for wrong in (0, 2):
                sent = on_lease(verb, lease, result="second", expected_revision=wrong)
                store.refuse(sent, "stale_revision")
    store.accept(on_lease("complete", lease, result="second", expected_revision=1))


@law(controls="clock", verbs=ALL, code="lease_expired")
def an_expired_lease_is_refused_alone(store: Store) -> None:
    """At the very end of its lease a worker is refused, although nobody else has claimed."""
    lease = store.lease("w1")
    store.wait()
    refused_alone(store, lease, "lease_expired")


@law(verbs=f"{ALL} cancel", code="task_done")
def a_task_that_is_not_leased_is_refused_alone(store: Store) -> None:
    """Each state but leased is named: ready, done, dead, blocked, cancelled."""
    leases = {name: store.lease("w1", name) for name in ("ready", "done", "dead", "blocked", "off")}
    store.accept(on_lease("release", leases["ready"]))
    store.accept(on_lease("complete", leases["done"], result="ended"))
    store.accept(on_lease("fail", leases["dead"], then="give_up"))
    store.accept(on_lease("fail", leases["blocked"], then="block"))
    store.accept(command("cancel", task_id=leases["off"].task_id))
    told = ("not_leased", "task_done", "task_dead", "task_blocked", "task_cancelled")
    for lease, issue in zip(leases.values(), told, strict=True):
        with store.unchanged(issue):
            for verb in LEASE_VERBS:
                store.refuse(on_lease(verb, lease, f"{verb}-again"), issue)


@law(verbs=f"{ALL} scope.revoke", code="scope_revoked")
def a_revoked_scope_is_refused_alone(store: Store) -> None:
    """In a revoked scope nobody changes anything, and nobody learns which tasks exist."""
    lease = store.lease("w1")
    store.accept(command("scope.revoke"))
    refused_alone(store, lease, "scope_revoked")
    nobody = "00000000-0000-7000-8000-000000000000"
    refused_alone(store, lease, "scope_revoked", task_id=nobody)
    with store.unchanged("scope_revoked"):
        claim = command("claim", worker("w2"), worker_id="w2", queues=["intake"])
        store.refuse(claim, "scope_revoked")
        told = store.read("task", worker("w1"), task_id=lease.task_id)
        equal("what its worker may read", ["scope_revoked"], told.get("issues"), "scope_revoked")
