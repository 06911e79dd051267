"""The doctor says what a store stands on; each ailment is named, with what to do about it."""

from __future__ import annotations

import json
import multiprocessing
import sqlite3

import pytest
from helpers.lab import START, raw
from helpers.workload import every_verb, opened

from fencepost.clock import FakeClock
from fencepost.issues import Forbidden, Unavailable
from fencepost.operate import doctor as looks
from fencepost.operate.doctor import LEVELS, Finding, doctor, worst
from fencepost.storage.sqlite.turn import TurnLock


@pytest.fixture
def clock():
    return FakeClock(START)


@pytest.fixture
def store(tmp_path, clock):
    with opened(tmp_path / "work.db", clock) as fp:
        yield fp


def named(findings, name):
    return [finding for finding in findings if finding.name == name]


def level(store, name):
    return worst(named(doctor(store), name))


def ailing(monkeypatch, store, **facts):
    """The store with other facts than it has."""
    about = store.about()
    monkeypatch.setattr(type(store), "about", lambda self: {**about, **facts})
    return doctor(store)


def test_a_sound_store_has_nothing_to_warn_of(store, monkeypatch):
    monkeypatch.setattr(looks, "LOW_DISK", 0)
    found = doctor(store)
    assert worst(found) in ("ok", "note")
    assert [f.name for f in found] == [
        "sqlite", "schema", "journal_mode", "synchronous", "filesystem", "disk", "permissions",
        "wal", "scrub", "identity", "journal", "leases", "writer", "containment", "turn", "clock",
    ]  # fmt: skip


def test_after_a_long_history_it_is_still_sound(store, clock, monkeypatch):
    monkeypatch.setattr(looks, "LOW_DISK", 0)
    every_verb(store, clock)
    store.seal()
    assert worst(doctor(store)) in ("ok", "note")


@pytest.mark.parametrize(
    ("version", "expected"),
    [("3.37.0", "note"), ("3.51.2", "note"), ("3.51.3", "ok"), ("3.52.0", "ok"), ("4.0.0", "ok")],
)
def test_a_sqlite_that_can_reset_its_log_is_noted(version, expected, store, monkeypatch):
    (found,) = named(ailing(monkeypatch, store, sqlite_version=version), "sqlite")
    assert found.level == expected
    assert ("in turns only" in found.message) == (expected == "note")


@pytest.mark.parametrize(
    ("facts", "name", "expected"),
    [
        ({"journal_mode": "delete"}, "journal_mode", "bad"),
        ({"synchronous": "normal"}, "synchronous", "bad"),
        ({"synchronous": "off"}, "synchronous", "bad"),
        ({"synchronous": "extra"}, "synchronous", "ok"),
        ({"wal_bytes": 2**30}, "wal", "warn"),
        ({"scrub_pending": True}, "scrub", "warn"),
        ({"filesystem": "nfs4"}, "filesystem", "warn"),
        ({"filesystem": "fuse.sshfs"}, "filesystem", "warn"),
        ({"filesystem": "unknown"}, "filesystem", "note"),
        ({"filesystem": "ext4"}, "filesystem", "ok"),
        ({"writable": False}, "permissions", "warn"),
        ({"unsealed": 50_001}, "journal", "warn"),
        ({"unsealed": 1}, "journal", "note"),
        ({"lapsed": 3}, "leases", "note"),
    ],
)
def test_an_ailment_is_named_with_what_to_do(facts, name, expected, store, monkeypatch):
    (found,) = named(ailing(monkeypatch, store, **facts), name)
    assert found.level == expected
    silent = expected == "ok" or facts == {"unsealed": 1}  # what needs nothing to be done
    assert bool(found.advice) != silent


def test_entries_that_wait_to_be_sealed_are_counted(store):
    store.enqueue("q", 1)
    store.enqueue("q", 2)
    (found,) = named(doctor(store), "journal")
    assert (found.level, found.message) == ("note", "2 of 2 entries are not sealed yet")
    store.seal()
    assert level(store, "journal") == "ok"


def test_lapsed_leases_are_counted(store, clock):
    store.enqueue("q", 1)
    store.claim("q", worker_id="w", lease_seconds=60)
    assert level(store, "leases") == "ok"
    clock.advance(60)
    (found,) = named(doctor(store), "leases")
    assert found.message.startswith("1 leases have ended")


def test_a_clock_that_is_behind_the_store_is_told(store, clock):
    store.enqueue("q", 1)
    clock.jump_wall(-90)
    (found,) = named(doctor(store), "clock")
    assert found.level == "warn"
    assert found.message == "the store's time is 90.0 s ahead of the wall clock"
    store.enqueue("q", 2)  # the store has met the jump by now
    messages = [finding.message for finding in named(doctor(store), "clock")]
    assert any("jumped by -90.0 s" in message for message in messages)


def hold(path, ready, over):
    turn = TurnLock(path)
    with turn:
        ready.set()
        over.wait(20)


def test_who_holds_the_turn_is_named(store, tmp_path, monkeypatch):
    monkeypatch.setattr(looks, "TURN_SECONDS", 0.05)
    context = multiprocessing.get_context("spawn")
    ready, over = context.Event(), context.Event()
    holder = context.Process(target=hold, args=(tmp_path / "work.db", ready, over))
    holder.start()
    try:
        assert ready.wait(20)
        (found,) = named(doctor(store), "turn")
    finally:
        over.set()
        holder.join(20)
    assert found.level == "bad"
    assert f"process {holder.pid} has it" in found.message
    assert level(store, "turn") in ("ok", "warn")  # it is free again


def test_a_file_that_everybody_may_write_is_told(store, tmp_path):
    assert level(store, "permissions") == "ok"
    (tmp_path / "work.db").chmod(0o666)
    (found,) = named(doctor(store), "permissions")
    assert found == Finding(
        "warn", "permissions", "every user of the machine may write the file (0666)",
        f"chmod o-w {tmp_path / 'work.db'}",
    )  # fmt: skip


def test_little_room_on_the_disk_is_told(store, monkeypatch):
    monkeypatch.setattr(looks, "LOW_DISK", 2**62)
    (found,) = named(doctor(store), "disk")
    assert found.level == "warn"


def test_a_store_in_memory_is_noted_as_what_it_is():
    with opened(":memory:") as fp:
        found = doctor(fp)
    assert named(found, "journal_mode")[0].message == "a store in memory: it ends with its process"
    assert named(found, "filesystem") == named(found, "permissions") == []
    assert worst(found) == "note"


def test_the_real_settings_are_read_from_the_connection_and_not_assumed(store):
    store._store._read.execute("pragma synchronous = off")
    assert level(store, "synchronous") == "bad"


def test_a_schema_that_somebody_has_changed_is_told(tmp_path, clock):
    path = tmp_path / "changed.db"
    with opened(path, clock) as fp:
        assert level(fp, "schema") == "ok"
    with raw(path) as connection:
        connection.execute("drop index fencepost_result_once")
        connection.execute("create index fencepost_mine on fencepost_task (priority)")
    with opened(path, clock) as fp:
        (found,) = named(doctor(fp), "schema")
    assert found.level == "bad"
    assert found.message.endswith("fencepost_mine, fencepost_result_once")


def test_a_schema_that_cannot_be_read_any_more_is_told_as_an_error(tmp_path, clock):
    path = tmp_path / "damaged.db"
    opened(path, clock).close()
    data = path.read_bytes()
    damaged = data.replace(b"erased bytes may still", b"erased bytes \xffay still", 1)
    assert damaged != data
    path.write_bytes(damaged)
    with opened(path, clock) as fp, pytest.raises(Unavailable, match="decode"):
        doctor(fp)


def test_findings_are_json_and_of_four_levels(store):
    found = [finding.to_json() for finding in doctor(store)]
    assert json.loads(json.dumps(found)) == found
    assert {finding["level"] for finding in found} <= set(LEVELS)
    assert found[0]["message"].startswith(f"SQLite {sqlite3.sqlite_version}")
    assert worst([]) == "ok"
    assert worst([Finding(level, "x", "") for level in ("warn", "bad", "ok")]) == "bad"


def test_only_operator_and_auditor_may_ask(store):
    assert doctor(store.as_caller("a", "auditor"))
    with pytest.raises(Forbidden):
        doctor(store.as_caller("w", "worker"))
