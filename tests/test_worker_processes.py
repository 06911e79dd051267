"""Handlers in processes of their own: what a killed worker has left, and what stays behind.

The command line's worker has the same tests in test_work_killed.py and test_worker_folder.py."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from helpers.shell import environment
from helpers.working import comes_true

import fencepost
from fencepost import offline
from fencepost.worker import OfflineWorker, containment, sweeping
from fencepost.worker.worker import cookie_of

HANDLERS = (
    "import os, subprocess\n"
    "def quick(work):\n"
    "    return work.attempt\n"
    "def left(work):\n"
    "    daemon = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
    "    with open('begun', 'w') as file:\n"
    "        file.write(f'{os.getppid()} {daemon.pid}.')\n"
    "    daemon.wait()\n"
)
PROGRAM = (
    "import fencepost, handlers_left\n"
    "with fencepost.open('fencepost.db') as fp:\n"
    "    fencepost.Worker(fp, 'q', handlers_left.left, worker_id='w', processes=True,\n"
    "                     state='state').run()\n"
)


@pytest.fixture
def fp(tmp_path, monkeypatch):
    temp = tmp_path / "temp"
    temp.mkdir()
    (tmp_path / "handlers_left.py").write_text(HANDLERS)
    monkeypatch.setattr("tempfile.tempdir", str(temp))
    monkeypatch.syspath_prepend(tmp_path)
    with fencepost.open(tmp_path / "fencepost.db", create=True) as handle:
        handle.queue_set("q", backoff_seconds=0, lease_seconds=600, max_lease_seconds=600)
        yield handle


def quick():
    from handlers_left import quick

    return quick


def runs(fp, tmp_path):
    worker = fencepost.Worker(
        fp, "q", quick(), worker_id="w", processes=True, exit_when_empty=True,
        state=tmp_path / "state", max_seconds=30,
    )  # fmt: skip
    return worker.run(), worker.counts


def test_what_a_killed_worker_and_its_killed_shim_have_left_is_ended_by_the_next_life(fp, tmp_path):
    fp.enqueue("q", 1)
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    told = environment(TMPDIR=str(tmp_path / "temp"), PYTHONPATH=path)
    first = subprocess.Popen([sys.executable, "-c", PROGRAM], cwd=tmp_path, env=told)
    begun = tmp_path / "begun"
    try:
        comes_true(lambda: begun.exists() and begun.read_text().endswith("."), seconds=30)
        shim, daemon = map(int, begun.read_text().rstrip(".").split())
        os.kill(shim, signal.SIGSTOP)  # it is not to see its worker die
    finally:
        first.kill()
        first.wait()
    os.kill(shim, signal.SIGKILL)
    prefix = cookie_of(fp, "w", tmp_path / "state") + "."
    assert daemon in sweeping.found(prefix)  # nobody is left who would end it
    try:
        assert runs(fp, tmp_path) == ("done", {"complete": 1, "retry": 1})
        assert sweeping.found(prefix) == []
    finally:
        sweeping.sweep(prefix)
    assert list((tmp_path / "temp").iterdir()) == []


def test_a_worker_with_processes_leaves_no_temporary_folder_behind(fp, tmp_path):
    fp.enqueue("q", 1)
    assert runs(fp, tmp_path) == ("done", {"complete": 1})
    assert list((tmp_path / "temp").iterdir()) == []


def test_an_offline_worker_with_processes_leaves_no_temporary_folder_behind(fp, tmp_path):
    fp.enqueue("q", 1)
    with offline.open(tmp_path / "offline.db", create=True, worker_id="w") as box:
        box.take(fp, "q", lease_seconds=600)
        worker = OfflineWorker(box, quick(), processes=True)
        assert (worker.run(), worker.counts) == ("done", {"complete": 1})
    assert list((tmp_path / "temp").iterdir()) == []


def test_where_no_lock_tells_that_a_worker_is_alone_it_ends_no_processes(tmp_path, monkeypatch, fp):
    """Every store in memory has one name: another program's may have a worker of this name."""
    monkeypatch.setattr(containment, "sweep", lambda prefix: pytest.fail("swept"))
    with fencepost.open(":memory:") as other:
        other.enqueue("q", 1)
        worker = fencepost.Worker(
            other, "q", quick(), worker_id="w", processes=True, exit_when_empty=True
        )
        assert (worker.run(), worker.counts) == ("done", {"complete": 1})
