"""A life of a store on a recording disk (disk.py).

`record` lives it once and keeps what was asked of the disk, in order, with marks of its own
between: ("committing",) before each commit, ("committed", state) after it, and ("acked", state)
when somebody is told anything. A state is a digest of all that the store says.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fencepost.clock import FakeClock
from fencepost.engine import Call, SystemDraw, writer
from fencepost.handle import Handle, open_handle, verbs
from fencepost.issues import OutcomeUnknown
from fencepost.model import Caller
from fencepost.storage.sqlite import connect, scrub, store
from helpers import apsw_sqlite
from helpers.disk import Event, Recorder, recorded_os
from helpers.lab import SCOPE, START
from helpers.scratch import scratch

NOTHING = "no store"
Life = Callable[["Stage"], None]


class Told(NamedTuple):
    """One command and what its caller was told, at which time of the clock."""

    at: int
    caller: Caller
    request: Any
    outcome: Any


class Recording(NamedTuple):
    """The events in their order, and what callers were told, by the place of its "acked"."""

    log: list[Event]
    told: dict[int, list[Told]]


class Stage:
    """What a life plays on: a clock, a source of chance, and handles on one recorded store."""

    def __init__(self, path: Path, recorder: Recorder, seed: int) -> None:
        self.path, self.recorder, self.seed = path, recorder, seed
        self.clock = FakeClock(START)
        self.journal = "wal"
        self.told: dict[int, list[Told]] = {}
        self._handle: Handle | None = None
        self.dead = False
        self._left: list[Handle] = []

    def note(self, what: str, connection: Any) -> None:
        """A commit begins or has ended on a connection."""
        if self.dead:
            return
        after = (state_of(connection),) if what == "committed" else ()
        self.recorder.log.append((what, *after))

    @property
    def fp(self) -> Handle:
        """The handle, opened when it is first asked for and after each `leave`."""
        if self._handle is None:
            self.dead = False
            create = not (self._left and self.told)  # who comes next knows that it is there
            self._handle = opened(
                self.path, self.clock.wall(), self.clock, self.seed, create=create
            )
            self.acked()
        return self._handle

    def leave(self) -> None:
        """Close the handle; the log of the store is copied into it and removed."""
        if self._handle is not None:
            self._handle.close()
            self._handle = None

    def die(self) -> None:
        """The process ends here, whatever it still says. Nothing of it is closed; the next one
        finds the files as they are, and no index of the log."""
        self.recorder.log.append(("died",))
        self.dead = True
        home = self.path.parent / "next"
        home.mkdir()
        for end in ("", "-journal", "-wal"):
            path = self.path.with_name(self.path.name + end)
            if path.exists():
                shutil.copyfile(path, home / path.name)
        self.path = home / self.path.name
        self.recorder.leave(str(home))
        if self._handle is not None:
            self._left.append(self._handle)
            self._handle = None

    def end(self) -> None:
        """Close all; what the dead do is not recorded."""
        self.leave()
        self.dead = True
        for handle in self._left:
            handle.close()

    def erase(self, task_id: str, marker: str) -> None:
        """Erase a task; no nine bytes of its marker may be left once that is answered, or once
        a store that knows of it has been opened again."""
        self.recorder.log.append(("erasing", task_id, marker))
        self.fp.erase(task_id)
        self.recorder.log.append(("gone", marker))

    def acked(self, told: list[Told] | None = None) -> None:
        """Somebody is told something, now."""
        if self.dead:
            return
        try:
            state = state_of(self._handle._store._read) if self._handle else NOTHING
        except sqlite3.Error:  # closed after a failed commit, and not opened again yet
            state = None
        self.told[len(self.recorder.log)] = told or []
        self.recorder.log.append(("acked", state))


def opened(
    path: Path, now: int, clock: FakeClock | None = None, seed: int = 7, *, create: bool = False
) -> Handle:
    """A handle on the store."""
    draw = SystemDraw(random.Random(seed).randbytes)
    return open_handle(
        str(path), scope=SCOPE, create=create, clock=clock or FakeClock(now), draw=draw
    )


def state_of(connection: Any) -> str:
    """Digest of every row of every table, but for the mark that something is to be cleaned,
    which an opening clears, and for which file it is: another one in each recording."""
    names = connection.execute(
        "select name from sqlite_master where type = 'table' and name not glob 'sqlite_*'"
        " order by name"
    ).fetchall()
    digest = hashlib.sha256()
    for (name,) in names:
        rows = connection.execute(f"select * from {name} order by 1").fetchall()
        if name == "fencepost_store":
            rows = [row[:-1] for row in rows]
        if name == "fencepost_writer":
            rows = [(epoch, why) for epoch, _, why, *_ in rows]
        digest.update(f"{name}{rows}".encode())
    return digest.hexdigest()[:16] if names else NOTHING


@contextmanager
def recording(
    patch: pytest.MonkeyPatch, path: Path, seed: int, fail_sync: int, dies: str,
    options: dict[str, Any],
) -> Iterator[Stage]:  # fmt: skip
    """Everything that the store does inside goes through a recorder; no chance is left in it."""
    recorder = Recorder()
    recorder.fail_sync = fail_sync
    stage = Stage(path, recorder, seed)
    stage.journal = options["journal"]
    if dies:
        recorder.before, recorder.dies = dies == "before", stage.die

    apsw_sqlite.put_in_place(patch, recorder.name, stage.note, **options)
    played = recorded_os(recorder)
    for module in (scrub, connect):
        patch.setattr(module, "os", played)
    patch.setattr(store, "WAL_BYTES", 60_000)  # so that the log is copied now and then
    patch.setattr(store, "LOG_COMMITS", 8)
    patch.setattr(writer, "IDLE_SECONDS", 3_600)
    patch.setattr(os, "urandom", random.Random(seed).randbytes)
    patch.setattr(verbs, "SystemClock", lambda: stage.clock)
    answer, fail = Call.answer, Call.fail

    def answered(call: Call, outcomes: list[Any]) -> None:
        now = stage.clock.wall()
        stage.acked([Told(now, *sent, o) for sent, o in zip(call.sent, outcomes, strict=True)])
        answer(call, outcomes)

    def failed(call: Call, error: BaseException) -> None:
        if not isinstance(error, OutcomeUnknown):  # who is told that nobody knows, knows nothing
            stage.acked()
        fail(call, error)

    patch.setattr(Call, "answer", answered)
    patch.setattr(Call, "fail", failed)
    try:
        yield stage
    finally:
        stage.end()


def record(
    life: Life, seed: int, *, journal: str = "wal", synchronous: int = 2, fail_sync: int = 0,
    dies: str = "",
) -> Recording:  # fmt: skip
    """Live it once. The life must end by itself, failing sync or not. `dies`: at that sync the
    process ends, "before" it or "after" it has failed; the life goes on with another."""
    options = {"journal": journal, "synchronous": synchronous}
    with scratch() as folder, pytest.MonkeyPatch.context() as patch:
        path = folder / "work.db"
        with recording(patch, path, seed, fail_sync, dies, options) as stage:
            life(stage)
        forget_cleaned()
        return Recording(stage.recorder.log, stage.told)


def forget_cleaned() -> None:
    """Close the files that cleaning keeps open for the life of the process: here a process
    opens thousands of stores, and nobody has their locks any more."""
    for handle in scrub._files.values():
        os.close(handle)
    scrub._files.clear()


# -- recordings of a store, or a disk, that is not as it should be


def lying(recording: Recording) -> Recording:
    """A disk that says it has synced and has not."""
    silent = [("note",) if event[0] == "sync" else event for event in recording.log]
    return recording._replace(log=silent)


def too_early(recording: Recording) -> Recording:
    """A store that answers just before it commits."""
    log, told = list(recording.log), dict(recording.told)
    begun = None
    for number, event in enumerate(recording.log):
        if event[0] == "committing":
            begun = number
        elif event[0] == "acked" and begun is not None:
            log[number], log[begun] = ("note",), event
            told[begun], begun = told.pop(number), None
    return Recording(log, told)
