"""A restore of the wrong thing, or to the wrong place, is refused and leaves nothing behind."""

from __future__ import annotations

import json
import os
import shutil

import pytest
from helpers.restoring import world

from fencepost import InvalidRequest, JournalBroken, SchemaMismatch, Unavailable
from fencepost.alone import alone
from fencepost.operate.backup import backup, manifest_of


@pytest.fixture
def it(tmp_path):
    with world(tmp_path) as made:
        yield made


def edited(it, **facts):
    path = manifest_of(it.backup)
    path.write_text(json.dumps({**json.loads(path.read_text()), **facts}))


def truncated(it):
    os.truncate(it.backup, it.backup.stat().st_size - 1)


def turned(it):
    content = bytearray(it.backup.read_bytes())
    content[len(content) // 2] ^= 1
    it.backup.write_bytes(content)


def longer(it):
    with it.backup.open("ab") as file:
        file.write(b"\0")


def of_another(it):
    """Two backups, and the manifest of one beside the other."""
    it.future()
    other = it.backup.with_name("other.db")
    backup(it.old.fp, other)
    shutil.copy(manifest_of(other), manifest_of(it.backup))


def no_store(it):
    """A file that is all that its manifest says, and no store."""
    from hashlib import sha256

    content = b"SQLite format 3\0" + bytes(4080)
    it.backup.write_bytes(content)
    edited(it, bytes=len(content), sha256=sha256(content).hexdigest())


def replaced(content):
    def do(it):
        manifest_of(it.backup).write_bytes(content)

    return do


WRONG = {
    "shorter by a byte": (truncated, JournalBroken),
    "a bit of it turned": (turned, JournalBroken),
    "longer by a byte": (longer, JournalBroken),
    "the manifest of another": (of_another, JournalBroken),
    "another digest": (lambda it: edited(it, sha256="0" * 64), JournalBroken),
    "no store": (no_store, (JournalBroken, Unavailable)),
    "an older schema": (lambda it: edited(it, schema_version=0), SchemaMismatch),
    "a newer schema": (lambda it: edited(it, schema_version=99), SchemaMismatch),
    "a size that is a text": (lambda it: edited(it, bytes="many"), Unavailable),
    "no manifest": (lambda it: manifest_of(it.backup).unlink(), InvalidRequest),
    "no backup": (lambda it: it.backup.unlink(), InvalidRequest),
    "a manifest that is a list": (replaced(b"[]"), Unavailable),
    "a manifest that is no JSON": (replaced(b"{"), Unavailable),
    "a manifest that is too deep": (replaced(b"[" * 99_999), Unavailable),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_backup_is_refused_and_nothing_is_left(it, what):
    spoil, raises = WRONG[what]
    spoil(it)
    with pytest.raises(raises):
        it.restore()
    assert it.beside() == []


def test_a_good_backup_can_be_restored_where_a_wrong_one_was_refused(it):
    good = it.backup.with_name("good.db")
    backup(it.old.fp, good)
    turned(it)
    with pytest.raises(JournalBroken):
        it.restore()
    it.backup = good
    assert it.restore().complete


@pytest.mark.parametrize("what", ["", "-wal", "-journal"])
def test_what_lies_where_the_store_is_to_be_is_not_touched(it, what):
    """Also the log of a store that was lost: SQLite would take it for the new one's."""
    there = it.target.with_name(it.target.name + what)
    there.write_bytes(b"somebody's")
    with pytest.raises(InvalidRequest, match="is there"):
        it.restore()
    assert it.beside() == [there.name] and there.read_bytes() == b"somebody's"


def test_a_store_that_is_there_goes_on(it):
    it.future()
    with pytest.raises(InvalidRequest, match="is there already"):
        it.restore(it.folder / "old" / "store.db")
    assert it.old.fp.verify().clean and it.old.fp.task(it.tasks[3]).state == "done"
    it.late.complete("r4")


def test_a_dangling_link_is_not_followed_to_where_it_leads(it):
    """The new store is where the link leads to, as that of any other program would be."""
    link = it.folder / "link.db"
    link.symlink_to(it.target)
    assert it.restore(link).complete
    assert it.target.is_file() and not it.target.is_symlink()


def test_two_restores_at_once_do_not_meet(it):
    guard = alone(it.target.with_name("store.db.restore.lock"))
    try:
        with pytest.raises(Unavailable, match=f"process {os.getpid()} is at it already"):
            it.restore()
    finally:
        os.close(guard)
    assert it.restore().complete


def test_another_backup_does_not_go_on_with_a_run_that_was_interrupted(it):
    other = it.backup.with_name("other.db")
    it.future()
    backup(it.old.fp, other)
    it.web.close()
    assert not it.restore().complete
    first, it.backup = it.backup, other
    with pytest.raises(InvalidRequest, match="a run about something else was not finished"):
        it.restore()
    it.web.listen()
    it.backup = first
    assert it.restore().complete


def test_what_somebody_else_has_put_there_meanwhile_is_not_written_over(it):
    it.web.close()
    assert not it.restore().complete
    it.target.write_bytes(b"somebody's")
    it.web.listen()
    with pytest.raises(InvalidRequest, match="made meanwhile"):
        it.restore()
    assert it.target.read_bytes() == b"somebody's"
    it.target.unlink()
    assert it.restore().complete


def test_of_several_backups_the_one_that_was_named_is_restored_whatever_their_times_say(it):
    """The receipt says how far it had come, by which one is told from another."""
    names, entries = [], []
    for number in range(3):
        it.old.results(number)
        path = it.backup.with_name(f"{number}.db")
        entries.append(backup(it.old.fp, path)["entries"])
        names.append(path)
    assert entries == sorted(set(entries))
    for age, path in enumerate(reversed(names)):  # the newest looks the oldest
        for each in (path, manifest_of(path)):
            os.utime(each, (2_000_000_000 + age, 2_000_000_000 + age))
    for number, path in enumerate(names):
        it.backup = path
        told = it.restore(it.folder / f"restored-{number}.db", take_over=True)
        assert told.complete and told["backup"]["entries"] == entries[number]
        with it.opened(it.folder / f"restored-{number}.db") as new:
            counted = [new.fp.results(task.task_id) for task in new.fp.tasks("pages")]
            done = sum(1 for each in counted for _ in each)
            assert done == 2 + number


def test_the_same_backup_twice_to_one_place_is_refused_the_second_time(it):
    assert it.restore().complete
    with pytest.raises(InvalidRequest, match="is there already"):
        it.restore()
    with it.opened() as new:
        assert new.fp.verify().clean


def test_what_cannot_be_written_is_told(it, tmp_path):
    with pytest.raises(InvalidRequest, match="does not exist"):
        it.restore(tmp_path / "nowhere" / "store.db")
    for wrong in ({"min_epoch": -1}, {"overrides": ("default/out",)}):
        with pytest.raises(InvalidRequest):
            it.restore(**wrong)
        assert it.beside() == []
