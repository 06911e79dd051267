"""Ends of an outbox: killed at each step of a recording, and the power cut at each write.

`killed_recording` runs in a child that has no threads: it forks for each try (killing.py).
`recorded_life` and `cuts` play a disk that keeps only what was synced (disk.py).
"""

from __future__ import annotations

import os
import random
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fencepost import offline
from fencepost.clock import FakeClock
from fencepost.commands import Claim, Request
from fencepost.issues import FencepostError
from fencepost.model import Grant, Outcome, QueueSettings, Scope
from fencepost.offline.file import File
from fencepost.storage.sqlite import connect
from helpers import apsw_sqlite
from helpers.disk import MODES, Disk, Event, Recorder, recorded_os
from helpers.killing import forked
from helpers.lab import START
from helpers.scratch import scratch

WORKER = "lap"


class Grants:
    """A store that gives one task a claim, and remembers the keys that it has seen."""

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self.heard: list[str] = []
        self.told: Callable[[], None] = lambda: None

    def scope(self) -> Scope:
        return Scope("default")

    def queue(self, queue: str) -> QueueSettings:
        return QueueSettings(max_lease_seconds=10**6, max_hold_seconds=10**6)

    def execute(self, requests: list[Request]) -> list[Outcome]:
        (request,) = requests
        assert isinstance(request.command, Claim) and request.key is not None
        self.heard.append(request.key)
        self.told()
        self.number += 1
        task_id = f"00000000-0000-7000-8000-{self.number:012d}"
        grant = Grant(
            task_id, "q", f"k{self.number}", WORKER, self.number, 0, 1, 5, 0, 0, START, START + 1,
            b"1",
        )  # fmt: skip
        return [Outcome("accepted", grants=(grant,))]


def opened(path: Path, **options: Any) -> offline.Outbox:
    return offline.open(path, clock=FakeClock(START), **options)


def template(path: Path) -> str:
    """An outbox with one task; its id."""
    with opened(path, create=True, worker_id=WORKER) as box:
        (task_id,) = box.take(Grants(), "q", limit=1, lease_seconds=60)  # type: ignore[arg-type]
    return task_id


def die_at(point: int) -> None:
    """Be killed at this step from now on: before each statement, and before and after a commit."""
    steps = 0
    rows, commit = File.rows, File._commit

    def step() -> None:
        nonlocal steps
        steps += 1
        if steps == point:
            os.kill(os.getpid(), signal.SIGKILL)

    def counted(file: File, name: str, **values: Any) -> Any:
        step()
        return rows(file, name, **values)

    def committed(file: File, db: Any) -> None:
        step()
        commit(file, db)
        step()

    File.rows, File._commit = counted, committed  # type: ignore[method-assign]


def killed_recording(folder: str) -> list[list[Any]]:
    """For each step: was the result kept, was it recognised when recorded again, and how many are
    there in the end. The last is of a recording that was not killed."""
    first = Path(folder, "first")
    first.mkdir()
    task_id = template(first / "offline.db")
    found = []
    for point in range(1, 1_000):
        copy = Path(folder, str(point))
        shutil.copytree(first, copy)

        def record(copy: Path = copy, point: int = point) -> None:
            box = opened(copy / "offline.db")
            die_at(point)
            box.record(task_id, {"n": 1})

        code = forked(record)
        with opened(copy / "offline.db") as box:
            box.verify()
            kept = box.counts()["results"]
            again = box.record(task_id, {"n": 1})
            box.verify()
            found.append([kept, again.new, box.counts()["results"], box.counts()["to_send"]])
        if code == 0:
            return found
        assert code == -signal.SIGKILL, f"step {point} ended with {code}"
    raise AssertionError("the recording never came to its end")


# -- power


class Life(NamedTuple):
    """The disk's events with ("told", what) between: from then on it must be there."""

    log: list[Event]


def recorded_life(synchronous: int = 2, early: bool = False) -> Life:
    """An outbox is filled and worked on. `early`: told before it is kept, which must be found."""
    recorder = Recorder()
    with scratch() as folder, pytest.MonkeyPatch.context() as patch:
        apsw_sqlite.put_in_place(patch, recorder.name, lambda what, db: None)
        patch.setitem(connect.DURABLE, "synchronous", synchronous)
        patch.setattr(connect, "os", recorded_os(recorder))
        path = folder / "offline.db"
        told = recorder.log.append
        store = Grants()
        store.told = lambda: told(("told", ("claim", store.heard[-1])))
        with opened(path, create=True, worker_id=WORKER) as box:
            for number in range(4):
                (task_id,) = box.take(store, "q", limit=1, lease_seconds=60)  # type: ignore[arg-type]
                told(("told", ("task", task_id)))
                if early:
                    told(("told", ("result", (task_id, number))))
                box.record(task_id, number)
                told(("told", ("result", (task_id, number))))
                if number == 1:  # closed and opened again: the log goes into the file
                    box.close()
                    box = opened(path)
            box.close()
    return Life(recorder.log)


def cuts(life: Life, seed: int = 1) -> tuple[int, list[str]]:
    """Cut after every event, in every mode. How many cuts, and what was wrong after them."""
    chance, disk = random.Random(seed), Disk()
    due: list[tuple[str, Any]] = []
    wrong: list[str] = []
    number, seen = 0, set()
    for place, event in enumerate(life.log):
        if event[0] == "told":
            due.append(event[1])
        else:
            disk.feed(event)
        for mode in MODES:
            files = disk.cut(mode, chance)
            number += 1
            state = (len(due), *sorted((name, bytes(data)) for name, data in files.items()))
            if state in seen:
                continue
            seen.add(state)
            if (problem := _missing(files, due)) is not None:
                wrong.append(f"seed {seed}, event {place} {event[:2]!r:.60}, {mode}: {problem}")
    return number, wrong


def _missing(files: dict[str, bytes], due: list[tuple[str, Any]]) -> str | None:
    """What is not there of what was told."""
    with scratch() as folder:
        for name, data in files.items():
            (folder / name).write_bytes(data)
        try:
            # Before anybody was told anything the file may be half made: it is filled anew.
            box = opened(folder / "offline.db", create=not due, worker_id=WORKER)
        except FencepostError as error:
            return f"{type(error).__name__}: {error}"
        with box:
            try:
                box.verify()
                return _first_missing(box, due)
            except FencepostError as error:
                return f"{type(error).__name__}: {error}"


def _first_missing(box: offline.Outbox, due: list[tuple[str, Any]]) -> str | None:
    for what, value in due:
        if what == "claim" and not box._file._connection().execute(
            "select 1 from outbox_claim where key = ?", (value,)
        ).fetchall():  # fmt: skip
            return f"the claim {value} was sent and is not written down"
        if what == "task":
            box.task(value)
        if what == "result" and box.record(value[0], value[1]).new:
            return f"the result {value} was told to be kept and is not there"
    return None
