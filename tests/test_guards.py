"""The second lock on the door: what the rules would never write, SQL does not let through.

And through the engine: with a rule taken away, its guard turns the command into `guard_tripped`,
nothing of it is written, and the other commands of the batch go through.
"""

from __future__ import annotations

import logging

import pytest
from helpers.faults import edit, replace_function
from helpers.guards import CASES, attempt
from helpers.stand import QUEUE, Stand, binding

from fencepost import commands as c
from fencepost.rules import fence as fences
from fencepost.rules import results as result_rules
from fencepost.rules.lifecycle import state_issue


@pytest.mark.parametrize("name", CASES)
def test_what_no_rule_would_write_is_refused_by_sql_and_undone(name):
    attempt(name, Stand)


def never(*_):
    """A rule that never refuses."""
    return


def stale(stand):
    """A completion under the fence before the last one, of the same worker."""
    old = stand.leased()
    old.release()
    stand.claim()
    return c.Complete(**binding(old), result={"late": True})


def behind(stand):
    """A completion for a revision that has passed."""
    lease = stand.leased()
    lease.submit({"row": 1})
    return c.Complete(**binding(lease), result={"row": 2}, expected_revision=0)


def forged(stand):
    """A completion under a fence that was never drawn."""
    return c.Complete(**binding(stand.leased(), fence=7), result={"row": 2})


def again(stand):
    """A result that this round has already."""
    lease = stand.leased()
    lease.submit({"row": 1})
    return c.Submit(**binding(lease, epoch=0), result={"row": 1})


def moved(stand):
    """A cancel by somebody who saw an older fence."""
    lease = stand.leased()
    lease.release()
    stand.claim()
    return c.Cancel(lease.task_id, lease.fence)


RULES = {
    "stale_fence": (fences.stale_fence, stale),
    "unknown_fence": (fences.unknown_fence, forged),
    "stale_revision": (result_rules.stale_revision, behind),
    "duplicate_result": (result_rules.duplicate_result, again),
    "moved_on": (fences.moved_on, moved),
}


@pytest.mark.parametrize("name", RULES)
def test_with_a_rule_taken_away_its_guard_trips_and_only_the_culprit_fails(
    name, monkeypatch, caplog
):
    caplog.set_level(logging.CRITICAL, logger="fencepost")
    rule, situation = RULES[name]
    with Stand() as stand, Stand() as twin:
        culprit = situation(stand)
        others = [c.Enqueue(QUEUE, ({"payload": n, "key": f"other{n}"},)) for n in (1, 2)]
        alone = [c.Request.of(other, f"K{n}") for n, other in enumerate(others)]
        assert situation(twin) == culprit
        refusal = "stale_fence" if name == "moved_on" else name
        assert stand.ask(culprit).issues == (refusal,)
        replace_function(monkeypatch, rule, never)
        first, spoiled, second = stand.fp.execute([alone[0], culprit, alone[1]])
        assert (first.issues, second.issues) == ((), ())
        assert (spoiled.status, spoiled.issues) == ("failed", ("guard_tripped",))
        assert "bug" in spoiled.message and spoiled.receipt is None
        twin.fp.execute(alone)
        assert without_chance(stand) == without_chance(twin), "nothing of the culprit is written"


def without_chance(stand):
    """What was written, without salts and keys that were drawn by chance."""
    rows = stand.dump()
    return {
        "entries": [row[0] for row in rows["fencepost_entry"]],
        "tasks": [(row[0], row[3], row[4]) for row in rows["fencepost_task"]],
        "results": [row[:3] for row in rows["fencepost_result"]],
        "store": [row[:9] for row in rows["fencepost_store"]],
    }


def test_a_commitment_that_is_closed_stays_closed_though_the_rule_is_gone(monkeypatch, caplog):
    caplog.set_level(logging.CRITICAL, logger="fencepost")
    with Stand() as stand:
        lease = stand.leased()
        lease.complete({"row": 1})
        human = stand.fp.as_caller("anna", "human")
        human.review(lease.task_id, 1, "accepted")
        replace_function(monkeypatch, result_rules.commitment_closed, never)
        (outcome,) = human.execute([c.Review(lease.task_id, 1, "rejected")])
        assert outcome.issues == ("guard_tripped",)
        (result,) = stand.fp.results(lease.task_id)
        assert result.commitment == "accepted"


def test_a_fence_that_goes_back_is_stopped_by_the_stores_row(monkeypatch, caplog):
    caplog.set_level(logging.CRITICAL, logger="fencepost")
    with Stand() as stand:
        for _ in range(3):
            stand.leased()
        stand.task()
        before = stand.dump()
        edit(monkeypatch, fences.next_fence, "+ 1", "- 1")
        (outcome,) = stand.fp.execute([c.Claim("v", (QUEUE,))])
        assert outcome.issues == ("guard_tripped",)
        assert stand.dump() == before


def test_a_state_the_verb_cannot_start_from_is_stopped_by_nothing_below_the_rule(monkeypatch):
    """Said honestly: the guard is the fence and the revision. Lifecycle is the rule's alone, and
    `verify` finds a move that its table does not have."""
    with Stand() as stand:
        lease = stand.leased()
        lease.complete()
        replace_function(monkeypatch, state_issue, never)
        assert stand.ask(c.Cancel(lease.task_id)).accepted
