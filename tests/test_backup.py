"""A backup is taken while others write, checked before it has its name, and overwrites nothing."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading

import pytest
from helpers.lab import START, raw
from helpers.workload import every_verb, opened

from fencepost.clock import FakeClock, to_rfc3339
from fencepost.issues import Forbidden, InvalidRequest, JournalBroken, Unavailable
from fencepost.journal import checkpoint
from fencepost.operate.backup import backup, manifest_of
from fencepost.operate.care import init


@pytest.fixture
def store(tmp_path):
    """A store with a history, open; and where its backup goes."""
    clock = FakeClock(START)
    with opened(tmp_path / "work.db", clock) as fp:
        every_verb(fp, clock)
        yield fp


@pytest.fixture
def target(tmp_path):
    (tmp_path / "backups").mkdir()
    return tmp_path / "backups" / "copy.db"


def beside(target):
    return sorted(path.name for path in target.parent.iterdir())


def test_a_backup_is_the_whole_store_and_opens_as_what_it_is(store, target):
    backup(store, target)
    with opened(target) as copy:
        assert [view.body for view in copy.entries()] == [view.body for view in store.entries()]
        assert copy.verify() == store.verify()
        assert copy.about()["writer_id"] == store.about()["writer_id"]


def test_nothing_lies_beside_it_but_its_manifest(store, target):
    backup(store, target)
    assert beside(target) == ["copy.db", "copy.db.manifest.json"]


def test_the_manifest_says_what_the_copy_is(store, target):
    facts = backup(store, target)
    assert json.loads(manifest_of(target).read_text(encoding="utf-8")) == facts
    head, about = store.seal(), store.about()
    assert checkpoint.parse(facts["checkpoint"].encode()) == head
    assert facts["bytes"] == target.stat().st_size
    assert facts["sha256"] == hashlib.sha256(target.read_bytes()).hexdigest()
    assert (facts["entries"], facts["unsealed"]) == (head.size, 0)
    for name in ("writer_id", "epoch", "floor", "last_fence", "schema_version"):
        assert facts[name] == about[name]
    assert facts["sqlite_version"] == sqlite3.sqlite_version
    assert facts["created_at"] == to_rfc3339(store.clock.wall())
    assert facts["fencepost_version"]


def test_the_manifest_names_the_writers_and_the_destinations_without_what_lets_anybody_in(
    store, target
):
    store.destination_set("out", "https://example.org/hook/t0ken?key=k3y", class_="fenced",
                          options={"headers": {"authorization": "Bearer h3ader"}})  # fmt: skip
    _, secret = store.destination_secret("out")
    facts = backup(store, target)
    writers = store.writers()
    assert facts["incarnation"] == writers[-1].incarnation
    assert facts["lineage"] == [[each.epoch, each.incarnation] for each in writers]
    told = next(each for each in facts["destinations"] if each["queue"] == "out")
    assert told == {
        "scope": store.scope_name, "queue": "out", "address": "https://example.org/***",
        "class": "fenced",
    }  # fmt: skip
    written = manifest_of(target).read_text(encoding="utf-8")
    assert not [each for each in ("t0ken", "k3y", "h3ader", secret) if each in written]


def test_every_receipt_given_before_the_start_is_in_it_while_others_go_on(store, target, tmp_path):
    stop, given = threading.Event(), []

    def busy(seed):
        with opened(tmp_path / "work.db", seed=seed) as other:
            while not stop.is_set():
                given.append(other.enqueue("busy", len(given)))

    threads = [threading.Thread(target=busy, args=(seed,)) for seed in (11, 12)]
    for thread in threads:
        thread.start()
    try:
        while len(given) < 50:
            stop.wait(0.001)
        before = list(given)
        facts = backup(store, target)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    with opened(target) as copy:
        kept = {view.number: view.body for view in copy.entries()}
        assert copy.verify().problems == ()
    assert len(kept) == facts["entries"]
    assert [kept.get(receipt.number) for receipt in before] == [r.body for r in before]


def test_writers_go_on_between_the_steps_of_the_copy(store, target, tmp_path):
    list(store.enqueue_many("big", [{"payload": "x" * 20_000} for _ in range(150)]))
    steps, during = [], []
    with opened(tmp_path / "work.db", seed=8) as other:

        def tell(what, done, total):
            if what == "pages":
                steps.append((done, total))
                during.append(other.enqueue("busy", len(steps)).number)

        facts = backup(store, target, tell)
        assert other.verify().problems == ()
    assert len(steps) >= 3  # in steps, and each time a command of another went through
    assert [done for done, _ in steps] == sorted(done for done, _ in steps)
    assert len({total for _, total in steps}) == 1  # one moment: it never starts over
    assert facts["entries"] < min(during)


def test_progress_goes_through_pages_check_entries_and_tasks(store, target):
    list(store.enqueue_many("q", [{"payload": n} for n in range(600)]))
    for number in range(500):
        store.enqueue("r", number)
    told = []
    backup(store, target, lambda what, done, total: told.append(what))
    assert list(dict.fromkeys(told)) == ["pages", "integrity", "entries", "tasks"]


def test_what_is_there_is_not_overwritten_without_force(store, target):
    target.write_bytes(b"something dear")
    with pytest.raises(InvalidRequest, match="is there already"):
        backup(store, target)
    assert (target.read_bytes(), beside(target)) == (b"something dear", ["copy.db"])
    backup(store, target, force=True)
    with opened(target) as copy:
        assert copy.verify().clean


def test_a_second_backup_replaces_file_and_manifest_together(store, target):
    first = backup(store, target)
    store.enqueue("q", "more")
    second = backup(store, target, force=True)
    assert second["entries"] == first["entries"] + 1
    assert json.loads(manifest_of(target).read_text(encoding="utf-8")) == second
    assert hashlib.sha256(target.read_bytes()).hexdigest() == second["sha256"]


def test_the_store_itself_is_never_a_target(store, tmp_path):
    link = tmp_path / "link.db"
    link.symlink_to(tmp_path / "work.db")
    for name in (tmp_path / "work.db", link):
        with pytest.raises(InvalidRequest, match="the store itself"):
            backup(store, name, force=True)
    assert store.verify().clean


def test_a_file_that_is_in_use_is_not_replaced(store, target):
    backup(store, target)
    with opened(target) as other:
        other.enqueue("q", 1)
        with pytest.raises(InvalidRequest, match="in use"):
            backup(store, target, force=True)
        assert other.verify().clean


def test_a_target_that_cannot_be_is_told_before_anything_is_done(store, target, tmp_path):
    with pytest.raises(InvalidRequest, match="is a directory"):
        backup(store, target.parent)
    with pytest.raises(InvalidRequest, match="does not exist"):
        backup(store, tmp_path / "nowhere" / "copy.db")
    assert beside(target) == []


class Interrupted(Exception):
    pass


@pytest.mark.parametrize("phase", ["pages", "integrity"])
def test_a_backup_that_is_interrupted_never_has_the_good_name(phase, store, target):
    def tell(what, done, total):
        if what == phase:
            raise Interrupted

    with pytest.raises(Interrupted):
        backup(store, target, tell)
    assert "copy.db" not in beside(target)
    assert "copy.db.manifest.json" not in beside(target)
    backup(store, target)  # what was left does not stand in the way
    assert beside(target) == ["copy.db", "copy.db.manifest.json"]


def test_a_copy_that_is_not_what_its_journal_says_is_refused(store, target, tmp_path):
    with raw(tmp_path / "work.db") as connection:
        connection.execute("update fencepost_result set body = x'7b7d' where body is not null")
    with pytest.raises(JournalBroken, match="result_edited"):
        backup(store, target)
    assert beside(target) == ["copy.db.partial"]


def test_an_older_backup_stays_when_a_new_one_fails(store, target, tmp_path):
    first = backup(store, target)
    with raw(tmp_path / "work.db") as connection:
        connection.execute("delete from fencepost_payload")
    with pytest.raises(JournalBroken):
        backup(store, target, force=True)
    assert hashlib.sha256(target.read_bytes()).hexdigest() == first["sha256"]
    assert json.loads(manifest_of(target).read_text(encoding="utf-8")) == first


def test_only_the_operator_makes_backups(store, target):
    for kind in ("auditor", "worker", "human"):
        with pytest.raises(Forbidden):
            backup(store.as_caller("a", kind), target)
    assert beside(target) == []


def test_a_store_in_memory_can_be_backed_up(target):
    with opened(":memory:") as fp:
        fp.enqueue("q", {"kept": True}, key="k")
        backup(fp, target)
    with opened(target) as copy:
        assert copy.task_by_key("q", "k").payload == {"kept": True}


def test_an_applications_own_tables_come_along(tmp_path, target):
    path = tmp_path / "app.db"
    with raw(path) as connection:
        connection.execute("create table dishes (name text)")
        connection.execute("insert into dishes values ('soup')")
    init(str(path), into=True)
    with opened(path) as fp:
        fp.enqueue("q", 1)
        backup(fp, target)
    with raw(target) as connection:
        assert connection.execute("select name from dishes").fetchall() == [("soup",)]


def test_a_full_disk_is_told_and_leaves_no_backup(store, target, monkeypatch):
    def full(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fencepost.storage.sqlite.copying.os.fsync", full)
    with pytest.raises(Unavailable, match=r"could not be written: .*No space left"):
        backup(store, target)
    monkeypatch.undo()
    assert "copy.db" not in beside(target)
