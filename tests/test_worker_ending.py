"""How a worker in Python ends, why, and what its next life takes up."""

from __future__ import annotations

import threading
import time

import pytest
from helpers.stand import QUEUE
from helpers.whole_worker import fill, results, run, states, store, worker
from helpers.working import comes_true, down

import fencepost
from fencepost.issues import Unauthenticated, error_for
from fencepost.model import Outcome
from fencepost.worker import options as worker_options
from fencepost.worker import worker as workers
from fencepost.worker.memory import Memory


@pytest.fixture
def fp(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with store(tmp_path) as handle:
        yield handle


def test_a_stop_lets_what_is_begun_end_and_claims_no_more(fp):
    fill(fp, 5)
    begun, go = threading.Event(), threading.Event()

    def handler(work):
        begun.set()
        go.wait(10)
        return "ended"

    made = worker(fp, handler, exit_when_empty=False)
    ending = []
    thread = threading.Thread(target=lambda: ending.append(made.run()))
    thread.start()
    begun.wait(10)
    made.stop()
    time.sleep(0.2)
    go.set()
    thread.join(10)
    assert (ending, made.counts) == (["done"], {"complete": 1})
    assert states(fp) == ["done", "ready", "ready", "ready", "ready"]


def test_what_does_not_end_within_the_grace_is_given_back_with_its_mark(fp):
    fill(fp, 2)
    both = threading.Barrier(3)

    def handler(work):
        work.progress({"at": work.payload})
        both.wait(10)
        if work.payload == 0:
            time.sleep(30)  # does not hear
        work.lost.wait(10)
        raise InterruptedError

    made = worker(fp, handler, exit_when_empty=False, concurrency=2, grace=0.2, lease_seconds=6)
    thread = threading.Thread(target=made.run)
    thread.start()
    both.wait(10)
    made.stop()
    thread.join(10)
    assert made.counts == {"cut": 2}
    assert [(t.state, t.attempt) for t in fp.tasks(QUEUE)] == [("ready", 0)] * 2
    again = fp.claim(QUEUE, worker_id="other", limit=2)
    assert [lease.progress for lease in again] == [{"at": 0}, {"at": 1}]


def test_what_may_have_had_effects_waits_for_a_person_when_it_is_cut_short(fp):
    fp.queue_set(QUEUE, on_lapse="reconcile")
    fill(fp, 1)
    made = worker(fp, lambda work: made.stop() or (work.lost.wait(10) and 1 / 0), grace=0.1)
    made.run()
    (task,) = fp.tasks(QUEUE)
    assert task.state == "blocked" and "stopped" in task.reason


def test_a_stop_ends_a_claim_that_waits(fp):
    made = worker(fp, lambda work: None, exit_when_empty=False)
    thread = threading.Thread(target=made.run)
    thread.start()
    comes_true(lambda: made._runtime._claims._waiting)
    began = time.monotonic()
    made.stop()
    thread.join(10)
    assert time.monotonic() - began < 2
    assert made._memory.claims == {}


@pytest.mark.parametrize("number", [1, 3])
def test_so_many_tasks_and_no_more_are_taken(fp, number):
    fill(fp, 10)
    assert run(fp, lambda work: None, concurrency=4, max_tasks=number, exit_when_empty=False) == (
        "done", {"complete": number},
    )  # fmt: skip
    assert states(fp).count("ready") == 10 - number


def test_after_so_many_seconds_it_stops(fp):
    assert run(fp, lambda work: None, exit_when_empty=False, max_seconds=0.3) == ("done", {})


def test_follow_ups_on_its_own_queue_are_worked_on_before_it_is_empty(fp):
    fp.enqueue(QUEUE, 3)

    def handler(work):
        if work.payload:
            work.enqueue(QUEUE, work.payload - 1)

    assert run(fp, handler, concurrency=2) == ("done", {"complete": 4})


def test_a_store_that_cannot_be_reached_for_too_long_ends_it(fp, monkeypatch):
    monkeypatch.setattr(fp, "claimed", lambda request, wait: down(None))
    ending, _ = run(fp, lambda work: None, give_up_seconds=0.5)
    assert ending == "unreachable"


def test_a_caller_who_is_refused_for_too_long_ends_it(fp, monkeypatch):
    monkeypatch.setattr("fencepost.worker.runtime.REFUSED_SECONDS", 0.5)
    fp.revoke()
    assert run(fp, lambda work: None)[0] == "refused"


def test_a_caller_who_is_refused_for_a_moment_goes_on(fp, monkeypatch):
    fill(fp, 1)
    claimed, times = fp.claimed, [1, 1]

    def refused(request, wait):
        if times:
            times.pop()
            raise error_for(Outcome("failed", (Unauthenticated.code,), "no"))
        return claimed(request, wait)

    monkeypatch.setattr(fp, "claimed", refused)
    assert run(fp, lambda work: "ok") == ("done", {"complete": 1})


def test_a_fault_of_its_own_is_raised_and_no_clean_end(fp, monkeypatch):
    def broken(request, wait):
        raise ZeroDivisionError

    monkeypatch.setattr(fp, "claimed", broken)
    with pytest.raises(ZeroDivisionError):
        run(fp, lambda work: None)


def test_what_can_never_be_claimed_is_raised(fp):
    fp.queue_set(QUEUE, max_lease_seconds=60)
    with pytest.raises(fencepost.LeaseTooLong):
        run(fp, lambda work: None, lease_seconds=600)


def test_two_workers_of_one_name_are_refused(fp):
    first = worker(fp, lambda work: None)
    with pytest.raises(fencepost.InvalidRequest, match="runs already"):
        worker(fp, lambda work: None)
    first.run()
    worker(fp, lambda work: None).run()


@pytest.mark.parametrize(("reconcile", "state"), [(False, "ready"), (True, "blocked")])
def test_a_new_life_ends_the_attempts_of_the_one_that_died(fp, reconcile, state):
    fp.queue_set(QUEUE, backoff_seconds=900, on_lapse="reconcile" if reconcile else "retry")
    fill(fp, 2)
    identity = workers.identity_of(fp, "w")
    memory = workers.memory_of(fp, "w", None)
    request = fencepost.Request.of(fencepost.commands.Claim("w", (QUEUE,), limit=2), "key-1")
    memory.claiming(request)
    fp.execute([request])
    memory.close()
    assert run(fp, lambda work: "again") == ("done", {"retry" if not reconcile else "block": 2})
    assert {(t.state, t.attempt) for t in fp.tasks(QUEUE)} == {(state, 1)}
    assert all("died" in task.reason for task in fp.tasks(QUEUE))
    left = Memory(workers.default_folder(identity), identity)
    assert left.claims == {} and left.settling == {}
    left.close()


def test_a_claim_that_never_arrived_costs_no_attempt_in_the_new_life(fp):
    fill(fp, 2)
    memory = workers.memory_of(fp, "w", None)
    memory.claiming(fencepost.Request.of(fencepost.commands.Claim("w", (QUEUE,)), "key-1"))
    memory.close()
    ended, counts = run(fp, lambda work: work.attempt)
    assert (ended, results(fp)) == ("done", [1, 1])
    assert counts == {"release": 1, "complete": 2}


def test_options_that_make_no_sense_are_refused(fp):
    for wrong in ({"concurrency": 0}, {"grace": -1}, {"lease_seconds": 0}, {"worker_id": "a b"},
                  {"max_tasks": 0}, {"max_seconds": float("nan")}):  # fmt: skip
        with pytest.raises(fencepost.InvalidRequest):
            worker(fp, lambda work: None, **wrong)
    assert worker_options.REFUSED_SECONDS == 10
