"""Deliveries into a directory: each effect is a file that is written once, whole, and whose name
says under which fence it was accepted."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import threading

import pytest
from helpers.deliver_life import SINK_STEPS, Life
from helpers.delivering import depot
from helpers.sinks import TASK, event, sender

from fencepost.clock import SystemClock
from fencepost.deliveries import directory


@pytest.fixture
def place(tmp_path):
    with depot(tmp_path, clock=SystemClock()) as made:
        yield made


@pytest.fixture
def out(tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


def destined(place, out, **options):
    place.destination(
        f"directory:{out}", "cas", secret=None, allow_private=None, timeout_seconds=None, **options
    )


def files(out):
    """Every file below, hidden ones too."""
    return {
        str(each.relative_to(out)): each.read_bytes() for each in out.rglob("*") if each.is_file()
    }


def test_every_effect_is_a_file_of_the_obligations_bytes_with_its_digest_as_evidence(place, out):
    destined(place, out)
    tasks = place.results({"n": 1}, "two\u2028", 3.5)
    made = place.deliver()
    assert made.counts == {"complete": 3}
    found = files(out)
    for task, obligation in zip(tasks, place.obligations(), strict=True):
        evidence = place.evidence(obligation.task_id)
        content = found.pop(evidence["name"])
        assert evidence["name"].startswith(f"pages/{task}/")
        assert json.loads(content) == obligation.payload
        assert evidence["sha256"] == hashlib.sha256(content).hexdigest()
        assert evidence["bytes"] == len(content)
    assert found == {}


def test_of_the_names_of_a_task_the_last_is_the_latest():
    order = [(0, 3, 1), (0, 3, 2), (0, 12, 3), (0, 10**14, 4), (1, 1 << 32, 5), (12, 12 << 32, 6)]
    made = [directory.name_of(event(epoch=e, fence=f, revision=r)) for e, f, r in order]
    assert made == sorted(made) and len(set(made)) == len(made)
    task = TASK.format(1)
    number = "000000000000000"
    assert made[0] == f"pages/{task}/{number}-{number[:-1]}3-{number[:-1]}1-{number}-result.json"


def test_each_outcome_and_round_of_a_task_has_a_name_of_its_own():
    told = [event()] + [
        event(outcome=outcome, round_=round_)
        for outcome in ("done", "dead", "cancelled", "blocked") for round_ in (1, 2)
    ]  # fmt: skip
    assert len({directory.name_of(each) for each in told}) == 9


def test_the_same_effect_again_is_there_and_other_bytes_under_its_name_are_a_conflict(out):
    made = sender(f"directory:{out}", "cas")
    first, other = event(result="a"), event(result="b")
    assert made.send(first, 5).word == "delivered"
    assert made.send(first, 5) == made.send(first, 5)
    before = files(out)
    tried = made.send(other, 5)
    assert tried.word == "effect_conflict" and directory.name_of(first) in tried.told
    assert files(out) == before and len(before) == 1


@pytest.mark.parametrize("what", ["link", "folder", "longer", "shorter", "pipe"])
def test_what_is_no_file_of_these_bytes_is_a_conflict(out, tmp_path, what):
    made, told = sender(f"directory:{out}", "cas"), event()
    path = out / directory.name_of(told)
    path.parent.mkdir(parents=True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(told.data)
    {
        "link": lambda: path.symlink_to(elsewhere),
        "folder": path.mkdir,
        "longer": lambda: path.write_bytes(told.data + b" "),
        "shorter": lambda: path.write_bytes(told.data[:-1]),
        "pipe": lambda: os.mkfifo(path),
    }[what]()
    assert made.send(told, 5).word == "effect_conflict"
    assert elsewhere.read_bytes() == told.data


def test_nothing_is_written_through_a_link_that_leads_out_of_the_directory(out, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (out / "pages").symlink_to(elsewhere)
    assert sender(f"directory:{out}", "cas").send(event(), 5).word == "later"
    (out / "pages").unlink()
    (out / "pages").mkdir()
    (out / "pages" / TASK.format(1)).symlink_to(elsewhere)
    assert sender(f"directory:{out}", "cas").send(event(), 5).word == "later"
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("member", [
    {"queue": "../../etc"}, {"queue": ".."}, {"queue": "a/b"}, {"task_id": "../x"}, {"epoch": -1},
    {"queue": 'a","subject":"b'}, {"at": "now"}, {"outcome": ["result"]}, {"revision": 10**15},
    {"outcome": "done", "round": "1/2"}, {"outcome": "done", "round": None},
])  # fmt: skip
def test_an_obligation_that_names_another_place_goes_nowhere(place, out, member):
    """Who may put tasks on a destination cannot write elsewhere by what he puts there."""
    destined(place, out)
    honest = json.loads(event().data)
    place.fp.enqueue("out", {**honest, **member})
    place.deliver()
    (task,) = place.obligations()
    assert task.state == "dead" and "no obligation" in task.reason
    assert files(out) == {} and files(out.parent).keys() >= {"store.db"}


def test_a_directory_that_is_not_there_costs_no_attempt_and_is_not_made(place, out):
    destined(place, out)
    place.results(1)
    out.rmdir()
    place.deliver(max_seconds=1)
    (task,) = place.obligations()
    assert (task.state, task.attempt) == ("ready", 0) and not out.exists()
    out.mkdir()
    place.deliver()
    assert place.obligations()[0].state == "done" and len(files(out)) == 1


@pytest.mark.parametrize("step", ["_write", "link", "_sync"])
def test_an_error_of_the_disk_leaves_nothing_that_was_not_told(out, monkeypatch, step):
    """A full disk before the name: nothing is there. An error of the last sync: uncertain."""
    made, told = sender(f"directory:{out}", "cas"), event()
    made.send(event(2), 5)  # the queue's folder is there
    before = files(out)
    calls = []

    def fails(*given, **more):
        calls.append(given)
        if step == "_sync" and len(calls) < 3:
            return
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(directory.os if step == "link" else directory, step, fails)
    tried = made.send(told, 5)
    assert tried.word == ("unanswered" if step == "_sync" else "later")
    assert "No space left" in tried.told
    monkeypatch.undo()
    assert (files(out) == before) == (step != "_sync")
    assert made.send(told, 5).word == "delivered"
    assert set(files(out)) == {directory.name_of(event(2)), directory.name_of(told)}


def test_a_partial_file_of_a_try_that_was_killed_is_no_effect_and_is_tidied_away(out):
    made, told = sender(f"directory:{out}", "cas"), event()
    path = out / directory.name_of(told)
    path.parent.mkdir(parents=True)
    half = path.with_name(f".{path.name}.00{directory.PARTIAL}")
    other = path.with_name(f".{path.name[:-5]}-x.json.00{directory.PARTIAL}")
    for each in (half, other):
        each.write_bytes(told.data[:10])
    assert made.send(told, 5).word == "delivered"
    assert path.read_bytes() == told.data and not half.exists() and other.exists()


def test_of_many_at_once_each_is_told_that_the_one_file_is_there(out):
    made, told = [sender(f"directory:{out}", "cas") for _ in range(8)], event(result="x" * 50_000)
    came = []
    threads = [
        threading.Thread(target=lambda each=each: came.append(each.send(told, 5))) for each in made
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [each.word for each in came] == ["delivered"] * 8
    assert files(out) == {directory.name_of(told): told.data}


@pytest.mark.parametrize("step", SINK_STEPS["directory"])
def test_a_dispatcher_killed_at_any_step_leaves_each_file_once_and_nothing_beside(place, out, step):
    destined(place, out, concurrency=1)
    place.fp.queue_set("out", lease_seconds=600, max_attempts=1)
    tasks = place.results(*range(4))
    after = SINK_STEPS["directory"][step]
    with Life(place.folder, "--exit-when-empty", step=step, after=after) as life:
        assert life.ends()[0] == -signal.SIGKILL, (place.folder / "deliver.err").read_text()
    with Life(place.folder, "--exit-when-empty", "--max-seconds", "30") as life:
        assert life.ends()[0] == 0
    assert [each.state for each in place.obligations()] == ["done"] * 4
    assert [name.split("/")[1] for name in sorted(files(out))] == sorted(tasks)
    assert {name.rpartition(".")[2] for name in files(out)} == {"json"}
