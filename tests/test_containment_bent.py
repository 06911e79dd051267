"""The tests of the tests: what is planted in shim and worker leaves processes alive, and is seen.

And the other way round: kernels and systems that can less, on which what can be had still holds.
"""

from __future__ import annotations

import os
import signal

import pytest
from helpers import trees

from fencepost.worker import containment, shim, sweeping, tree

pytestmark = pytest.mark.skipif(not shim.LINUX, reason="NOT RUN: process trees need Linux")
PLAIN, HYDRA = "deaf+daemons", "deaf+daemons+hydra"
LONG = 2.0  # seconds after which a tree that should be dead counts as alive


@pytest.fixture
def field():
    with trees.field() as field:
        yield field


def lease_lost(field):
    held, witness = field.hostile(PLAIN)
    held.kill()
    return witness.gone(LONG)


def deadline_past(field):
    _, witness = field.hostile(PLAIN, seconds=2)
    return witness.gone(2 + LONG)


def left_behind(field):
    _, witness = field.hostile("deaf+daemons+leave")
    return witness.gone(LONG)


def worker_killed(field, **more):
    worker, _, witness = field.worker(PLAIN, shim=containment.SHIM, **more)
    forked = [pid for pid in shim.children(worker.pid) if more and not is_shim(pid)]
    worker.kill()
    try:
        return witness.gone(LONG)
    finally:
        for pid in forked:
            os.kill(pid, signal.SIGKILL)


def is_shim(pid):
    with open(f"/proc/{pid}/environ", "rb") as file:
        return b"FENCEPOST_SHIM=" in file.read()


def stopped_heard(field):
    held, _ = field.hostile("polite+stopped", grace=LONG)
    trees.becomes(shim.children(held.pid)[0], "T")
    held.kill()
    return held.wait(trees.PATIENCE).code == 0


def own_session(field):
    held, _ = field.hostile("polite")
    return os.getsid(shim.children(held.pid)[0]) != os.getsid(held.pid)


PLANTED = [
    ("if LINUX and not prctl(PR_SET_CHILD_SUBREAPER, 1)", "if False", lease_lost),
    ("    send(pids, signal.SIGKILL)", "    send(pids, signal.SIGTERM)", lease_lost),
    ('self.why = self.why or "killed"', "pass", lease_lost),
    ("if self.reap() and self.code is None and left <= 0", "if False", deadline_past),
    ('self.why = self.why or "worker_gone"', "pass", worker_killed),
    ("self.end(self.spec.tidy if", "0 and self.end(self.spec.tidy if", left_behind),
    ("send(found, signal.SIGCONT)", "pass", stopped_heard),
    ("        os.setsid()\n", "", own_session),
]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "law"), PLANTED, ids=lambda value: getattr(value, "__name__", str(value)[:40])
)
def test_what_is_planted_in_the_shim_is_seen_by_the_law_named_for_it(
    field, monkeypatch, old, new, law
):
    monkeypatch.setattr(containment, "SHIM", trees.bent_shim(old, new))
    assert not law(field)


LAWS = [lease_lost, deadline_past, left_behind, worker_killed, stopped_heard, own_session]


@pytest.mark.parametrize("law", LAWS)
def test_each_of_these_laws_holds_without_it(field, law):
    assert law(field)


def test_a_lifeline_that_a_forked_child_keeps_is_seen(field):
    assert not worker_killed(field, fork=True, keeps_lifelines=True)


def test_a_worker_that_is_no_subreaper_is_seen(field):
    worker, shim_pid, witness = field.worker(PLAIN, own=False, no_scan=True)
    os.kill(shim_pid, signal.SIGKILL)
    trees.ask(worker, "finish")
    assert not witness.gone(LONG)


def test_a_scan_that_takes_a_longer_cookie_for_the_same_is_seen(field, monkeypatch):
    carries = sweeping._carries
    monkeypatch.setattr(
        sweeping, "_carries", lambda variable, prefix, _: carries(variable, prefix, False)
    )
    held, _ = field.hostile("deaf")
    other = field.witness()
    field.start(trees.hostile("deaf"), other, name="ab")
    other.hears(1)
    os.kill(held.pid, signal.SIGKILL)
    assert held.finish(trees.PATIENCE) and other.gone(LONG)


def test_a_stopped_shim_for_which_nobody_looks_is_seen(field, monkeypatch):
    monkeypatch.setattr(tree, "OVERDUE_SECONDS", 0.5)
    monkeypatch.setattr(tree.Tree, "_hurry", lambda *_: None)
    held, witness = field.hostile(PLAIN)
    os.kill(held.pid, signal.SIGSTOP)
    held.kill()
    assert not held.finish(LONG) and not witness.gone(0)


@pytest.mark.parametrize("mode", [PLAIN, HYDRA])
def test_a_kernel_without_lists_of_children_is_enough(field, monkeypatch, mode):
    without = trees.other_shim("shim.children = shim._by_parent")
    monkeypatch.setattr(containment, "SHIM", without)
    held, witness = field.hostile(mode)
    held.kill()
    assert witness.gone() and held.finish(trees.PATIENCE)


GROUP = "shim.descendants = lambda pid: []; shim.prctl = lambda *_: False"
CROWD = ["sh", "-c", "sleep 40 & sleep 40 & echo ready; trap '' TERM; wait; sleep 40"]


@pytest.mark.parametrize("how", ["lease lost", "deadline"])
def test_where_trees_cannot_be_told_the_process_group_is_ended(field, monkeypatch, how):
    monkeypatch.setattr(containment, "SHIM", trees.other_shim(GROUP))
    witness = field.witness()
    held = field.start(CROWD, witness, seconds=3 if how == "deadline" else 60)
    witness.hears(1)
    if how == "lease lost":
        held.kill()
    assert witness.gone() and held.finish(trees.PATIENCE)


def test_where_trees_cannot_be_told_it_ends_with_the_worker_too(field):
    worker, _, witness = field.worker("deaf", shim=trees.other_shim(GROUP))
    worker.kill()
    assert witness.gone()


def test_where_trees_cannot_be_told_a_daemon_outlives_its_task_as_the_doctor_says(
    field, monkeypatch
):
    monkeypatch.setattr(containment, "SHIM", trees.other_shim(GROUP))
    held, witness = field.hostile(PLAIN)
    held.kill()
    assert held.finish(trees.PATIENCE)
    assert not witness.gone(0) and field.left() == 3
    monkeypatch.setattr(shim, "LINUX", False)
    assert "(a daemon) outlives the task" in containment.not_covered()[0]


def test_who_resists_sigkill_is_told_of_and_not_waited_for(field, monkeypatch):
    weak = "shim.send = lambda *_: None; shim.STUBBORN_SECONDS = 0.5"
    monkeypatch.setattr(containment, "SHIM", trees.other_shim(weak))
    held, witness = field.hostile(PLAIN)
    held.kill()
    assert held.wait(trees.PATIENCE) == containment.Ended(None, "killed", tree.RESISTS)
    assert held.finish(trees.PATIENCE) is False
    assert held.alive() and not witness.gone(0)


def test_a_fault_in_the_shim_is_told_and_leaves_nothing_behind(field, monkeypatch, caplog):
    fault = "shim.Shim.watch = lambda self: self.hear(b'Ex\\n')"
    monkeypatch.setattr(containment, "SHIM", trees.other_shim(fault))
    witness = field.witness()
    held = field.start(trees.hostile(PLAIN), witness)
    assert witness.gone() and held.finish(trees.PATIENCE)
    assert (held.ended.code, held.ended.why) == (-signal.SIGKILL, "shim_died")
    assert "ValueError" in held.ended.error and "ValueError" in caplog.text
