"""A life of a store on a recording disk, and the power cut at any moment of it.

`record` lives it once and keeps what was asked of the disk, in order, with marks of its own
between: ("committing",) before each commit, ("committed", state) after it, and ("acked", state)
when somebody is told anything. A state is a digest of all that the store says. `Trial` then cuts
the power at each event and opens what is left, with another SQLite than the one that wrote it:

    the store opens, its pages are whole and verify is clean; its state is the one that was there
    when somebody was last told something, or that of a commit begun since; the receipts told are
    found again byte for byte; the command that was under way can be sent again.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import random
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fencepost.clock import FakeClock
from fencepost.engine import Call, SystemDraw, writer
from fencepost.handle import Handle, open_handle, verbs
from fencepost.issues import FencepostError, NotFound, OutcomeUnknown, ReceiptErased
from fencepost.model import Caller
from fencepost.storage.sqlite import scrub, store
from fencepost.storage.sqlite.copying import integrity
from helpers import apsw_sqlite
from helpers.disk import MODES, Disk, Event, Recorder, recorded_os
from helpers.lab import SCOPE, SECOND, START

NOTHING = "no store"
EVENTS = ("create", "delete", "write", "truncate", "sync", "lost")  # those of the disk
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

    def note(self, what: str, connection: Any) -> None:
        """A commit begins or has ended on a connection."""
        after = (state_of(connection),) if what == "committed" else ()
        self.recorder.log.append((what, *after))

    @property
    def fp(self) -> Handle:
        """The handle, opened when it is first asked for and after each `leave`."""
        if self._handle is None:
            self._handle = opened(self.path, self.clock.wall(), self.clock, self.seed, create=True)
            self.acked()
        return self._handle

    def leave(self) -> None:
        """Close the handle; the log of the store is copied into it and removed."""
        if self._handle is not None:
            self._handle.close()
            self._handle = None

    def erase(self, task_id: str, marker: str) -> None:
        """Erase a task; no nine bytes of its marker may be left once that is answered, or once
        a store that knows of it has been opened again."""
        self.recorder.log.append(("erasing", task_id, marker))
        self.fp.erase(task_id)
        self.recorder.log.append(("gone", marker))

    def acked(self, told: list[Told] | None = None) -> None:
        """Somebody is told something, now."""
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
    which an opening clears."""
    names = connection.execute(
        "select name from sqlite_master where type = 'table' and name not glob 'sqlite_*'"
        " order by name"
    ).fetchall()
    digest = hashlib.sha256()
    for (name,) in names:
        rows = connection.execute(f"select * from {name} order by 1").fetchall()
        if name == "fencepost_store":
            rows = [row[:-1] for row in rows]
        digest.update(f"{name}{rows}".encode())
    return digest.hexdigest()[:16] if names else NOTHING


@contextmanager
def recording(
    patch: pytest.MonkeyPatch, path: Path, seed: int, fail_sync: int, options: dict[str, Any]
) -> Iterator[Stage]:
    """Everything that the store does inside goes through a recorder; no chance is left in it."""
    recorder = Recorder()
    recorder.fail_sync = fail_sync
    stage = Stage(path, recorder, seed)
    stage.journal = options["journal"]

    apsw_sqlite.put_in_place(patch, recorder.name, stage.note, **options)
    patch.setattr(scrub, "os", recorded_os(recorder))
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
        stage.leave()


def record(
    life: Life, seed: int, *, journal: str = "wal", synchronous: int = 2, fail_sync: int = 0
) -> Recording:
    """Live it once. The life must end by itself, failing sync or not."""
    options = {"journal": journal, "synchronous": synchronous}
    with scratch() as folder, pytest.MonkeyPatch.context() as patch:
        path = folder / "work.db"
        with recording(patch, path, seed, fail_sync, options) as stage:
            life(stage)
        forget_cleaned()
        return Recording(stage.recorder.log, stage.told)


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder in memory where there is one."""
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108
    folder = Path(tempfile.mkdtemp(prefix="power-", dir=base))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def forget_cleaned() -> None:
    """Close the files that cleaning keeps open for the life of the process: here a process
    opens thousands of stores, and nobody has their locks any more."""
    for handle in scrub._files.values():
        os.close(handle)
    scrub._files.clear()


class Found(NamedTuple):
    """What is left after a cut: the state, or what is wrong."""

    state: str
    wrong: str | None


class Trial:
    """Cuts the power in one recording. Disks and states that were judged are not judged again."""

    def __init__(
        self, recording: Recording, folder: Path, seed: int = 1, twin: Recording | None = None
    ) -> None:
        """`twin` is the same life without the failing sync: it knows what the commit that failed
        would have come to."""
        self.log, self.told = recording
        self._commits = [e[1] for e in (twin or recording).log if e[0] == "committed"]
        self.chance = random.Random(seed)
        self._folder = folder
        self._numbers = itertools.count()
        self._disks: dict[bytes, Found] = {}
        self._states: dict[str, str | None] = {}
        self._erasing: dict[str, str] = {}  # task id → marker
        self._gone: list[str] = []
        self.cuts = 0
        self.problems: list[str] = []

    @property
    def disks(self) -> int:
        """Different disks that were opened."""
        return len(self._disks)

    def run(self, modes: Callable[[int], Iterator[str] | tuple[str, ...]]) -> Trial:
        """Cut after every event of the disk, in each of `modes(number of the event)`."""
        disk = Disk()
        allowed, promised = [NOTHING], False
        coming = self._coming()
        for number, event in enumerate(self.log):
            match event:
                case ("committing",):
                    allowed.append(coming[number])
                case ("acked", state):
                    allowed, promised = allowed if state is None else [state], True
                case ("erasing", task_id, marker):
                    self._erasing[task_id] = marker
                case ("gone", marker):
                    self._gone.append(marker)
                case _ if event[0] in EVENTS:
                    disk.feed(event)
                    for mode in modes(number):
                        self._cut(disk, mode, number, allowed, promised)
        return self

    def _coming(self) -> dict[int, str]:
        """By the place of a commit's begin: the state after it."""
        found: dict[int, str] = {}
        begun = 0
        for number, event in enumerate(self.log):
            if event[0] == "committing":
                begun = number
                found[number] = self._commits[len(found)] if len(found) < len(self._commits) else ""
            elif event[0] == "committed":
                found[begun] = event[1]
        return found

    def _cut(
        self, disk: Disk, mode: str, number: int, allowed: list[str], promised: bool
    ) -> None:
        self.cuts += 1
        files = disk.cut(mode, self.chance)
        parts = [hashlib.sha256(name.encode() + data).digest() for name, data in files.items()]
        key = b"".join([bytes([promised]), *sorted(parts)])
        if key not in self._disks:
            self._disks[key] = self._judge(files, number, promised)
        state, wrong = self._disks[key]
        if wrong is None and state not in allowed:
            wrong = f"its state {state} is none of {allowed}"
        wrong = wrong or left_of(self._gone, files.values())
        if wrong is not None:
            event = repr(self.log[number][:3])
            self.problems.append(f"cut at event {number} {event:.80}, {mode}: {wrong}")

    def _judge(self, files: dict[str, bytes], number: int, promised: bool) -> Found:
        folder = self._folder / str(next(self._numbers))
        folder.mkdir()
        try:
            for name, data in files.items():
                (folder / name).write_bytes(data)
            found, erased = self._open(folder / "work.db", number, promised)
            left = left_of(erased, [path.read_bytes() for path in folder.iterdir()])
            return found._replace(wrong=found.wrong or left)
        finally:
            forget_cleaned()
            shutil.rmtree(folder)

    def _open(self, path: Path, number: int, promised: bool) -> tuple[Found, list[str]]:
        """What the store says; the markers of tasks that it knows as erased."""
        try:
            with opened(path, self._time(number), create=not promised) as fp:
                with fp._store.snapshot() as read:
                    if pages := integrity(read):
                        return Found("", f"damaged pages: {pages[0]}"), []
                state = state_of(fp._store._read)
                if not promised and not any(fp.entries()):
                    state = NOTHING  # made anew, or only just made: nobody knows of it
                if state not in self._states:
                    self._states[state] = self._examine(fp, number)
                erased = [m for i, m in self._erasing.items() if fp.task(i).payload is None]
                return Found(state, self._states[state]), erased
        except FencepostError as error:
            return Found("", f"{type(error).__name__}: {error}"), []

    def _time(self, number: int) -> int:
        """What the clock said when somebody was last told something."""
        return max((told.at for place, all_told in self.told.items() if place <= number
                    for told in all_told), default=START)  # fmt: skip

    def _examine(self, fp: Handle, number: int) -> str | None:
        """What is asked once of a state: verify, the receipts, the command that was under way."""
        found = fp.verify()
        if not found.clean:
            first = found.problems[0]
            return f"verify: {first.code} at {first.place}: {first.message}"
        places = sorted(self.told)
        for place in places:
            for told in self.told[place] if place <= number else ():
                if wrong := _receipt_lost(fp, told):
                    return wrong
        heard = [place for place in places if self.told[place]]
        around = [p for p in heard if p <= number][-1:] + [p for p in heard if p > number][:1]
        return _send_again(fp, [told for place in around for told in self.told[place]])


def left_of(markers: Iterable[str], files: Iterable[bytes]) -> str | None:
    """Whether nine bytes in a row of a marker are in a file."""
    for marker in markers:
        parts = {marker[at : at + 9].encode() for at in range(len(marker) - 8)}
        if any(part in data for data in files for part in parts):
            return f"bytes of {marker}, which was erased, are left"
    return None


def _receipt_lost(fp: Handle, told: Told) -> str | None:
    """Whether a receipt that was told is not found by its key, byte for byte. One that has been
    erased or purged is refused as such, and its command is not carried out again."""
    caller, request, receipt = told.caller, told.request, told.outcome.receipt
    if receipt is None or request.key is None:
        return None
    twin = fp.as_caller(caller.actor, "auditor", caller.scope)
    actor = getattr(request.command, "worker_id", caller.actor)
    try:
        found = twin.receipt(request.key, actor=actor)
    except (ReceiptErased, NotFound):
        (again,) = fp.as_caller(caller.actor, caller.kind, caller.scope).execute([request])
        gone = {"receipt_erased", "scope_revoked", "not_found"} & {*again.issues}
        return None if gone else f"the receipt of {request.key} is lost: {again[:2]}"
    return None if found == receipt else f"the receipt of {request.key} has other bytes"


def _send_again(fp: Handle, all_told: list[Told]) -> str | None:
    """The same bytes again: what was told, or done now; and then the same receipt again."""
    ends = {told.request.command.verb for told in all_told} & {"erase", "purge", "scope.revoke"}
    for told in all_told:
        if told.request.key is None or told.outcome.issues:
            continue
        fp.clock.jump_wall((told.at - fp.clock.wall()) / SECOND)  # type: ignore[attr-defined]
        twin = fp.as_caller(told.caller.actor, told.caller.kind, told.caller.scope)
        (first,), (second,) = twin.execute([told.request]), twin.execute([told.request])
        verb = told.request.command.verb
        if ends and {*first.issues, *second.issues} & {"receipt_erased", "scope_revoked"}:
            continue
        if not (first.accepted and second.accepted and second.replayed):
            return f"{verb} sent again: {first.issues}, then {second.issues}"
        if first.receipt != second.receipt:
            return f"{verb} sent again twice gave two receipts"
        if first.replayed and first.receipt != told.outcome.receipt:
            return f"{verb} sent again gave another receipt than was told"
    return None


def every_mode(number: int) -> tuple[str, ...]:
    """For `Trial.run`: all five."""
    return MODES


def in_turn(number: int) -> tuple[str, ...]:
    """For `Trial.run`: one after the other, so that each boundary is met once."""
    return (MODES[number % len(MODES)],)


def tried(
    recording: Recording, modes: Callable[[int], Any] = every_mode, seed: int = 1,
    twin: Recording | None = None,
) -> Trial:  # fmt: skip
    """All cuts of a recording, in a folder of their own."""
    with scratch() as folder:
        return Trial(recording, folder, seed, twin).run(modes)


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
