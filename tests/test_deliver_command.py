"""Deliveries to a command: the event on its input, its exit code for an answer; nothing of it
outlives the delivery."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
import time

import pytest
from helpers.deliver_life import SINK_STEPS, Life
from helpers.delivering import depot
from helpers.receivers import SECRET
from helpers.sinks import event, sender
from helpers.working import comes_true
from test_docs import rows as table_rows

from fencepost import destinations
from fencepost.clock import SystemClock
from fencepost.deliveries import command
from fencepost.deliveries.event import Turn
from fencepost.receiver import signing

# Knows an operation again by the file that it has made of it, as an idempotent receiver does.
KEEPS = """
import json, os, sys
body = sys.stdin.buffer.read()
name = os.environ["FENCEPOST_OPERATION"].replace(":", ".")
try:
    with open(os.path.join(sys.argv[1], name), "xb") as file:
        file.write(body)
except FileExistsError:
    pass
print(json.dumps({"kept": name}))
"""


def address(*words):
    return f"command:{json.dumps([str(each) for each in words])}"


def python(program, *words):
    return address(sys.executable, "-c", program, *words)


def shell(program, *words):
    return address("sh", "-c", program, "sh", *words)


@pytest.fixture
def place(tmp_path):
    with depot(tmp_path, clock=SystemClock()) as made:
        yield made


@pytest.fixture
def out(tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


def destined(place, where, class_="idempotent", **options):
    options = {"secret": None, "allow_private": None, "timeout_seconds": 30, **options}
    place.destination(where, class_, **options)


def states(place):
    return [each.state for each in place.obligations()]


def alive(number):
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{number}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] != "Z"


# -- what arrives


def test_every_effect_comes_once_as_the_event_with_what_was_written_as_evidence(place, out):
    destined(place, python(KEEPS, out))
    tasks = place.results({"n": 1}, "zwei \u2028", 3.5)
    assert place.deliver().counts == {"complete": 3}
    for task, obligation in zip(tasks, place.obligations(), strict=True):
        assert place.evidence(obligation.task_id) == {
            "exit": 0, "output": {"kept": f"{task}.1"}
        }  # fmt: skip
        told = json.loads((out / f"{task}.1").read_bytes())
        assert told["data"] == obligation.payload and told["id"] == f"msg_{obligation.task_id}"


def test_it_is_told_what_the_page_says_and_nothing_else_of_ours(tmp_path, monkeypatch):
    monkeypatch.setenv("FENCEPOST_TOKEN", "hidden-word")
    monkeypatch.setenv("THEIR_OWN", "kept")
    one = sender(shell("env > $1; cat >> $1", tmp_path / "env"), "idempotent", secrets=(SECRET,))
    told = event(fence=9, epoch=2, revision=3, turn=Turn(17, "0f" * 32))
    assert one.send(told, 20).word == "delivered"
    content = (tmp_path / "env").read_bytes()
    assert content.endswith(told.body) and b"hidden-word" not in content
    lines = content.removesuffix(told.body).decode().splitlines()
    found = dict(line.split("=", 1) for line in lines if "=" in line)
    assert found["THEIR_OWN"] == "kept"
    ours = {name: value for name, value in found.items() if name.startswith("FENCEPOST_")}
    signed = {f"webhook-{n}": ours.pop(f"FENCEPOST_WEBHOOK_{n.upper()}")
              for n in ("id", "timestamp", "signature")}  # fmt: skip
    signing.verify([signing.secret_bytes(SECRET)], signed, told.body, time.time())
    assert ours.pop("FENCEPOST_LEASE")
    assert ours == {
        "FENCEPOST_ID": told.id, "FENCEPOST_OPERATION": told.operation,
        "FENCEPOST_STREAM": told.stream, "FENCEPOST_SUBJECT": told.subject,
        "FENCEPOST_EPOCH": "2", "FENCEPOST_FENCE": "9", "FENCEPOST_REVISION": "3",
        "FENCEPOST_SEQUENCE": "17",
    }  # fmt: skip
    table = table_rows("docs/deliveries.md", "## Commands")
    names = {name for row in table for name in re.findall(r"`(\w+)`", row[0])}
    assert names == set(ours) | {f"FENCEPOST_{n.upper().replace('-', '_')}" for n in signed}


def test_the_table_of_exit_codes_is_the_pages():
    found = table_rows("docs/deliveries.md", "Its exit code is the answer")
    assert [(row[0], row[1]) for row in found] == [
        *((str(code), meaning) for code, (_, meaning) in command.EXIT_CODES.items()),
        ("any other, or a signal", "as 77"),
    ]


@pytest.mark.parametrize(("code", "kind", "state", "attempt"), [
    (0, "unfenced", "done", 1), (65, "unfenced", "dead", 1), (69, "unfenced", "ready", 0),
    (75, "unfenced", "ready", 1), (77, "unfenced", "blocked", 1), (77, "idempotent", "ready", 1),
    (1, "unfenced", "blocked", 1), (1, "idempotent", "ready", 1), (78, "unfenced", "ready", 0),
])  # fmt: skip
def test_what_becomes_of_a_delivery_by_its_exit_code(place, code, kind, state, attempt):
    destined(place, shell(f"exit {code}"), kind)
    place.fp.queue_set("out", backoff_seconds=600, max_backoff_seconds=600)
    place.results(1)
    place.deliver(max_seconds=2)
    (task,) = place.obligations()
    assert (task.state, task.attempt) == (state, attempt)
    stopped = place.fp.destination("out").stopped
    assert (stopped is not None) == (code == 78)
    if stopped:
        assert stopped.startswith("gone: the command ended with 78")


def test_killed_by_a_signal_is_uncertain(place):
    destined(place, shell("kill -9 $$"), "unfenced")
    place.results(1)
    place.deliver()
    (task,) = place.obligations()
    assert task.state == "blocked" and task.reason.startswith("effect_uncertain: ")


@pytest.mark.parametrize("words", [["/no/such/program"], ["/"], [__file__]])
def test_a_command_that_cannot_be_run_costs_no_attempt(place, words):
    destined(place, address(*words), "unfenced")
    place.fp.queue_set("out", max_attempts=1)
    place.results(1)
    place.deliver(max_seconds=1)
    (task,) = place.obligations()
    assert (task.state, task.attempt) == ("ready", 0)


# -- what it writes


@pytest.mark.parametrize(("output", "most", "told"), [
    (b"", 100, {"exit": 0}), (b" \n", 100, {"exit": 0}),
    (b'{"a": 1.0}', 100, {"exit": 0, "output": {"a": 1.0}}),
    (b"plain\n", 100, {"exit": 0, "output": "plain\n"}),
    (b"\xff\x00", 100, {"exit": 0, "output": "\ufffd\x00"}),
    (b'{"a": NaN}', 100, {"exit": 0, "output": '{"a": NaN}'}),
    (b"x" * 100, 100, {"exit": 0, "output_over_bytes": 100}),
    (b"\x00" * 40, 100, {"exit": 0, "output_over_bytes": 100}),
    (None, 100, {"exit": 0, "output_over_bytes": 100}),
    (b"", 0, {"exit": 0}), (None, 0, {"exit": 0, "output_over_bytes": 0}),
])  # fmt: skip
def test_what_it_has_written_is_evidence_within_bounds(output, most, told):
    assert command.evidence(output, most) == told


def test_one_that_writes_without_end_is_read_and_forgotten(place):
    destined(place, shell("yes | head -c 20000000"), max_response_bytes=1_000)
    place.results(1)
    place.deliver()
    (task,) = place.obligations()
    assert place.evidence(task.task_id) == {"exit": 0, "output_over_bytes": 1_000}


def test_one_that_reads_nothing_of_a_long_event_is_not_waited_for(place):
    destined(place, shell("exit 0"))
    place.results("x" * 500_000)
    assert place.deliver().counts == {"complete": 1}


# -- how it ends


@pytest.mark.parametrize("kind", ["unfenced", "idempotent"])
def test_one_that_takes_too_long_is_ended_with_all_that_it_has_begun(place, tmp_path, kind):
    """Also what ignores the first signal, and what it has left in the background."""
    program = "trap '' TERM; (sleep 300 & echo $! > $1; wait) & echo $$ > $2; wait"
    destined(place, shell(program, tmp_path / "below", tmp_path / "own"), kind, timeout_seconds=2)
    place.fp.queue_set("out", backoff_seconds=600, max_backoff_seconds=600)
    place.results(1)
    place.deliver()
    (task,) = place.obligations()
    assert task.reason.startswith("effect_uncertain: the command was ended: deadline")
    assert task.state == ("blocked" if kind == "unfenced" else "ready")
    for name in ("below", "own"):
        number = int((tmp_path / name).read_text())
        comes_true(lambda number=number: not alive(number), 20)


def test_what_it_leaves_behind_is_ended_when_it_has_ended(tmp_path):
    one = sender(shell("sleep 300 & echo $! > $1", tmp_path / "left"), "idempotent")
    assert one.send(event(), 20).word == "delivered"
    number = int((tmp_path / "left").read_text())
    comes_true(lambda: not alive(number), 20)


def test_one_has_ended_before_its_lease_has():
    one = sender(shell("trap '' TERM; while :; do sleep 0.1; done"), "idempotent")
    begun = time.monotonic()
    assert one.send(event(), 2).word == "unanswered"
    assert time.monotonic() - begun < 8  # two seconds, and what a slow machine needs


def test_one_that_is_aborted_is_ended_and_nothing_more_begins(tmp_path):
    one, came = sender(shell("echo $$ > $1; sleep 300", tmp_path / "own"), "idempotent"), []
    thread = threading.Thread(target=lambda: came.append(one.send(event(), 60)))
    thread.start()
    comes_true(lambda: (tmp_path / "own").exists() and (tmp_path / "own").read_text(), 20)
    one.close()
    thread.join(20)
    assert not thread.is_alive() and came[0].word == "unanswered"
    assert not alive(int((tmp_path / "own").read_text()))
    assert one.send(event(2), 2).word == "unsent"


def test_one_ends_with_the_dispatcher_that_was_killed(place, tmp_path):
    destined(place, shell("echo $$ > $1; sleep 300", tmp_path / "own"), timeout_seconds=600)
    place.fp.queue_set("out", lease_seconds=600)
    place.results(1)
    with Life(place.folder) as life:
        comes_true(lambda: (tmp_path / "own").exists() and (tmp_path / "own").read_text(), 30)
        life.child.send_signal(signal.SIGKILL)
        number = int((tmp_path / "own").read_text())
        comes_true(lambda: not alive(number), 30)


def test_a_second_signal_ends_the_command_that_is_under_way(place, tmp_path):
    destined(place, shell("echo $$ > $1; sleep 300", tmp_path / "own"), timeout_seconds=600)
    place.fp.queue_set("out", lease_seconds=600)
    place.results(1)
    with Life(place.folder) as life:
        comes_true(lambda: (tmp_path / "own").exists() and (tmp_path / "own").read_text(), 30)
        life.child.send_signal(signal.SIGTERM)
        life.child.send_signal(signal.SIGINT)
        _, said = life.ends()
        assert said["ended"] == "aborted"
        assert not alive(int((tmp_path / "own").read_text()))


@pytest.mark.parametrize("step", SINK_STEPS["command"])
@pytest.mark.parametrize("kind", ["idempotent", "unfenced"])
def test_a_dispatcher_killed_at_any_step_leaves_each_effect_once(place, out, step, kind):
    """An unfenced one is not run again: it may have been."""
    destined(place, python(KEEPS, out), kind, concurrency=1)
    place.fp.queue_set("out", lease_seconds=600, max_attempts=1)
    tasks = place.results(*range(3))
    after = SINK_STEPS["command"][step]
    with Life(place.folder, "--exit-when-empty", step=step, after=after) as life:
        assert life.ends()[0] == -signal.SIGKILL, (place.folder / "deliver.err").read_text()
    with Life(place.folder, "--exit-when-empty", "--max-seconds", "30") as life:
        assert life.ends()[0] == 0
    found = sorted(each.name for each in out.iterdir())
    if kind == "idempotent" or step == "settling":
        assert states(place) == ["done"] * 3 and found == sorted(f"{task}.1" for task in tasks)
    else:
        assert sorted(states(place)) == ["blocked", "done", "done"]
        (task,) = [each for each in place.obligations() if each.state == "blocked"]
        assert task.reason.startswith("effect_uncertain: ")
        assert set(found) >= {f"{one}.1" for one in tasks if one != task.payload["task_id"]}


def test_an_ordered_command_is_run_one_by_one_with_its_place_in_the_stream(place, tmp_path):
    log = tmp_path / "log"
    destined(place, shell('echo "$FENCEPOST_SEQUENCE $FENCEPOST_SUBJECT" >> $1', log), ordered=True)
    tasks = place.results(*range(5))
    place.deliver()
    assert log.read_text().splitlines() == [
        f"{number} pages/{task}" for number, task in enumerate(tasks, 1)
    ]
    assert place.fp.destination("out").sequence == 5


def test_a_command_keeps_no_fence():
    complete = destinations.complete({})
    for class_ in ("fenced", "cas"):
        assert "idempotent or unfenced" in destinations.contradiction(
            address("x"), class_, complete
        )
