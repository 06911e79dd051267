"""What the product answers is what the contract says, and the contract names all of it.

Answers are open to members of later versions, so here they are held against the contract with its
answers closed: a member that the product tells and the contract does not name fails too.
"""

from __future__ import annotations

import json

import pytest
from helpers.contract import DEFS, assert_told, fits, validator
from helpers.lab import START, raw
from helpers.situations import ALL, FAULTS, ask, build, guilty
from helpers.stand import UNKNOWN, Stand
from helpers.workload import QUEUE, SCOPE, every_verb, opened
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost import canonical
from fencepost import commands as c
from fencepost.clock import FakeClock
from fencepost.handle import Handle
from fencepost.issues import ISSUES
from fencepost.journal import reading


@pytest.fixture(scope="module")
def lived(tmp_path_factory):
    """A store that has lived through every verb, and every outcome that it gave on the way."""
    told = []
    clock = FakeClock(START)
    execute = Handle.execute
    with pytest.MonkeyPatch.context() as patch:
        def recorded(self, commands):
            outcomes = execute(self, commands)
            told.extend(zip(commands, outcomes, strict=True))
            return outcomes

        patch.setattr(Handle, "execute", recorded)
        path = tmp_path_factory.mktemp("lived") / "work.db"
        with opened(path, clock) as fp:
            every_verb(fp, clock)
            fp.enqueue(QUEUE, "renewed")
            (lease,) = fp.claim(QUEUE, worker_id="w")
            lease.renew(30)
            fp.enqueue(QUEUE, {"any": [1, None, "é"]}, key="again", due_at="2030-01-01T00:00:00Z")
            known = c.Enqueue(QUEUE, ({"payload": {"any": [1, None, "é"]}, "key": "again"},))
            fp.execute([c.Request.of(known)])
            fp.execute([c.DestinationAdvance("parcels", 9, 10, "0f" * 32)])
            yield fp, told


def of_all(fp, ask_for):
    """What is read of every task of the scope."""
    return [row.to_json() for task in fp.tasks() for row in ask_for(task.task_id)]


def test_every_outcome_of_a_life_with_every_verb_is_one_of_the_contract(lived):
    _, told = lived
    verbs = {getattr(sent, "command", sent).verb for sent, _ in told}
    assert verbs == set(c.COMMANDS)
    for _, outcome in told:
        assert_told("outcome", outcome.to_json())
    assert {outcome.status for _, outcome in told} >= {"accepted", "failed"}


def test_every_fact_that_the_contract_names_is_told_by_some_outcome(lived):
    _, told = lived
    met = {name for _, outcome in told for name in outcome.to_json()["facts"]}
    for verb, code in (("submit", "duplicate_result"), ("scope.set_policy", "stale_policy")):
        with Stand() as stand:
            made = guilty(verb, (code,))
            met |= set(ask(made, stand, build(made, stand)).facts)
    assert met | {"key"} == set(DEFS["facts"]["properties"])  # key: only after a lost commit


def test_tasks_leases_results_settings_and_scope_are_as_the_contract_says(lived):
    fp, told = lived
    tasks = [task.to_json() for task in fp.tasks()]
    leases = [grant.to_json() for _, outcome in told for grant in outcome.grants]
    results = of_all(fp, fp.results)
    refused = of_all(fp, fp.refused)
    obligations = [
        fp.task(task.task_id).payload for task in fp.tasks("outbox") if not task.erased
    ]
    everything = {
        "task": tasks + [fp.task(task["task_id"]).to_json() for task in tasks],
        "lease": leases, "result": results, "refused_result": refused, "obligation": obligations,
        "queue_settings": [row.settings.to_json() for row in fp.queue_rows()],
        "scope": [{name: getattr(fp.scope(), name) for name in DEFS["scope"]["properties"]}],
        "token": [token.to_json() for token in fp.tokens()],
        "destination": [each.to_json() for each in fp.destinations()],
        "recognised_writer": [writer.to_json() for writer in fp.writers()],
    }  # fmt: skip
    for name, values in everything.items():
        assert values, name
        for value in values:
            assert_told(name, value)
    assert {task["state"] for task in tasks} >= {"ready", "leased", "done"}
    assert any(task["erased"] for task in tasks)
    assert {token["scope"] for token in everything["token"]} == {"lab", "*"}
    assert {row["commitment"] for row in results} == {"open", "accepted", "rejected"}


def test_receipts_entries_and_proofs_are_as_the_contract_says(lived):
    fp, _ = lived
    views = list(fp.entries())
    verbs = set()
    for view in views:
        assert_told("entry_view", view.to_json())
        if view.body is not None:
            assert_told("entry", json.loads(view.body))
            verbs.add(json.loads(view.body)["verb"])
        if view.receipt is not None:
            assert_told("receipt", view.receipt.to_json())
            assert_told("proof", fp.prove(view.number).to_json())
    assert verbs == set(reading.SHAPES)
    for checkpoint in fp.checkpoints():
        assert_told("checkpoint", checkpoint.text().decode())
        assert_told("consistency_proof", fp.prove_consistency(checkpoint.size).to_json())


def test_an_outcome_within_the_callers_transaction_is_pending_as_the_contract_says(tmp_path):
    path = tmp_path / "app.db"
    with opened(path) as fp, raw(path) as application, fp.within(application) as tx:
        outcomes = tx.execute([c.Enqueue(QUEUE, ({"payload": 1},)), c.Release(UNKNOWN, "w", 1)])
    assert [outcome.status for outcome in outcomes] == ["pending", "failed"]
    for outcome in outcomes:
        assert_told("outcome", outcome.to_json())


@pytest.mark.parametrize("verb", ALL)
def test_every_refusal_is_one_of_the_contract_with_the_status_of_its_leading_code(verb):
    status = {row["const"]: row["x-status"] for row in DEFS["issue_code"]["oneOf"]}
    for code in FAULTS[verb]:
        made = guilty(verb, (code,))
        with Stand() as stand:
            told = ask(made, stand, build(made, stand)).to_json()
        assert_told("refusal", told)
        assert told["issues"][0] == code and told["status"] == status[code]


def test_an_answer_may_hold_what_a_later_version_adds(lived):
    _, told = lived
    outcome = told[0][1].to_json()
    assert fits("outcome", {**outcome, "later": 1})
    assert not validator("outcome", closed=True).is_valid({**outcome, "later": 1})
    assert fits("outcome", {**outcome, "status": "failed", "receipt": None, "issues": ["later"]})


REFUSAL = {"status": "failed", "issues": ["stale_fence"], "message": "m", "receipt": None,
           "task_ids": [], "leases": [], "replayed": False, "facts": {}}  # fmt: skip


@pytest.mark.parametrize("wrong", [
    {"status": "accepted"}, {"issues": []}, {"issues": ["stale_fence", "stale_fence"]},
    {"status": "done"}, {"status": "incomplete"}, {"receipt": {}}, {"replayed": True},
    {"issues": ["Stale Fence"]}, {"facts": {"fencing_token": True}}, {"task_ids": ["1"]},
    {"leases": [{}]}, {"replayed": None}, {"message": None}, {"message": ""},
], ids=repr)  # fmt: skip
def test_a_refusal_that_says_two_things_is_none(wrong):
    assert fits("refusal", REFUSAL)
    assert not fits("refusal", {**REFUSAL, **wrong})
    assert not all(fits("refusal", {k: v for k, v in REFUSAL.items() if k != name})
                   for name in wrong)  # fmt: skip


# --- entries: what `reading.read` takes is what the contract calls an entry ------------------

BENDS = {
    "v": [2, "1", True], "verb": ["renew", "steal", None], "scope": ["", "a/b", "x" * 65],
    "writer": ["", "a b", "x" * 65], "epoch": [-1, 1.5, 10**15, "0"], "at": ["now", 0],
    "request": ["0", "A" * 64], "result": ["0" * 64, "0"], "key": ["0" * 64, None],
    "queue": ["next", "", None], "note": [{}, [], None], "tasks": [[], None, [{}], [1]],
    "stray": [1],
}  # fmt: skip
ITEM_BENDS = {
    "after": ["0" * 64, "0"], "before": ["ready", "lost"], "fence": [7, -1, 10**15, True],
    "revision": [7, -1, 1.5], "state": ["ready", "lost"], "task_id": ["t"], "stray": [1],
    "queue": ["next", ""], "role": ["followup", "obligation", "lost"],
}  # fmt: skip


def readable(entry):
    """Whether the code reads it as an entry of version 1."""
    try:
        reading.read(canonical.dumps(entry))
    except ValueError:
        return False
    return True


@pytest.fixture(scope="module")
def entries(lived):
    """One entry of each verb, and those that name several tasks."""
    fp, _ = lived
    bodies = [json.loads(view.body) for view in fp.entries() if view.body is not None]
    return list({(body["verb"], len(body["tasks"]) > 1): body for body in bodies}.values())


def test_an_entry_with_one_thing_changed_is_judged_as_verify_judges_it(entries):
    met = set()

    @settings(derandomize=True, max_examples=400, deadline=None)
    @given(st.data())
    def hold(data):
        entry = json.loads(json.dumps(data.draw(st.sampled_from(entries))))
        items = entry["tasks"]
        inner = bool(items) and data.draw(st.booleans())
        bends = ITEM_BENDS if inner else BENDS
        place = data.draw(st.sampled_from(items)) if inner else entry
        name = data.draw(st.sampled_from(sorted(bends)))
        if data.draw(st.booleans()):
            place[name] = data.draw(st.sampled_from(bends[name]))
        else:
            place.pop(name, None)
        said = fits("entry", entry)
        met.add(said)
        if said != readable(entry):  # only a note is told more exactly by the contract
            assert not said and isinstance(entry.get("note"), dict), entry

    hold()
    assert met == {True, False}


def test_a_note_is_told_by_the_verb(entries):
    notes = {entry["verb"]: entry for entry in entries if "note" in entry}
    assert set(notes) == {verb for verb, shape in reading.SHAPES.items() if shape.note}
    for verb, entry in notes.items():
        for note in ({}, {"stray": 1}, {**entry["note"], "stray": 1}, [], None, "revoked"):
            assert not fits("entry", {**entry, "note": note}), (verb, note)
    assert not fits("entry", {**notes["review"], "note": notes["scope.revoke"]["note"]})


def test_every_code_of_a_refusal_has_been_met_or_needs_what_no_fault_can_make():
    met = {code for faults in FAULTS.values() for code in faults}
    never = {code for code, issue in ISSUES.items() if issue.rule == 0}
    assert set(ISSUES) - met - never <= {"unauthenticated", "invalid_request", "key_conflict",
                                         "unknown_fence", "lease_expired",
                                         "stale_sequence"}  # fmt: skip


def test_the_scope_of_the_workload_is_the_one_read(lived):
    fp, _ = lived
    assert fp.scope().scope == SCOPE
