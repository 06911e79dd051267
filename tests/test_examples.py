"""Every example runs from anywhere with a bare Python, and says what this table says it does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
MAX_LINES = 100
# example: lines that its output must have, in this order
SAID = {
    "hello": [
        "Enqueued page 17; its state is ready.",
        "Enqueued under the same key again: the same task? True.",
        "laptop-3 has claimed it: attempt 1, fence 1.",
        "Completed; its state is done.",
        "The receipt is entry 4 of the journal: complete.",
        "Result of revision 1: the text of page 17.",
    ],
    "lost_answer": [
        "The second answer is a replay? True.",
        "The receipts are the same, byte for byte? True.",
        "Results of the task: 1.",
        "Other bytes are no retry, and are refused: task_done.",
    ],
    "stale_worker": [
        "After 60 s, with nobody else about: lease_expired.",
        "server-1 takes over with fence 2.",
        "laptop-3 tries to complete: refused, wrong_worker, stale_fence.",
        "laptop-3 tries to renew: refused, wrong_worker, stale_fence.",
        "laptop-3 tries to fail: refused, wrong_worker, stale_fence.",
        "laptop-3 tries to release: refused, wrong_worker, stale_fence.",
        "The one accepted result is: in time.",
    ],
    "in_my_transaction": [
        "  invoices: 0, task: leased",
        "  invoices: 1, task: done",
    ],
    "deliveries": [
        "nothing happened: effect 1, accepted",
        "killed: effect 2, accepted",
        "answer lost: effect 3, accepted",
        "restored: the result 'answer lost' is known",
        "3 effects, 3 operations",
    ],
    "followups": [
        "  the task itself: scan, done",
        "  followup: recognise, ready",
        "  followup: recognise, ready",
        "  obligation: outbox, ready",
        "  the same receipt? True",
        "  tasks on recognise: 2",
        "  tasks on outbox: 1",
    ],
    "offline_proof": [
        "  the entry is in the tree of the checkpoint: True",
        "  the checkpoint is the one that was kept: True",
        "  the entry is about this very result: True",
        "  laptop-3 had it completed at fence 1",
        "With another result:",
        "  the entry is about this very result: False",
        "With another fence in the entry:",
        "  the entry is in the tree of the checkpoint: False",
    ],
    "review": [
        "  revision 1, 'Nobody came.': open",
        "An operator may not close it: forbidden.",
        "Ada rejects revision 1 and asks for another; the task is ready:",
        "  revision 1, 'Nobody came.': rejected",
        "  revision 2, 'Four came, and two agreed.': accepted",
    ],
}


def test_every_example_stands_in_the_table():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(SAID)


@pytest.mark.parametrize("name", SAID)
def test_an_example_does_what_it_says(name, tmp_path):
    program = EXAMPLES / f"{name}.py"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-W", "error", str(program)],
        cwd=tmp_path, env={"LANG": "C"}, capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    expected = iter(SAID[name])
    wanted = next(expected)
    for line in done.stdout.splitlines():
        if line == wanted:
            wanted = next(expected, "")
    assert wanted == "", f"not said: {wanted!r} in\n{done.stdout}"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", SAID)
def test_an_example_is_short(name):
    text = (EXAMPLES / f"{name}.py").read_text("utf-8")
    assert len(text.splitlines()) <= MAX_LINES
    assert f"python3 examples/{name}.py" in text
