"""Dispatchers that are killed at every step: nothing is `sending` for ever, nothing that was never
sent is booked as failed, and what stands at the receiver is what was accepted. faults.md 28."""

from __future__ import annotations

import signal
import threading

import pytest
from helpers.deliver_life import STEPS, Life
from helpers.delivering import depot
from helpers.receivers import Web, http
from helpers.working import comes_true

from fencepost.clock import SystemClock

pytestmark = pytest.mark.timeout(180)  # servers and processes come and go


@pytest.fixture
def place(tmp_path):
    with depot(tmp_path, clock=SystemClock()) as made:
        yield made


@pytest.mark.parametrize("step", STEPS)
def test_a_dispatcher_killed_at_any_step_leaves_each_effect_once(place, kit, step):
    with Web(kit.answer) as web:
        place.destination(web.url, concurrency=2)
        place.fp.queue_set("out", lease_seconds=600, max_attempts=1)
        tasks = place.results(*range(5))
        with Life(place.folder, "--exit-when-empty", step=step, after=STEPS[step]) as life:
            assert life.ends()[0] == -signal.SIGKILL, (place.folder / "deliver.err").read_text()
        assert {each.state for each in place.obligations()} <= {"ready", "leased", "done"}
        with Life(place.folder, "--exit-when-empty", "--max-seconds", "30") as life:
            assert life.ends()[0] == 0
    assert [each.state for each in place.obligations()] == ["done"] * 5
    assert all(each.attempt == 1 for each in place.obligations())  # no death has cost one
    assert sorted(operation for operation, _ in kit.effects()) == sorted(f"{t}:1" for t in tasks)


def test_an_unfenced_delivery_that_a_death_cut_off_is_uncertain_and_is_not_sent_again(place):
    with Web(lambda asked: http(200)) as web:
        place.destination(web.url, "unfenced", concurrency=1)
        place.fp.queue_set("out", lease_seconds=600)
        place.results(1, 2)
        with Life(place.folder, "--exit-when-empty", step="heard") as life:
            assert life.ends()[0] == -signal.SIGKILL
        assert len(web.asked) == 1
        with Life(place.folder, "--exit-when-empty", "--max-seconds", "30") as life:
            assert life.ends()[0] == 0
        assert len(web.asked) == 2
    first, second = place.obligations()
    assert (first.state, second.state) == ("blocked", "done")
    assert first.reason.startswith("effect_uncertain: ")


def test_one_that_nobody_starts_again_is_taken_over_when_its_lease_lapses(place, kit):
    """Another dispatcher, of another name, on another machine: without the dead one's memory."""
    with Web(kit.answer) as web:
        place.destination(web.url, concurrency=1)
        place.fp.queue_set("out", lease_seconds=2)
        (task,) = place.results(1)
        with Life(place.folder, "--exit-when-empty", step="heard") as life:
            assert life.ends()[0] == -signal.SIGKILL
        assert kit.effects() != []
        with Life(place.folder, "--worker", "other", "--state", place.folder / "m2",
                  "--max-seconds", "60") as life:  # fmt: skip
            comes_true(lambda: place.obligations()[0].state == "done", 30)
            life.child.send_signal(signal.SIGTERM)
            assert life.ends()[0] == 0
    assert [operation for operation, _ in kit.effects()] == [f"{task}:1"]


def test_an_ordered_stream_goes_on_after_a_death_at_any_step(place, kit):
    with Web(kit.answer) as web:
        place.destination(web.url, ordered=True)
        place.fp.queue_set("out", lease_seconds=600)
        tasks = place.results(*range(6))
        for step in ("sending", "heard", "judged", "settling", "settled"):
            with Life(place.folder, "--exit-when-empty", step=step, after=1) as life:
                life.ends()
        with Life(place.folder, "--exit-when-empty", "--max-seconds", "30") as life:
            assert life.ends()[0] == 0
        assert place.fp.destination("out").sequence == 6
    assert [operation for operation, _ in kit.effects()] == [f"{each}:1" for each in tasks]
    assert [each.state for each in place.obligations()] == ["done"] * 6


def test_a_first_signal_lets_what_is_under_way_end_and_a_second_does_not(place):
    asked, go = threading.Event(), threading.Event()

    def answer(_):
        asked.set()
        go.wait(30)
        return http(200)

    with Web(answer) as web:
        place.destination(web.url, "idempotent", timeout_seconds=30)
        place.results(1)
        with Life(place.folder) as life:
            assert asked.wait(30)
            life.child.send_signal(signal.SIGTERM)
            go.set()
            code, said = life.ends()
            assert (code, said["ended"], said["obligations"]) == (0, "done", {"complete": 1})
        asked.clear()
        go.clear()
        place.results(2)
        with Life(place.folder) as life:
            assert asked.wait(30)
            life.child.send_signal(signal.SIGTERM)
            life.child.send_signal(signal.SIGINT)
            code, said = life.ends()
            go.set()
        assert code in (128 + signal.SIGTERM, 128 + signal.SIGINT)  # whichever was heard last
        assert said["ended"] == "aborted"
