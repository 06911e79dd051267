"""What told a mutant of journal/ from the program and no quick test asked for."""

from __future__ import annotations

import json
import struct
from hashlib import sha256

import pytest
from helpers import folding
from helpers.stand import QUEUE, Stand
from test_rules_time import row
from test_verify_forged import FORMS, MOVES, drop, put

from fencepost import canonical
from fencepost.fields import MAX_ENTRY_BYTES, MAX_EPOCH, MAX_INTEGER
from fencepost.journal import entry
from fencepost.journal.problems import Findings, Problem, Verification
from fencepost.journal.standing import QueueLine, Standing
from fencepost.model import Scope

SALT = bytes(range(32))

# --- the moves, entry by entry ----------------------------------------------------------------


OTHER = "01900000-0000-7000-8000-000000000000"
LONG = canonical.dumps({"v": "x" * MAX_ENTRY_BYTES})
MORE_FORMS = {
    "an entry that is no object": ("cancel", lambda entry: b"[]"),
    "an entry that is too long": ("cancel", lambda entry: LONG),
    "a note that is no object": ("review", put("note", to=[])),
    "a note with more": ("scope.revoke", put("note", "more", to=1)),
    "a note with more of a policy": ("scope.set_policy", put("note", "revoked", to=True)),
    "a scope that is no name": ("cancel", put("scope", to="a b")),
    "a writer that is none": ("cancel", put("writer", to="a b")),
    "a queue that is no name": ("cancel", put("queue", to="a b")),
    "a queue that is no text": ("cancel", put("queue", to=1)),
    "a task's queue that is no name": ("submit", put("tasks", 1, "queue", to="a b")),
    "a state before that is none": ("cancel", put("tasks", 0, "before", to="gone")),
    "a negative revision": ("cancel", put("tasks", 0, "revision", to=-1)),
    "a fence that is True": ("cancel", put("tasks", 0, "fence", to=True)),
    "a negative epoch": ("cancel", put("epoch", to=-1)),
    "an epoch beyond the last": ("cancel", put("epoch", to=MAX_EPOCH + 1)),
    "a fence beyond the last": ("cancel", put("tasks", 0, "fence", to=MAX_INTEGER + 1)),
    "a revision beyond the last": ("cancel", put("tasks", 0, "revision", to=MAX_INTEGER + 1)),
    "a result that is no digest": ("submit", put("result", to="0" * 63)),
    "a key that is no digest": ("enqueue", put("key", to="0" * 65)),
    "a request that is none": ("cancel", put("request", to=7)),
    "tasks that are no list": ("cancel", put("tasks", to={})),
    "an after where a purge leaves none": ("purge", put("tasks", 0, "after", to="0" * 64)),
    "a purged task without its state before": ("purge", drop("tasks", 0, "before")),
    "a queue where none belongs": ("erase", put("queue", to="q")),
    "a first task with a role": ("cancel", put("tasks", 0, "role", to="followup")),
    "a first task of many with a role": ("sweep", put("tasks", 0, "role", to="obligation")),
    "roles where many are named": ("claim", put("tasks", 0, "role", to="obligation")),
}  # fmt: skip
ALSO = {"a submit that accepts nothing": "obligation", "an obligation as a follow-up": "obligation"}
EVERY_FORM = {**FORMS, **MORE_FORMS}


@pytest.mark.parametrize("name", [*MOVES, *EVERY_FORM])
def test_a_forged_entry_is_named_with_its_place_when_it_is_read(name):
    verb, edit, *code = MOVES[name] if name in MOVES else (*EVERY_FORM[name], "entry_form")
    rows = folding.history()
    bodies = [json.loads(row.body or b"{}") for row in rows]
    place = next(i for i, body in enumerate(bodies) if body.get("verb") == verb)
    told = json.loads(rows[place].body)
    changed = edit(told)
    body = changed if isinstance(changed, bytes) else canonical.dumps(told)
    found = folding.with_other_bytes(place, body)
    # what an erase would excuse comes after the end of what is read here
    here = {(p.code, p.place) for p in found if p.code != "opening_missing"}
    codes = {code[0], ALSO.get(name, code[0])}
    assert here == {(each, f"entry {place + 1}") for each in codes}
    assert all(p.message for p in found)


def test_what_is_known_at_the_end_is_what_the_entries_told():
    told = folding.taking_from(len(folding.history())).ledger
    last = json.loads([row.body for row in folding.history() if row.body][-1])
    assert told.writers == {last["writer"]} == {told.writer}
    assert told.epoch == told.floor == last["epoch"] == 1


def test_the_same_verb_again_after_the_end_of_a_task_is_no_move():
    """A task that is brought about twice, or handed in after it was done."""
    rows = folding.history()
    found = folding.with_other_bytes(6, rows[5].body)
    assert ("transition", "entry 7") in {(p.code, p.place) for p in found}


@pytest.mark.parametrize(
    ("verb", "codes"),
    [("submit", ["obligation", "revision", "task_unknown"]), ("review", ["task_unknown"]),
     ("release", ["task_unknown"]), ("cancel", ["task_unknown"])],
)  # fmt: skip
def test_a_task_that_nothing_has_brought_about_is_named_and_followed_from_there(verb, codes):
    rows = folding.history()
    here = f'"verb":"{verb}"'.encode()
    place = next(i for i, row in enumerate(rows) if row.body and here in row.body)
    told = json.loads(rows[place].body)
    told["tasks"][0]["task_id"] = OTHER
    found = folding.with_other_bytes(place, canonical.dumps(told))
    assert sorted(p.code for p in found if p.place == f"entry {place + 1}") == codes


@pytest.mark.parametrize("verb", ["submit", "complete", "cancel", "release"])
def test_a_verb_that_brings_its_own_task_about_is_no_move_and_owes_nothing(verb):
    rows = folding.history()
    bodies = [json.loads(row.body or b"{}") for row in rows]
    place = next(i for i, body in enumerate(bodies) if body.get("verb") == verb)
    told = bodies[place]
    del told["tasks"][0]["before"], told["tasks"][1:]
    told["tasks"][0]["task_id"] = OTHER
    found = folding.with_other_bytes(place, canonical.dumps(told))
    here = {p.code for p in found if p.place == f"entry {place + 1}"}
    assert here == {"transition"}


def test_a_completion_accepts_no_second_result_under_the_name_of_an_obligation():
    rows = folding.history()
    bodies = [json.loads(row.body or b"{}") for row in rows]
    place = next(i for i, body in enumerate(bodies) if body.get("verb") == "complete")
    claimed = next(body for body in bodies if body.get("verb") == "claim")["tasks"]
    told = bodies[place]
    (other,) = [item for item in claimed if item["task_id"] != told["tasks"][0]["task_id"]][:1]
    second = {"role": "obligation", "before": "leased", "state": "done", "revision": 1}
    told["tasks"].append({**other, **second})
    found = folding.with_other_bytes(place, canonical.dumps(told))
    here = {p.code for p in found if p.code != "opening_missing"}
    assert here == {"revision"}


# --- rounds -----------------------------------------------------------------------------------


@pytest.fixture
def rounds():
    """A task with a result in each of three rounds: requeued, and rejected by a human."""
    with Stand() as stand:
        human = stand.fp.as_caller("ann", "human")
        lease = stand.leased()
        lease.complete(1)
        stand.fp.requeue(lease.task_id)
        stand.claim().complete(2)
        human.review(lease.task_id, 2, "rejected", requeue=True)
        stand.claim().submit(3)
        human.review(lease.task_id, 1, "accepted")
        stand.fp.seal()
        yield stand, lease.task_id


def places(stand):
    return {(p.code, p.place) for p in stand.fp.verify().problems}


def test_a_result_belongs_to_the_round_that_its_task_was_in(rounds):
    stand, task_id = rounds
    assert places(stand) == set()
    assert [r.round for r in stand.fp.results(task_id)] == [1, 2, 3]
    for revision, wrong in ((1, 2), (2, 3), (3, 2)):
        stand.connection.execute("savepoint before")
        change = "update fencepost_result set round = ? where revision = ?"
        stand.connection.execute(change, (wrong, revision))
        assert places(stand) == {("result_edited", f"task {task_id} revision {revision}")}
        stand.connection.execute("rollback to before")


# --- what cannot change without breaking stores that are there --------------------------------


def test_a_commitment_is_the_published_digest():
    def committed(label, value):
        return sha256(b"fencepost-commit-v1\0" + label + b"\0" + SALT + value).digest()

    payload = sha256(b"{}").digest()
    assert entry.content_commitment(SALT, "k", b"{}") == committed(b"content", b"k\0" + payload)
    assert entry.content_commitment(SALT, None, b"{}") == committed(b"content", b"\0" + payload)
    heading = entry.Heading("submit", "s", "a", 0, 2, "w")
    body = json.loads(
        entry.body(heading, (), SALT, b"r" * 32, queue="q", key="k", result_sha256=b"x" * 32)
    )
    assert body == {
        "actor": "a", "at": "1970-01-01T00:00:00.000000Z", "epoch": 2, "queue": "q", "scope": "s",
        "key": committed(b"key", b"k").hex(), "request": committed(b"request", b"r" * 32).hex(),
        "result": committed(b"result", b"x" * 32).hex(), "tasks": [], "v": 1, "verb": "submit",
        "writer": "w",
    }  # fmt: skip


def test_the_after_of_a_task_is_the_published_digest():
    task = row(content=b"c" * 32, due_at=7, round=3, revision=4, erased=9, created_at=8, epoch=1)
    numbers = struct.pack(">11q", 0, 7, 1, 5, 3, 4, 2, 1, 0, 8, 9)
    names = b"1\nt\ns\nq\nleased\nw\n"
    assert entry.projection(task) == sha256(names + numbers + b"c" * 32).hexdigest()
    unleased = row(worker_id=None, content=b"")
    assert (
        entry.projection(unleased)
        == sha256(
            b"1\nt\ns\nq\nleased\n\n" + struct.pack(">11q", 0, 0, 1, 5, 1, 0, 2, 0, 0, 0, 0)
        ).hexdigest()
    )


def test_a_queue_stands_beside_a_task_only_where_it_is_another_one():
    task = row(state="done", revision=1)
    assert entry.gone(task, "q") == ('{"before":"done","fence":2,"revision":1,"task_id":"t"}')
    assert '"queue":"q",' in entry.gone(task, "other")
    assert '"queue"' not in entry.item(task, "leased", "q")
    assert '"queue":"q",' in entry.item(task, "leased", "other", "followup")


def test_what_verify_says_has_these_members():
    found = Verification(1, 2, 3, 4, 5, 6, b"\1" * 32, (Problem("c", "p", "m"),))
    assert found.to_json() == {
        "status": "broken", "entries": 1, "purged": 2, "tasks": 3, "results": 4, "sealed": 5,
        "unsealed": 6, "root": "01" * 32,
        "problems": [{"code": "c", "place": "p", "message": "m"}],
    }  # fmt: skip


# --- settings and nodes -----------------------------------------------------------------------


@pytest.mark.parametrize("settings", ['{"colour":1}', '{"paused":true}', "[]", "{", '{"paused":0}'])
def test_a_setting_that_no_entry_has_set_is_named(settings):
    findings = Findings()
    Standing().check_queue(QueueLine(1, "s", "q", settings, False), findings)
    expected = set() if settings == '{"paused":0}' else {("settings", "queue s/q")}
    assert {(p.code, p.place) for p in findings.all()} == expected


def test_a_scope_that_is_not_as_it_was_set_and_one_that_is_missing_are_named():
    standing, findings = Standing(), Findings()
    for name in ("a", "b"):
        note = {"policy_version": 2, "retain_seconds": 5}
        standing.take(1, {"verb": "scope.set_policy", "scope": name, "note": note})
    standing.check_scope(Scope("a", policy_version=3), findings)
    standing.check_scope(Scope("untouched"), findings)
    standing.check_rest(findings)
    assert [(p.code, p.place) for p in findings.all()] == [
        ("settings", "scope a"), ("settings", "scope b"),
    ]  # fmt: skip


@pytest.mark.parametrize("node", ["0/0", "0/2", "0/3", "1/0", "1/1", "2/0"])
def test_a_missing_node_is_one_problem_and_the_rest_are_still_read(node):
    with Stand() as stand:
        for number in range(5):
            stand.task(number, QUEUE)
        stand.fp.seal()
        gone = "delete from fencepost_node where level || '/' || position = ?"
        stand.connection.execute(gone, (node,))
        assert places(stand) == {("node", f"node {node}")}
