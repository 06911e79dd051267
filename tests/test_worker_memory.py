"""What a worker must not forget over its own death, and that nothing else can spoil it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from helpers.shell import environment

from fencepost.commands import Claim, Complete, Request
from fencepost.handle.verbs import random_key
from fencepost.issues import InvalidRequest
from fencepost.worker import memory as memories
from fencepost.worker.memory import FILE, Memory, default_folder

IDENTITY = {"store": "/srv/work.db", "scope": "s", "worker": "w1"}
TASK = "01900000-0000-7000-8000-000000000001"


def claim() -> Request:
    return Request.of(Claim("w1", ("q",), limit=3), random_key())


def done(result: object = "ünïcode\n") -> Request:
    return Request.of(Complete(TASK, "w1", 7, result=result))


def opened(folder) -> Memory:
    return Memory(folder, IDENTITY)


def again(memory: Memory, folder) -> Memory:
    """As the next start would find it."""
    memory.close()
    return opened(folder)


def test_what_is_open_is_there_after_a_restart_byte_for_byte(tmp_path):
    memory = opened(tmp_path)
    asked, settled = claim(), done()
    memory.claiming(asked)
    memory.settle([("a:7", settled)])
    memory = again(memory, tmp_path)
    (kept,) = memory.claims.values()
    assert kept.request() == asked
    assert memory.settling["a:7"].request() == settled
    memory.close()


def test_what_can_be_done_again_is_remembered_without_a_sync_and_its_claim_with_one(
    tmp_path, monkeypatch
):
    memory = Memory(tmp_path, IDENTITY, again=True)
    synced = []
    monkeypatch.setattr(memories.os, "fsync", synced.append)
    memory.settle([("a:7", done())])
    assert synced == []
    memory.claiming(claim())
    assert len(synced) == 1
    memory = again(memory, tmp_path)
    assert memory.settling["a:7"].request() == done() and len(memory.claims) == 1
    memory.close()


def test_what_is_over_is_not_there_any_more(tmp_path):
    memory = opened(tmp_path)
    first, second = claim(), claim()
    for each in (first, second):
        memory.claiming(each)
    memory.settle([("a:7", done()), ("b:8", done("b"))])
    memory.settled(["a:7"])
    memory.claimed([first.key])
    memory = again(memory, tmp_path)
    assert list(memory.claims) == [second.key]
    assert list(memory.settling) == ["b:8"]
    memory.close()


def test_the_line_is_on_the_disk_before_the_call_returns(tmp_path, monkeypatch):
    memory, synced = opened(tmp_path), []
    monkeypatch.setattr(
        memories.os, "fsync", lambda file: synced.append((tmp_path / FILE).read_bytes())
    )
    asked = claim()
    memory.claiming(asked)
    assert asked.key in synced[-1].decode()
    memory.settle([("a:7", done()), ("b:8", done())])
    assert len(synced) == 2 and b"b:8" in synced[-1]
    memory.close()


def test_one_sync_for_many_settlings(tmp_path, monkeypatch):
    memory, synced = opened(tmp_path), []
    monkeypatch.setattr(memories.os, "fsync", synced.append)
    memory.settle([(f"{n}:1", done(n)) for n in range(100)])
    assert len(synced) == 1
    memory.close()


def test_when_all_is_settled_no_result_is_left_in_the_file(tmp_path):
    memory = opened(tmp_path)
    asked = claim()
    memory.claiming(asked)
    memory.settle([("a:7", done("secret"))])
    memory.settled(["a:7"])
    memory.claimed([asked.key])
    assert json.loads((tmp_path / FILE).read_text()) == {"worker": IDENTITY}
    memory.close()


def test_a_long_file_is_begun_anew_with_what_is_open(tmp_path, monkeypatch):
    monkeypatch.setattr(memories, "COMPACT_BYTES", 4_000)
    memory = opened(tmp_path)
    asked = claim()
    memory.claiming(asked)
    for n in range(200):
        memory.settle([(f"{n}:1", done("x" * 100))])
        memory.settled([f"{n}:1"])
    assert (tmp_path / FILE).stat().st_size < 8_000
    memory = again(memory, tmp_path)
    assert (list(memory.claims), memory.settling) == ([asked.key], {})
    memory.close()


@pytest.mark.parametrize("torn", range(1, 60))
def test_a_line_that_death_has_cut_hides_none_before_it(tmp_path, torn):
    memory = opened(tmp_path)
    asked = claim()
    memory.claiming(asked)
    memory.settle([("a:7", done())])
    memory.close()
    file = tmp_path / FILE
    file.write_bytes(file.read_bytes()[:-torn])
    memory = opened(tmp_path)
    assert list(memory.claims) == [asked.key]
    memory.settle([("b:8", done())])
    memory = again(memory, tmp_path)
    assert list(memory.claims) == [asked.key] and "b:8" in memory.settling
    memory.close()


def test_a_full_disk_leaves_the_lines_before_it_whole(tmp_path, monkeypatch):
    memory = opened(tmp_path)
    asked = claim()
    memory.claiming(asked)
    real = os.pwrite

    def full(file, data, place):
        if len(data) > 10:
            real(file, data[:10], place)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(memories.os, "pwrite", full)
    with pytest.raises(OSError, match="No space"):
        memory.claiming(claim())
    monkeypatch.undo()
    later = claim()
    memory.claiming(later)
    memory = again(memory, tmp_path)
    assert set(memory.claims) == {asked.key, later.key}
    memory.close()


def test_two_workers_of_one_name_are_refused_with_the_process_that_runs(tmp_path):
    memory = opened(tmp_path)
    with pytest.raises(InvalidRequest, match=rf"runs already \(process {os.getpid()}"):
        opened(tmp_path)
    memory.close()
    opened(tmp_path).close()


def test_another_worker_s_memory_is_refused_and_left_as_it_is(tmp_path):
    memory = opened(tmp_path)
    asked = claim()
    memory.claiming(asked)
    memory.close()
    with pytest.raises(InvalidRequest, match=r"memory of store /srv/work\.db scope s worker"):
        Memory(tmp_path, {**IDENTITY, "worker": "w2"})
    memory = opened(tmp_path)
    assert list(memory.claims) == [asked.key]
    memory.close()


def test_a_folder_that_cannot_be_is_told_as_bad_usage(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(InvalidRequest, match="--state"):
        opened(tmp_path / "file")


def test_the_lock_goes_with_a_killed_process(tmp_path):
    program = (
        "import sys, signal, pathlib\n"
        "from fencepost.worker.memory import Memory\n"
        f"held = Memory(pathlib.Path(sys.argv[1]), {IDENTITY!r})\n"
        "print('held', flush=True)\nsignal.pause()\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True,
        env=environment(),
    )  # fmt: skip
    assert child.stdout is not None and child.stdout.readline() == "held\n"
    with pytest.raises(InvalidRequest, match=str(child.pid)):
        opened(tmp_path)
    child.send_signal(signal.SIGKILL)
    child.communicate()
    opened(tmp_path).close()


def test_the_file_is_the_user_s_alone(tmp_path):
    memory = opened(tmp_path / "state")
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "state" / FILE).stat().st_mode & 0o777 == 0o600
    memory.close()


def test_store_scope_and_name_have_a_folder_each(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    folders = {default_folder({**IDENTITY, name: "other"}) for name in ("store", "scope", "worker")}
    assert len(folders | {default_folder(IDENTITY)}) == 4
    assert all(folder.parent == tmp_path / "fencepost" for folder in folders)


def test_a_memory_without_a_file_does_not_grow_with_what_is_over():
    memory = opened(None)
    for n in range(3):
        request = claim()
        memory.claiming(request)
        memory.settle([(f"task:{n}", done())])
        memory.settled([f"task:{n}"])
        memory.claimed([request.key])
    assert (memory.claims, memory.settling, memory._loose) == ({}, {}, [])
