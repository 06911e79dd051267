"""The test kit says what it found, and keeps no test from ending."""

from __future__ import annotations

import logging
import unittest

import pytest
import test_testing as laws
from helpers.faults import edit

import fencepost
from fencepost.testing import ANY, Kit, inline, kit, runs
from fencepost.worker import Retry

Q = "q"


@pytest.fixture(name="kit")
def a_kit():
    with Kit() as made:
        yield made


def ran(kit, handler, **task):
    kit.fp.enqueue(Q, {"n": 1}, **task)
    return kit.run_one(Q, handler)


def complaint(call, *words, **given):
    with pytest.raises(AssertionError) as caught:
        call(*words, **given)
    return caught.value


@pytest.mark.parametrize(
    ("verdict", "expected", "told"),
    [
        ("retry", {}, "retry"),
        ("complete", {"result": 2}, "complete, with 2"),
        ("complete", {"result": fencepost.NOTHING}, "complete, without a result"),
        ("complete", {"why_lost": "stopping"}, "complete, told stopping"),
        ("complete", {"reason": "why"}, "complete, because 'why'"),
        ("lost", {"why_lost": ""}, "lost, told nothing"),
    ],
)
def test_a_verdict_that_was_not_expected_is_told_beside_the_one_that_was(
    kit, verdict, expected, told
):
    run = ran(kit, lambda work: {"page": 1}, key="one")
    found = "task one of q, attempt 1: complete, with {'page': 1}"
    error = complaint(run.assert_verdict, verdict, **expected)
    assert str(error) == f"{found}\n  expected {told}"


def test_what_a_handler_has_raised_is_the_cause(kit):
    error = ValueError("boom")
    run = ran(kit, laws.raising(error), key="one")
    told = complaint(run.assert_verdict, "complete")
    assert str(told).startswith("task one of q, attempt 1: retry, because 'ValueError: boom'\n")
    assert told.__cause__ is error
    assert complaint(kit.assert_enqueued, "index").__cause__ is error


def test_anything_may_stand_in_what_is_expected(kit):
    run = ran(kit, lambda work: {"page": [1, "x"], "at": 5})
    run.assert_verdict("complete", result={"page": [ANY, "x"], "at": ANY})
    complaint(run.assert_verdict, "complete", result={"page": [ANY, "y"], "at": ANY})
    complaint(run.assert_verdict, "complete", result={"page": ANY})
    kit.assert_enqueued(Q, {"n": ANY})
    assert repr(ANY) == "ANY"


def test_what_was_not_enqueued_is_told_with_all_that_was(kit):
    kit.fp.enqueue(Q, {"n": 1}, key="one", due_at="2026-01-01T00:01:30Z")
    kit.fp.enqueue(Q, {"n": 2})
    kit.fp.enqueue(Q, {"n": 2})
    found = (
        "enqueued was:\n  q: {'n': 1} with key 'one', ready, due in 90 s"
        "\n  q: {'n': 2}, ready\n  q: {'n': 2}, ready\nrun was: nothing"
    )
    for words, key, expected in [
        (("index",), ANY, "no task like index: ANY"),
        ((Q, {"n": 1}), "two", "no task like q: {'n': 1} with key 'two'"),
        ((Q, {"n": 1}), None, "no task like q: {'n': 1} with key None"),
        ((Q, {"n": 2}), ANY, "2 tasks like q: {'n': 2}"),
    ]:
        assert str(complaint(kit.assert_enqueued, *words, key=key)) == f"{expected}; {found}"
    error = complaint(kit.assert_not_enqueued, Q, key="one")
    assert str(error) == f"there is a task like q: ANY with key 'one'; {found}"
    assert kit.assert_enqueued(Q, {"n": 1}, key="one").key == "one"
    kit.assert_not_enqueued(Q, {"n": 1}, key=None)


def test_nothing_to_claim_is_told_with_what_there_is(kit):
    assert str(complaint(kit.run_one, Q, print)) == (
        "nothing to claim on q; enqueued was: nothing\nrun was: nothing"
    )
    run = ran(kit, laws.raising(Retry("later", retry_seconds=60)))
    assert str(complaint(kit.run_one, [Q, "r"], print)) == (
        "nothing to claim on q, r; enqueued was:\n  q: {'n': 1}, ready, due in 60 s"
        f"\nrun was:\n  {run}"
    )


def test_a_paused_queue_a_wrong_name_and_a_closed_kit_are_told_as_they_are(kit):
    kit.fp.queue_set(Q, paused=True)
    with pytest.raises(fencepost.QueuePaused):
        kit.run_one(Q, print)
    with pytest.raises(fencepost.InvalidRequest):
        kit.run_one("no queue", print)
    with pytest.raises(fencepost.InvalidRequest):
        Kit(start="yesterday")


async def asynchronous(work):
    """No handler."""


def generator(work):
    yield work


@pytest.mark.parametrize("handler", [asynchronous, generator])
def test_what_is_no_handler_is_told_before_a_task_is_claimed_for_it(kit, handler):
    task_id = kit.fp.enqueue(Q, 1).task_id
    with pytest.raises(fencepost.InvalidRequest, match="nothing that could be a result"):
        kit.run_one(Q, handler)
    assert kit.fp.task(task_id).state == "ready"


@pytest.mark.parametrize("what", ["cut_off", "stop"])
def test_what_goes_wrong_for_a_handler_needs_one_that_runs(kit, what):
    assert str(complaint(getattr(kit, what))).startswith(f"{what}: no handler is running")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), pytest.fail.Exception("the test is over")])
def test_what_ends_a_test_ends_it_also_in_a_handler(kit, error):
    with pytest.raises(type(error)):
        ran(kit, laws.raising(error))
    assert [run.verdict for run in kit.runs] == ["retry"]
    assert kit._in_hand == []


def test_a_mistake_in_what_was_to_come_later_ends_the_test(kit):
    kit.later(5, lambda: kit.fp.cancel("no id"))
    with pytest.raises(fencepost.InvalidRequest):
        ran(kit, lambda work: work.lost.wait(10))
    kit.later(5, lambda: kit.fp.cancel("no id"))
    with pytest.raises(fencepost.InvalidRequest):
        kit.advance(10)
    kit.fp.enqueue(Q, 2)
    kit.run_one(Q, lambda work: None).assert_verdict("complete")


def test_who_must_not_ask_at_the_moment_leaves_it_unsettled(kit):
    run = ran(kit, lambda work: kit.fp.revoke() and None)
    assert (run.verdict, run.issues) == ("unsettled", ("scope_revoked",))


class InUnittest(unittest.TestCase):
    def test_a_kit_is_entered_as_a_context(self) -> None:
        kit = self.enterContext(Kit())
        run = ran(kit, lambda work: 1)
        run.assert_verdict("complete", result=1)


FOUND = (AssertionError, LookupError, pytest.fail.Exception)

# what is planted: (function, piece of its source, in its place); the law that must fail then
PLANTED = {
    "nobody renews": (
        inline.Inline.turn, "leases := beat.due()", "beat.due() and (leases := [])",
        laws.test_a_lease_is_kept_as_long_as_its_handler_runs, 60),
    "whoever waits sleeps through": (
        inline.Looked.wait, "self._lost.is_set)", "lambda: False)",
        laws.test_who_is_cut_off_is_told_before_his_lease_can_end_and_may_still_be_in_time),
    "a refusal is the end": (
        inline.Inline.run, "while settler.open and settler.round():\n        pass",
        "if settler.open:\n        settler.round()",
        laws.test_a_result_that_the_queue_refuses_is_a_retry_that_says_so),
    "a cut is no cut": (
        kit.CutOff.__init__, "line.is_cut = True", "pass",
        laws.test_what_is_not_answered_is_not_settled_and_comes_again),
    "a cut stays": (
        kit.CutOff.__exit__, "line.is_cut = False", "pass",
        laws.test_who_is_cut_off_is_told_before_his_lease_can_end_and_may_still_be_in_time),
    "what was sent is what was taken": (
        inline.Inline._verdict, 'if counts["lost"]:', "if False:",
        laws.test_a_handler_that_does_not_hear_that_its_lease_has_ended_changes_nothing),
    "what comes later comes at the end": (
        kit.Kit._pass, "*(at for at, _, _ in self._later[:1])", "",
        laws.test_things_come_at_their_time_and_in_their_order),
    "any key will do": (
        kit.Kit._matching, "key == t.key", "True",
        test_what_was_not_enqueued_is_told_with_all_that_was),
    "any reason will do": (
        runs.Run.assert_verdict, "reason in (self.reason or \"\")", "True",
        lambda kit: test_a_verdict_that_was_not_expected_is_told_beside_the_one_that_was(
            kit, "complete", {"reason": "why"}, "complete, because 'why'")),
    "an interrupt is a verdict": (
        kit.Kit._run, "failed is None and", "False and",
        lambda kit: test_what_ends_a_test_ends_it_also_in_a_handler(kit, KeyboardInterrupt())),
    "a mistake is a verdict": (
        kit.Kit._call, "self._failed = error", "pass",
        test_a_mistake_in_what_was_to_come_later_ends_the_test),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_each_planted_fault_is_found_by_the_law_named_for_it(name, monkeypatch):
    function, old, new, law, *more = PLANTED[name]
    logging.disable(logging.CRITICAL)
    try:
        with Kit() as right:
            law(right, *more)
        edit(monkeypatch, function, old, new)
        with Kit() as planted, pytest.raises(FOUND):
            law(planted, *more)
    finally:
        logging.disable(logging.NOTSET)
