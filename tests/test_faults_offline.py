"""Faults of the file (60, 88, 90, 92) and of clients that send again, in the outbox of a worker
without a network: it is a file of its own, and what was recorded in it exists nowhere else."""

from __future__ import annotations

import json
import re
import subprocess

import pytest
from helpers.holding import stopped_with_the_turn
from helpers.lab import QUEUE
from helpers.shell import command, environment
from helpers.tools import tmpfs

import fencepost
from fencepost import OutcomeUnknown, Unavailable, offline
from fencepost.storage.sqlite import place

DAY = 86_400


@pytest.fixture
def fp(tmp_path):
    with fencepost.open(tmp_path / "fencepost.db", create=True) as handle:
        handle.queue_set(QUEUE, max_lease_seconds=5 * DAY, max_hold_seconds=5 * DAY)
        yield handle


def taken(fp, folder, number=1):
    """An outbox with so many tasks."""
    fp.enqueue_many(QUEUE, ({"payload": n} for n in range(number)))
    box = offline.open(folder / "offline.db", create=True, worker_id="w")
    box.take(fp, QUEUE, limit=number, lease_seconds=5 * DAY)
    return box


def results(fp):
    return [[r.value for r in fp.results(task.task_id)] for task in fp.tasks(QUEUE)]


def all_at_once(folder, *lines):
    """These command lines, each in a process of its own, begun together: (exit code, JSON)."""
    children = [
        subprocess.Popen(
            command("--json", "offline", *words), cwd=folder, env=environment(),
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )
        for words in lines
    ]  # fmt: skip
    told = [(child.communicate(timeout=50)[0], child.returncode) for child in children]
    return [(code, json.loads(out)) for out, code in told]


def test_processes_that_begin_fill_and_empty_one_outbox_at_once_lose_and_double_nothing(
    fp, tmp_path
):
    fp.enqueue_many(QUEUE, ({"payload": n} for n in range(8)))
    take = ("take", QUEUE, "-n", 3, "--lease-seconds", DAY, "--worker", "w")
    told = all_at_once(tmp_path, *[take] * 4)
    assert [code for code, _ in told] == [0] * 4
    ids = [task_id for _, each in told for task_id in each["task_ids"]]
    assert sorted(ids) == sorted(task.task_id for task in fp.tasks(QUEUE))
    told = all_at_once(tmp_path, *[("record", ids[0], f'{{"n": {n % 2}}}') for n in range(4)])
    assert sorted(code for code, _ in told) == [0, 0, 3, 3]
    assert sum(each.get("new", False) for _, each in told) == 1
    told = all_at_once(tmp_path, *[("sync",)] * 4)
    assert [code for code, _ in told] == [0] * 4
    assert sum(each["accepted"] for _, each in told) == 1
    assert sorted(len(each) for each in results(fp)) == [0] * 7 + [1]
    with offline.open(tmp_path / "offline.db") as box:
        assert box.verify().results == 1


def test_what_is_sent_again_and_again_while_the_store_is_busy_has_one_effect(fp, tmp_path):
    with taken(fp, tmp_path) as box:
        box.record(box.next().task_id, "form")
        with fencepost.open(tmp_path / "fencepost.db", wait_seconds=0.1) as slow:
            with stopped_with_the_turn(tmp_path / "fencepost.db"):
                for _ in range(5):
                    with pytest.raises(Unavailable):
                        box.sync(slow)
            assert (box.sync(slow).accepted, box.sync(slow).accepted) == (1, 0)
    assert results(fp) == [["form"]]
    assert sum(b'"verb":"complete"' in each.body for each in fp.entries()) == 1


def record_all(folder):
    """Record as long as it goes: (what was acknowledged, what the end was)."""
    kept = []
    with offline.open(folder / "offline.db") as box:
        while task := box.next():
            try:
                box.record(task.task_id, "x" * 60_000)
            except (Unavailable, OutcomeUnknown) as error:
                return kept, str(error)
            kept.append(task.task_id)
    return kept, ""


def test_an_outbox_on_a_full_disk_keeps_what_it_acknowledged_and_goes_on_when_there_is_room(
    fp, tmp_path
):
    folder = tmp_path / "small"
    with tmpfs(folder, "2m"):
        taken(fp, folder, 60).close()
        kept, why = record_all(folder)
        assert 0 < len(kept) < 60 and "the disk is full" in why
        with offline.open(folder / "offline.db") as box:
            assert box.counts()["results"] == len(kept) == box.verify().results
        subprocess.run(["mount", "-o", "remount,size=16m", folder], check=True)
        more, why = record_all(folder)
        assert why == "" and kept + more == [task.task_id for task in fp.tasks(QUEUE)]
        with offline.open(folder / "offline.db") as box:
            assert box.verify().results == 60
            assert box.sync(fp).accepted == 60
    assert results(fp) == [["x" * 60_000]] * 60


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs"])
def test_an_outbox_on_a_network_file_system_is_refused_at_once_unless_it_is_named(
    tmp_path, monkeypatch, kind
):
    mounts, path = tmp_path / "mountinfo", tmp_path / "offline.db"
    mounts.write_text(f"1 0 0:1 / {tmp_path} rw - {kind} server:/share rw\n")
    monkeypatch.setattr(place, "_MOUNTINFO", str(mounts))
    with pytest.raises(Unavailable, match=re.escape(kind)):
        offline.open(path, create=True, worker_id="w")
    assert not path.exists()
    offline.open(path, create=True, worker_id="w", allow_filesystem=kind).close()
