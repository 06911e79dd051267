"""How a worker asks for work: one key until it has brought something, whatever becomes of its
sendings on the way."""

from __future__ import annotations

import threading

import pytest
from helpers.stand import QUEUE
from helpers.web import Served
from helpers.whole_worker import fill, results, run, states, store, worker
from helpers.working import comes_true

import fencepost
from fencepost.issues import OutcomeUnknown, Unavailable


@pytest.fixture
def fp(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with store(tmp_path) as handle:
        yield handle


class Asked:
    """The way of a worker's claims. None waits for longer than a second; what was sent is kept, and
    may come once more."""

    def __init__(self, fp, monkeypatch):
        self.fp, self.claimed = fp, fp.claimed
        self.sent, self.waits, self.stolen = [], 0, []
        self.before = self.after = lambda: None
        monkeypatch.setattr(fp, "claimed", self)

    def __call__(self, request, wait):
        self.before()
        self.sent.append(request._replace(waits=wait > 0))
        found = self.claimed(request, min(wait, 1))
        self.waits += wait > 0
        self.after()
        return found

    @property
    def keys(self):
        return {request.key for request in self.sent}

    def copies(self):
        """The network brings all that was sent once more. Of the latest key the worker hears."""
        outcomes = self.fp.execute(list(self.sent)) if self.sent else []
        for request, outcome in zip(self.sent, outcomes, strict=False):
            if outcome.grants and not outcome.replayed and request.key != self.sent[-1].key:
                self.stolen.append(request.key)


def at_work(made):
    ending = []
    thread = threading.Thread(target=lambda: ending.append(made.run()), daemon=True)
    thread.start()
    return thread, ending


def stopped(made, thread, ending):
    made.stop()
    thread.join(20)
    return ending


def claims(fp):
    return sum(b'"verb":"claim"' in entry.body for entry in fp.entries())


def test_an_idle_worker_leaves_nothing_in_the_journal(fp, monkeypatch):
    asked, made = Asked(fp, monkeypatch), worker(fp, lambda work: None, exit_when_empty=False)
    thread, ending = at_work(made)
    comes_true(lambda: asked.waits >= 1)
    before = claims(fp)
    comes_true(lambda: asked.waits >= 3)
    assert claims(fp) == before <= 1, "it was asked once at the beginning, whether it is there"
    assert stopped(made, thread, ending) == ["done"]
    assert claims(fp) == before + 1 and made._memory.claims == {}


def test_a_key_is_asked_with_until_it_has_brought_something(fp, monkeypatch):
    asked, made = (
        Asked(fp, monkeypatch),
        worker(fp, lambda work: work.payload, max_tasks=1, exit_when_empty=False),
    )
    made._runtime._claims._there = True  # it is known to be there
    thread, ending = at_work(made)
    comes_true(lambda: asked.waits >= 2)
    assert len(asked.keys) == 1
    fill(fp, 1)
    thread.join(20)
    assert (ending, results(fp), len(asked.keys)) == (["done"], [0], 1)


@pytest.mark.parametrize("hurried", [True, False])
def test_no_copy_of_a_claim_takes_a_task_that_nobody_works_on(fp, monkeypatch, hurried):
    asked, made = Asked(fp, monkeypatch), worker(fp, lambda work: None, exit_when_empty=False)

    def before():
        if threading.current_thread().name != "fencepost-hurry":
            asked.copies()
        elif not hurried:
            raise Unavailable("it does not arrive")

    asked.before = before
    thread, ending = at_work(made)
    comes_true(lambda: asked.waits >= 2)
    fill(fp, 5)
    comes_true(lambda: asked.stolen or states(fp) == ["done"] * 5)
    assert asked.stolen == []
    comes_true(lambda: len(asked.keys) >= 6)
    assert stopped(made, thread, ending) == ["done"]
    fill(fp, 3)
    asked.copies()
    assert states(fp) == ["done"] * 5 + ["ready"] * 3
    assert {task.attempt for task in fp.tasks(QUEUE, state="done")} == {1}


def test_leases_whose_claim_was_not_heard_are_found_under_its_key(fp, monkeypatch):
    asked, made = Asked(fp, monkeypatch), worker(fp, lambda work: work.payload, concurrency=3)
    faults = [1, 1, 1]

    def lost():
        if faults:
            faults.pop()
            raise OutcomeUnknown("no answer")

    asked.after = lost
    fill(fp, 3)
    assert made.run() == "done" and results(fp) == [0, 1, 2]
    assert {task.attempt for task in fp.tasks(QUEUE)} == {1}


def test_a_worker_whose_queue_is_paused_ends_at_once_when_it_is_empty_handed(fp):
    fp.queue_set(QUEUE, paused=True)
    assert run(fp, lambda work: None) == ("done", {})


@pytest.mark.parametrize("paused", [False, True])
@pytest.mark.parametrize("way", ["beside", "http"])
def test_a_stop_ends_a_claim_that_waits_also_on_a_paused_queue(tmp_path, monkeypatch, way, paused):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with Served(path=str(tmp_path / "work.db"), dev=True) as web:
        fp = web.fp if way == "beside" else fencepost.open(f"http://127.0.0.1:{web.port}")
        web.fp.enqueue(QUEUE, "first")
        made = worker(fp, lambda work: None, exit_when_empty=False)
        thread, ending = at_work(made)
        comes_true(lambda: states(web.fp) == ["done"])
        comes_true(lambda: made._runtime._claims._waiting)
        web.fp.queue_set(QUEUE, paused=paused)
        assert stopped(made, thread, ending) == ["done"]
        if fp is not web.fp:
            fp.close()


def test_a_claim_that_is_hurried_before_it_waits_is_hurried_again(fp, monkeypatch):
    """The hurried one may be at the store first; on a paused queue it then leaves no trace."""
    fp.queue_set(QUEUE, paused=True)
    made, claimed, late = worker(fp, lambda work: None, exit_when_empty=False), fp.claimed, []

    def slow(request, wait):
        if wait and not late:
            made.stop()
            comes_true(lambda: late)
        elif not wait and made._runtime._claims.stopped and not late:
            try:
                return claimed(request, 0)
            finally:
                late.append(1)
        return claimed(request, wait)

    monkeypatch.setattr(fp, "claimed", slow)
    made._runtime._claims._there = True
    assert made.run() == "done" and late
