"""Faults that a walk of every interleaving must find, and the shortest way to one of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

from fencepost.issues import GuardTripped
from fencepost.machine import fold, results
from fencepost.machine.batch import Batch
from fencepost.rules import fence
from fencepost.rules.lifecycle import lease_state
from helpers.exploring import Action, Bounds, Walk
from helpers.faults import Patch, edit

FOUND = (AssertionError, GuardTripped, sqlite3.IntegrityError)


@dataclass(frozen=True)
class Planted:
    """`plant` puts the fault in; `told` is a piece of what the broken law says."""

    plant: Callable[[Patch], None]
    told: str


def without(rule: Callable[..., Any]) -> Callable[[Patch], None]:
    """The rules of a lease but for this one."""
    rest = tuple(other for other in fence.LEASE_RULES if other is not rule)
    return lambda patch: patch.setattr(fence, "LEASE_RULES", rest)


def bent(function: Callable[..., Any], old: str, new: str) -> Callable[[Patch], None]:
    """One piece of a function's source changed."""
    return lambda patch: edit(patch, function, old, new)


def no_step(patch: Patch) -> None:
    """A result is added and the revision stays."""
    honest = results.accept_result

    def accept(batch: Batch, task: Any, *rest: Any) -> list[str]:
        items = honest(batch, task, *rest)
        task.revision -= 1
        return items

    patch.setattr(results, "accept_result", accept)


def still(patch: Patch) -> None:
    """The first fence is drawn again and again."""
    patch.setattr(Batch, "draw_fence", lambda batch: max(batch.last_fence, 1))


PLANTED: dict[str, Planted] = {
    "no rule of the fence": Planted(without(fence.stale_fence), "passed the guard"),
    "no rule of the expiry": Planted(without(fence.lease_expired), "had lost the lease"),
    "no rule of the state": Planted(without(lease_state), "had lost the lease"),
    "an end that still belongs to the lease": Planted(
        bent(fence.lease_expired, ">=", ">"), "had lost the lease"
    ),
    "no replay": Planted(
        lambda patch: patch.setattr(fold, "replay", lambda *given: None), "UNIQUE"
    ),
    "no replay by the bytes alone": Planted(
        bent(fold.replay, "loaded.digests.get((task.id, request.sha256))", "None"),
        "a second time",
    ),
    "a replayed claim shows ended leases": Planted(
        bent(fold.live_leases, "not lapsed(", "lapsed is not ("), "shows another lease"
    ),
    "a replayed claim shows the lease of another": Planted(
        bent(fold.live_leases, "row.fence == fence", "True"), "shows another lease"
    ),
    "the revision is not stepped": Planted(no_step, "differ"),
    "fences stand still": Planted(still, "fence counter"),
}


def shortest(bounds: Bounds) -> tuple[list[Action], BaseException, int]:
    """(the shortest way to a broken law, what was told there, calls). A walk that goes one step
    deeper each time; it must know that there is something to be found."""
    calls = 0
    for depth in count(1):
        walk = Walk(bounds, depth=depth)
        try:
            walk.run()
        except FOUND as found:
            return walk.path, found, calls + walk.calls
        calls += walk.calls
        if walk.deepest < depth:
            break
    raise LookupError("nothing is broken within these bounds")
