"""Errors from below: a disk that fails, files that are read-only, damaged or not ours."""

from __future__ import annotations

import errno
import os
from collections import Counter

import pytest
from helpers.baddisk import SENT, compiled, erase, requests, work
from helpers.children import result_of, start
from helpers.lab import QUEUE, SCOPE, Lab, ask, raw
from helpers.leftovers import LETTERS, leftovers

import fencepost
from fencepost import commands as c
from fencepost.issues import SchemaMismatch, Unavailable
from fencepost.storage.sqlite import opening

UNAVAILABLE, UNKNOWN = "store_unavailable", "outcome_unknown"


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    library = compiled(tmp_path_factory.mktemp("shim"))
    if library is None:
        pytest.skip("NOT RUN: errors of the disk need a C compiler (cc) to be brought about")
    return library


def environment(shim, folder, fault, end):
    """What makes a child meet the fault in the file whose name ends so."""
    return {
        "LD_PRELOAD": str(shim), "FAULT": fault, "FAULT_FILE": end,
        "FAULT_ARMED": str(folder / "armed"),
    }  # fmt: skip


def on_a_bad_disk(shim, folder, fault):
    """The lab, the lease of its first task, and what a child was told on the bad disk and after."""
    lab = Lab(folder / "work.db")
    lease = lab.lease()
    lab.offer("second")
    env = environment(shim, folder, fault, "work.db-wal")
    arguments = (str(lab.path), lab.clock.wall(), env["FAULT_ARMED"], lease.task_id, lease.fence)
    return lab, lease, result_of(start(work, *arguments, env=env))


FAULTS = [
    f"{op}:{nth}:{code}{sticky}"
    for op, code, most in (
        ("sync", errno.EIO, 4), ("write", errno.EIO, 3), ("write", errno.ENOSPC, 3),
    )
    for nth in range(1, most + 1)
    for sticky in ("", ":s")
]  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_whatever_call_of_the_disk_fails_no_answer_is_wrong(shim, tmp_path, fault):
    lab, lease, told = on_a_bad_disk(shim, tmp_path, fault)
    print(fault, [(t["bad"]["status"], t["bad"]["issue"]) for t in told])
    known = requests(lease.task_id, lease.fence)
    for name, answer in zip(SENT, told, strict=True):
        bad, well = answer["bad"], answer["well"]
        assert bad["issue"] in (None, UNAVAILABLE, UNKNOWN), bad
        assert well["status"] == "accepted", f"{name} after the disk is well: {well}"
        if bad["issue"] == UNAVAILABLE:
            assert not well["replayed"], f"{name}: {bad['message']}, but it was done"
        if name == "claim":
            continue
        assert bad["issue"] != UNKNOWN or fault.endswith(":s"), "the receipts could have told"
        if bad["issue"] is None:
            assert well["entry"] == bad["entry"], f"{name}: another receipt"
        (later,) = lab.fp.execute([known[name]])
        assert later.receipt.body.decode() == well["entry"]
    assert lab.fp.verify().clean
    with raw(lab.path) as own:
        assert own.execute("pragma integrity_check").fetchall() == [("ok",)]
    states = Counter(task.state for task in lab.fp.tasks(QUEUE))
    assert (states["done"], sum(states.values())) == (1, 3)
    lab.close()


def test_the_faults_are_brought_about(shim, tmp_path):
    """Else the test above would be about nothing."""
    lab, _, told = on_a_bad_disk(shim, tmp_path, f"sync:1:{errno.EIO}:s")
    assert [t["bad"]["status"] for t in told] == ["failed"] * 3
    assert told[1]["bad"]["issue"] in (UNAVAILABLE, UNKNOWN)
    lab.close()


@pytest.mark.parametrize("op", ["write", "sync"])
def test_an_erasure_stands_though_the_file_could_not_be_cleaned_and_is_cleaned_later(
    shim, lab, tmp_path, op
):
    marker = LETTERS[:20]
    task_id = lab.offer(marker * 20)
    env = environment(shim, tmp_path, f"{op}:1:{errno.EIO}:s", "work.db")
    arguments = (str(lab.path), lab.clock.wall(), env["FAULT_ARMED"], task_id)
    found = result_of(start(erase, *arguments, env=env))
    assert found["told"]["status"] == "accepted"
    assert (found["pending"], found["after"]) == (True, False)
    assert leftovers(lab.path, [marker]) == []
    assert lab.fp.verify().clean


# -- read-only, damaged, not ours


@pytest.fixture
def read_only(lab, monkeypatch):
    """A handle that finds the file read-only. Root may write any file, so the look is faked."""
    request = c.Request.of(c.Enqueue(QUEUE, (c.NewTask("kept"),)), "known")
    before = ask(lab.fp, request)
    look = opening.check_place

    def faked(*arguments):
        place = look(*arguments)
        return type(place)(place.path, place.filesystem, place.exists, False)

    monkeypatch.setattr(opening, "check_place", faked)
    return lab.open(), request, before


def test_a_read_only_store_blocks_changes_and_answers_reads_and_replays(lab, read_only):
    handle, request, before = read_only
    lease = lab.lease()
    dump = lab.dump()
    for command in (
        c.Enqueue(QUEUE, (c.NewTask("more"),)), c.Claim("w2", (QUEUE,)), c.Sweep(), c.Purge(),
        c.Complete(lease.task_id, "w1", lease.fence, result=1), c.Erase(lease.task_id),
        c.Cancel(lease.task_id), c.QueueSet(QUEUE, {"paused": True}), c.Revoke(), c.ClockReset(),
    ):  # fmt: skip
        outcome = ask(handle, command)
        assert (outcome.status, outcome.issues[0]) == ("blocked", "store_read_only"), command.verb
    again = ask(handle, request)
    assert again.replayed and again.receipt == before.receipt, "rule 3 comes before rule 4"
    assert handle.task(lease.task_id).state == "leased"
    assert handle.stats()["scope"] == SCOPE
    assert lab.dump() == dump


def read_all(path, ids):
    """Every payload and the whole journal, in a new handle."""
    with fencepost.open(str(path), scope=SCOPE) as fp:
        for task_id in ids:
            assert fp.task(task_id).payload.startswith("x")
        assert fp.verify().clean


@pytest.mark.parametrize("damage", ["cut", "overwritten"])
def test_a_damaged_file_is_told_and_nothing_of_it_is_guessed(lab, damage):
    ids = [lab.offer("x" * 2_000 + str(number)) for number in range(50)]
    lab.close()
    read_all(lab.path, ids)
    if damage == "cut":
        os.truncate(lab.path, os.path.getsize(lab.path) // 2)
    else:
        with open(lab.path, "r+b") as file:
            file.seek(4096 * 20)
            file.write(os.urandom(4096 * 10))
    with pytest.raises(Unavailable, match="damaged; keep it as it is and restore a backup"):
        read_all(lab.path, ids)


@pytest.mark.parametrize("content", [b"not a database, but long enough to be read" * 50, b"xy"])
def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path, content):
    path = tmp_path / "letter.txt"
    path.write_bytes(content)
    for create in (False, True):
        with pytest.raises(Unavailable, match=r"not a SQLite database|letter\.txt"):
            fencepost.open(str(path), create=create)
    assert path.read_bytes() == content


def test_a_database_of_somebody_elses_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "app.db"
    with raw(path) as own:
        own.execute("create table account (owner text)")
    for create in (False, True):
        with pytest.raises(Unavailable, match="not a Fencepost store"):
            fencepost.open(str(path), create=create)
    with raw(path) as own:
        assert own.execute("select name from sqlite_master").fetchall() == [("account",)]


def test_a_newer_schema_is_told_as_such(lab):
    lab.close()
    with raw(lab.path) as own:
        own.execute("update fencepost_store set schema_version = schema_version + 1")
    with pytest.raises(SchemaMismatch, match="use a newer one"):
        fencepost.open(str(lab.path))


def test_a_file_that_others_hold_locked_is_told_within_the_busy_time(lab):
    handle = lab.open()
    handle._store._write.execute("pragma busy_timeout = 50")
    with raw(lab.path) as other:
        other.execute("begin immediate")
        with pytest.raises(Unavailable, match="holds the file locked"):
            handle.enqueue(QUEUE, "x")
        other.execute("rollback")
    assert handle.enqueue(QUEUE, "x").task_id


SPOILT = {
    "the connection is closed": lambda connection: connection.close(),
    "SQLite has ended the snapshot": lambda connection: connection.execute("rollback"),
}


def spoil(store, what, told=None):
    """A snapshot inside which this happens, and then what is told is raised."""
    with store.reading():
        SPOILT[what](store._read)
        if told is not None:
            raise told


@pytest.mark.parametrize("what", SPOILT)
def test_what_breaks_a_snapshot_is_told_and_not_that_it_could_not_be_ended(lab, what):
    store = lab.fp._store
    for told in (OSError("first"), KeyboardInterrupt("first")):
        with pytest.raises(type(told), match="first"):
            spoil(store, what, told)
        store.reopen()
    with pytest.raises(Unavailable):
        spoil(store, what)
    store.reopen()
    with store.reading():
        assert lab.fp.task(lab.offer()).state == "ready"
    assert not store._read.in_transaction
    store._read.close()
    with pytest.raises(Unavailable), store.reading():
        pass
