"""What told a mutant of the journal's reader from the program and no quick test asked for."""

from __future__ import annotations

import json

import pytest
from helpers import folding
from helpers.stand import QUEUE, Stand
from test_rules_time import row

from fencepost import canonical
from fencepost.fields import MAX_ENTRY_BYTES
from fencepost.journal import tree
from fencepost.journal.entry import projection
from fencepost.journal.ledger import Ledger
from fencepost.journal.problems import Findings
from fencepost.journal.reading import opening_problem, read
from fencepost.journal.rows import Rows
from fencepost.journal.seen import UNKNOWN, Seen, task_name, task_number
from fencepost.journal.standing import QueueLine, Standing
from fencepost.model import STATES, Scope
from fencepost.record import replace


def place_of(verb, nth=0, **members):
    """Where (from 0) the nth entry of the verb stands, whose first task has these members."""
    found = []
    for place, each in enumerate(folding.history()):
        entry = json.loads(each.body or b"{}")
        if entry.get("verb") == verb:
            first = (entry["tasks"] or [{}])[0]
            if all((name in first) == there for name, there in members.items()):
                found.append(place)
    return found[nth]


def taken(place, **changed):
    """What is found when the entry at this place is read with its row changed so."""
    entries = folding.taking_from(place)
    entries.take(replace(folding.history()[place], **changed))
    return sorted((p.code, p.place) for p in entries.findings.all())


@pytest.mark.parametrize(
    ("verb", "row", "code"),
    [("cancel", None, "target"), ("enqueue", 5, "target"), ("release", 999, "target"),
     ("sweep", 5, "target"), ("erase", None, "target")],
)  # fmt: skip
def test_the_row_that_an_entry_is_bound_to_is_its_tasks_own(verb, row, code):
    place = place_of(verb)
    assert taken(place) == []
    assert taken(place, task=row) == [(code, f"entry {place + 1}")]


def test_a_known_task_that_is_named_again_is_named_as_it_is():
    place = place_of("enqueue", before=True)
    body = json.loads(folding.history()[place].body)
    for member, other in (("state", "leased"), ("fence", 7), ("revision", 1), ("after", "0" * 64)):
        told = json.loads(json.dumps(body))
        told["tasks"][0][member] = other
        found = folding.with_other_bytes(place, canonical.dumps(told))
        here = {(p.code, p.place) for p in found if p.code != "opening_missing"}
        assert here == {("transition", f"entry {place + 1}")}, member


def test_an_opening_is_whole_or_gone_and_opens_each_commitment():
    place = place_of("enqueue")
    row = folding.history()[place]
    entry = read(row.body)
    assert opening_problem(row, entry) is None
    gone = replace(row, salt=None, request_sha256=None, result_sha256=None, key=None)
    assert opening_problem(gone, entry) is None
    for left in ("salt", "request_sha256", "key"):
        half = replace(gone, **{left: getattr(row, left)})
        assert opening_problem(half, entry) == "a part of it is missing"
    assert opening_problem(replace(gone, indexed=False), entry) == "a part of it is missing"
    told = "the store would not find the entry by it"
    assert opening_problem(replace(row, indexed=False), entry) == told
    scope, actor, key = row.key
    for named in (("x", actor, key), (scope, "x", key)):
        problem = opening_problem(replace(row, key=named), entry)
        assert problem == "its key belongs to another scope or actor"
    commitment = "it does not open the commitment to the {}"
    other = replace(row, request_sha256=bytes(32))
    assert opening_problem(other, entry) == commitment.format("request")
    assert opening_problem(replace(row, key=(scope, actor, "x")), entry) == commitment.format("key")
    assert opening_problem(replace(row, key=None), entry) == commitment.format("key")
    more = replace(row, result_sha256=bytes(32))
    assert opening_problem(more, entry) == commitment.format("result")


def test_without_strictness_bytes_are_only_parsed():
    assert read(b'{"b":1,"a":2}', strict=False) == {"b": 1, "a": 2}
    with pytest.raises(ValueError, match="canonical"):
        read(b'{"b":1,"a":2}')
    with pytest.raises(ValueError, match=r"too deep|recursion"):
        read(b"[" * 100_000, strict=False)


@pytest.mark.parametrize(("trusted", "told"), [(-1, True), (0, False), (1, False)])
def test_an_entry_that_a_kept_checkpoint_covers_is_taken_as_well_formed(trusted, told):
    place = place_of("cancel")
    body = json.loads(folding.history()[place].body)
    entries = folding.taking_from(place)
    entries.trusted = place + 1 + trusted
    entries.take(replace(folding.history()[place], body=canonical.dumps({**body, "more": 1})))
    expected = [("entry_form", f"entry {place + 1}")] * told
    assert [(p.code, p.place) for p in entries.findings.all()] == expected


@pytest.mark.parametrize("more", [0, 1])
def test_an_entry_has_as_many_bytes_as_are_allowed_and_no_more(more):
    entry = json.loads(folding.history()[place_of("queue.set")].body)
    entry["note"] = {"x": ""}
    room = MAX_ENTRY_BYTES - len(canonical.dumps(entry)) + more
    body = canonical.dumps({**entry, "note": {"x": "x" * room}})
    if more:
        with pytest.raises(ValueError, match="it has 65536 bytes; at most 65535 are allowed"):
            read(body)
    else:
        assert read(body)["note"] == {"x": "x" * room}


# --- the ledger's own memory ------------------------------------------------------------------


def test_a_task_packed_is_the_task_and_a_number_is_its_id():
    seen = Seen(b"a" * 32, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
    assert Seen.unpack(seen.pack()) == seen
    unknown = Seen(b"b" * 32, *[UNKNOWN if n else 0 for n in range(10)])
    assert Seen.unpack(unknown.pack()) == unknown
    task_id = "0190abcd-0000-7000-8000-00000000beef"
    assert task_name(task_number(task_id)) == task_id
    assert task_number(task_id) == 0x0190ABCD0000700080000000_0000BEEF


def test_a_doubt_is_told_at_once_unless_bytes_between_are_gone():
    for lost, at_once in ((3, False), (4, False), (2, True), (5, True)):
        ledger = Ledger(Findings())
        ledger.lose(lost)
        ledger.doubt(7, 2, 5, "fence", "it was 1")
        told = [("fence", "entry 5", f"task {task_name(7)}: it was 1")]
        assert [(p.code, p.place, p.message) for p in ledger.findings.all()] == told * at_once
        ledger.settle()
        assert [(p.code, p.place, p.message) for p in ledger.findings.all()] == told


def test_a_purge_takes_the_doubts_of_its_task_along_and_no_others():
    ledger = Ledger(Findings())
    ledger.lose(3)
    for task in (7, 8):
        ledger.doubt(task, 2, 5, "fence", "first")
        ledger.doubt(task, 2, 6, "fence", "second")
        ledger.reviews[task] = {1: "accepted"}
        ledger.rounds[task] = [4]
        ledger.close(10 + task, [task])
    ledger.forget(7)
    assert (set(ledger.reviews), set(ledger.rounds)) == ({8}, {8})
    ledger.settle()
    assert [(p.code, p.place) for p in ledger.findings.all()] == [
        ("fence", "entry 5"), ("fence", "entry 6"), ("opening_missing", "entry 18"),
    ]  # fmt: skip
    assert ledger.findings.all()[-1].message == "its opening is gone and nothing was erased"


def test_an_opening_is_excused_by_any_of_the_tasks_it_was_of():
    for gone, missing in (((1,), []), ((2,), []), ((3,), [4]), ((), [4])):
        ledger = Ledger(Findings())
        ledger.close(4, [1, 2])
        for task in gone:
            ledger.gone(task)
        ledger.settle()
        places = [p.place for p in ledger.findings.all()]
        assert places == [f"entry {number}" for number in missing]


# --- settings ---------------------------------------------------------------------------------


def set_to(standing, number, queue, scope="s", **note):
    standing.take(number, {"verb": "queue.set", "scope": scope, "queue": queue, "note": note})


def test_a_result_is_kept_as_its_queue_was_set_when_its_entry_was_written():
    standing = Standing()
    set_to(standing, 5, "q", result_storage="digest")
    set_to(standing, 8, "q", result_storage="content")
    set_to(standing, 9, "q", max_attempts=2)
    kept = [standing.keeps_content(("s", "q"), number) for number in range(4, 11)]
    assert kept == [True, False, False, False, True, True, True]
    assert standing.keeps_content(("s", "other"), 6) is True


def test_a_destination_is_what_some_queue_of_its_scope_names_by_now():
    standing = Standing()
    set_to(standing, 1, "q", destinations=["out", "mirror"])
    set_to(standing, 2, "r", destinations=["out"])
    set_to(standing, 3, "q", destinations=["mirror"])
    set_to(standing, 4, "q", "elsewhere", destinations=["away"])
    assert standing.owed(("s", "q"), "result") == ["mirror"]
    assert standing.owed(("s", "r"), "result") == ["out"]
    assert standing.owed(("s", "none"), "result") == []
    found = Findings()
    named = {name: name in ("out", "mirror") for name in ("out", "mirror", "away", "none")}
    for number, (name, is_one) in enumerate(named.items()):
        standing.check_queue(QueueLine(number, "s", name, "{}", is_one), found)
    assert found.all() == ()
    standing.check_queue(QueueLine(9, "s", "none", "{}", True), found)
    assert [(p.place, p.message) for p in found.all()] == [
        ("queue s/none", "no entry has set is_destination so")
    ]
    standing.check_rest(found)
    assert {(p.code, p.message) for p in found.all()[1:]} == {("settings", "its row is missing")}
    assert sorted(p.place for p in found.all()[1:]) == [
        "queue elsewhere/away", "queue elsewhere/q", "queue s/q", "queue s/r",
    ]  # fmt: skip


def test_a_policy_rises_and_what_its_note_leaves_out_stays():
    standing, found = Standing(), Findings()
    for note in ({"policy_version": 2, "retain_seconds": 7}, {"policy_version": 3}):
        standing.take(1, {"verb": "scope.set_policy", "scope": "s", "note": note})
    standing.take(1, {"verb": "scope.set_policy", "scope": "s", "note": {"retain_seconds": 9}})
    standing.take(1, {"verb": "scope.revoke", "scope": "s", "note": {"revoked": True}})
    for version in (3, 2):
        note = {"policy_version": version}
        with pytest.raises(ValueError, match="does not rise"):
            standing.take(2, {"verb": "scope.set_policy", "scope": "s", "note": note})
    standing.check_scope(Scope("s", 3, True, 9), found)
    standing.check_rest(found)
    assert found.all() == ()


# --- what stands beside the entries -----------------------------------------------------------


def test_a_gap_in_the_entries_is_named_number_by_number():
    with Stand() as stand:
        for number in range(6):
            stand.task(number, QUEUE)
        stand.fp.seal()
        stand.connection.execute("delete from fencepost_entry where number in (3, 4)")
        found = stand.fp.verify()
        places = {p.place for p in found.problems if p.code == "entry_missing"}
        assert places == {"entry 3", "entry 4"}
        assert (found.entries, found.sealed) == (4, 6)


def seen_of(task, **changed):
    values = {
        "after": bytes.fromhex(projection(task)), "state": STATES.index(task.state),
        "fence": task.fence, "revision": task.revision, "last": 9, "entry": task.entry,
        "created": task.created_entry, "row": task.id, "parent": task.parent or 0,
        "changed_at": task.changed_at, "granted_at": task.granted_at,
    }  # fmt: skip
    return Seen(**{**values, **changed})


def told_of(task, seen):
    rows = Rows(Ledger(Findings()))
    rows._seen("task x", task, seen)
    return [(p.code, p.place, p.message) for p in rows.findings.all()]


@pytest.mark.parametrize(
    ("member", "column"),
    [("created", "created_entry"), ("entry", "entry"), ("changed_at", "changed_at"),
     ("row", "row id"), ("parent", "parent"), ("granted_at", "granted_at")],
)  # fmt: skip
def test_a_column_that_the_journal_has_otherwise_is_named(member, column):
    for task in (row(), row(parent=7)):
        assert told_of(task, seen_of(task)) == []
        assert told_of(task, seen_of(task, **{member: UNKNOWN})) == []
        message = f"not as the journal has it: {column}"
        assert told_of(task, seen_of(task, **{member: 77})) == [("row_edited", "task x", message)]


def test_a_row_that_is_not_as_its_last_entry_left_it_says_what_it_was():
    task = row()
    assert told_of(task, seen_of(task, after=bytes(32))) == [
        ("row_edited", "task x", "it is not as entry 9 left it")
    ]
    for member, number, was in (("state", 0, f"{STATES[0]}, 2, 0"), ("fence", 5, "leased, 5, 0"),
                                ("revision", 3, "leased, 2, 3")):  # fmt: skip
        plain = f": state, fence and revision are leased, 2, 0 and were {was}"
        assert told_of(task, seen_of(task, after=bytes(32), **{member: number})) == [
            ("row_edited", "task x", f"it is not as entry 9 left it{plain}")
        ]


@pytest.mark.parametrize("nonsense", [b"", b"x" * 31, b"x" * 33, "short"])
def test_what_is_no_hash_proves_nothing_and_raises_nothing(nonsense):
    leaves = [tree.leaf_hash(bytes([number])) for number in range(2)]
    root = tree.node_hash(*leaves)
    assert tree.verify_inclusion(0, 2, leaves[0], [leaves[1]], root) is True
    assert tree.verify_inclusion(0, 2, leaves[0], [nonsense], root) is False
    assert tree.verify_inclusion(0, 2, nonsense, [leaves[1]], root) is False
    assert tree.verify_inclusion(0, 2, leaves[0], [leaves[1]], nonsense) is False
    assert tree.verify_consistency(1, 2, leaves[0], root, [leaves[1]]) is True
    assert tree.verify_consistency(1, 2, leaves[0], root, [nonsense]) is False
    assert tree.verify_consistency(1, 2, nonsense, root, [leaves[1]]) is False
    assert tree.verify_consistency(1, 2, leaves[0], nonsense, [leaves[1]]) is False
