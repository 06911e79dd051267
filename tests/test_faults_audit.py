"""Faults of the audit journal (72, 74, 76): it verifies, it shows damage, it comes back the same.

What the journal keeps by itself shows a cut, a swap or an edit as long as some of tree, rows and
counters were left alone. Whoever rewrites all of them leaves a history that is whole in itself:
only a checkpoint that was kept elsewhere shows it (docs/journal.md).
"""

from __future__ import annotations

import hashlib
import json
import random
from contextlib import closing
from sqlite3 import connect

import pytest
import rfc8785
from helpers.children import result_of, start
from helpers.lab import QUEUE, START, completion, raw
from helpers.work import verified_again

from fencepost import commands as c
from fencepost.clock import to_rfc3339


def busy(lab, rounds=12):
    """A journal with every common verb, fractions of seconds and two scopes in it."""
    other = lab.open(scope="other")
    for number in range(rounds):
        lab.clock.advance(0.123_457)
        lease = lab.lease(payload={"n": number}, key=f"k{number}")
        lease.submit(number, key=f"s{number}")
        lease.complete({"n": number}, followups=[{"queue": "next", "payload": number}])
        lab.lease().fail("not now")
        lab.fp.cancel(lab.offer())
        other.enqueue("elsewhere", number)
    lab.lease()
    lab.clock.advance(60)
    lab.fp.sweep()
    return other


# 72: time hashed finer than stored, so nothing ever verifies


def test_a_thousand_entries_verify_after_a_restart_and_from_a_fresh_process(lab):
    tasks = [c.Enqueue(QUEUE, (c.NewTask(n, key=str(n)),)) for n in range(500)]
    lab.fp.execute(tasks)
    busy(lab, 3)
    leases = [g for _ in range(5) for g in lab.fp.claim(QUEUE, worker_id="w", limit=100)]
    lab.clock.advance(0.000_001)
    lab.fp.execute([completion(lease, 1) for lease in leases])
    lab.fp.seal()
    found = lab.fp.verify()
    assert found.clean and found.entries >= 1_000 and found.unsealed == 0
    lab.fp.close()
    again = result_of(start(verified_again, str(lab.path), lab.clock.wall()))
    assert again == found.to_json()


@pytest.mark.parametrize("zone", ["Asia/Kathmandu", "America/New_York"])
def test_a_journal_verifies_under_another_time_zone(lab, zone):
    busy(lab, 3)
    lab.fp.seal()
    found = lab.fp.verify().to_json()
    lab.fp.close()
    child = start(verified_again, str(lab.path), lab.clock.wall(), env={"TZ": zone})
    assert result_of(child) == found


def test_a_journal_that_was_dumped_as_text_and_loaded_again_verifies(lab, tmp_path):
    busy(lab)
    lab.fp.seal()
    found = lab.fp.verify()
    target = tmp_path / "loaded.db"
    with lab.sql() as own, closing(connect(target)) as loaded:
        loaded.executescript("\n".join(own.iterdump()))
    assert lab.open(target).verify() == found


def test_the_time_in_an_entry_is_the_time_in_the_row_to_the_microsecond(lab):
    lab.clock.advance(0.123_457)
    receipt = lab.lease().submit(1)
    assert receipt.entry["at"] == "2026-01-01T00:00:00.123457Z" == to_rfc3339(START + 123_457)
    assert lab.fp.task(receipt.task_id).changed_at == START + 123_457


@pytest.mark.parametrize("seed", range(12))
def test_a_flipped_byte_of_an_entry_fails_with_its_place(lab, seed):
    busy(lab, 4)
    lab.fp.seal()
    draw = random.Random(seed)
    with lab.sql() as own:
        ((entries,),) = own.execute("select max(number) from fencepost_entry").fetchall()
        number = draw.randint(1, entries)
        ((body,),) = own.execute(
            "select body from fencepost_entry where number = ?", (number,)
        ).fetchall()
        place, bit = draw.randrange(len(body)), draw.randrange(8)
        damaged = bytearray(body)
        damaged[place] ^= 1 << bit
        print(f"seed {seed}: entry {number}, byte {place}, bit {bit}")
        own.execute(
            "update fencepost_entry set body = ? where number = ?", (bytes(damaged), number)
        )
    found = lab.fp.verify()
    assert not found.clean
    places = {problem.place.split("/")[0] for problem in found.problems}
    assert places & {f"entry {number}", "node 0"}
    assert any(p.place in (f"entry {number}", f"node 0/{number - 1}") for p in found.problems)


COLUMNS = [
    ("fencepost_task", "state", "'dead'"), ("fencepost_task", "revision", "revision + 1"),
    ("fencepost_task", "fence", "fence + 1"), ("fencepost_task", "attempt", "attempt + 1"),
    ("fencepost_task", "priority", "priority + 1"), ("fencepost_task", "due_at", "due_at + 1"),
    ("fencepost_task", "worker_id", "'someone'"), ("fencepost_task", "content", "zeroblob(32)"),
    ("fencepost_payload", "body", "cast('\"other\"' as blob)"),
    ("fencepost_result", "sha256", "zeroblob(32)"),
    ("fencepost_result", "body", "cast('\"other\"' as blob)"),
    ("fencepost_result", "commitment", "'accepted'"),
    ("fencepost_entry", "request_sha256", "zeroblob(32)"),
    ("fencepost_entry", "result_sha256", "zeroblob(32)"),
    ("fencepost_entry", "salt", "zeroblob(32)"),
]  # fmt: skip


@pytest.mark.parametrize(("table", "column", "value"), COLUMNS)
def test_an_edited_row_no_longer_agrees_with_its_last_entry(lab, table, column, value):
    busy(lab, 2)
    lease = lab.lease(payload="the row")
    lease.complete("the result", key="op-1")
    lab.fp.seal()
    with lab.sql() as own:
        named = "id" if table == "fencepost_task" else "task"
        own.execute(
            f"update {table} set {column} = {value} where {named} = "
            "(select id from fencepost_task where task_id = ?)",
            (lease.task_id,),
        )
    assert not lab.fp.verify().clean


# 74: cutting the tail still verifies

CUTS = {
    "the last three": "number > (select max(number) - 3 from fencepost_entry)",
    "all": "true",
    "the first": "number = 1",
    "one in the middle": "number = 7",
}


@pytest.mark.parametrize("sealed", [True, False], ids=["sealed", "not sealed"])
@pytest.mark.parametrize("cut", CUTS)
def test_entries_that_were_cut_out_are_missed(lab, cut, sealed):
    busy(lab, 3)
    if sealed:
        lab.fp.seal()
    with lab.sql() as own:
        own.execute(f"delete from fencepost_entry where {CUTS[cut]}")
    assert not lab.fp.verify().clean


def test_two_entries_that_changed_places_are_found(lab):
    busy(lab, 3)
    lab.fp.seal()
    with lab.sql() as own:
        for one, other in ((7, -1), (9, 7), (-1, 9)):
            own.execute("update fencepost_entry set number = ? where number = ?", (other, one))
    found = lab.fp.verify()
    places = {problem.place for problem in found.problems}
    assert places & {"entry 7", "node 0/6"} and places & {"entry 9", "node 0/8"}


def cut_whole(lab, entries):
    """Take back everything that came after so many entries, counters and tree too: what one who
    knows the program can do. The tasks of those entries were the last ones enqueued."""
    with lab.sql() as own:
        own.execute(
            "delete from fencepost_payload where task in "
            "(select id from fencepost_task where created_entry > ?)",
            (entries,),
        )
        own.execute("delete from fencepost_task where created_entry > ?", (entries,))
        own.execute("delete from fencepost_entry where number > ?", (entries,))
        own.execute("delete from fencepost_node")
        own.execute("delete from fencepost_checkpoint")
        own.execute(
            "update fencepost_store set last_entry = ?, "
            "last_task = (select max(id) from fencepost_task)",
            (entries,),
        )


def test_a_tail_cut_with_everything_that_belongs_to_it_shows_only_against_a_kept_checkpoint(lab):
    for number in range(9):
        lab.offer(number)
    kept = lab.fp.seal()
    cut_whole(lab, kept.size - 3)
    assert lab.fp.verify().clean, "nothing inside the file can show it, and the docs say so"
    assert not lab.fp.verify(since=kept).clean
    for number in range(3):  # and going on does not wash the trace away
        lab.offer(("new", number))
    lab.fp.seal()
    assert lab.fp.verify().clean
    assert not lab.fp.verify(since=kept).clean


def test_a_journal_goes_on_from_every_checkpoint_that_was_kept(lab):
    kept = []
    for number in range(5):
        lab.lease().complete(number)
        kept.append(lab.fp.seal())
    assert all(lab.fp.verify(since=head).clean for head in kept)


# 76: the payload goes through the database and comes back other

AWKWARD = {
    "b": 1, "a": 1.10, "aa": 1e2, "z": 9_007_199_254_740_991, "": None, "\U0001f600": [], "é": {},
    "e\u0301": "", "\x7f": "\u2028/", "nested": {"10": 1, "9": [1.0, -0.0, 1e-7, 1e21, True]},
}  # fmt: skip


def test_entries_and_contents_come_back_byte_for_byte_and_are_rfc_8785_to_anyone(lab):
    lease = lab.lease(payload=AWKWARD)
    receipt = lease.submit(AWKWARD, key="op-1")
    expected = rfc8785.dumps(AWKWARD)
    with raw(lab.path) as own:
        contents = own.execute("select body from fencepost_payload union all "
                               "select body from fencepost_result").fetchall()  # fmt: skip
        bodies = own.execute("select body from fencepost_entry").fetchall()
    assert expected in [body for (body,) in contents] and contents[-1] == (expected,)
    assert receipt.result_sha256 == hashlib.sha256(expected).digest()
    for (body,) in bodies:
        assert rfc8785.dumps(json.loads(body)) == body


def test_the_commitments_can_be_checked_with_nothing_but_sha_256(lab):
    """The documented form, written once more by hand: SHA-256 over label, salt and value."""
    receipt = lab.lease().submit(AWKWARD, key="op-1")
    shown = receipt.to_json()
    entry, opening = json.loads(shown["entry"]), shown["opening"]

    def commit(label, value):
        salted = b"fencepost-commit-v1\0" + label + b"\0" + bytes.fromhex(opening["salt"]) + value
        return hashlib.sha256(salted).hexdigest()

    assert entry["request"] == commit(b"request", bytes.fromhex(opening["request_sha256"]))
    assert entry["result"] == commit(b"result", bytes.fromhex(opening["result_sha256"]))
    assert entry["key"] == commit(b"key", b"op-1")
