"""Faults of the file (78, 80, 84, 86, 88, 92): copies, ids, durability, a full disk, its place."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import threading
import uuid
from contextlib import contextmanager

import pytest
from helpers.children import ended, result_of, start
from helpers.lab import QUEUE, ask, completion, raw
from helpers.tools import installed, tmpfs
from helpers.work import acknowledge_one, fill_up

import fencepost
from fencepost import NotFound, OutcomeUnknown, Unavailable
from fencepost import commands as c
from fencepost.storage.sqlite import place
from fencepost.storage.sqlite import store as store_module
from fencepost.storage.sqlite.transaction import SqliteTransaction

# 78: backup by copying the main file only


def test_a_backup_taken_while_writers_are_busy_holds_every_receipt_that_came_before_it(lab):
    writer, over, acknowledged = lab.open(), threading.Event(), []

    def write():
        for number in itertools.count():
            acknowledged.append(writer.enqueue(QUEUE, number))
            if over.is_set():
                return

    thread = threading.Thread(target=write)
    thread.start()
    copies = []
    for number in range(5):
        while len(acknowledged) < 20 * (number + 1):
            over.wait(0.001)
        before, target = list(acknowledged), lab.path.with_name(f"copy-{number}.db")
        lab.fp._store.backup(target, lambda done, pages: None)
        copies.append((before, target))
    over.set()
    thread.join()
    for before, target in copies:
        with raw(target) as own:
            assert own.execute("pragma integrity_check").fetchall() == [("ok",)]
            kept = dict(own.execute("select number, body from fencepost_entry").fetchall())
        assert {receipt.number: receipt.body for receipt in before}.items() <= kept.items()
        copy = lab.open(target)
        assert copy.verify().clean
        assert copy.task(before[-1].task_id).payload == len(before) - 1


def test_a_backup_never_overwrites_what_is_there(lab, tmp_path):
    target = tmp_path / "precious.txt"
    target.write_text("precious")
    with pytest.raises((FileExistsError, fencepost.FencepostError)):
        lab.fp._store.backup(target, lambda done, pages: None)
    assert target.read_text() == "precious"


# 80, what holds before a restore has a writer of its own: copies are opened as what they are


def test_a_fence_from_a_future_that_was_rolled_back_is_told_as_unknown(lab):
    """W1's lease was given after the copy: the copy refuses it by a code of its own."""
    task_id = lab.offer()
    rolled_back = lab.path.with_name("old.db")
    lab.fp._store.backup(rolled_back, lambda done, pages: None)
    lost = lab.claim("w1")
    old = lab.open(rolled_back)
    outcome = ask(old, completion(lost, "late"))
    assert outcome.issues == ("not_leased", "wrong_worker", "unknown_fence")
    assert old.task(task_id).state == "ready"


def test_ids_that_a_copy_gives_out_are_not_those_that_were_given_out_after_it(lab):
    lab.offer()
    rolled_back = lab.path.with_name("old.db")
    lab.fp._store.backup(rolled_back, lambda done, pages: None)
    lost = {lab.offer(n) for n in range(50)}
    old = lab.open(rolled_back)
    assert not lost & {old.enqueue(QUEUE, n).task_id for n in range(50)}


# 84: row ids are used again after delete


def test_ids_never_repeat_after_the_newest_task_or_all_of_them_are_gone(lab):
    lab.fp.queue_set(QUEUE, retain_seconds=0, destinations=[])
    old, numbers = lab.lease(), set()
    old.complete(1)
    for number in range(3):
        assert lab.fp.purge(QUEUE).task_ids
        with lab.sql() as own:
            assert own.execute("select count(*) from fencepost_task").fetchall() == [(0,)]
            if number == 1:
                own.execute("vacuum")
        new = lab.lease()
        assert new.task_id != old.task_id and uuid.UUID(new.task_id).version == 7
        with lab.sql() as own:
            numbers.update(own.execute("select id from fencepost_task").fetchall())
        assert ask(lab.fp, completion(old, 2)).issues == ("not_found",)
        with pytest.raises(NotFound):
            lab.fp.task(old.task_id)
        new.complete(number)
    assert numbers == {(2,), (3,), (4,)}


def test_entry_numbers_go_on_after_a_purge_and_a_restart(lab):
    lab.fp.queue_set(QUEUE, retain_seconds=0)
    last = lab.lease().complete(1).number
    purged = lab.fp.purge(QUEUE).receipt.number
    assert purged == last + 1
    lab.fp.close()
    assert lab.open().enqueue(QUEUE, 1).number == purged + 1


# 86: an acknowledged commit vanishes at power loss


def test_every_connection_that_writes_or_reads_is_synchronous_full(lab):
    store = lab.fp._store
    lab.offer()
    assert store.about()["synchronous"] == "full" and store.about()["journal_mode"] == "wal"
    store.reopen()
    with raw(lab.path) as application:
        application.execute("pragma synchronous = off")
        with lab.fp.within(application) as tx:
            tx.enqueue(QUEUE, "inside")
        connections = [store._write, store._read, application]
        assert [c.execute("pragma synchronous").fetchall() for c in connections] == [[(2,)]] * 3
        assert [c.execute("pragma wal_autocheckpoint").fetchall() for c in connections] == (
            [[(0,)]] * 3
        )


def can_trace():
    """Whether strace is here (or can be installed) and allowed to look at a child."""
    if installed("strace") is None:
        return False
    return subprocess.run(["strace", "-f", "-o", os.devnull, "true"], check=False).returncode == 0


@pytest.mark.skipif(not can_trace(), reason="needs strace and the right to trace a child")
@pytest.mark.parametrize("how", ["handle", "within"])
def test_the_log_is_synced_before_the_answer_is_given(lab, tmp_path, how):
    lab.offer()
    lab.fp.close()
    log = tmp_path / "calls"
    calls = "trace=fsync,fdatasync,pwrite64,write"
    strace = ["strace", "-f", "-y", "-e", calls, "-s", "64", "-o", str(log)]
    child = start(acknowledge_one, str(lab.path), how, wrapper=strace)
    assert result_of(child) == "done"
    lines = log.read_text().splitlines()
    marks = [n for n, line in enumerate(lines) if "ABOUT-TO-COMPLETE" in line or "ANSWERED" in line]
    assert len(marks) == 2
    between = lines[marks[0] : marks[1]]
    wrote = [n for n, line in enumerate(between) if re.search(r"pwrite64\(.*work\.db-wal", line)]
    synced = [
        n for n, line in enumerate(between) if re.search(r"f(data)?sync\(.*work\.db-wal", line)
    ]
    assert wrote and synced and max(synced) > max(wrote), "\n".join(between)


# 88: disk full


@contextmanager
def no_room(lab):
    """The file may not grow by a single page."""
    connection = lab.fp._store._write
    ((pages,),) = connection.execute("pragma page_count").fetchall()
    connection.execute(f"pragma max_page_count = {pages}")
    yield
    connection.execute("pragma max_page_count = 1073741823")


def test_a_full_disk_gives_a_clear_answer_leaves_nothing_half_done_and_needs_no_restart(lab):
    leases = [lab.lease(payload="x" * 2_000) for _ in range(3)]
    big = {"blob": "y" * 500_000}
    before = lab.dump()
    with no_room(lab):
        for lease in leases:
            with pytest.raises(Unavailable, match="the disk is full"):
                lease.complete(big, key=f"op-{lease.fence}")
        assert lab.dump() == before
        assert lab.fp.task(leases[0].task_id).state == "leased"
        assert [task.task_id for task in lab.fp.tasks(QUEUE)] == [x.task_id for x in leases]
        assert leases[0].renew() and lab.fp.verify().clean  # what needs no room goes on
    for lease in leases:
        lease.complete(big, key=f"op-{lease.fence}")
    assert lab.counts() == (3, 3, 3) and lab.fp.verify().clean


def test_when_the_disk_is_full_only_the_command_that_needs_room_fails(lab):
    leases = [lab.lease(payload=f"work {n}") for n in range(3)]
    with no_room(lab):
        renewed, large, other = lab.fp.execute([
            c.Renew(leases[0].task_id, "w1", leases[0].fence),
            completion(leases[1], "y" * 500_000),
            c.Renew(leases[2].task_id, "w1", leases[2].fence),
        ])  # fmt: skip
    assert large.issues == ("store_unavailable",) and "the disk is full" in large.message
    assert renewed.accepted and other.accepted
    assert lab.fp.task(leases[1].task_id).state == "leased"
    assert lab.counts() == (0, 0, 0)


def test_a_really_full_file_system_loses_nothing_and_recovers_without_a_restart(tmp_path):
    folder = tmp_path / "small"
    with tmpfs(folder, "4m"):
        told = result_of(start(fill_up, str(folder / "work.db")))
    assert set(told["errors"]) <= {"Unavailable", "OutcomeUnknown"} and told["errors"]
    assert told["reads_while_full"] >= told["acknowledged"] > 0
    assert told["kept"] == told["results"] == told["receipts"]
    assert told["kept"] >= told["acknowledged"]
    assert told["after_room_was_made"] == "accepted" and told["clean"]


class BrokenDisk:
    """Commits fail, and while `away` nothing can be opened either."""

    def __init__(self, monkeypatch):
        self.patch = monkeypatch
        self.commit, self.connect = SqliteTransaction.commit, store_module.connect

    def fails(self):
        def commit(transaction):
            transaction.rollback()
            raise OutcomeUnknown("the disk went away")

        def connect(*arguments, **options):
            raise Unavailable("the disk is still away")

        self.patch.setattr(SqliteTransaction, "commit", commit)
        self.patch.setattr(store_module, "connect", connect)

    def commits_again(self):
        self.patch.setattr(SqliteTransaction, "commit", self.commit)

    def is_well(self):
        self.commits_again()
        self.patch.setattr(store_module, "connect", self.connect)


@pytest.fixture
def disk(monkeypatch):
    return BrokenDisk(monkeypatch)


def test_after_a_failed_commit_and_a_failed_reopening_the_store_comes_back_by_itself(lab, disk):
    lease = lab.lease()
    disk.fails()
    with pytest.raises(OutcomeUnknown):
        lease.complete("answer", key="op-1")
    disk.commits_again()
    with pytest.raises(Unavailable, match="still away"):  # nothing is answered from what is lost
        lease.complete("answer", key="op-1")
    disk.is_well()
    lease.complete("answer", key="op-1")
    assert lab.counts() == (1, 1, 1) and lab.fp.verify().clean


def test_a_store_whose_disk_stays_away_can_still_be_closed(lab, disk):
    lease = lab.lease()
    disk.fails()
    with pytest.raises(OutcomeUnknown):
        lease.complete("answer")
    lab.fp.close()


def test_a_seal_whose_commit_fails_is_made_good_by_the_next_turn(lab, disk):
    lab.offer()
    disk.fails()
    with pytest.raises(OutcomeUnknown):
        lab.fp.seal()
    disk.is_well()
    assert lab.lease().complete("answer").number == lab.fp.seal().size
    assert lab.fp.verify().clean


def test_a_callers_transaction_whose_commit_fails_makes_the_store_reopen_before_the_next(
    lab, disk
):
    lease, write = lab.lease(), lab.fp._store._write
    with raw(lab.path) as application:
        disk.fails()
        with pytest.raises(OutcomeUnknown), lab.fp.within(application) as tx:
            tx.lease(lease.task_id, worker_id="w1", fence=lease.fence).complete("answer")
    disk.is_well()
    lease.complete("answer")
    assert lab.fp._store._write is not write
    assert lab.counts() == (1, 1, 1)


# 92: network file systems; more of it in test_place.py


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "9p", "fuse.sshfs"])
def test_a_store_on_a_network_file_system_is_refused_at_once_unless_it_is_named(
    tmp_path, monkeypatch, kind
):
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"1 0 0:1 / {tmp_path} rw - {kind} server:/share rw\n")
    monkeypatch.setattr(place, "_MOUNTINFO", str(mounts))
    path = str(tmp_path / "work.db")
    with pytest.raises(Unavailable, match=re.escape(kind)):
        fencepost.open(path, create=True)
    with pytest.raises(Unavailable):
        fencepost.open(path, create=True, allow_filesystem="ext4")
    assert not os.path.exists(path)
    with fencepost.open(path, create=True, allow_filesystem=kind) as fp:
        assert fp.enqueue(QUEUE, 1).task_id


def test_a_store_reached_through_a_symlink_is_the_same_store_with_the_same_turn(lab, tmp_path):
    (tmp_path / "link").mkdir()
    link = tmp_path / "link" / "alias.db"
    link.symlink_to(lab.path)
    alias = lab.open(link)
    task_id = lab.offer()
    assert [lease.task_id for lease in alias.claim(QUEUE, worker_id="w1")] == [task_id]
    assert [path.name for path in link.parent.iterdir()] == ["alias.db"]


def test_a_child_that_is_told_nothing_fails_loudly_and_not_for_ever():
    code, _, err = ended(start(acknowledge_one, "/nonexistent/work.db", "handle"))
    assert code == 1 and "Unavailable" in err
