"""Kills a process at every line between its sidecar and its store, and looks at what is left.

A story is prepared, lived in a fork that is killed at one line of what may not be torn apart, and
judged by whoever opens the store next. This runs in a child without threads (helpers/killing.py).
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import fencepost
from fencepost.handle import Handle
from fencepost.lineage import UNHEARD
from fencepost.storage.sqlite import identity, opening, schema, sidecar, transaction
from helpers.killing import Tell, told_in_fork
from helpers.lab import QUEUE, Lab
from helpers.work import opened

Told = list[dict[str, Any]]
FILES = {module.__file__ for module in (identity, opening, schema, sidecar, transaction)}


class Story:
    """A store with three tasks, one of them leased, is opened and used; each claim reserves."""

    def prepare(self, path: Path) -> None:
        lab = Lab(path)
        for number in range(3):
            lab.offer(number)
        (lease,) = lab.fp.claim(QUEUE, worker_id="w0")
        self.first = lease.fence
        lab.close()

    def live(self, path: Path, tell: Tell) -> None:
        with opened(str(path)) as fp:
            self.use(fp, tell)

    def use(self, fp: Handle, tell: Tell) -> None:
        for _ in range(2):
            (lease,) = fp.claim(QUEUE, worker_id="w1")
            tell({"fence": lease.fence, "task": lease.task_id})

    def judge(self, path: Path, told: Told) -> list[str]:
        """What is wrong of that which was left."""
        with opened(str(path)) as fp:
            return [*self.lineage(fp), *self._fences(fp, told)]

    def lineage(self, fp: Handle) -> list[str]:
        found = [(w.epoch, w.why) for w in fp.writers()]
        return [] if found == [(0, "installed")] else [f"the lineage is {found}"]

    def _fences(self, fp: Handle, told: Told) -> list[str]:
        before = [self.first, *(t["fence"] for t in told if "fence" in t)]
        fp.enqueue(QUEUE, "next")
        new = [lease.fence for lease in fp.claim(QUEUE, worker_id="w2", limit=9)]
        rising = before == sorted(set(before)) and new and min(new) > max(before)
        wrong = [] if rising else [f"fences {before}, then {new}"]
        for lease in (t for t in told if "task" in t):
            own = fp.task(lease["task"])
            if own.fence == lease["fence"] and own.lease_expires_at <= fp.now():
                wrong.append(f"the lease {lease} has ended")
        return wrong


class Begins(Story):
    """A store is made."""

    first = 0

    def prepare(self, path: Path) -> None:
        pass

    def live(self, path: Path, tell: Tell) -> None:
        fencepost.open(path, create=True).close()

    def judge(self, path: Path, told: Told) -> list[str]:
        with fencepost.open(path, create=True) as fp:
            return [*self.lineage(fp), *self._fences(fp, told)]


class Copied(Story):
    """A copy, with its sidecar, is opened and used."""

    def prepare(self, path: Path) -> None:
        super().prepare(path)
        for end in ("", sidecar.ENDING):
            file = path.with_name(path.name + end)
            shutil.copy(file, f"{file}.copy")
            os.replace(f"{file}.copy", file)

    def lineage(self, fp: Handle) -> list[str]:
        """An epoch of which the sidecar has heard, and that was never begun, is stepped over."""
        found = [(w.epoch, w.why) for w in fp.writers()]
        due = [[(0, "installed"), (n * UNHEARD, "copied")] for n in (1, 2)]
        return [] if found in due else [f"the lineage is {found}"]


class Started(Story):
    """The machine was started."""

    def lineage(self, fp: Handle) -> list[str]:
        found = [(w.epoch, w.why) for w in fp.writers()]
        alive = fp.about()["floor"] == 0
        return [] if found == [(0, "installed"), (1, "started")] and alive else [f"{found}"]

    def live(self, path: Path, tell: Tell) -> None:
        read_as_started()
        super().live(path, tell)

    def judge(self, path: Path, told: Told) -> list[str]:
        real = identity.read
        try:
            read_as_started()
            return super().judge(path, told)
        finally:
            identity.read = real


STORIES: dict[str, Callable[[], Story]] = {
    "goes on": Story, "begins": Begins, "copied": Copied, "started": Started,
}  # fmt: skip


def read_as_started() -> None:
    real = identity.read
    identity.read = lambda place: replace(real(place), boot="another")


def die_at_line(point: int) -> Callable[[], int]:
    """Be killed at the given line of FILES from now on, in whatever thread. Lines so far."""
    lines = 0

    def traced(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal lines
        if frame.f_code.co_filename not in FILES:
            return None
        if event == "line":
            lines += 1
            if lines == point:
                os.kill(os.getpid(), signal.SIGKILL)
        return traced

    threading.settrace(traced)
    sys.settrace(traced)
    return lambda: lines


def killed_at_every_line(name: str, folder: str, step: int, first: int) -> dict[str, Any]:
    """The story, killed at each `step`-th line from `first` on: how many deaths, what was wrong."""
    identity.BLOCK = sidecar.BLOCK = 1  # every claim reserves
    wrong: list[str] = []
    for deaths, point in enumerate(range(first, 100_000, step)):
        story, place = STORIES[name](), Path(folder) / str(point)
        place.mkdir()
        path = place / "work.db"
        story.prepare(path)

        def lived(tell: Tell, story: Story = story, path: Path = path, point: int = point) -> None:
            lines = die_at_line(point)
            story.live(path, tell)
            sys.settrace(None)
            tell({"lines": lines()})

        code, told = told_in_fork(lived)
        wrong += [f"line {point}: {what}" for t in told for what in t.get("wrong", ())]
        wrong += [f"line {point}: {what}" for what in story.judge(path, told)]
        shutil.rmtree(place)
        if code == 0:
            return {"deaths": deaths, "wrong": wrong}
    raise AssertionError("the story never came to its end")
