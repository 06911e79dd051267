"""Entries that hang together as bytes and as a tree, and tell a history that cannot have been.

A forger, or a fault of the program, writes an entry anew with its own form of truth and seals the
journal again. Only the rules of the moves can show it.
"""

from __future__ import annotations

import base64
import json
import shutil

import pytest
from helpers.lab import START, raw
from helpers.workload import every_verb, opened

from fencepost import canonical
from fencepost.clock import FakeClock
from fencepost.journal import tree
from fencepost.journal.checkpoint import Checkpoint

pytestmark = pytest.mark.usefixtures("same_disk")


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    path = tmp_path_factory.mktemp("history") / "work.db"
    clock = FakeClock(START)
    with opened(path, clock) as fp:
        every_verb(fp, clock)
        fp.seal()
    return path


@pytest.fixture
def copy(history, tmp_path):
    path = tmp_path / "copy.db"
    shutil.copyfile(history, path)
    return path


def forged(path, verb, edit, nth=0):
    """What verify finds after the nth entry of the verb was edited and all sealed anew.

    `edit` changes the parsed entry, or returns the new bytes. Returns (codes, the entry's place).
    """
    with raw(path) as connection:
        rows = connection.execute(
            "select number, body from fencepost_entry where body is not null order by number"
        ).fetchall()
        found = [row for row in rows if json.loads(row[1])["verb"] == verb]
        number, body = found[nth]
        entry = json.loads(body)
        changed = edit(entry)
        new = changed if isinstance(changed, bytes) else canonical.dumps(entry)
        assert new != body
        connection.execute("update fencepost_entry set body = ? where number = ?", (new, number))
        purged = connection.execute("select count(*) from fencepost_entry where body is null")
        leaves = connection.execute(
            "select position, hash from fencepost_node where level = 0"
        ).fetchall()
        assert purged.fetchone()[0] == 1
    reseal(path, dict(leaves))
    with opened(path) as fp:
        problems = fp.verify().problems
    place = f"entry {number}"
    return {p.code for p in problems if p.place == place}, {p.code for p in problems}


def reseal(path, leaves):
    """Make tree and one checkpoint anew from the bytes; of purged entries the leaf stays."""
    with raw(path) as connection:
        connection.execute("delete from fencepost_node")
        connection.execute("delete from fencepost_checkpoint")
        ((writer,),) = connection.execute("select writer_id from fencepost_store").fetchall()
        frontier = tree.Frontier()
        bodies = connection.execute("select number, body from fencepost_entry order by number")
        for number, body in bodies.fetchall():
            leaf = leaves[number - 1] if body is None else tree.leaf_hash(body)
            connection.executemany("insert into fencepost_node values (?, ?, ?)",
                                   frontier.append(leaf))  # fmt: skip
        head = Checkpoint(f"fencepost/{writer}", frontier.size, frontier.root())
        connection.execute(
            "insert into fencepost_checkpoint values (?, 0, ?)", (head.size, head.text())
        )


def put(*path, to):
    """An edit: the member at this path gets another value."""

    def edit(entry):
        *way, last = path
        for step in way:
            entry = entry[step]
        entry[last] = to

    return edit


def drop(*path):
    def edit(entry):
        *way, last = path
        for step in way:
            entry = entry[step]
        del entry[last]

    return edit


def test_sealing_anew_without_an_edit_is_clean(copy):
    with raw(copy) as connection:
        leaves = connection.execute("select position, hash from fencepost_node where level = 0")
        kept = dict(leaves.fetchall())
    reseal(copy, kept)
    with opened(copy) as fp:
        assert fp.verify().problems == ()


EARLY = "2020-01-01T00:00:00.000000Z"
MOVES = {
    "a cancel to dead": ("cancel", put("tasks", 0, "state", to="dead"), "transition"),
    "a claim of a task that was not ready": (
        "claim", put("tasks", 0, "before", to="leased"), "transition",
    ),
    "a release from done": ("release", put("tasks", 0, "before", to="done"), "transition"),
    "a sweep to cancelled": ("sweep", put("tasks", 0, "state", to="cancelled"), "transition"),
    "a purge of a leased task": ("purge", put("tasks", 0, "before", to="leased"), "transition"),
    "an enqueue of a leased task": ("enqueue", put("tasks", 0, "state", to="leased"), "transition"),
    "an enqueue that begins with a fence": (
        "enqueue", put("tasks", 0, "fence", to=4), "transition",
    ),
    "a review that changes the task": (
        "review", put("tasks", 0, "after", to="0" * 64), "transition",
    ),
    "a claim that skips a fence": ("claim", put("tasks", 0, "fence", to=99), "fence"),
    "a claim that repeats a fence": ("claim", put("tasks", 1, "fence", to=1), "fence"),
    "a fail under another fence": ("fail", put("tasks", 0, "fence", to=99), "fence"),
    "a submit that accepts nothing": ("submit", put("tasks", 0, "revision", to=0), "revision"),
    "a submit that accepts two": ("submit", put("tasks", 0, "revision", to=2), "revision"),
    "a complete that accepts two": ("complete", put("tasks", 0, "revision", to=2), "revision"),
    "a fail that accepts": ("fail", put("tasks", 0, "revision", to=1), "revision"),
    "a result without its obligations": (
        "complete", lambda entry: entry["tasks"].__delitem__(slice(2, None)), "obligation",
    ),
    "an obligation to a queue that is no destination": (
        "submit", put("tasks", 1, "queue", to="next"), "obligation",
    ),
    "an obligation as a follow-up": (
        "submit", put("tasks", 1, "role", to="followup"), "transition",
    ),
    "a time before the one before": ("cancel", put("at", to=EARLY), "time"),
    "an epoch that rises by itself": ("cancel", put("epoch", to=1), "epoch"),
    "an epoch that falls": ("clock.reset", put("epoch", to=0), "epoch"),
    "a claim under an epoch that no fence led to": ("claim", put("epoch", to=1), "epoch"),
    "another writer in the same epoch": ("cancel", put("writer", to="somebody"), "writer"),
    "a review of a revision that is not there": (
        "review", put("note", "revision", to=9), "commitment",
    ),
    "a verdict that does not exist": ("review", put("note", "verdict", to="maybe"), "commitment"),
    "a policy that does not rise": ("scope.set_policy", put("note", "policy_version", to=0),
                                    "entry_form"),
    "a setting that does not exist": ("queue.set", put("note", "colour", to=1), "entry_form"),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVES)
def test_the_rules_of_the_moves_show(name, copy):
    verb, edit, code = MOVES[name]
    here, anywhere = forged(copy, verb, edit)
    assert code in here, (here, anywhere)
    assert not anywhere & {"entry_edited", "node", "checkpoint"}  # the tree itself is whole


FORMS = {
    "a space": ("cancel", lambda entry: json.dumps(entry).encode()),
    "another order": ("cancel", lambda entry: json.dumps(dict(reversed(entry.items()))).encode()),
    "a member twice": (
        "cancel", lambda entry: canonical.dumps(entry).replace(b'"v":1', b'"v":1,"v":1'),
    ),
    "no JSON": ("cancel", lambda entry: b"{"),
    "deep nesting": ("cancel", lambda entry: b"[" * 5_000 + b"]" * 5_000),
    "another version": ("cancel", put("v", to=2)),
    "a version that is no number": ("cancel", put("v", to=True)),
    "an unknown verb": ("cancel", put("verb", to="abolish")),
    "no verb where a result rests on it": ("complete", drop("verb")),
    "one more member": ("cancel", put("more", to=1)),
    "a missing member": ("cancel", drop("epoch")),
    "a note where none belongs": ("cancel", put("note", to={})),
    "no note where one belongs": ("review", drop("note")),
    "a result where none belongs": ("cancel", put("result", to="0" * 64)),
    "no result where one belongs": ("submit", drop("result")),
    "no queue where one belongs": ("cancel", drop("queue")),
    "an actor that is no name": ("cancel", put("actor", to="a b")),
    "a time that is none": ("cancel", put("at", to="yesterday")),
    "an epoch that is none": ("cancel", put("epoch", to=True)),
    "a commitment that is none": ("cancel", put("request", to="AB" * 32)),
    "no tasks": ("cancel", put("tasks", to=[])),
    "a task that is no object": ("cancel", put("tasks", to=[1])),
    "tasks where none belong": ("scope.revoke", put("tasks", to=[{}])),
    "a task without a fence": ("cancel", drop("tasks", 0, "fence")),
    "a task with more": ("cancel", put("tasks", 0, "more", to=1)),
    "a task id that is none": ("cancel", put("tasks", 0, "task_id", to="7")),
    "a negative fence": ("cancel", put("tasks", 0, "fence", to=-1)),
    "a state that is none": ("cancel", put("tasks", 0, "state", to="gone")),
    "a role that is none": ("submit", put("tasks", 1, "role", to="guest")),
    "a role where none belongs": ("enqueue", put("tasks", 0, "role", to="followup")),
    "a second task without a role": ("submit", drop("tasks", 1, "role")),
    "a digest that is none": ("cancel", put("tasks", 0, "after", to="ff")),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_an_entry_that_is_not_in_the_form_of_version_1_is_named(name, copy):
    verb, edit = FORMS[name]
    here, anywhere = forged(copy, verb, edit)
    assert "entry_form" in here, (here, anywhere)


def test_a_checkpoint_with_another_root_is_named(copy):
    with raw(copy) as connection:
        (size, body) = connection.execute(
            "select size, body from fencepost_checkpoint order by size desc limit 1"
        ).fetchone()
        origin, number, root, previous, _ = body.split(b"\n")
        other = base64.b64encode(bytes(32))
        new = b"\n".join([origin, number, other, previous, b""])
        assert root != other
        connection.execute("update fencepost_checkpoint set body = ? where size = ?", (new, size))
    with opened(copy) as fp:
        found = fp.verify()
    assert [(p.code, p.place) for p in found.problems] == [("checkpoint", f"checkpoint of {size}")]
