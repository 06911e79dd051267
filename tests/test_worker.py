"""`fencepost.Worker`: handlers in Python, and one accepted result a task, whatever happens."""

from __future__ import annotations

import threading
import time

import pytest
from helpers.stand import QUEUE
from helpers.working import Way, comes_true, down, lost

import fencepost
from fencepost.issues import Unauthenticated, error_for
from fencepost.model import Outcome
from fencepost.worker import Block, GiveUp, HandBack, Retry
from fencepost.worker import options as worker_options
from fencepost.worker import worker as workers
from fencepost.worker.memory import Memory

SECONDS = 20.0


@pytest.fixture
def fp(tmp_path):
    with fencepost.open(tmp_path / "work.db", create=True) as handle:
        handle.queue_set(QUEUE, backoff_seconds=0)
        yield handle


@pytest.fixture(autouse=True)
def _state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def worker(fp, handler, **options):
    settings = {"worker_id": "w", "exit_when_empty": True, "max_seconds": SECONDS, **options}
    return fencepost.Worker(fp, QUEUE, handler, **settings)


def run(fp, handler, **options):
    """(how it ended, what was settled)."""
    made = worker(fp, handler, **options)
    return made.run(), made.counts


def fill(fp, number):
    return fp.enqueue_many(QUEUE, ({"payload": n} for n in range(number)))


def results(fp):
    return sorted(r.value for t in fp.tasks(QUEUE) for r in fp.results(t.task_id))


def states(fp):
    return sorted(task.state for task in fp.tasks(QUEUE))


@pytest.mark.parametrize("jobs", [1, 7, 100])
def test_what_a_handler_returns_is_the_one_result_of_its_task(fp, jobs):
    fill(fp, 150)
    assert run(fp, lambda work: work.payload * 2, concurrency=jobs) == ("done", {"complete": 150})
    assert results(fp) == [n * 2 for n in range(150)]
    assert fp.verify().clean


def test_never_more_at_once_than_were_asked_for(fp):
    fill(fp, 40)
    lock, now, most = threading.Lock(), [0], [0]

    def handler(work):
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0.005)
        with lock:
            now[0] -= 1

    run(fp, handler, concurrency=4)
    assert most[0] == 4
    assert max(task.attempt for task in fp.tasks(QUEUE)) == 1


def test_no_claim_asks_for_more_than_there_are_free_slots(fp, monkeypatch):
    fill(fp, 60)
    asked, running, lock = [], [0], threading.Lock()
    claimed = fp.claimed

    def noted(request, wait):
        if threading.current_thread().name != "fencepost-hurry":  # that is no claim of its own
            asked.append((request.command.limit, running[0]))
        return claimed(request, wait)

    monkeypatch.setattr(fp, "claimed", noted)

    def handler(work):
        with lock:
            running[0] += 1
        time.sleep(0.002)
        with lock:
            running[0] -= 1

    run(fp, handler, concurrency=5)
    assert all(limit + now <= 5 for limit, now in asked), asked


def test_each_claim_is_remembered_before_it_is_sent(fp, monkeypatch):
    fill(fp, 3)
    seen, claimed = [], fp.claimed
    made = worker(fp, lambda work: None)
    memory = made._memory

    def noted(request, wait):
        seen.append(request.key in memory.claims)
        return claimed(request, wait)

    monkeypatch.setattr(fp, "claimed", noted)
    made.run()
    assert len(seen) >= 4 and all(seen)
    assert memory.claims == {} and memory.settling == {}


@pytest.mark.parametrize(
    ("raised", "state", "counted"),
    [
        (Retry("later", retry_seconds=900), "ready", {"retry": 1}),
        (GiveUp("never"), "dead", {"give_up": 1}),
        (Block("a person"), "blocked", {"block": 1}),
    ],
)
def test_what_a_handler_raises_is_how_its_task_is_settled(fp, raised, state, counted):
    fill(fp, 1)

    def handler(work):
        raise raised

    assert run(fp, handler) == ("done", counted)
    (task,) = fp.tasks(QUEUE)
    assert (task.state, task.reason) == (state, str(raised))


def test_what_is_handed_back_costs_no_attempt(fp):
    fill(fp, 1)

    def handler(work):
        raise HandBack

    assert run(fp, handler, max_tasks=1)[1] == {"release": 1}
    (task,) = fp.tasks(QUEUE)
    assert (task.state, task.attempt) == ("ready", 0)


@pytest.mark.parametrize("error", [ValueError("no\x00 \ud800 page"), SystemExit(3), MemoryError()])
def test_any_exception_fails_the_attempt_and_the_worker_lives(fp, error):
    fp.queue_set(QUEUE, max_attempts=3)
    fill(fp, 2)

    def handler(work):
        if work.payload == 0:
            raise error
        return "ok"

    ended, counts = run(fp, handler)
    assert (ended, counts) == ("done", {"retry": 3, "complete": 1})
    dead = next(fp.tasks(QUEUE, state="dead"))
    assert type(error).__name__ in dead.reason
    assert "Traceback" in fp.task(dead.task_id).log


def test_what_is_no_result_fails_the_attempt_with_the_reason(fp):
    fp.queue_set(QUEUE, max_attempts=1)
    fill(fp, 1)
    assert run(fp, lambda work: {1, 2})[1] == {"retry": 1}
    (task,) = fp.tasks(QUEUE)
    assert task.state == "dead" and "cannot be sent" in task.reason


def test_a_result_that_the_queue_refuses_fails_the_attempt_with_the_reason(fp):
    fp.queue_set(QUEUE, max_attempts=1, max_result_bytes=100)
    fill(fp, 1)
    assert run(fp, lambda work: "x" * 200)[1] == {"retry": 1}
    (task,) = fp.tasks(QUEUE)
    assert task.state == "dead" and "payload_too_large" in task.reason


def test_followups_go_with_the_completion_and_with_nothing_else(fp):
    fill(fp, 1)

    def handler(work):
        work.enqueue("next", {"of": work.payload}, key=f"after-{work.attempt}")
        if work.attempt == 1:
            raise Retry("once more")
        return "done"

    run(fp, handler)
    assert [(t.key, fp.task(t.task_id).payload) for t in fp.tasks("next")] == [
        ("after-2", {"of": 0})
    ]


def test_a_progress_mark_is_given_to_the_next_attempt(fp):
    fill(fp, 1)
    found = []

    def handler(work):
        found.append(work.saved)
        if work.attempt < 3:
            work.progress({"page": work.attempt})
            raise Retry("once more")

    run(fp, handler)
    assert found == [None, {"page": 1}, {"page": 2}]


def test_parts_of_a_result_are_handed_in_under_the_lease(fp):
    fill(fp, 1)

    def handler(work):
        work.submit("first")
        work.submit("second")

    assert run(fp, handler)[1] == {"complete": 1}
    assert results(fp) == ["first", "second"]


def busy(seconds):
    """Python that never waits."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


@pytest.mark.parametrize("hold_up", [time.sleep, busy])
def test_a_task_that_runs_longer_than_its_lease_is_done_once(fp, hold_up):
    fill(fp, 4)
    ended = run(fp, lambda work: hold_up(3.5), concurrency=4, lease_seconds=3)
    assert ended == ("done", {"complete": 4})
    assert {task.attempt for task in fp.tasks(QUEUE)} == {1}


def test_a_handler_is_told_of_a_cancelled_task_within_a_beat(fp):
    fill(fp, 1)
    told = []

    def handler(work):
        fp.cancel(work.task_id)
        began = time.monotonic()
        told.append((work.lost.wait(10), work.why_lost, time.monotonic() - began < 2))
        told.append(work.remaining())
        return "too late"

    assert run(fp, handler, lease_seconds=3) == ("done", {"lost": 1})
    assert told == [(True, "task_cancelled", True), 0.0]
    assert (states(fp), results(fp)) == (["cancelled"], [])


def test_after_a_lost_lease_the_worker_goes_on(fp):
    fill(fp, 3)

    def handler(work):
        if work.payload == 0:
            fp.cancel(work.task_id)
            work.lost.wait(10)
            work.submit("late")
        return "ok"

    assert run(fp, handler, lease_seconds=3)[1] == {"lost": 1, "complete": 2}


@pytest.mark.parametrize("fault", [down, lost])
def test_claims_beats_and_completions_that_fail_are_made_again(fp, fault):
    fill(fp, 20)
    way = Way(fp, None)
    way.before = [None, fault, None, fault]
    way.after = [fault, None, None, fault]
    claimed, faults = fp.claimed, [fault, None, fault]

    def sometimes(request, wait):
        found = claimed(request, wait)
        if faults and (met := faults.pop()):
            met(way)
        return found

    way.claimed = sometimes
    assert run(way, lambda work: work.payload, concurrency=3) == ("done", {"complete": 20})
    assert results(fp) == list(range(20))
    assert {task.attempt for task in fp.tasks(QUEUE)} == {1}


def test_leases_are_judged_before_each_claim(fp, monkeypatch):
    fill(fp, 3)
    made, seen, claimed = worker(fp, lambda work: None), [], fp.claimed
    judge = made._runtime.beat.judge
    monkeypatch.setattr(made._runtime.beat, "judge", lambda: (seen.append("judged"), judge()))

    def noted(request, wait):
        if threading.current_thread().name != "fencepost-hurry":
            seen.append("claimed")
        return claimed(request, wait)

    monkeypatch.setattr(fp, "claimed", noted)
    made._runtime.beat.start = lambda: None  # its thread judges too
    made.run()
    assert len(seen) >= 8 and seen == ["judged", "claimed"] * (len(seen) // 2)


def test_a_lease_that_comes_again_counts_from_the_first_sending_of_its_claim(fp, monkeypatch):
    fill(fp, 1)
    claimed, times = fp.claimed, []

    def late(request, wait):
        times.append(fp.steady())
        found = claimed(request, wait)
        if len(times) == 1:
            time.sleep(0.5)
            lost(None)
        outcome, moment = found
        return outcome, moment._replace(told=None)

    monkeypatch.setattr(fp, "claimed", late)
    made, ends = worker(fp, lambda work: ends.append(work._held.ends), lease_seconds=60), []
    made.run()
    assert 0 <= ends[0] - (times[0] + 60_000_000) <= 1_000 or ends[0] <= times[0] + 60_000_000


def test_what_comes_too_late_is_not_begun_and_costs_no_attempt(fp, monkeypatch):
    fill(fp, 1)
    claimed, times, begun = fp.claimed, [], []

    def late(request, wait):
        found = claimed(request, wait)
        times.append(1)
        if len(times) == 1:
            time.sleep(1.7)  # of a lease of 3 s: it would be told to end at once
        return found

    monkeypatch.setattr(fp, "claimed", late)
    ended, counts = run(fp, lambda work: begun.append(work.attempt), lease_seconds=3)
    assert (ended, counts, begun) == ("done", {"release": 1, "complete": 1}, [1])


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
    comes_true(lambda: made._runtime._claims._asked)
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
