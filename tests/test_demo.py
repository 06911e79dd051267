"""The demo as it is run: what must happen in it, how it ends, and what it leaves behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pytest

import fencepost
from fencepost.operate import demo
from fencepost.operate.demo import checks, command, crew, director

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = "import sys; from fencepost.operate.demo import main; sys.exit(main(sys.argv[1:]))"
WAIT_SECONDS = 20


@pytest.fixture
def folder(tmp_path):
    """A folder of sixty source files in two layers, and things that are no source files."""
    folder = tmp_path / "src"
    for number in range(60):
        place = folder / ("deep" if number % 2 else ".") / f"file {number}.py"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(b"x\n" * number + b"end" * (number % 3))
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "cached.py").write_text("")
    (folder / "notes.txt").write_text("no source")
    (folder / "broken.py").symlink_to("nowhere")
    return folder


@pytest.fixture(autouse=True)
def scratch(tmp_path, monkeypatch):
    """Where the demo puts its files; whatever it leaves there is found."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    return scratch


def run_json(capsys, *argv: str):
    """(exit code, the JSON object that the demo printed)."""
    code = demo.main([*argv, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_every_misfortune_happens_and_every_check_holds(folder, scratch, capsys):
    code, told = run_json(capsys, str(folder), "--seed", "1")
    assert code == 0
    assert (told["status"], told["workers"], told["seed"]) == ("accepted", 4, 1)
    assert [check for check in told["checks"] if not check["holds"]] == []
    assert len(told["checks"]) == 8
    counts = told["counts"]
    assert {counts[name] for name in ("tasks", "results", "receipts", "obligations")} == {60}
    assert [counts[name] for name in ("killed", "stopped", "losers")] == [1, 1, 1]
    assert (counts["refused"], counts["refused.task_done"], counts["replays"]) == (1, 1, 1)
    assert list(scratch.iterdir()) == []


def test_the_numbers_of_the_table_add_up(folder, capsys):
    """Two workers and sixty files: the long plan, in which both are stopped at the same time."""
    code, told = run_json(capsys, str(folder), "--seed", "3", "--workers", "2")
    counts = told["counts"]
    assert code == 0
    assert [counts[name] for name in ("killed", "stopped", "losers")] == [2, 2, 3]
    by_code = [number for name, number in counts.items() if name.startswith("refused.")]
    assert sum(by_code) == counts["refused"] == 2
    assert counts["replays"] == 3
    assert counts["reclaims"] == 4  # one task each that was held by the killed and the stopped
    assert counts["leases"] == counts["tasks"] + counts["reclaims"]
    # queue.set, one enqueue, a claim for each lease, a completion for each task
    assert counts["entries"] == 2 + counts["leases"] + counts["receipts"]


def test_people_get_the_table_and_the_checks_in_words(folder, capsys):
    assert demo.main([str(folder), "--seed", "1"]) == 0
    said = capsys.readouterr()
    assert "60 source files under" in said.out
    assert "       60  results accepted" in said.out
    assert "        1  worker killed with SIGKILL, holding 1 lease" in said.out
    assert "        1    task_done: the task is already done" in said.out
    assert "holds   exactly one completing receipt for each task (60 tasks)" in said.out
    assert "All of it holds, after" in said.out
    assert "60 of 60 files" in said.err


def test_a_wrong_result_fails_the_run_and_is_named(folder, capsys, monkeypatch):
    right = checks.direct

    def wrong(path):
        return {**right(path), "lines": -1} if path.name == "file 7.py" else right(path)

    monkeypatch.setattr(checks, "direct", wrong)
    code, told = run_json(capsys, str(folder), "--seed", "1")
    assert (code, told["status"]) == (1, "failed")
    (failed,) = [check for check in told["checks"] if not check["holds"]]
    assert failed["check"] == "every accepted result equals a direct computation"
    assert len(failed["complaints"]) == 1
    assert failed["complaints"][0].startswith("deep/file%207.py: expected {'lines': -1")


def test_a_file_that_is_gone_when_its_turn_comes_is_named(folder, capsys, monkeypatch):
    found = command.sources
    monkeypatch.setattr(command, "sources", lambda place: ["gone.py", *found(place)])
    code = demo.main([str(folder), "--seed", "1"])
    said = capsys.readouterr().out
    assert code == 1
    assert "gone.py: No such file or directory" in said
    assert "gone.py: 0 completing receipts" in said
    assert "       60  results accepted" in said


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["nowhere"], "nowhere: there is no such folder"),
        (["src/notes.txt"], "src/notes.txt: is not a folder"),
        (["empty"], "empty: no *.py file in it; give a folder that has some"),
        (["src", "--workers", "1"], "--workers 1: give 2 to 32"),
        (["src", "--workers", "33"], "--workers 33: give 2 to 32"),
        (["src", "--keep", "src/notes.txt"], "it exists, and nothing is overwritten"),
        (["src", "--keep", "no/where.db"], "there is no folder no"),
        (["src", "--seed", "x"], "argument --seed: invalid int value: 'x'"),
    ],
)
def test_what_cannot_be_run_is_said_before_anything_is_done(
    folder, scratch, tmp_path, capsys, monkeypatch, argv, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    assert demo.main(argv) == 2
    said = capsys.readouterr()
    assert message in said.err
    assert said.out == ""
    assert list(scratch.iterdir()) == []


def test_a_kept_store_is_what_the_run_says(folder, tmp_path, capsys):
    store = tmp_path / "kept.db"
    code, _ = run_json(capsys, str(folder), "--keep", str(store))
    assert code == 0
    with fencepost.open(str(store), scope="demo") as fp:
        assert sum(task.state == "done" for task in fp.tasks("demo-files")) == 60
    assert demo.main([str(folder), "--keep", str(store)]) == 2


def test_a_worker_that_ends_unasked_ends_the_run(folder, scratch, capsys, monkeypatch):
    monkeypatch.setattr(crew, "BOOT", "raise SystemExit('out of paper')")
    assert demo.main([str(folder)]) == 1
    assert re.search(r"worker-\d+ ended unasked: out of paper", capsys.readouterr().err)
    assert list(scratch.iterdir()) == []


def test_workers_that_say_nothing_do_not_hold_the_run_up_for_ever(folder, capsys, monkeypatch):
    monkeypatch.setattr(crew, "BOOT", "import sys; sys.stdin.read()")
    monkeypatch.setattr(director, "PATIENCE_SECONDS", 0.2)
    assert demo.main([str(folder)]) == 1
    assert "nothing has moved for 0.2 s" in capsys.readouterr().err


def test_the_command_line_runs_it_in_any_locale(folder, scratch, tmp_path):
    """Straight from a checkout, by a bare Python that knows ASCII at most."""
    ugly = folder / "caf\xe9 \u202e \x1b[31m.py"
    ugly.write_text("")
    done = subprocess.run(
        [sys.executable, "-S", "-W", "error", "-m", "fencepost", "demo", str(folder)],
        cwd=ROOT, env={"LANG": "C", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0",
                       "TMPDIR": str(scratch)},
        capture_output=True, timeout=WAIT_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert b"       61  results accepted" in done.stdout
    assert b"\x1b" not in done.stdout + done.stderr


def started(folder: Path, scratch: Path) -> subprocess.Popen[str]:
    """The demo in a process of its own, at the moment when one of its workers is stopped."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder)], text=True, cwd=ROOT,
        env={**os.environ, "TMPDIR": str(scratch)},
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stderr is not None
    for line in process.stderr:
        if "SIGSTOP" in line:
            return process
    raise AssertionError("it ended before a worker was stopped")


def processes() -> dict[int, tuple[int, str]]:
    """Process id → (its parent, its state). `ps` is not everywhere, /proc is on Linux."""
    if sys.platform == "linux":
        texts = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):  # it has ended meanwhile
                texts.append(stat.read_text("utf-8", "replace"))
        pairs = ((text.split()[0], text.rsplit(")", 1)[1].split()) for text in texts)
        return {int(pid): (int(rest[1]), rest[0]) for pid, rest in pairs}
    listed = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid=,stat="], capture_output=True, text=True, check=True
    )
    rows = (line.split() for line in listed.stdout.splitlines())
    return {int(pid): (int(parent), state[0]) for pid, parent, state, *_ in rows}


def children(pid: int) -> set[int]:
    return {child for child, (parent, _) in processes().items() if parent == pid}


def any_alive(pids: set[int]) -> bool:
    """A zombie that nobody has waited for yet is not alive."""
    return any(state != "Z" for pid, (_, state) in processes().items() if pid in pids)


@pytest.mark.parametrize(
    ("number", "code", "left"),
    [
        (signal.SIGINT, 130, False),
        (signal.SIGTERM, 143, False),
        (signal.SIGHUP, 129, False),
        (signal.SIGKILL, -9, True),  # its workers end; its files nobody can remove then
    ],
)
def test_however_the_demo_is_ended_no_worker_outlives_it(folder, scratch, number, code, left):
    process = started(folder, scratch)
    workers = children(process.pid)
    assert len(workers) >= 3
    process.send_signal(number)
    process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == code
    deadline = time.monotonic() + WAIT_SECONDS
    while any_alive(workers):
        assert time.monotonic() < deadline, "a worker lives on"
        time.sleep(0.05)
    assert (list(scratch.iterdir()) != []) is left
