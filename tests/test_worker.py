"""`fencepost.Worker`: handlers in Python, and one accepted result a task, whatever happens."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from helpers.stand import QUEUE
from helpers.whole_worker import fill, results, run, states, store, worker
from helpers.working import Way, down, lost

from fencepost.issues import InvalidRequest
from fencepost.worker import Block, GiveUp, HandBack, Retry, verdicts


@pytest.fixture
def fp(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with store(tmp_path) as handle:
        yield handle


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


@pytest.mark.parametrize("kind", [Retry, GiveUp, Block])
def test_a_reason_may_be_the_error_itself(fp, kind):
    fp.queue_set(QUEUE, max_attempts=1)
    fill(fp, 1)

    def handler(work):
        raise kind(ValueError("no page"))

    assert run(fp, handler) == ("done", {kind.what: 1})
    (task,) = fp.tasks(QUEUE)
    assert task.state in ("dead", "blocked") and task.reason == "no page"


def test_whatever_goes_wrong_in_settling_a_task_fails_its_attempt(fp, monkeypatch):
    """Else nobody would settle it, and it would be renewed as long as the worker lives."""
    fp.queue_set(QUEUE, max_attempts=1)
    fill(fp, 2)
    tidy, met = verdicts.tidy_reason, []

    def broken(text):
        if text == "first" and not met.append(1):
            raise RecursionError
        return tidy(text)

    def handler(work):
        if work.payload == 0:
            raise GiveUp("first")

    monkeypatch.setattr(verdicts, "tidy_reason", broken)
    assert run(fp, handler) == ("done", {"retry": 1, "complete": 1})
    assert next(fp.tasks(QUEUE, state="dead")).reason.endswith("cannot be sent: RecursionError")


def test_a_handler_that_has_not_worked_when_it_returns_is_refused_at_once(fp):
    async def later(work):
        return 1

    def pages(work):
        yield 1

    async def both(work):
        yield 1

    class Called:
        async def __call__(self, work):
            return 1

    for handler in (later, pages, both, Called()):
        with pytest.raises(InvalidRequest, match="function"):
            worker(fp, handler)
    fill(fp, 1)
    assert run(fp, lambda work: asyncio.run(later(work))) == ("done", {"complete": 1})


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
