"""What goes along with a recording: follow-ups, log, mark; at the shell, and against tampering."""

from __future__ import annotations

import os
import pty
import subprocess

import pytest
from helpers.field import DAY, Field
from helpers.lab import raw
from helpers.shell import Shell, command, environment

from fencepost.commands import Request
from fencepost.issues import InvalidRequest, JournalBroken, TaskDone
from fencepost.offline.notes import changed

NEXT = {"queue": "more", "payload": {"n": 1}, "key": "more-1"}


@pytest.fixture
def field(tmp_path):
    with Field(tmp_path) as made:
        yield made


def one(field, **options):
    (task_id,) = field.offer("S1")
    lap = field.laptop()
    lap.take(**options)
    return lap, task_id


def test_follow_ups_and_log_go_along_when_the_task_is_claimed_again(field):
    lap, task_id = one(field, lease_seconds=60)
    lap.box.record(task_id, "row", close=False, log="said of the row")
    lap.box.record(task_id, "end", followups=[NEXT], log="said at the end")
    field.clock.advance(61)
    assert lap.sync()["claimed"] == 1
    assert [field.fp.task(t.task_id).payload for t in field.fp.tasks("more")] == [{"n": 1}]
    assert field.fp.task(task_id).log == "said at the end"


def test_the_same_result_with_other_follow_ups_is_another_closing(field):
    lap, task_id = one(field)
    assert lap.box.record(task_id, 1, followups=[NEXT]).new
    assert not lap.box.record(task_id, 1, followups=[dict(NEXT)]).new
    for other in ([], [NEXT, NEXT | {"key": "more-2"}]):
        with pytest.raises(TaskDone):
            lap.box.record(task_id, 1, followups=other)
    assert lap.sync()["accepted"] == 1 and len(list(field.fp.tasks("more"))) == 1


def test_a_row_takes_no_follow_ups(field):
    lap, task_id = one(field)
    with pytest.raises(InvalidRequest, match="follow-ups close it"):
        lap.box.record(task_id, 1, close=False, followups=[NEXT])
    with pytest.raises(InvalidRequest):
        lap.box.record(task_id, 1, followups=[{"queue": "no such name"}])
    assert lap.box.counts()["results"] == 0


def test_a_verdict_brings_the_last_mark_along(field):
    lap, task_id = one(field)
    lap.box.working.mark(task_id, {"line": 4})
    lap.box.verdict(task_id, "retry", reason="no", log="said")
    lap.sync()
    task = field.fp.task(task_id)
    assert (task.progress, task.log) == ({"line": 4}, "said")


@pytest.mark.parametrize("what", ["reason", "then", "verdict", "followups"])
def test_what_was_tampered_with_in_a_verdict_or_its_follow_ups_is_named(field, what):
    """With its key made anew, which a careless hand would not do."""
    lap, task_id = one(field)
    if what == "followups":
        lap.box.record(task_id, 1, followups=[NEXT])
    else:
        lap.box.verdict(task_id, "give_up", reason="the page is blank")
    lap.box.verify()
    (sending,) = lap.box._notes.commands(1)
    sent = Request.read(sending.body).command
    other = {
        "reason": lambda: changed(sent, {"reason": "the page is torn"}),
        "then": lambda: changed(sent, {"then": "block"}),
        "verdict": lambda: sent,
        "followups": lambda: changed(sent, {"followups": ()}),
    }[what]()
    request = Request.of(other)
    values = request.body, request.sha256.hex(), "retry" if what == "verdict" else sending.verdict
    with raw(lap.folder / "offline.db") as db:
        db.execute("update outbox_command set body = ?, key = ?, verdict = ?", values)
    if what == "followups":  # a closing without them has nothing to be held against
        assert list(lap.box.links())[-2][1].startswith("followups S1 ")
    with pytest.raises(JournalBroken, match="task S1"):
        lap.box.verify()
    with raw(lap.folder / "offline.db") as db:
        db.execute("update outbox_command set body = ?, key = ?, verdict = ?",
                   (sending.body, sending.key, sending.verdict))  # fmt: skip
    lap.sync()


# -- at the shell


@pytest.fixture
def shell(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("FENCEPOST_OUTBOX", raising=False)
    made = Shell(tmp_path, capsys, monkeypatch)
    made("init")
    made("queue-set", "q", f"max_lease_seconds={DAY}", f"max_hold_seconds={DAY}")
    for number in range(4):
        made.task(str(number), "q", "--task-key", f"k{number}")
    made("offline", "take", "q", "--worker", "w", "--lease-seconds", DAY)
    return made


def test_follow_ups_and_log_at_the_shell(shell):
    (shell.folder / "next.json").write_text('[{"queue": "more", "payload": 7}]')
    done = shell.json("offline", "record", "k0", "1", "--followups", "next.json", "--log", "said")
    assert done["new"] is True
    shell("offline", "sync")
    queues = [task["queue"] for task in shell("--json", "list").lines]
    assert sorted(queues) == ["more", "q", "q", "q", "q"]
    assert shell.json("show", done["task_id"])["log"] == "said"


def test_giving_back_at_the_shell(shell):
    shell("offline", "record", "k0", "1")
    assert len(shell.json("offline", "give-back", "k1")["task_ids"]) == 1
    told = shell("offline", "give-back")
    assert told.out.startswith("2 tasks are given back by the next sync: fencepost offline sync")
    assert shell("offline", "give-back").out.startswith("every task has a result")
    assert shell("offline", "give-back", "k0").code == 3
    assert shell("offline", "give-back", "nobody").code == 4
    summary = shell("offline", "sync")
    assert summary.out.startswith(
        "4 accepted, 0 recognised, 0 claimed again, 0 needed no more, 0 waiting, 0 in conflict"
    )
    states = [(task["state"], task["attempt"]) for task in shell("--json", "list").lines]
    assert states == [("done", 1), ("ready", 0), ("ready", 0), ("ready", 0)]


def test_a_verdict_in_conflict_is_shown_with_its_reason(shell):
    code = "echo 'torn\\033[2J' >&2; exit 65"
    assert shell("work", "--offline", "offline.db", "--", "sh", "-c", code).code == 0
    shell("cancel", shell("--json", "list").lines[0]["task_id"])
    assert shell("offline", "sync").code == 3
    told = shell("offline", "conflicts")
    assert 'ours    give_up: "the command ended with 65"' in told.out and "\x1b" not in told.out


def test_a_sync_on_a_terminal_shows_how_far_it_has_come(shell):
    """And nowhere else: not in a log, not beside JSON."""
    for number in range(3):
        shell("offline", "record", f"k{number}", "1")
    plain = subprocess.run(
        command("offline", "status"), cwd=shell.folder, env=environment(), capture_output=True,
        check=True,
    )  # fmt: skip
    assert b"sync" not in plain.stderr
    master, slave = pty.openpty()
    child = subprocess.Popen(
        command("offline", "sync"), cwd=shell.folder, stdout=subprocess.PIPE, stderr=slave,
        env=environment(TERM="xterm"),
    )  # fmt: skip
    os.close(slave)
    out, _ = child.communicate(timeout=50)
    told = b""
    while True:
        try:
            part = os.read(master, 4096)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        told += part
    os.close(master)
    assert child.returncode == 0 and out.startswith(b"3 accepted")
    assert b"sync done: 3/3" in told
    assert [task["state"] for task in shell("--json", "list").lines].count("done") == 3
