"""Cuts the power at any moment of a life (recorded.py), and opens what is left, with another
SQLite than the one that wrote it:

    the store opens, its pages are whole and verify is clean; its state is the one that was there
    when somebody was last told something, or that of a commit begun since; the receipts told are
    found again byte for byte; the command that was under way can be sent again.
"""

from __future__ import annotations

import hashlib
import itertools
import random
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from fencepost.handle import Handle
from fencepost.issues import FencepostError, NotFound, ReceiptErased
from fencepost.storage.sqlite.copying import integrity
from helpers.disk import MODES, Disk
from helpers.lab import SECOND, START
from helpers.recorded import NOTHING, Recording, Told, forget_cleaned, opened, state_of
from helpers.scratch import scratch

ENDS_OF_RECEIPTS = frozenset(["receipt_erased", "scope_revoked"])
EVENTS = ("create", "delete", "write", "truncate", "sync", "lost", "settled")  # those of the disk


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

    def _cut(self, disk: Disk, mode: str, number: int, allowed: list[str], promised: bool) -> None:
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
        around = [p for p in heard if p <= number][-1:]
        # what came next was told of this disk, unless the next one found another on it
        around += [p for p in heard if p > number and not self._settled(number, p)][:1]
        ends = {told.request.command.verb for place in around for told in self.told[place]}
        gone = ENDS_OF_RECEIPTS if ends & {"erase", "purge", "scope.revoke"} else frozenset()
        wrongs = (_send_again(fp, self.told[place], gone) for place in around)
        return next(filter(None, wrongs), None)

    def _settled(self, begin: int, end: int) -> bool:
        """Whether meanwhile somebody has looked what a failed sync had left on the disk."""
        return any(event[0] == "settled" for event in self.log[begin:end])


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


def _send_again(fp: Handle, call: list[Told], gone: frozenset[str]) -> str | None:
    """The same bytes of a call again: what was told, or done now; and then the same receipt again.
    The commands of a call rest on one another, so all of them are sent, and those with a key are
    looked at."""
    fp.clock.jump_wall((call[0].at - fp.clock.wall()) / SECOND)  # type: ignore[attr-defined]
    caller = call[0].caller
    twin = fp.as_caller(caller.actor, caller.kind, caller.scope)
    for told, first in zip(call, twin.execute([t.request for t in call]), strict=True):
        if told.request.key is None or told.outcome.issues:
            continue
        (second,) = twin.execute([told.request])
        verb = told.request.command.verb
        if gone & {*first.issues, *second.issues}:
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
