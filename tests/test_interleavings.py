"""Every interleaving of two workers' requests, with lost answers, retries and expired leases."""

from __future__ import annotations

import sqlite3

import pytest
from helpers.exploring import Walk

from fencepost.issues import GuardTripped
from fencepost.machine import fold, results
from fencepost.machine.batch import Batch
from fencepost.rules import fence
from fencepost.rules.lifecycle import lease_state


def test_no_interleaving_of_two_workers_breaks_a_law():
    walk = Walk()
    walk.run()
    print(
        f"{walk.states} states, {walk.calls} calls of the real code, {walk.lost} lost answers, "
        f"{walk.replays} replays, {walk.refusals} refusals"
    )
    assert walk.states > 1_000
    assert min(walk.lost, walk.replays, walk.refusals) > 100, "each kind of event was met"


def without(rule):
    return tuple(other for other in fence.LEASE_RULES if other is not rule)


def no_step(honest):
    def accept(batch, task, *rest):
        items = honest(batch, task, *rest)
        task.revision -= 1
        return items

    return accept


PLANTED = {
    "no rule of the fence": (
        fence, "LEASE_RULES", lambda _: without(fence.stale_fence), "passed the guard",
    ),
    "no rule of the expiry": (
        fence, "LEASE_RULES", lambda _: without(fence.lease_expired), "had lost the lease",
    ),
    "no rule of the state": (
        fence, "LEASE_RULES", lambda _: without(lease_state), "had lost the lease",
    ),
    "no replay": (fold, "replay", lambda _: lambda *given: None, "UNIQUE"),
    "the revision is not stepped": (results, "accept_result", no_step, "differ"),
    "fences stand still": (
        Batch, "draw_fence", lambda _: lambda batch: max(batch.last_fence, 1), "fence counter",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_each_planted_fault_is_found_in_some_interleaving(name, monkeypatch):
    place, attribute, fault, told = PLANTED[name]
    monkeypatch.setattr(place, attribute, fault(getattr(place, attribute)))
    walk = Walk()
    with pytest.raises((AssertionError, GuardTripped, sqlite3.IntegrityError), match=told):
        walk.run()
    print(f"found by {walk.path} after {walk.calls} calls")
