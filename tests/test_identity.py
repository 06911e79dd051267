"""Whose file is this: every way of copying a store, what is recognised of it, and what never is
taken for a copy. The limits stand in docs/identity.md, and here with their names."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import threading
from contextlib import closing
from dataclasses import replace as changed

import pytest
from helpers import sqlite_copies
from helpers.children import result_of, start
from helpers.faults import edit
from helpers.identity_kills import STORIES, killed_at_every_line
from helpers.lab import QUEUE, SCOPE, Lab, ask, raw, submission
from helpers.sqlite_copies import ENDING, UNSEEN, WAYS

import fencepost
from fencepost import OutcomeUnknown, Unavailable
from fencepost.lineage import UNHEARD
from fencepost.operate.doctor import doctor
from fencepost.storage.sqlite import identity, opening, sidecar
from fencepost.storage.sqlite.identity import Identity, Reading
from fencepost.storage.sqlite.sidecar import Record, Sidecar

WHY = "select why from fencepost_writer order by epoch"


def reasons(path):
    """Why each writer of the file was recognised, as it lies there."""
    with raw(path) as own:
        return [why for (why,) in own.execute(WHY)]


class Before:
    """A store in a folder of its own, before it is copied: a task is leased, a result accepted, and
    what it owes goes somewhere."""

    def __init__(self, folder):
        (folder / "live").mkdir(parents=True)
        self.lab = Lab(folder / "live" / "work.db")
        self.lab.fp.destination_set("outbox", "https://example.org/in", class_="fenced")
        self.lab.lease("w0").complete("before")
        self.lease = self.lab.lease("w1", lease_seconds=900)
        self.writer = self.lab.fp.writers()[-1]
        self.path = self.lab.path
        self.lab.fp.close()


@pytest.fixture
def before(tmp_path):
    made = Before(tmp_path)
    yield made
    made.lab.close()


def goes_on(before, fp):
    """The file is the store: nothing has begun, and the lease lives."""
    assert fp.writers()[-1] == before.writer
    assert fp.destination("outbox").stopped is None
    assert ask(fp, submission(before.lease, "late")).accepted


def began_anew(before, fp):
    """It is a copy: an epoch, an incarnation, no lease, nothing is delivered, and its fences are
    above all that anybody may have been given."""
    writer = fp.writers()[-1]
    assert (writer.why, writer.incarnation == before.writer.incarnation) == ("copied", False)
    assert writer.epoch >= before.writer.epoch + UNHEARD
    about = fp.about()
    assert (about["epoch"], about["floor"]) == (writer.epoch, writer.epoch)
    refused = ask(fp, submission(before.lease, "late"))
    assert (refused.status, refused.issues[0]) == ("failed", "stale_epoch")
    assert fp.destination("outbox").stopped == "copied"
    (again,) = fp.claim(QUEUE, worker_id="w2")
    assert again.task_id == before.lease.task_id
    assert again.fence == (writer.epoch << 32) + 1 and again.grant.epoch == writer.epoch
    again.complete("anew")
    assert fp.verify().clean


# -- the ways


def test_every_way_of_the_table_is_tried():
    assert len(WAYS) == 19 and set(UNSEEN) < set(WAYS)


@pytest.mark.parametrize("name", WAYS)
def test_what_a_way_of_copying_leaves_is_recognised_or_named_as_not(name, before, tmp_path):
    with sqlite_copies.copied(name, before.path, tmp_path / "made") as path:
        known = len(reasons(path))
        fp = before.lab.open(path)
        found = [w.why for w in fp.writers()][known:]
        assert found == ([] if name in UNSEEN else ["copied"])
        if name not in UNSEEN:
            began_anew(before, fp)
        elif "written over" not in name and "cloned" not in name:
            goes_on(before, fp)
        fp.close()
        with before.lab.open(path) as again:  # once is enough
            assert len(again.writers()) == known + len(found)


@pytest.mark.parametrize("name", ["cp", "cp -a of the folder", "VACUUM INTO"])
def test_the_store_itself_goes_on_beside_its_copies(name, before, tmp_path):
    with sqlite_copies.copied(name, before.path, tmp_path / "made") as path:
        before.lab.open(path)
        with before.lab.open() as fp:
            goes_on(before, fp)


def test_a_copy_of_a_copy_begins_the_next_epoch(before, tmp_path):
    path = before.path
    for number in range(1, 4):
        with sqlite_copies.copied("cp", path, tmp_path / str(number)) as path:
            fp = before.lab.open(path)
            assert [w.epoch for w in fp.writers()] == [UNHEARD * n for n in range(number + 1)]
            fp.close()


def test_two_copies_begin_the_same_epoch_as_two_incarnations(before, tmp_path):
    found = []
    for place in ("one", "two"):
        with sqlite_copies.copied("cp", before.path, tmp_path / place) as path:
            found.append(before.lab.open(path).writers()[-1])
    assert found[0].epoch == found[1].epoch and found[0].incarnation != found[1].incarnation


def test_ten_who_open_a_copy_at_once_recognise_it_once(before, tmp_path):
    with sqlite_copies.copied("cp", before.path, tmp_path / "made") as path:
        found = []

        def opens():
            with fencepost.open(path, scope=SCOPE) as fp:
                found.append(fp.writers())

        threads = [threading.Thread(target=opens) for _ in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(found) == 10 and {len(writers) for writers in found} == {2}


# -- the machine


def read_as(monkeypatch, **values):
    """From now on the system tells this."""
    real = identity.read
    monkeypatch.setattr(identity, "read", lambda place: changed(real(place), **values))


def test_a_restart_of_the_machine_begins_an_epoch_and_ends_no_lease(before, monkeypatch):
    read_as(monkeypatch, boot="another")
    fp = before.lab.open()
    writer = fp.writers()[-1]
    assert (writer.why, writer.epoch) == ("started", before.writer.epoch + 1)
    assert writer.incarnation != before.writer.incarnation
    assert fp.about()["floor"] == 0 and fp.destination("outbox").stopped is None
    assert ask(fp, submission(before.lease, "late")).accepted
    assert before.lab.open().writers() == fp.writers(), "once a start"
    (lease,) = fp.claim(worker_id="w", task_id=fp.enqueue(QUEUE, 1).task_id)
    assert lease.fence == (1 << 32) + 1 and fp.verify().clean


def test_another_machine_is_seen_after_a_start_and_not_under_the_same_kernel(before, monkeypatch):
    with monkeypatch.context() as patch:
        read_as(patch, machine="a container's")
        with before.lab.open() as fp:
            assert fp.writers()[-1] == before.writer
    read_as(monkeypatch, machine="another", boot="another")
    with before.lab.open() as fp:
        began_anew(before, fp)


def test_it_is_not_kept_which_machine_it_was(before):
    with open("/etc/machine-id", encoding="ascii") as file:
        machine = file.read().strip()
    assert machine.encode() not in before.path.read_bytes()


@pytest.mark.parametrize(
    "missing",
    [("handle",), ("born",), ("machine", "boot"), ("handle", "machine", "boot")],
)
def test_one_of_handle_and_birth_is_enough(missing, tmp_path, monkeypatch):
    read_as(monkeypatch, **dict.fromkeys(missing))
    before = Before(tmp_path)
    with sqlite_copies.copied("cp -a of the folder", before.path, tmp_path / "made") as path:
        with before.lab.open() as fp:
            goes_on(before, fp)
        with before.lab.open(path) as fp:
            assert fp.writers()[-1].why == "copied"
    before.lab.close()


def test_what_cannot_be_read_is_no_change(before, monkeypatch, tmp_path):
    """And where neither can be read, a folder that is copied whole passes for the store: said in
    the docs and by doctor."""
    read_as(monkeypatch, handle=None, born=None, machine=None, boot=None)
    with before.lab.open() as fp:
        assert fp.writers()[-1] == before.writer
    with sqlite_copies.copied("cp -a of the folder", before.path, tmp_path / "a") as path:
        fp = before.lab.open(path)
        assert fp.writers()[-1] == before.writer
        (found,) = [f for f in doctor(fp) if f.name == "identity"]
        assert found.level == "note" and "neither" in found.message
    with sqlite_copies.copied("cp", before.path, tmp_path / "b") as path:
        assert before.lab.open(path).writers()[-1].why == "copied", "its sidecar is missing"


def test_a_system_that_has_none_of_it_falls_back(before, monkeypatch):
    monkeypatch.setattr(identity, "MACHINE", "/nowhere")
    monkeypatch.setattr(identity, "BOOT", "/nowhere")
    monkeypatch.setattr(identity, "_libc", object)
    found = identity.read(opening.check_place(before.path))
    assert found == Reading(None, None, None, None)
    with before.lab.open() as fp:
        goes_on(before, fp)


def test_elsewhere_the_number_of_a_file_stands_beside_its_birth(before, monkeypatch):
    inode = os.stat(before.path).st_ino
    monkeypatch.setattr(identity.sys, "platform", "darwin")
    monkeypatch.setattr(identity.os, "name", "nt")
    assert identity._born(before.path).startswith(f"{inode}:")
    monkeypatch.setattr(identity.os, "name", "posix")
    assert identity._born(before.path) is None  # where Python tells no birth


# -- who may only read


@pytest.fixture
def read_only(monkeypatch):
    """Files are found read-only. Root may write any file, so the look is faked."""
    look = opening.check_place
    monkeypatch.setattr(opening, "check_place", lambda *a: changed(look(*a), writable=False))


def test_who_may_only_read_a_copy_changes_nothing_and_doctor_says_what_it_is(
    before, tmp_path, read_only
):
    with sqlite_copies.copied("cp", before.path, tmp_path / "made") as path:
        content = path.read_bytes()
        fp = before.lab.open(path)
        assert fp.writers() == (before.writer,)
        (found,) = [f for f in doctor(fp) if f.name == "identity"]
        assert (found.level, found.message) == (
            "warn", "this is a copy that nobody has recognised: it has no sidecar",
        )  # fmt: skip
        fp.close()
        assert path.read_bytes() == content and not path.with_name("copy.db-writer").exists()


def test_doctor_says_by_what_a_copy_would_be_known(before):
    (found,) = [f for f in doctor(before.lab.open()) if f.name == "identity"]
    assert found.level == "ok"
    assert found.message == "a copy is known by handle, born, machine, boot and the sidecar"


# -- the sidecar


def test_a_sidecar_that_cannot_be_used_is_named(before):
    own = before.path.with_name(before.path.name + ENDING)
    own.unlink()
    own.mkdir()
    with pytest.raises(Unavailable, match=r"work\.db-writer: the store's sidecar cannot be used"):
        before.lab.open()
    own.rmdir()
    own.symlink_to(before.path)
    with pytest.raises(Unavailable, match="sidecar"):
        before.lab.open()
    assert reasons(before.path) == ["installed"]


@pytest.mark.parametrize("content", [b"", b"not a sidecar", bytes(1536), b"fencepost-writer 1 \n"])
def test_a_sidecar_that_says_nothing_is_as_good_as_none(before, content):
    before.path.with_name(before.path.name + ENDING).write_bytes(content)
    with before.lab.open() as fp:
        began_anew(before, fp)


def test_a_missing_sidecar_is_recognised_and_made_anew(before):
    before.path.with_name(before.path.name + ENDING).unlink()
    with before.lab.open() as fp:
        began_anew(before, fp)
    assert Sidecar(before.path).read().high == (UNHEARD << 32) + sidecar.BLOCK


def test_the_sidecar_may_be_written_by_whoever_may_write_the_store(tmp_path):
    path = tmp_path / "work.db"
    path.touch()
    path.chmod(0o660)
    fencepost.open(path, create=True).close()
    assert path.with_name("work.db-writer").stat().st_mode & 0o777 == 0o660


def test_a_record_that_is_torn_at_any_byte_leaves_the_one_before(tmp_path):
    """Synced records are written by turns, so a power cut spoils at most the one that is being
    written; and a note that is torn, or lost, is none."""
    path = tmp_path / "work.db"
    path.touch()
    own = Sidecar(path)
    first = Record("n", 1, 0, 0, 100, 7)
    second = Record("n", 2, 0, 90, 200, 8)
    note = Record("n", 2, 3, 90, 200, 99)
    whole = []
    for write in (lambda: own.write(first), lambda: own.write(second), lambda: own.note(note)):
        write()
        whole.append(own.path.read_bytes())
    for done, coming, known in ((0, 1, first), (1, 2, second)):
        full = whole[coming]
        at = next(n for n in range(len(full)) if full[n : n + 1] != whole[done][n : n + 1])
        for length in range(at, len(full)):
            torn = full[:length] + whole[done][length:]
            own.path.write_bytes(torn)
            assert own.read() in (known, Sidecar_of(full, own)), length


def Sidecar_of(content, own):  # noqa: N802
    own.path.write_bytes(content)
    return own.read()


def test_fences_are_reserved_on_the_disk_before_they_are_given(tmp_path, monkeypatch):
    """A block at a time, and a sync a block."""
    synced = []
    real = os.fsync
    lab = Lab(tmp_path / "work.db")
    monkeypatch.setattr(sidecar.os, "fsync", lambda file: synced.append(file) or real(file))
    monkeypatch.setattr(sidecar, "BLOCK", 8)
    monkeypatch.setattr(identity, "BLOCK", 8)
    lab.fp.close()
    lab.path.with_name("work.db-writer").unlink()
    lab.fp = lab.open()
    del synced[:]
    fences = [lab.lease().fence for _ in range(40)]
    assert fences == list(range(fences[0], fences[0] + 40))
    record = Sidecar(lab.path).read()
    assert record.low <= fences[-1] <= record.high <= fences[-1] + 8
    assert record.entries == lab.fp.about()["entries"]
    own = os.stat(record and lab.path.with_name("work.db-writer")).st_ino
    assert own and 3 <= len(synced) <= 6
    lab.close()


def test_a_disk_that_cannot_reserve_fences_gives_none(tmp_path, monkeypatch):
    lab = Lab(tmp_path / "work.db")
    monkeypatch.setattr(identity, "BLOCK", 1)
    lab.fp._store._identity._known = changed(lab.fp._store._identity._known, high=0)
    lab.fp._store._identity.sidecar.write(changed(Sidecar(lab.path).read(), number=9, high=0))
    lab.offer()

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(sidecar, "_put", full)
        with pytest.raises(Unavailable, match="No space left"):
            lab.claim()
        assert lab.fp.about()["last_fence"] == 0
    assert lab.claim().fence == 1
    lab.close()


# -- a running process


def test_an_older_copy_that_is_written_into_the_store_in_use_is_recognised(before, tmp_path):
    old = sqlite_copies._backed_up(before.path, tmp_path / "old.db")
    fp = before.lab.open()
    fp.enqueue(QUEUE, "since then")
    sqlite_copies._backed_up(old, before.path)
    assert ask(fp, submission(before.lease, "late")).issues[0] == "stale_epoch"
    began_anew(before, fp)


def test_a_block_meets_it_as_an_error_and_the_next_one_is_of_the_new_epoch(before, tmp_path):
    old = sqlite_copies._backed_up(before.path, tmp_path / "old.db")
    fp = before.lab.open()
    fp.enqueue(QUEUE, "since then")
    sqlite_copies._backed_up(old, before.path)
    with closing(sqlite3.connect(before.path, isolation_level=None)) as own:
        with pytest.raises(Unavailable, match="come further"), fp.within(own) as tx:
            tx.enqueue(QUEUE, 1)
        assert reasons(before.path) == ["installed"]
        with fp.within(own) as tx:
            tx.enqueue(QUEUE, 1)
    assert reasons(before.path) == ["installed", "copied"]


def test_a_file_that_was_put_in_place_of_the_one_in_use_is_recognised(before, tmp_path):
    shutil.copy(before.path, tmp_path / "old.db")
    fp = before.lab.open()
    fp.enqueue(QUEUE, "since then")
    sqlite_copies._lose(before.path)
    with pytest.raises(Unavailable, match="the file is gone while it is in use"):
        fp.enqueue(QUEUE, "into nowhere")
    shutil.copy(tmp_path / "old.db", before.path)
    assert ask(fp, submission(before.lease, "late")).issues[0] == "stale_epoch"
    began_anew(before, fp)


def test_another_process_that_has_recognised_a_copy_is_followed(before, tmp_path, monkeypatch):
    """Its sidecar has another nonce: what is reserved and noted goes there."""
    monkeypatch.setattr(identity, "BLOCK", 2)
    old = sqlite_copies._backed_up(before.path, tmp_path / "old.db")
    here = before.lab.open()
    sqlite_copies._backed_up(old, before.path)
    before.path.with_name(before.path.name + ENDING).unlink()
    there = before.lab.open()
    assert there.writers()[-1].why == "copied"
    fences = set()
    for fp in (here, there) * 4:
        fp.enqueue(QUEUE, 1)
        fences |= {lease.fence for lease in fp.claim(QUEUE, worker_id="w")}
    assert len(fences) == 8 and min(fences) > UNHEARD << 32
    here.close()
    there.close()
    assert len(before.lab.open().writers()) == 2


def test_what_an_application_takes_back_is_not_missed(before):
    """By a savepoint of its own, in a block: the store has come less far than was saved."""
    fp = before.lab.open()
    own = sqlite3.connect(before.path, isolation_level=None)
    with fp.within(own) as tx:
        tx.enqueue(QUEUE, "stays")
        own.execute("savepoint theirs")
        tx.enqueue(QUEUE, "taken back")
        own.execute("rollback to theirs")
    own.close()
    fp.enqueue(QUEUE, "after")
    fp.close()
    with before.lab.open() as again:
        assert len(again.writers()) == 1


def test_a_commit_that_failed_is_not_missed(before, monkeypatch):
    from fencepost.storage.sqlite.transaction import SqliteTransaction

    fp = before.lab.open()

    def fails(self):
        self.rollback()
        raise OutcomeUnknown("planted")

    with monkeypatch.context() as patch:
        patch.setattr(SqliteTransaction, "commit", fails)
        with pytest.raises(Unavailable):
            fp.enqueue(QUEUE, 1)
    fp.enqueue(QUEUE, 2)
    fp.close()
    assert len(before.lab.open().writers()) == 1


# -- fences over a life of copies and restores


def one_life(folder, seed):
    """Leases are taken, older copies put back, files lost and replaced: every fence is given once
    in what one sidecar has seen, and each put-back is recognised."""
    print(f"seed {seed}")
    chance = random.Random(seed)
    lab = Lab(folder / "work.db", seed=seed)
    given, kept, ahead = set(), None, False
    for _ in range(30):
        match chance.choice(["claim", "claim", "claim", "keep", "over", "back", "reopen", "boot"]):
            case "claim":
                (lease,) = lab.fp.claim(worker_id="w", task_id=lab.offer())
                assert lease.fence not in given, "a fence was given again"
                given.add(lease.fence)
                ahead = True
            case "keep":
                kept = folder / "kept.db"
                kept.unlink(missing_ok=True)
                sqlite_copies._backed_up(lab.path, kept)
                ahead = False
            case "over" | "back" as how if kept is not None:
                before = lab.fp.writers()
                lab.fp.close()
                if how == "back":
                    sqlite_copies._lose(lab.path)
                    shutil.copy(kept, lab.path)
                else:
                    sqlite_copies._write_over(kept, lab.path)
                lab.fp = lab.open()
                if how == "back" or ahead:
                    last = lab.fp.writers()[-1]
                    assert last.why == "copied" and last.epoch > before[-1].epoch
                kept = None
            case "boot":
                lab.fp.close()
                with pytest.MonkeyPatch.context() as patch:
                    read_as(patch, boot=f"boot {chance.random()}")
                    lab.fp = lab.open()
            case _:
                lab.fp.close()
                lab.fp = lab.open()
    assert lab.fp.verify().clean
    lab.close()


@pytest.mark.parametrize("seed", range(6))
def test_no_fence_is_given_twice_whatever_is_put_back(seed, tmp_path):
    one_life(tmp_path, seed)


# -- killed between sidecar and store


@pytest.mark.parametrize("name", STORIES)
def test_killed_at_any_line_no_fence_is_given_twice_and_no_crash_passes_for_a_copy(name, tmp_path):
    step, first = 9, random.Random(name).randrange(1, 10)
    print(f"every {step} lines from {first}")
    found = result_of(start(killed_at_every_line, name, str(tmp_path), step, first))
    assert found["wrong"] == []
    assert found["deaths"] > 10


# -- what has none


def test_a_store_in_memory_has_a_writer_and_no_identity():
    with fencepost.open(":memory:", create=True) as fp:
        assert [(w.epoch, w.why) for w in fp.writers()] == [(0, "installed")]
        assert not [f for f in doctor(fp) if f.name == "identity"]


def test_a_store_in_an_applications_database_has_its_sidecar_beside_it(tmp_path):
    from fencepost.operate.care import init, uninstall

    path = tmp_path / "app.db"
    with raw(path) as own:
        own.execute("create table theirs (value text)")
    init(str(path), into=True)
    own = tmp_path / "app.db-writer"
    assert own.exists()
    shutil.copy(path, tmp_path / "copy.db")
    with fencepost.open(tmp_path / "copy.db") as fp:
        assert fp.writers()[-1].why == "copied"
    with fencepost.open(path) as fp:
        assert fp.writers()[-1].why == "installed"
    uninstall(str(path))
    assert not own.exists()


# -- planted: each net is able to fail


def seen_by(way):
    """The law of a way of copying."""

    def law(folder):
        made = Before(folder / "b")
        with sqlite_copies.copied(way, made.path, folder / "made") as path:
            began_anew(made, made.lab.open(path))

    return law


def of_another(folder):
    """The sidecar of another store, over which nothing else has changed, is seen."""
    made = Before(folder / "b")
    own = Sidecar(made.path)
    own.write(changed(own.read(), number=9, nonce="another"))
    with made.lab.open() as fp:
        began_anew(made, fp)


def heard(folder):
    """An epoch that the file has not heard of is stepped over, since its sidecar has."""
    made = Before(folder / "b")
    shutil.copy(made.path, folder / "old.db")
    for _ in range(2):
        made.path.with_name(made.path.name + ENDING).unlink()
        made.lab.open().close()
    sqlite_copies._write_over(folder / "old.db", made.path)
    with made.lab.open() as fp:
        assert fp.writers()[-1].epoch == 3 * UNHEARD


PLANTED = {
    "the handle is not compared": (
        identity.judged,
        '("handle", "the file is another one"), ("born", "the file was made anew")',
        '("machine", ""),', seen_by("rm, and cp back"),
    ),
    "the nonce is not compared": (
        identity.judged, 'if record.nonce != known.get("sidecar"):', "if False:", of_another
    ),
    "a missing sidecar is nothing": (
        identity.judged, 'return Change(COPIED, "it has no sidecar")', "return None",
        seen_by("mv of the file"),
    ),
    "how far it had come is not compared": (
        identity.judged,
        "if record.behind(state.epoch, state.last_fence, state.last_entry):", "if False:",
        seen_by("older file written over"),
    ),
    "how far it has come is not noted": (
        Identity.passed, "self.sidecar.note(self._known)", "pass",
        seen_by("backup API into the live file"),
    ),
    "leases go on": (
        Identity._recognised,
        'connection.execute(STATEMENTS["end_leases"], {"now": state.mark, "floor": floor})',
        "floor = state.floor", seen_by("cp"),
    ),
    "deliveries go on": (
        Identity._recognised,
        'connection.execute(STATEMENTS["stop_destinations"], {"why": change.why})', "pass",
        seen_by("cp"),
    ),
    "the sidecar's epoch is not heard": (
        Identity._recognised,
        "heard = max(heard, state.epoch, self._known.epoch, self._known.high >> 32)",
        "heard = max(heard, state.epoch)", heard,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_planted_is_seen(name, tmp_path, monkeypatch):
    function, old, new, law = PLANTED[name]
    edit(monkeypatch, function, old, new)
    with pytest.raises(AssertionError):
        law(tmp_path)


def test_a_sidecar_of_another_store_is_seen(tmp_path):
    of_another(tmp_path)


def test_an_epoch_of_which_only_the_sidecar_has_heard_is_stepped_over(tmp_path):
    heard(tmp_path)


def test_the_kept_identity_is_one_json_object(before):
    with raw(before.path) as own:
        ((kept,),) = own.execute("select identity from fencepost_writer").fetchall()
    assert set(json.loads(kept)) == {"handle", "born", "machine", "boot", "sidecar"}
    with raw(before.path) as own:
        own.execute("update fencepost_writer set identity = 'not json'")
    with before.lab.open() as fp:
        assert fp.writers()[-1].why == "copied"
