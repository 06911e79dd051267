"""Runs a story of `story.py` once for each fault of the disk, and says what came out untrue.

The functions run in a child that has `iofault.c` loaded and no thread; it forks for each fault,
once to live the story and once to judge what is left.
"""

from __future__ import annotations

import ctypes
import errno
import json
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from fencepost.conformance.product_pin import pin
from fencepost.engine.transact import Transactor
from fencepost.issues import OutcomeUnknown, Unavailable
from fencepost.storage.sqlite import connect, store
from fencepost.storage.sqlite.transaction import SqliteTransaction
from helpers import story
from helpers.baddisk import SOURCE
from helpers.children import ended, result_of, start
from helpers.killing import Tell, told_in_fork
from helpers.tools import built

PART = "work.db"
OPERATIONS = ("open", "read", "write", "sync", "trunc", "unlink", "lock", "turn", "map", "stat")
CHANGING = ("open", "write", "sync", "trunc", "unlink")
STORIES: dict[str, Callable[..., None]] = {"live": story.live, "begin": story.begin}


def faults(calls: dict[str, int]) -> list[str]:
    """Each of these calls failing once and for good with each error, and killed there."""
    found = []
    for op, most in calls.items():
        codes = (errno.EIO, errno.ENOSPC, errno.EROFS) if op in CHANGING else (errno.EIO,)
        # a lock that can never be had is only waited for: SQLite takes ten seconds each time
        once_and_sticky = ("",) if op == "lock" else ("", ":s")
        for nth in range(1, most + 1):
            found.append(f"{op}:{nth}:kill")
            found += [f"{op}:{nth}:{code}{s}" for code in codes for s in once_and_sticky]
    return found


class Bench:
    """A folder with the shim, the store that the stories begin with, and their requests."""

    def __init__(self, folder: Path) -> None:
        library = built(SOURCE, folder)
        if library is None:
            raise FileNotFoundError("needs a C compiler: apt-get install gcc")
        self._env = {"LD_PRELOAD": str(library)}
        self._folder = str(folder)
        story.prepare(folder / PART)
        (folder / "known.json").write_text(json.dumps(story.known_of(folder / PART)))

    def count(self, kind: str) -> dict[str, int]:
        """See `count`."""
        return result_of(start(count, self._folder, kind, env=self._env))

    def sweep(self, kind: str, faults: list[str], end: float | None = None, planted: str = ""
              ) -> dict[str, Any]:  # fmt: skip
        """See `sweep`. At most some hundred faults: they are arguments of a command."""
        child = start(sweep, self._folder, kind, faults, end, planted, env=self._env)
        code, out, err = ended(child, 3_600)
        assert code == 0, err
        found: dict[str, Any] = json.loads(out)
        if found["wrong"]:
            print(err)  # where a hanging process was
        return found


def count(folder: str, kind: str) -> dict[str, int]:
    """How many calls of each kind the story makes on a good disk. It must be told without a
    flaw, or nothing that is said of a bad one means anything."""
    told, wrong = _tried(Path(folder), kind, "none:0:0")
    assert not wrong, wrong
    assert not any("did not" in t or t.get("issues") for t in told), told
    return told[-1]["calls"]


def sweep(
    folder: str, kind: str, faults: Iterable[str], end: float | None = None, planted: str = ""
) -> dict[str, Any]:
    """Try the faults until the moment `end`: how many were tried, what came out untrue, and how
    often each answer was given. `planted` is a fault in the store, of PLANTS."""
    if planted:
        PLANTS[planted]()
    runs, wrong, answers = 0, [], {}
    for fault in faults:
        if end is not None and time.time() > end:
            break
        runs += 1
        told, found = _tried(Path(folder), kind, fault)
        wrong += [f"{kind}, {fault}: {what}" for what in found]
        for t in told:
            if "answered" in t:
                answer = (t["issues"] or ["accepted"])[0]
                answers[answer] = answers.get(answer, 0) + 1
            elif "did not" in t:
                answers["not " + t["did not"]] = answers.get("not " + t["did not"], 0) + 1
    return {"runs": runs, "wrong": wrong, "answers": answers}


def _error_of_a_commit_means_no() -> None:
    def commit(transaction: SqliteTransaction) -> None:
        try:
            transaction.connection.execute("commit")
        except sqlite3.Error as error:
            transaction.rollback()
            raise Unavailable(f"nothing was done: {error}") from error

    SqliteTransaction.commit = commit  # type: ignore[method-assign]


def _answer_before_the_commit() -> None:
    run = Transactor.run

    def early(transactor: Transactor, transaction: Any, sent: Any) -> Any:
        try:
            return run(transactor, transaction, sent)
        except OutcomeUnknown:
            with_entries = transactor.fold
            transaction.rollback()
            transaction.begin()
            done, _ = with_entries(transaction, sent)
            transaction.rollback()
            return done

    Transactor.run = early  # type: ignore[method-assign]


PLANTS: dict[str, Callable[[], None]] = {
    "an error of COMMIT means no": _error_of_a_commit_means_no,
    "an answer although the commit failed": _answer_before_the_commit,
}


def _tried(folder: Path, kind: str, fault: str) -> tuple[list[dict[str, Any]], list[str]]:
    place = folder / "run"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    path = place / PART
    known = json.loads((folder / "known.json").read_text())
    if kind == "live":
        shutil.copy(folder / PART, path)
        pin(path)
    else:
        known = {"enqueue": known["enqueue"]}

    def lived(tell: Tell) -> None:
        # a lock that cannot be had is waited for, again and again: not for so long here
        connect.BUSY_SECONDS = store.BUSY_SECONDS = 0.02
        shim = ctypes.CDLL(None)
        shim.iofault_arm(fault.encode(), f"/run/{PART}".encode())
        STORIES[kind](path, known, tell)
        calls = {op: shim.iofault_counted(op.encode()) for op in OPERATIONS}
        shim.iofault_arm(b"", b"")
        tell({"calls": calls})

    code, told = told_in_fork(lived)
    wrong = [what for t in told for what in t.get("wrong", ())]
    if code not in (0, -signal.SIGKILL) or (code != 0 and not fault.endswith("kill")):
        wrong.append(f"the process ended with {code} after {told[-2:]}")
    code, found = told_in_fork(lambda tell: tell({"wrong": story.judge(path, known, told)}))
    if code != 0 or not found:
        wrong.append(f"what is left cannot be judged: {code}, {found}")
    else:
        wrong += found[-1]["wrong"]
    return told, wrong
