"""`work --offline` and OfflineWorker: tasks from an outbox, verdicts into it, each told once."""

from __future__ import annotations

import pytest
from helpers.field import DAY, Field
from helpers.lab import QUEUE
from helpers.offline_life import SH, Life, taken, worked
from helpers.work_life import lines

from fencepost.commands import Request
from fencepost.issues import TaskDone
from fencepost.worker import Block, GiveUp, HandBack, Retry


@pytest.fixture
def field(tmp_path):
    with Field(tmp_path) as made:
        yield made


# -- what becomes of a task


ENDS = {
    "k0": ("exit 0", "complete", "done"),
    "k1": ("echo '{\"n\":1}'", "complete", "done"),
    "k2": ("echo why >&2; exit 65", "give_up", "dead"),
    "k3": ("exit 77", "block", "blocked"),
    "k4": ("exit 75", "retry", "ready"),
    "k5": ("exit 3", "retry", "ready"),
    "k6": ("kill -9 $$", "retry", "ready"),
    "k7": ("echo no json", "retry", "ready"),
    "k8": ("exit 69", "release", "ready"),
}


def test_an_exit_code_means_offline_what_it_means_online_once_it_is_brought(field):
    lap = taken(field, *ENDS)
    program = 'case "$FENCEPOST_KEY" in ' + " ".join(
        f"{key}) {what};;" for key, (what, _, _) in ENDS.items()
    )
    with Life(lap, *SH, program + " esac", flags=("-j", "4")) as life:
        code, told = life.ends()
    assert code == 0
    counted = [verdict for _, verdict, _ in ENDS.values()]
    assert told["tasks"] == {verdict: counted.count(verdict) for verdict in set(counted)}
    assert {task.state for task in field.fp.tasks(QUEUE)} == {"leased"}  # nothing was sent
    lap.box.verify()
    synced = lap.sync()
    assert (synced["accepted"], synced["moot"], synced["status"]) == (9, 0, "accepted")
    for task in field.fp.tasks(QUEUE):
        assert task.state == ENDS[task.key][2], task.key
        assert task.attempt == (0 if task.key == "k8" else 1)
    assert {t.key: field.fp.task(t.task_id).log for t in field.fp.tasks(QUEUE)}["k2"] == "why\n"
    assert [field.results(t.task_id) for t in field.fp.tasks(QUEUE) if t.key == "k1"] == [
        [{"n": 1}]
    ]


@pytest.mark.parametrize(
    ("raised", "verdict"),
    [(Retry("later"), "retry"), (GiveUp("never"), "give_up"), (Block("look"), "block"),
     (HandBack(), "release"), (ValueError("bug"), "retry")],
)  # fmt: skip
def test_what_a_handler_raises_is_kept_with_its_reason(field, raised, verdict):
    lap = taken(field, "a")

    def handler(work):
        raise raised

    assert worked(lap, handler) == ("done", {verdict: 1})
    (sending,) = lap.box._notes.commands(1)
    assert (sending.verdict, sending.state) == (verdict, "ready")
    said = Request.read(sending.body).command
    if verdict != "release":
        assert str(raised) in said.reason
    assert lap.sync()["accepted"] == 1


def test_follow_ups_of_a_handler_go_with_its_completion(field):
    lap = taken(field, "a")

    def handler(work):
        work.enqueue("more", {"from": work.key})
        return 1

    assert worked(lap, handler) == ("done", {"complete": 1})
    assert list(field.fp.tasks("more")) == []
    lap.sync()
    assert [field.fp.task(t.task_id).payload for t in field.fp.tasks("more")] == [{"from": "a"}]


def test_a_result_that_is_too_long_is_a_retry_with_the_reason(tmp_path):
    with Field(tmp_path, max_result_bytes=50) as field:
        lap = taken(field, "a")
        assert worked(lap, lambda work: "x" * 100) == ("done", {"retry": 1})
        (sending,) = lap.box._notes.commands(1)
        assert "payload_too_large" in Request.read(sending.body).command.reason
        lap.sync()


def test_a_mark_is_in_the_outbox_and_goes_to_the_next_try_and_to_the_store(field):
    lap = taken(field, "a")
    with Life(lap, *SH, "echo '{\"line\":7}' >&3; sleep 1.2; exit 75") as life:
        assert life.ends()[1]["tasks"] == {"retry": 1}
    with Life(lap, *SH, 'echo "$FENCEPOST_PROGRESS" >> "$OUT/begun"; exit 75') as life:
        assert life.ends()[1]["tasks"] == {"retry": 1}
    assert lines(lap.folder, "begun") == ['{"line":', "7}"]
    lap.sync()
    (task,) = field.fp.tasks(QUEUE)
    assert field.fp.task(task.task_id).progress == {"line": 7}


def test_a_mark_of_an_earlier_attempt_elsewhere_is_taken_along(field):
    (task_id,) = field.offer("a")
    lease = field.by_other(task_id)
    lease.fail("no", retry_seconds=0, progress={"line": 3})
    lap = field.laptop()
    lap.take()
    assert lap.box.next().to_json()["progress"] == {"line": 3}
    assert worked(lap, lambda work: work.saved) == ("done", {"complete": 1})
    lap.sync()
    assert field.results(task_id) == [{"line": 3}]


# -- leases


@pytest.mark.parametrize("wrong", [-DAY * 365, 0, DAY * 365])
def test_a_lease_that_has_ended_is_worked_on_and_its_result_is_claimed_again_for(tmp_path, wrong):
    with Field(tmp_path) as field:
        (task_id,) = field.offer("a")
        lap = field.laptop(wrong=wrong)
        lap.take(lease_seconds=1)
        field.clock.advance(10 * DAY)
        assert worked(lap, lambda work: work.fence) == ("done", {"complete": 1})
        told = lap.sync()
        assert (told["accepted"], told["claimed"]) == (1, 1)
        assert field.results(task_id) == [1]


def test_no_clock_ends_the_work_on_a_short_lease(field):
    """Its length by this machine's clock passes while the handler works."""
    lap = taken(field, "a", lease_seconds=1)
    seen = []

    def handler(work):
        seen.append(work.lost.wait(2.5))
        return work.remaining() > DAY

    assert worked(lap, handler) == ("done", {"complete": 1})
    assert seen == [False]
    lap.sync()
    (task,) = field.fp.tasks(QUEUE)
    assert field.results(task.task_id) == [True]


VERDICTS = [("retry", "moot"), ("release", "moot"), ("give_up", "dead"), ("block", "blocked")]


@pytest.mark.parametrize(("verdict", "then"), VERDICTS)
def test_a_verdict_whose_lease_has_ended_is_told_only_where_it_still_says_something(
    field, verdict, then
):
    (task_id,) = field.offer("a")
    lap = field.laptop()
    lap.take(lease_seconds=60)
    lap.box.verdict(task_id, verdict, reason=None if verdict == "release" else "why")
    field.clock.advance(61)
    told = lap.sync()
    task = field.fp.task(task_id)
    if then == "moot":
        assert (told["moot"], told["accepted"], told["claimed"]) == (1, 0, 0)
        assert task.fence == 1  # no claim was spent on it
    else:
        assert (told["moot"], told["accepted"], told["claimed"]) == (0, 1, 1)
        assert task.state == then
    assert lap.sync()["status"] == "accepted" and lap.box.counts()["settled"] == 1


@pytest.mark.parametrize(("verdict", "then"), VERDICTS)
def test_a_verdict_on_a_task_that_another_has_done_is_a_conflict_if_it_says_otherwise(
    field, verdict, then
):
    (task_id,) = field.offer("a")
    lap = field.laptop()
    lap.take(lease_seconds=60)
    lap.box.verdict(task_id, verdict, reason=None if verdict == "release" else "why")
    field.clock.advance(61)
    field.by_other(task_id).complete("theirs")
    told = lap.sync()
    assert (told["moot"], told["conflicts"]) == ((1, 0) if then == "moot" else (0, 1))
    if then != "moot":
        (conflict,) = lap.box.conflicts()
        assert (conflict.code, conflict.ours) == (
            "task_done", [{"verdict": verdict, "reason": "why"}],
        )  # fmt: skip
        lap.box.theirs(task_id)
        assert lap.sync()["status"] == "accepted"
    assert field.results(task_id) == ["theirs"]


@pytest.mark.parametrize(("verdict", "state"), [("give_up", "dead"), ("block", "blocked")])
def test_a_verdict_that_another_has_given_too_is_needed_no_more(field, verdict, state):
    (task_id,) = field.offer("a")
    lap = field.laptop()
    lap.take(lease_seconds=60)
    lap.box.verdict(task_id, verdict)
    field.clock.advance(61)
    field.by_other(task_id).fail("so", then=verdict)
    assert (lap.sync()["moot"], field.fp.task(task_id).state) == (1, state)


def test_rows_that_were_recorded_before_a_verdict_come_before_it(field):
    (task_id,) = field.offer("a")
    lap = field.laptop()
    lap.take(lease_seconds=60)
    lap.box.record(task_id, "row", close=False)
    lap.box.verdict(task_id, "retry", reason="half done")
    field.clock.advance(61)
    told = lap.sync()
    assert (told["accepted"], told["claimed"], told["moot"]) == (2, 1, 0)
    task = field.fp.task(task_id)
    assert field.results(task_id) == ["row"] and (task.state, task.attempt) == ("ready", 2)


# -- again, and not again


def test_what_failed_or_was_given_back_is_taken_up_by_the_next_run_and_no_sooner(field):
    lap = taken(field, "a", "b", "c", "d")
    verdicts = {"a": Retry(), "b": HandBack(), "c": GiveUp(), "d": None}
    seen = []

    def handler(work):
        seen.append(work.key)
        if verdicts[work.key] is not None:
            raise verdicts[work.key]
        return work.key

    worked(lap, handler)
    assert sorted(seen) == ["a", "b", "c", "d"]
    verdicts = dict.fromkeys("abcd")
    worked(lap, handler)
    assert sorted(seen[4:]) == ["a", "b"]
    worked(lap, handler)
    assert len(seen) == 6
    lap.box.verify()
    assert lap.sync()["accepted"] == 4
    assert [task.state for task in field.fp.tasks(QUEUE)] == ["done", "done", "dead", "done"]


def test_what_a_sync_has_told_is_not_taken_up_again(field):
    lap = taken(field, "a")

    def handler(work):
        raise Retry("no")

    worked(lap, handler)
    assert lap.sync()["accepted"] == 1
    assert worked(lap, handler) == ("done", {})


def test_a_task_fails_here_as_often_as_it_may_be_claimed(field):
    lap = taken(field, "a")  # of nine attempts this is the first
    runs = []

    def handler(work):
        runs.append(work.attempt)
        raise Retry("no")

    for _ in range(12):
        worked(lap, handler)
    assert runs == [1] * 9
    lap.sync()


def test_what_is_given_back_counts_as_no_start(field):
    lap = taken(field, "a")
    runs = []

    def handler(work):
        runs.append(work.attempt)
        raise HandBack

    for _ in range(12):
        worked(lap, handler)
    assert len(runs) == 12 and lap.box.task("a").tries == 0
    lap.sync()


def test_a_result_by_hand_takes_the_place_of_a_failure_and_of_nothing_else(field):
    failed, dead = field.offer("a", "b")
    lap = field.laptop()
    lap.take()
    lap.box.verdict(failed, "retry", reason="no")
    lap.box.verdict(dead, "give_up")
    assert lap.box.next() is None
    assert lap.box.record(failed, "x").new
    with pytest.raises(TaskDone):
        lap.box.verdict(failed, "retry")
    assert lap.box.record(dead, "y").new  # no sync has told it either
    assert lap.sync()["accepted"] == 2
    with pytest.raises(TaskDone):
        lap.box.record(failed, "z")
    assert [field.results(task_id) for task_id in (failed, dead)] == [["x"], ["y"]]


def test_the_same_verdict_again_is_recognised_and_one_that_was_dropped_stands_again(field):
    (task_id,) = field.offer("a")
    lap = field.laptop()
    lap.take()
    assert lap.box.verdict(task_id, "retry", reason="no").new
    assert not lap.box.verdict(task_id, "retry", reason="no").new
    kept = lap.box.task(task_id)
    assert lap.box.working.begin(kept)
    assert lap.box.verdict(task_id, "retry", reason="no").new  # the very bytes of before
    assert lap.box.counts()["to_send"] == 1
    lap.box.verify()
    assert lap.sync()["accepted"] == 1
