"""The test kit for users: handlers in the test's thread, by the rules of a worker."""

from __future__ import annotations

import threading
import time

import pytest
from helpers.whole_worker import run as run_worker
from helpers.whole_worker import store

import fencepost
from fencepost.testing import Kit
from fencepost.worker import Block, GiveUp, HandBack, Retry

Q = "q"


@pytest.fixture
def kit():
    with Kit() as kit:
        yield kit


def raising(error):
    def handler(work):
        raise error

    return handler


def parts(work):
    work.submit("a")
    work.submit("b")
    work.enqueue("next", {"after": work.payload}, key="k", priority=3)


def twice(work):
    work.progress({"attempt": work.attempt, "saved": work.saved})
    work.enqueue("next", work.attempt)
    if work.attempt == 1:
        raise ValueError("once more")
    return [work.saved, work.attempt, work.max_attempts, work.key, work.queue]


def bare(task):
    """What must not differ: all but ids, times and the log's file names."""
    values = {name: value for name, value in task.to_json().items() if not name.endswith("_at")}
    values["parent"] = values["parent"] is not None
    values["log"] = (values["log"] or "").rpartition("\n")[2]
    for name in ("task_id", "fencing_token", "worker_id"):
        del values[name]
    return values


def left(fp):
    """All that is at a store when its queue is empty."""
    tasks = [fp.task(task.task_id) for task in fp.tasks()]
    return [(bare(task), [r.value for r in fp.results(task.task_id)]) for task in tasks]


@pytest.mark.parametrize(
    "handler",
    [
        lambda work: None, lambda work: {"n": (1, 2)}, parts, twice, lambda work: {1, 2},
        lambda work: "x" * 200, raising(GiveUp("never")), raising(Block("a person")),
        raising(Retry("no \ud800", retry_seconds=0)), raising(ValueError("boom")),
        raising(SystemExit(3)), lambda work: work.enqueue("no queue", 1),
        lambda work: work.progress({1}), lambda work: [work.enqueue("next", n) for n in range(5)],
    ],
    ids=["nothing", "result", "parts", "twice", "no json", "too long", "give up", "block", "retry",
         "error", "exit", "no name", "no mark", "too many followups"],
)  # fmt: skip
def test_a_handler_comes_to_the_same_in_the_kit_as_in_a_worker(handler, tmp_path, monkeypatch, kit):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with store(tmp_path) as fp:
        for each in (fp, kit.fp):
            each.queue_set(Q, backoff_seconds=0, max_attempts=3, max_result_bytes=100)
            each.enqueue(Q, {"n": 1}, key="one")
        _, counts = run_worker(fp, handler)
        runs = kit.run_all(Q, handler)
        assert left(kit.fp) == left(fp)
    told = {run.verdict: sum(r.verdict == run.verdict for r in runs) for run in runs}
    assert told == counts
    assert kit.fp.verify().clean


def test_a_run_tells_what_was_settled_and_all_that_went_with_it(kit):
    task_id = kit.fp.enqueue(Q, {"n": 1}, key="one").task_id
    first = kit.run_one(Q, twice)
    assert (first.verdict, first.reason) == ("retry", "ValueError: once more")
    assert (first.result, first.followups, first.marks) == (
        fencepost.NOTHING, (), ({"attempt": 1, "saved": None},),
    )  # fmt: skip
    assert isinstance(first.error, ValueError)
    assert "ValueError: once more" in first.task.log
    assert first.task.progress == {"attempt": 1, "saved": None}
    assert kit.advance_to_due(Q) <= 1
    second = kit.run_one(Q, twice)
    assert second.result == [{"attempt": 1, "saved": None}, 2, 5, "one", Q]
    assert [(task.payload, task.parent) for task in second.followups] == [(2, task_id)]
    assert (second.attempt, second.fence, second.payload) == (2, 2, {"n": 1})
    assert (second.task.state, kit.results(task_id)) == ("done", [second.result])
    assert kit.runs == [first, second]


def test_what_is_handed_in_by_parts_is_told(kit):
    kit.fp.enqueue(Q, 1)
    run = kit.run_one(Q, parts)
    assert (run.submitted, run.result) == (("a", "b"), fencepost.NOTHING)
    kit.assert_enqueued("next", {"after": 1}, key="k")


def test_a_result_that_the_queue_refuses_is_a_retry_that_says_so(kit):
    kit.fp.queue_set(Q, max_result_bytes=10)
    kit.fp.enqueue(Q, 1)
    run = kit.run_one(Q, lambda work: "x" * 20)
    run.assert_verdict("retry", result=fencepost.NOTHING, reason="payload_too_large")
    assert (run.task.state, run.issues) == ("ready", ())


def test_what_is_handed_back_costs_no_attempt_and_is_tried_again_for_ever(kit):
    kit.fp.enqueue(Q, 1)
    run = kit.run_one(Q, raising(HandBack))
    assert (run.verdict, run.task.state, run.task.attempt) == ("release", "ready", 0)
    with pytest.raises(AssertionError, match=r"more than 7 runs, the last: .* release"):
        kit.run_all(Q, raising(HandBack), most=7)


def test_no_thread_is_begun_and_nothing_sleeps(kit, monkeypatch):
    def never(*_):
        raise RuntimeError("something sleeps")

    monkeypatch.setattr(time, "sleep", never)
    kit.fp.enqueue(Q, 1)
    before, me = set(threading.enumerate()), threading.current_thread()
    kit.later(1_800, lambda: kit.fp.enqueue("late", 1))

    def handler(work):
        assert threading.current_thread() is me
        assert not work.lost.wait(3_600)
        (lease,) = kit.fp.claim("late", worker_id="w", wait_seconds=20)
        lease.complete()
        assert kit.fp.claim("late", worker_id="w", wait_seconds=60) == []
        return set(threading.enumerate()) <= before

    kit.run_one(Q, handler).assert_verdict("complete", result=True)
    assert kit.clock.steady() >= 3_660 * 1_000_000


@pytest.mark.parametrize("lease_seconds", [3, 60, 900])
def test_a_lease_is_kept_as_long_as_its_handler_runs(kit, lease_seconds):
    kit.fp.enqueue(Q, 1)

    def handler(work):
        seen = []
        for _ in range(100):
            kit.advance(lease_seconds / 3)
            seen.append(work.remaining())
        return min(seen) > 0

    kit.run_one(Q, handler, lease_seconds=lease_seconds).assert_verdict("complete", result=True)


def test_a_handler_that_waits_for_ever_is_told_when_its_task_may_be_held_no_longer(kit):
    kit.fp.queue_set(Q, max_hold_seconds=600)
    kit.fp.enqueue(Q, 1)
    run = kit.run_one(Q, lambda work: work.lost.wait())
    run.assert_verdict("complete", result=True, why_lost="lease_expired")
    assert 500 < kit.clock.steady() / 1_000_000 < 600  # told before the end, and heard in time


def test_a_handler_is_told_of_a_cancelled_task_within_a_third_of_the_lease(kit):
    task_id = kit.fp.enqueue(Q, 1).task_id
    seen = []

    def handler(work):
        kit.fp.cancel(task_id)
        assert not work.lost.is_set()
        assert work.lost.wait(20)
        seen.append((work.why_lost, work.remaining()))
        with pytest.raises(fencepost.TaskCancelled):
            work.submit("late")
        return "too late"

    run = kit.run_one(Q, handler)
    run.assert_verdict("lost", result=fencepost.NOTHING, why_lost="task_cancelled")
    assert seen == [("task_cancelled", 0.0)]
    assert (run.task.state, run.submitted, kit.results(task_id)) == ("cancelled", (), [])


def test_a_handler_that_is_told_nothing_is_refused_at_the_end(kit):
    task_id = kit.fp.enqueue(Q, 1).task_id
    run = kit.run_one(Q, lambda work: kit.fp.cancel(task_id) and None)
    run.assert_verdict("lost", why_lost="")
    assert (run.issues, run.task.state) == (("task_cancelled",), "cancelled")


def test_a_handler_that_does_not_hear_that_its_lease_has_ended_changes_nothing(kit):
    task_id = kit.fp.enqueue(Q, 1).task_id

    def handler(work):
        with kit.cut_off():
            kit.advance(60)
            with pytest.raises(fencepost.Unavailable):
                work.submit("not sent")
        return "late"

    run = kit.run_one(Q, handler)
    run.assert_verdict("lost", why_lost="lease_expired")
    assert (run.issues, kit.results(task_id)) == (("lease_expired",), [])


def test_a_task_that_another_worker_has_taken_meanwhile_has_his_result_alone(kit):
    task_id = kit.fp.enqueue(Q, 1).task_id

    def handler(work):
        with kit.cut_off():
            kit.advance(60)
            other = kit.run_one(Q, lambda work: "in time", worker_id="other")
        other.assert_verdict("complete", result="in time")
        return "late"

    run = kit.run_one(Q, handler)
    run.assert_verdict("lost", why_lost="lease_expired")
    assert run.issues[0] == "task_done"
    assert kit.results(task_id) == ["in time"]
    assert [r.verdict for r in kit.runs] == ["complete", "lost"]


def test_who_is_cut_off_is_told_before_his_lease_can_end_and_may_still_be_in_time(kit):
    task_id = kit.fp.enqueue(Q, 1).task_id
    seen = []

    def handler(work):
        with kit.cut_off():
            seen.append(work.lost.wait(60))
        seen.append(kit.fp.task(task_id).lease_expires_at > kit.clock.wall())
        return "in time"

    kit.run_one(Q, handler).assert_verdict("complete", result="in time", why_lost="lease_expired")
    assert seen == [True, True]


def test_what_is_not_answered_is_not_settled_and_comes_again(kit):
    kit.fp.enqueue(Q, 1)

    def handler(work):
        kit.cut_off()
        return "unheard"

    run = kit.run_one(Q, handler)
    run.assert_verdict("unsettled", result=fencepost.NOTHING)
    assert (run.issues, run.task.state) == (("store_unavailable",), "leased")
    assert kit.advance_to_due(Q) == 60
    kit.run_one(Q, lambda work: work.attempt).assert_verdict("complete", result=2)


@pytest.mark.parametrize(("on_lapse", "verdict"), [("retry", "release"), ("reconcile", "block")])
def test_a_handler_that_is_stopped_gives_back_its_task_with_its_progress(kit, on_lapse, verdict):
    kit.fp.queue_set(Q, on_lapse=on_lapse)
    kit.fp.enqueue(Q, 1)

    def handler(work):
        work.progress("half")
        kit.later(5, kit.stop)
        assert work.lost.wait(10)
        raise InterruptedError

    run = kit.run_one(Q, handler)
    run.assert_verdict(verdict, why_lost="stopping")
    assert (run.task.progress, kit.clock.steady()) == ("half", 5_000_000)


def test_with_a_tick_time_passes_at_each_look_and_each_mark(kit):
    kit.fp.enqueue(Q, 1)

    def handler(work):
        begun = kit.clock.steady()
        for n in range(5):
            work.lost.is_set()
            work.progress(n)
        return kit.clock.steady() - begun

    kit.run_one(Q, handler, tick=1.5).assert_verdict("complete", result=15_000_000)
    kit.fp.enqueue(Q, 2)
    kit.run_one(Q, handler).assert_verdict("complete", result=0)


def test_things_come_at_their_time_and_in_their_order(kit):
    seen = []

    def note(name):
        seen.append((name, kit.clock.steady() / 1_000_000))

    kit.later(5, lambda: note("third"))
    kit.later(1.5, lambda: note("first"))
    kit.later(1.5, lambda: (note("second"), kit.later(10, lambda: note("fourth"))))
    kit.advance(4)
    assert seen == [("first", 1.5), ("second", 1.5)]
    kit.advance(100)
    assert seen[2:] == [("third", 5), ("fourth", 11.5)]
    with pytest.raises(ValueError, match="backwards"):
        kit.advance(-1)


def test_with_wait_all_is_run_that_ever_comes_due(kit):
    kit.fp.enqueue(Q, "later", due_at="2026-01-03T00:00:00Z")
    kit.fp.enqueue("other", "now")

    def handler(work):
        if work.attempt < 3:
            raise Retry("again", retry_seconds=3_600)
        return work.payload

    assert [run.verdict for run in kit.run_all([Q, "other"], handler)] == ["retry"]
    runs = kit.run_all([Q, "other"], handler, wait=True)
    assert [run.result for run in runs if run.verdict == "complete"] == ["now", "later"]
    assert kit.fp.now() == fencepost.clock.from_rfc3339("2026-01-03T02:00:00Z")
    with pytest.raises(AssertionError, match=r"nothing more comes due; found:\n  q: 'later', done"):
        kit.advance_to_due(Q)


def test_a_lapsed_lease_is_claimed_again_at_its_very_end(kit):
    kit.fp.enqueue(Q, 1)
    kit.fp.claim(Q, worker_id="gone", lease_seconds=30)
    assert kit.run_all(Q, lambda work: None) == []
    (run,) = kit.run_all(Q, lambda work: kit.clock.steady(), wait=True)
    assert (run.attempt, run.result) == (2, 30_000_000)


def test_the_same_seed_gives_the_same_ids_and_back_offs():
    def seen(seed):
        with Kit(seed=seed) as kit:
            kit.fp.enqueue(Q, 1)
            run = kit.run_one(Q, raising(ValueError))
            return run.task.task_id, run.task.due_at

    assert seen(1) == seen(1)
    assert seen(1)[0] != seen(2)[0] and seen(1)[1] != seen(2)[1]


def test_a_file_serves_an_application_s_own_transaction(tmp_path):
    import sqlite3

    with Kit(tmp_path / "app.db", start="2030-01-01T00:00:00+01:00") as kit:
        app = sqlite3.connect(tmp_path / "app.db")
        with kit.fp.within(app) as tx:
            tx.enqueue(Q, 1)
        app.close()
        task = kit.assert_enqueued(Q, 1)
    assert task.to_json()["created_at"] == "2029-12-31T23:00:00.000000Z"
