"""`enqueue --from`: whole commands, counted exactly, whatever stops them."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys

import pytest
from helpers.shell import Shell, command, environment

import fencepost
from fencepost.cli import bulk
from fencepost.cli.interrupts import Interrupts
from fencepost.issues import OutcomeUnknown
from fencepost.model import Outcome


@pytest.fixture
def shell(tmp_path, capsys, monkeypatch):
    shell = Shell(tmp_path, capsys, monkeypatch)
    assert shell("init").code == 0
    return shell


def numbers(first: int, last: int) -> bytes:
    return b"".join(b"%d\n" % number for number in range(first, last + 1))


def payloads(shell, queue="q"):
    with fencepost.open(str(shell.folder / "fencepost.db")) as fp:
        return [fp.task(task.task_id).payload for task in fp.tasks(queue)]


def test_each_line_becomes_a_task_in_order_250_a_command(shell):
    (shell.folder / "n.jsonl").write_bytes(numbers(1, 601).rstrip())
    ran = shell("enqueue", "q", "--from", "n.jsonl")
    assert (ran.code, ran.out) == (0, "on q: 601 tasks in 3 commands\n")
    assert "enqueue q done: 601/601" in ran.err
    assert payloads(shell) == list(range(1, 602))


def test_json_tells_one_outcome_a_command(shell):
    outcomes = shell("enqueue", "q", "--from", "-", "--json", stdin=numbers(1, 501)).lines
    assert [len(outcome["task_ids"]) for outcome in outcomes] == [250, 250, 1]
    assert {outcome["status"] for outcome in outcomes} == {"accepted"}


def test_nothing_to_enqueue_is_no_command(shell):
    assert shell("enqueue", "q", "--from", "-").out == "on q: 0 tasks in 0 commands\n"
    assert shell("journal").out == ""


def test_lines_may_be_objects_of_task_fields(shell):
    lines = b'{"payload":{"a":1},"key":"k","priority":5}\r\n{"payload":null,"max_attempts":1}\n'
    assert shell("enqueue", "q", "--from", "-", "--tasks", stdin=lines).code == 0
    first, second = shell("list", "--json").lines
    assert (first["key"], first["priority"], second["max_attempts"]) == ("k", 5, 1)
    assert payloads(shell) == [{"a": 1}, None]


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        (b"{", "line 252 is not JSON"),
        (b"", "line 252 is empty"),
        (b'{"a":1,"a":2}', 'line 252: member "a" stands more than once'),
        (b"\xff", "line 252 is not UTF-8"),
        (b"NaN", "line 252: nan is not a finite double"),
    ],
)
def test_a_bad_line_is_named_and_what_went_before_is_counted(shell, line, wrong):
    stdin = numbers(1, 251) + line + b"\n" + numbers(1, 300)
    ran = shell("enqueue", "q", "--from", "-", stdin=stdin)
    assert ran.code == 2 and wrong in ran.err
    assert "250 tasks in 1 commands were enqueued before; go on from line 251" in ran.err
    assert payloads(shell) == list(range(1, 251))


def test_a_bad_task_object_is_named_by_line_and_member(shell):
    lines = b'{"payload":1}\n{"payload":1,"prio":1}\n'
    ran = shell("enqueue", "q", "--from", "-", "--tasks", stdin=lines)
    assert ran.code == 2 and "line 2: unknown member 'prio'" in ran.err
    assert payloads(shell) == []


def test_a_line_longer_than_any_command_is_refused_without_reading_it_whole(shell, monkeypatch):
    monkeypatch.setattr("fencepost.fields.MAX_BODY_BYTES", 100)
    stdin = b'"' + b"x" * 1_000 + b'"\n'
    ran = shell("enqueue", "q", "--from", "-", stdin=stdin)
    assert ran.code == 2 and "line 1 is larger than 100 bytes" in ran.err


def test_large_tasks_go_in_smaller_commands(shell, monkeypatch):
    monkeypatch.setattr(bulk, "MAX_COMMAND_BYTES", 10)
    ran = shell("enqueue", "q", "--from", "-", stdin=b'"12345678"\n' * 3)
    assert ran.out == "on q: 3 tasks in 3 commands\n"


def test_with_a_key_the_same_file_enqueues_nothing_twice(shell):
    bad = numbers(1, 300) + b"{\n"
    assert shell("enqueue", "q", "--from", "-", "--key", "day-1", stdin=bad).code == 2
    ran = shell("enqueue", "q", "--from", "-", "--key", "day-1", "--json", stdin=numbers(1, 300))
    assert [outcome["replayed"] for outcome in ran.lines] == [True, False]
    assert payloads(shell) == list(range(1, 301))


def test_with_task_keys_the_whole_file_may_be_sent_again(shell):
    lines = b"".join(b'{"payload":%d,"key":"k%d"}\n' % (n, n) for n in range(300))
    for _ in range(2):
        assert shell("enqueue", "q", "--from", "-", "--tasks", stdin=lines).code == 0
    assert payloads(shell) == list(range(300))


def test_a_refusal_says_how_many_went_before(shell):
    shell("queue-set", "q", "max_payload_bytes=3")
    ran = shell("enqueue", "q", "--from", "-", "--json", stdin=numbers(1, 300) + b"10000\n")
    assert ran.code == 3
    assert ran.lines[-1]["issues"] == ["payload_too_large"]
    assert "250 tasks in 1 commands were enqueued before" in ran.lines[-1]["message"]


def test_an_unknown_outcome_says_which_command_to_ask_for(shell, monkeypatch):
    unknown = Outcome("failed", (OutcomeUnknown.code,), "it broke", facts={"key": "day.1"})
    monkeypatch.setattr("fencepost.handle.Handle.execute", lambda self, commands: [unknown])
    ran = shell("enqueue", "q", "--from", "-", "--key", "day", stdin=b"1\n")
    assert ran.code == 6
    assert "send it again with the same --key" in ran.err and "--key day.1" in ran.err


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (("1",), "PAYLOAD"), (("--text",), "--text"), (("--task-key", "k"), "--task-key"),
        (("--priority", "1"), "--priority"), (("--max-attempts", "1"), "--max-attempts"),
        (("--due-at", "2026-01-31T12:00:00Z"), "--due-at"),
    ],
)  # fmt: skip
def test_what_belongs_to_one_task_does_not_go_with_a_file(shell, flags, named):
    ran = shell("enqueue", "q", *flags, "--from", "-", stdin=b"1\n")
    assert ran.code == 2 and f"{named} belongs to one task" in ran.err


# -- Ctrl-C


def begin(shell, *argv):
    """The program in a process of its own, reading what we write to it."""
    return subprocess.Popen(
        command("enqueue", "q", "--from", "-", *argv), cwd=shell.folder, env=environment(),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def test_ctrl_c_between_commands_leaves_whole_commands_and_says_how_many(shell):
    child = begin(shell, "--json")
    child.stdin.write(numbers(1, 760))
    child.stdin.flush()
    for _ in range(3):
        child.stdout.readline()  # three commands are committed, ten lines wait for the rest
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=50)
    assert (child.returncode, out) == (130, b"")
    told = err.decode().splitlines()[-1]
    assert told == (
        "fencepost: interrupted: 750 tasks in 3 commands were enqueued before; "
        "go on from line 751"
    )
    assert payloads(shell) == list(range(1, 751))


def test_ctrl_c_at_any_moment_says_the_number_that_is_there(shell):
    (shell.folder / "n.jsonl").write_bytes(numbers(1, 100_000))
    child = subprocess.Popen(
        command("enqueue", "q", "--from", "n.jsonl", "--json"), cwd=shell.folder,
        env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    child.stdout.readline()
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=50)
    assert child.returncode == 130, err
    there = len(payloads(shell))
    assert there == 250 * (1 + out.count(b"\n")) < 100_000
    assert f"interrupted: {there} tasks in {there // 250} commands".encode() in err


def interrupted(times):
    """What of a command is done although Ctrl-C is pressed inside it so many times."""
    done = []
    try:
        with Interrupts() as interrupts, interrupts.held():
            for _ in range(times):
                signal.raise_signal(signal.SIGINT)
            done.append("whole")
    except KeyboardInterrupt:
        done.append("interrupted")
    return done


def test_a_ctrl_c_waits_for_the_command_that_is_under_way():
    assert interrupted(0) == ["whole"]
    assert interrupted(1) == ["whole", "interrupted"]


def test_a_second_ctrl_c_does_not_wait():
    assert interrupted(2) == ["interrupted"]


def test_ctrl_c_between_commands_is_heard_at_once():
    with Interrupts() as interrupts:
        with interrupts.held():
            pass
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_bar_is_drawn_on_a_terminal(shell):
    (shell.folder / "n.jsonl").write_bytes(numbers(1, 20_000))
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        command("enqueue", "q", "--from", "n.jsonl"), cwd=shell.folder,
        env=environment(TERM="xterm", COLUMNS="100"), stdout=subprocess.PIPE, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    drawn = b""
    try:
        while block := os.read(ours, 65_536):
            drawn += block
    except OSError:  # the other side has closed
        pass
    os.close(ours)
    out, _ = child.communicate(timeout=50)
    assert (child.returncode, out) == (0, b"on q: 20000 tasks in 80 commands\n")
    assert "━".encode() in drawn and b"left" in drawn and b"enqueue q done: 20000/20000" in drawn
