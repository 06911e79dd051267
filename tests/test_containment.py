"""No process of a task outlives its lease: each row is a way in which one could.

The commands are `helpers/hostile.py`: deaf to SIGTERM, daemons in sessions of their own, a hydra
that forks every millisecond. How long each took is printed (`pytest -rP`).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers import trees
from helpers.children import result_of, start

from fencepost.worker import containment, shim, sweeping, tree

LONG = 10.0  # seconds of grace that nobody needs
PLAIN, HYDRA = "deaf+daemons", "deaf+daemons+hydra"
BOTH = pytest.mark.parametrize("mode", [PLAIN, HYDRA])
pytestmark = pytest.mark.skipif(not shim.LINUX, reason="NOT RUN: process trees need Linux")


@pytest.fixture
def field():
    with trees.field() as field:
        yield field


class Watch:
    """How long a tree took to die."""

    def __init__(self, what):
        self.what, self.began = what, time.monotonic()

    def dead(self, witness, field, bound=trees.PATIENCE):
        assert witness.gone(bound), f"{self.what}: {field.left()} still there after {bound} s"
        print(f"{self.what}: gone after {(time.monotonic() - self.began) * 1000:.0f} ms")


@BOTH
def test_when_the_lease_is_lost_the_whole_tree_dies(field, mode):
    held, witness = field.hostile(mode)
    assert field.left() >= 4
    watch = Watch(f"lease lost, {mode}")
    held.kill()
    watch.dead(witness, field)
    assert held.finish(trees.PATIENCE)
    assert held.ended == containment.Ended(-signal.SIGKILL, "killed")
    assert (field.left(), held.alive()) == (0, False)


@BOTH
def test_when_the_worker_is_killed_the_whole_tree_dies(field, mode):
    worker, _, witness = field.worker(mode)
    watch = Watch(f"worker killed, {mode}")
    worker.kill()
    watch.dead(witness, field)


def test_a_child_that_the_worker_has_forked_keeps_no_tree_alive_after_it(field):
    worker, shim_pid, witness = field.worker(PLAIN, fork=True)
    forked = [pid for pid in shim.children(worker.pid) if b"work()" in cmdline(pid)]
    worker.kill()
    assert witness.gone(), f"shim {shim_pid} waits although its worker is dead"
    for pid in forked:
        os.kill(pid, signal.SIGKILL)
    assert len(forked) == 1


def cmdline(pid):
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read()


def test_when_the_worker_is_frozen_the_tree_dies_at_the_local_deadline(field):
    worker, _, witness = field.worker(PLAIN, seconds=3)
    os.kill(worker.pid, signal.SIGSTOP)
    watch = Watch("worker frozen, 3 s after the start at the latest")
    assert field.left() >= 4
    watch.dead(witness, field)


def test_a_renewal_moves_the_local_deadline(field):
    held, witness = field.hostile(PLAIN, seconds=2)
    held.extend(60)
    assert held.wait(3) is None
    held.extend(0)
    assert held.wait(trees.PATIENCE).why == "deadline"
    assert witness.gone()


def test_what_a_command_leaves_behind_ends_with_it_and_its_status_is_told_before(field):
    held, witness = field.hostile("deaf+daemons+hydra+leave")
    watch = Watch("the command exits 0 and leaves daemons and a hydra")
    assert held.wait(trees.PATIENCE) == containment.Ended(0, "exit")
    watch.dead(witness, field)
    assert held.finish(trees.PATIENCE)


@BOTH
def test_when_the_shim_is_killed_the_worker_finds_the_tree_by_its_cookie(field, mode):
    held, witness = field.hostile(mode)
    other = field.witness()
    longer = field.start(trees.hostile("deaf"), other, name="ab")  # a cookie that begins the same
    other.hears(1)
    watch = Watch(f"shim killed, worker no subreaper, {mode}")
    os.kill(held.pid, signal.SIGKILL)
    assert held.finish(trees.PATIENCE)
    watch.dead(witness, field)
    assert held.ended == containment.Ended(None, "shim_died")
    assert longer.alive() and not other.gone(0)


def test_without_the_scan_the_daemons_of_a_killed_shim_live_on(field, monkeypatch):
    monkeypatch.setattr(tree, "_hunt", lambda *_: 0)
    held, witness = field.hostile(PLAIN)
    os.kill(held.pid, signal.SIGKILL)
    assert held.finish(trees.PATIENCE)
    assert not witness.gone(1)
    print(f"left alive by a killed shim, without worker and scan: {field.left()}")
    assert field.left() >= 3
    assert held.command_pid not in trees.carriers(field.prefix)  # the kernel tells it


@BOTH
def test_when_the_shim_is_killed_its_orphans_come_to_the_worker_who_kills_them(field, mode):
    worker, shim_pid, witness = field.worker(mode, own=True, no_scan=True)
    watch = Watch(f"shim killed, worker a subreaper, no scan, {mode}")
    os.kill(shim_pid, signal.SIGKILL)
    gone, why, other = trees.ask(worker, "finish")
    watch.dead(witness, field)
    assert (gone, why) == (True, "shim_died")
    assert other, "another task of the worker must go on"
    assert len(shim.children(worker.pid)) == 1  # no zombie, and the other's shim


@BOTH
def test_when_worker_and_shim_are_killed_the_next_life_finds_the_tree(field, mode):
    worker, shim_pid, witness = field.worker(mode)
    os.kill(worker.pid, signal.SIGSTOP)
    os.kill(shim_pid, signal.SIGKILL)
    worker.kill()
    assert not witness.gone(0)
    watch = Watch(f"worker and shim killed, scan at the next start, {mode}")
    killed = containment.sweep(field.prefix)
    watch.dead(witness, field)
    print(f"killed by the scan: {killed}")
    assert killed >= 3 and field.left() == 0


def test_a_scan_leaves_alone_who_carries_another_cookie(field):
    held, witness = field.hostile("deaf")
    assert held.alive()
    assert containment.sweep(f"{field.prefix}b") == 0
    assert sweeping.found(f"{field.prefix}a") == shim.children(held.pid) == [held.command_pid]
    assert sweeping.found(field.prefix.removesuffix("."), exact=True) == []
    assert held.alive() and not witness.gone(0)


def test_a_shim_that_is_stopped_together_with_a_dead_worker_is_found_too(field):
    worker, shim_pid, witness = field.worker(PLAIN)
    os.kill(shim_pid, signal.SIGSTOP)
    worker.kill()
    containment.sweep(field.prefix)
    assert witness.gone()
    trees.becomes(shim_pid, ",Z")


def test_a_shim_that_is_stopped_is_killed_when_it_is_overdue(field, monkeypatch):
    monkeypatch.setattr(tree, "OVERDUE_SECONDS", 0.5)
    held, witness = field.hostile(HYDRA)
    os.kill(held.pid, signal.SIGSTOP)
    watch = Watch("lease lost, shim stopped (overdue after 0.8 s)")
    held.kill()
    assert held.finish(trees.PATIENCE)
    watch.dead(witness, field)
    assert held.ended.why == "shim_died"


def test_a_shim_that_slept_past_its_deadline_has_its_grace_as_it_wakes(field, monkeypatch):
    monkeypatch.setattr(tree, "GLANCE_SECONDS", 0.05)
    held, _ = field.hostile("polite", grace=LONG)
    real = tree._clock.steady
    monkeypatch.setattr(tree._clock, "steady", lambda: real() + 3_600_000_000)
    assert held.wait(0.5) is None  # the time of several looks
    assert Path(f"/proc/{held.pid}/stat").exists() and not held.ended
    held.kill()
    assert held.wait(trees.PATIENCE).why == "killed"


def test_tasks_come_and_go_unharmed_while_the_worker_hunts_for_strays(field):
    ends, left = result_of(start(trees.churn, field.prefix))
    assert ends == [[True, "exit", 0]] * len(ends) and len(ends) > 30
    assert (left, field.left()) == ([], 0)


def unprivileged():
    """A user who is not root, and a Python that he may run."""
    if os.geteuid() != 0:
        return {}
    for python in filter(None, (sys.executable, shutil.which("python3", path="/usr/bin"))):
        asked = [python, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
        with contextlib.suppress(PermissionError):
            if subprocess.run(asked, check=False, user="nobody").returncode == 0:
                return {"python": python, "user": "nobody"}
    pytest.skip("NOT RUN: no Python 3.11 on this machine that a user without rights may run")


def test_all_of_it_needs_no_rights(field):
    worker, shim_pid, witness = field.worker(HYDRA, own=True, no_scan=True, **unprivileged())
    os.kill(shim_pid, signal.SIGKILL)
    assert trees.ask(worker, "finish") == [True, "shim_died", True]
    assert witness.gone()
    worker, _, witness = field.worker(HYDRA, **unprivileged())
    if os.geteuid() == 0:
        assert containment.sweep(field.prefix) == 0, "another user's processes are not ours to end"
    worker.kill()
    assert witness.gone()


def test_the_shim_keeps_no_end_of_the_task_s_pipes(field):
    held, witness = field.hostile("polite")
    pipe = os.readlink(f"/proc/self/fd/{witness.out}")
    folder = f"/proc/{held.pid}/fd"
    assert pipe not in {os.readlink(f"{folder}/{name}") for name in os.listdir(folder)}


def test_a_shim_that_is_told_to_end_ends_its_tree(field):
    held, witness = field.hostile(PLAIN)
    os.kill(held.pid, signal.SIGTERM)
    assert held.wait(trees.PATIENCE).why == "signal"
    assert witness.gone() and held.finish(trees.PATIENCE)


def test_what_the_worker_s_process_group_is_sent_does_not_reach_its_tasks(field):
    worker, shim_pid, witness = field.worker("polite")
    for number in (signal.SIGTERM, signal.SIGINT):
        os.killpg(os.getpgid(worker.pid), number)
    assert trees.ask(worker, "alive") == [True, True]
    command = shim.children(shim_pid)[0]
    assert len({os.getsid(pid) for pid in (worker.pid, shim_pid, command)}) == 3
    assert b"bye" not in witness.said


def test_who_listens_to_sigterm_ends_in_his_own_way(field):
    held, witness = field.hostile("polite", grace=30)
    held.kill()
    assert held.wait(trees.PATIENCE) == containment.Ended(0, "killed")
    assert witness.gone() and witness.said.endswith(b"bye\n")


def test_who_is_stopped_hears_sigterm_too(field):
    held, _ = field.hostile("polite+stopped", grace=30)
    trees.becomes(shim.children(held.pid)[0], "T")
    held.kill()
    assert held.wait(trees.PATIENCE) == containment.Ended(0, "killed")


def test_a_second_kill_cuts_the_grace_short(field):
    held, witness = field.hostile(PLAIN, grace=40)
    held.kill()
    held.extend(60)  # a renewal that comes late changes nothing
    assert not witness.gone(1)
    held.kill(0)
    assert witness.gone(10) and held.finish(trees.PATIENCE)
