"""Several processes on one file: fair turns, no lost or doubled work, and one that is stopped."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter

import pytest
from helpers.children import result_of, results_of, start
from helpers.crowd import stop_inside_the_turn, work_for
from helpers.lab import QUEUE, ask

from fencepost import commands as c
from fencepost.issues import Unavailable

PROCESSES, SECONDS = 8, 3.0


@pytest.fixture
def stopping(lab):
    """Starts a child that stops itself with the turn; killed before the lab is closed, which
    would wait for that turn."""
    children = []

    def begin(*arguments):
        children.append(start(stop_inside_the_turn, *arguments))
        return children[-1]

    yield begin
    for child in children:
        child.kill()
        child.communicate()


def until(what, seconds=30.0):
    """Wait until something is so that another process brings about."""
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.002)


def test_eight_processes_share_one_file_fairly_and_lose_or_double_nothing(lab, tmp_path):
    gate = tmp_path / "gate"
    workers = [f"p{number}" for number in range(PROCESSES)]
    children = [start(work_for, str(lab.path), str(gate), w, SECONDS) for w in workers]
    until(lambda: all((tmp_path / f"gate.{worker}").exists() for worker in workers))
    gate.touch()
    results = results_of(children)
    served = [len(result["done"]) for result in results]
    print(f"served {sorted(served)}: least/most {min(served) / max(served):.2f}")
    assert [error for result in results for error in result["errors"]] == []
    done = Counter(task_id for result in results for task_id in result["done"])
    assert set(done.values()) == {1}, "a task was completed twice"
    states = Counter(task.state for task in lab.fp.tasks(QUEUE))
    assert states["done"] == len(done)
    assert set(states) <= {"done", "ready"}, "a task was left in nobody's hands"
    assert lab.counts() == (len(done), len(done), len(done))
    assert lab.fp.verify().clean
    assert min(served) + 2 >= 0.8 * max(served), "turns are not fair"  # two: whoever was cut off


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="nothing can be stopped here")
def test_a_process_stopped_with_the_turn_delays_others_and_spoils_nothing(
    lab, tmp_path, stopping
):
    ready = tmp_path / "ready"
    impatient = lab.open(wait_seconds=0.2)
    child = stopping(str(lab.path), str(ready))
    until(ready.exists)
    until(lambda: stopped(child.pid))
    lease = None
    began = time.monotonic()
    with pytest.raises(Unavailable, match="nothing was done"):
        impatient.enqueue(QUEUE, "too late", key="too-late")
    assert time.monotonic() - began < 5
    with pytest.raises(Unavailable):
        lease = impatient.claim(QUEUE, worker_id="w1")
    assert lease is None
    assert list(impatient.tasks(QUEUE)) == [], "reading goes on meanwhile"
    os.kill(child.pid, signal.SIGCONT)
    task_id = result_of(child)
    assert [lease.task_id for lease in impatient.claim(QUEUE, worker_id="w1")] == [task_id]
    assert [task.task_id for task in lab.fp.tasks(QUEUE)] == [task_id], "given up is not done"
    assert impatient.enqueue(QUEUE, "again", key="too-late").task_id != task_id


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="nothing can be stopped here")
def test_neither_opening_nor_closing_waits_for_ever_for_a_stopped_process(
    lab, tmp_path, stopping
):
    ready = tmp_path / "ready"
    idle, busy = lab.open(wait_seconds=0.2), lab.open(wait_seconds=0.2)
    child = stopping(str(lab.path), str(ready))
    until(ready.exists)
    began = time.monotonic()
    with pytest.raises(Unavailable, match=f"process {child.pid} has it"):
        lab.open(wait_seconds=0.2)
    idle.close()
    sent = busy.send([c.Enqueue(QUEUE, (c.NewTask("waits"),))])
    busy.close()
    assert time.monotonic() - began < 10
    assert not sent.done()
    os.kill(child.pid, signal.SIGCONT)
    assert sent.result(30)[0].accepted, "what was sent before the close is carried out"


def stopped(pid):
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0] == "T"


def test_a_process_killed_with_the_turn_gives_it_back(lab, tmp_path, stopping):
    ready = tmp_path / "ready"
    child = stopping(str(lab.path), str(ready))
    until(ready.exists)
    waiting = lab.fp.send([c.Enqueue(QUEUE, (c.NewTask("mine"),))])
    child.kill()
    child.communicate()
    assert waiting.result(30)[0].accepted
    assert ask(lab.fp, c.Claim("w1", (QUEUE,))).grants[0].payload == b'"mine"'
