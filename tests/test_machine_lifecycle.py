"""Every verb in every state: where DESIGN's table allows it, it leads exactly there; everywhere
else it is refused with that state's code and changes nothing."""

from __future__ import annotations

import json

import pytest
from helpers.situations import FIRST, LEASE_VERBS, bring
from helpers.stand import UNKNOWN, WORKER, Stand

from fencepost import commands as c
from fencepost.model import STATES
from fencepost.rules.lifecycle import OBLIGING, TRANSITIONS, allowed

BOUND = {"worker_id": WORKER, "fence": 2, "epoch": 0}  # other bytes than `bring` sent: no replay
THERE = {"epoch": 0, "fence": 9, "evidence": "a receiver's word"}
# name of the case: (the command's verb, its fields, who may send it)
CASES = {
    "claim": ("claim", {"worker_id": "v"}, "operator"),
    "renew": ("renew", BOUND, "operator"),
    "submit": ("submit", {**BOUND, "result": 2}, "operator"),
    "complete": ("complete", BOUND, "operator"),
    "complete with a result": ("complete", {**BOUND, "result": 2}, "operator"),
    "fail": ("fail", BOUND, "operator"),
    "fail for good": ("fail", {**BOUND, "then": "give_up"}, "operator"),
    "fail and block": ("fail", {**BOUND, "then": "block"}, "operator"),
    "release": ("release", BOUND, "operator"),
    "cancel": ("cancel", {}, "operator"),
    "requeue": ("requeue", {}, "operator"),
    "resolve": ("resolve", {"to": "retry"}, "operator"),
    "resolve as done": ("resolve", {"to": "done", "evidence": 2}, "operator"),
    "resolve with the evidence known": ("resolve", {"to": "done", "evidence": FIRST}, "operator"),
    "resolve and give up": ("resolve", {"to": "give_up"}, "operator"),
    "accept": ("review", {"revision": 1, "verdict": "accepted"}, "human"),
    "reject and requeue": (
        "review", {"revision": 1, "verdict": "rejected", "requeue": True}, "human",
    ),
    "import": ("import", {**THERE, "revision": 2, "result": 2, "final": True}, "operator"),
    "import and go on": (
        "import", {**THERE, "revision": 2, "result": 2, "final": False}, "operator",
    ),
    "import what is known": (
        "import", {**THERE, "revision": 1, "result": FIRST, "final": True}, "operator",
    ),
    "erase": ("erase", {}, "operator"),
}  # fmt: skip
READY, LEASED, DONE, DEAD = {"ready": "ready"}, {"leased": "leased"}, "done", "dead"
EACH = {state: state for state in STATES}
LEADS: dict[str, dict[str, str]] = {
    "claim": {"ready": "leased", "leased": "leased"},
    "renew": LEASED,
    "submit": LEASED,
    "complete": {"leased": DONE},
    "complete with a result": {"leased": DONE},
    "fail": {"leased": "ready"},
    "fail for good": {"leased": DEAD},
    "fail and block": {"leased": "blocked"},
    "release": {"leased": "ready"},
    "cancel": dict.fromkeys(("ready", "leased", "blocked"), "cancelled"),
    "requeue": dict.fromkeys(("dead", "done", "cancelled"), "ready"),
    "resolve": {"blocked": "ready"},
    "resolve as done": {"blocked": DONE},
    "resolve with the evidence known": {"blocked": DONE},
    "resolve and give up": {"blocked": DEAD},
    "accept": EACH,
    "reject and requeue": dict.fromkeys(("dead", "done", "cancelled"), "ready"),
    "import": dict.fromkeys(STATES, DONE),
    "import and go on": {**EACH, "leased": "ready"},
    "import what is known": EACH,
    "erase": {state: state if state in ("done", "dead", "cancelled") else "cancelled"
              for state in STATES},
}  # fmt: skip


def code_in(verb, state):
    """What a verb that cannot start there is told."""
    return "not_leased" if verb in LEASE_VERBS and state == "ready" else f"task_{state}"


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("case", CASES)
def test_each_verb_leads_where_the_table_says_and_nowhere_else(case, state):
    verb, fields, kind = CASES[case]
    with Stand() as stand:
        task_id = bring(stand, state)
        if verb == "import":
            stand.fp.clock_reset()  # an epoch before this one
        before = stand.dump()
        outcome = stand.ask(c.COMMANDS[verb](task_id=task_id, **fields), kind=kind)
        after = stand.fp.task(task_id).state
        if state in LEADS[case]:
            assert (outcome.issues, after) == ((), LEADS[case][state])
        else:
            assert (outcome.issues, after) == ((code_in(verb, state),), state)
            assert stand.dump() == before


@pytest.mark.parametrize("case", CASES)
def test_the_table_of_moves_that_verify_reads_is_the_one_that_holds(case):
    verb = CASES[case][0]
    for before, after in LEADS[case].items():
        if verb != "renew":  # leaves no entry
            assert allowed(verb, before, after), (verb, before, after)
    reached = {
        (before, after)
        for name, moves in LEADS.items()
        for before, after in moves.items()
        if CASES[name][0] == verb
    }
    table = {(b, a) for b, afters in TRANSITIONS.get(verb, {}).items() for a in afters}
    if verb == "fail":
        assert table - reached == set()
    elif verb != "renew":
        assert table == reached | ({(s, s) for s in ("done", "dead", "cancelled")}
                                   if verb == "review" else set())  # fmt: skip


def test_only_an_enqueue_or_an_outcome_brings_a_task_into_being():
    makers = {verb for verb in c.COMMANDS if allowed(verb, None, "ready")}
    assert makers == {"enqueue", *OBLIGING}
    assert not any(allowed(verb, None, state) for verb in c.COMMANDS for state in STATES
                   if state != "ready")  # fmt: skip


def test_a_purge_removes_ended_tasks_alone():
    with Stand() as stand:
        ids = {state: bring(stand, state) for state in ("done", "dead", "cancelled")}
        open_ids = {state: bring_apart(stand, state) for state in ("ready", "leased", "blocked")}
        stand.fp.set_policy(retain_seconds=0)
        outcome = stand.ask(c.Purge())
        assert set(outcome.task_ids) == set(ids.values())
        assert {task.task_id for task in stand.fp.tasks()} == set(open_ids.values())
        gone = stand.ask(c.Requeue(ids["done"]))
        assert gone.issues == ("not_found",)


def bring_apart(stand, state):
    """A task on a queue of its own, so that claims of others do not meet it."""
    task_id = stand.task("x", f"q-{state}")
    if state != "ready":
        lease = stand.claim(queue=f"q-{state}")
        if state == "blocked":
            lease.fail(then="block")
    return task_id


def test_a_claim_of_a_task_that_is_held_finds_nothing_and_leaves_nothing():
    with Stand() as stand:
        task_id = bring(stand, "leased")
        before = stand.dump()
        outcome = stand.ask(c.Claim("v", task_id=task_id))
        assert (outcome.status, outcome.task_ids, outcome.receipt) == ("accepted", (), None)
        assert stand.dump() == before


def test_a_claim_of_an_unknown_task_is_not_found():
    with Stand() as stand:
        assert stand.ask(c.Claim("v", task_id=UNKNOWN)).issues == ("not_found",)


def test_a_requeue_starts_a_new_round_in_which_a_result_may_come_again():
    with Stand() as stand:
        task_id = bring(stand, "done")
        stand.fp.requeue(task_id)
        task = stand.fp.task(task_id)
        assert (task.state, task.round, task.attempt, task.revision) == ("ready", 2, 0, 1)
        stand.claim().complete(FIRST)
        results = list(stand.fp.results(task_id))
        assert [(r.revision, r.round, r.value) for r in results] == [(1, 1, FIRST), (2, 2, FIRST)]


def test_a_new_result_opens_a_new_commitment_and_a_review_closes_only_its_own():
    with Stand() as stand:
        task_id = bring(stand, "leased")
        stand.fp.as_caller("anna", "human").review(task_id, 1, "accepted")
        stand.fp.lease(task_id, worker_id=WORKER, fence=2).complete({"row": 2})
        assert [r.commitment for r in stand.fp.results(task_id)] == ["accepted", "open"]


def test_each_move_stands_in_the_entry_of_its_command():
    with Stand() as stand:
        task_id = bring(stand, "done")
        moves = []
        bodies = stand.connection.execute("select body from fencepost_entry order by number")
        for (body,) in bodies.fetchall()[1:]:
            entry = json.loads(body)
            moves += [(entry["verb"], item.get("before"), item["state"]) for item in entry["tasks"]
                      if item["task_id"] == task_id]  # fmt: skip
        assert moves == [
            ("claim", "ready", "leased"), ("release", "leased", "ready"),
            ("claim", "ready", "leased"), ("submit", "leased", "leased"),
            ("complete", "leased", "done"),
        ]  # fmt: skip
