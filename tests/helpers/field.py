"""A store, and laptops that leave it with an outbox: here on the same machine, or over HTTP.

`Field` judges at the end what must hold whatever has happened: nothing that was recorded is lost,
nothing is doubled, and every outbox and the store verify.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import fencepost
from fencepost import offline
from fencepost.clock import FakeClock
from fencepost.commands import Command, Request
from fencepost.issues import OutcomeUnknown, Unavailable
from fencepost.model import Outcome
from helpers.lab import QUEUE, START
from helpers.web import Served

WORKER, OTHER = "lap", "other"
DAY = 86_400
YEAR = 365 * DAY


class Dead(BaseException):
    """The process has been killed here: nothing in it is caught or cleaned up."""


class Wire:
    """A handle through which a test can lose answers, and kill whoever asks.

    `at(point)` is called before and after each exchange, with `ask` or `told` and what is sent.
    """

    def __init__(self, fp: Any, at: Callable[[str, Sequence[Any]], None] | None = None) -> None:
        self._fp = fp
        self.at = at or (lambda point, sent: None)
        self.sent: list[Request] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fp, name)

    def execute(self, commands: Sequence[Command | Request]) -> list[Outcome]:
        self.at("ask", commands)
        told: list[Outcome] = self._fp.execute(commands)
        self.sent += [c for c in commands if isinstance(c, Request)]
        self.at("told", commands)
        return told


def losing(which: int, point: str) -> Callable[[str, Sequence[Any]], None]:
    """The network ends at the `which`-th exchange: before the request arrives, or its answer."""
    seen: Counter[str] = Counter()

    def at(where: str, sent: Sequence[Any]) -> None:
        seen[where] += 1
        if where == point and seen[where] == which:
            if point == "ask":
                raise Unavailable("no network")
            raise OutcomeUnknown("the answer was lost")

    return at


class Laptop:
    """An outbox and a way to the store. `clock` is its own, and may be wrong."""

    def __init__(self, field: Field, name: str, clock: FakeClock, worker: str = WORKER) -> None:
        self.field, self.folder, self.clock = field, field.folder / name, clock
        self.worker = worker
        self.folder.mkdir(exist_ok=True)
        self.wire = Wire(field.handle(worker, clock))
        self.box = self.opened()

    def opened(self) -> offline.Outbox:
        box = offline.open(
            self.folder / "offline.db", create=True, worker_id=self.worker, clock=self.clock
        )
        self.field.stack.callback(box.close)
        return box

    def take(self, limit: int = 50, lease_seconds: int = DAY) -> list[str]:
        return self.box.take(self.wire, QUEUE, limit=limit, lease_seconds=lease_seconds)

    def sync(self) -> dict[str, Any]:
        return self.box.sync(self.wire).to_json()

    def killed(self) -> None:
        """Go on as the next process does."""
        self.wire.at = lambda point, sent: None
        self.box._file.abandon()
        self.box = self.opened()

    def kept(self, name: str = "backup") -> Path:
        """A copy of the outbox as it is now, as a backup program makes it."""
        self.box.close()
        copy = self.folder.parent / name
        shutil.copytree(self.folder, copy)
        self.box = self.opened()
        return copy

    def restored(self, copy: Path) -> None:
        """The laptop's disk is the copy's."""
        self.box.close()
        shutil.rmtree(self.folder)
        shutil.copytree(copy, self.folder)
        self.box = self.opened()


class Field:
    """A store with a queue whose results owe a message each, and those who work for it."""

    def __init__(self, folder: Path, wire: str = "local", **settings: Any) -> None:
        self.folder, self.over_http = folder, wire == "http"
        self.stack = ExitStack()
        self.clock = FakeClock(START)
        path = str(folder / "store.db")
        if self.over_http:
            self.web = self.stack.enter_context(Served(clock=self.clock, path=path))
            self.fp = self.web.fp
        else:
            self.fp = self.stack.enter_context(fencepost.open(path, create=True, clock=self.clock))
        given = {"max_lease_seconds": 10 * DAY, "max_hold_seconds": 10 * DAY, **settings}
        self.fp.queue_set(QUEUE, destinations=["owed"], max_attempts=9, **given)
        self.laptops: list[Laptop] = []
        self.tokens: dict[str, str] = {}

    def __enter__(self) -> Field:
        return self

    def __exit__(self, *raised: Any) -> None:
        try:
            if raised[0] is None:
                self.judge()
        finally:
            self.stack.close()

    def handle(self, worker: str, clock: FakeClock) -> Any:
        """The way of a worker to the store: with a worker's rights, and with no other."""
        if not self.over_http:
            return self.fp.as_caller(worker, "worker")
        self.tokens[worker] = self.web.token("worker", worker)
        return self.stack.enter_context(
            fencepost.open(
                f"http://127.0.0.1:{self.web.port}", token=self.tokens[worker], clock=clock,
                max_skew_seconds=None, sleep=clock.advance,
                deadline_seconds=5,
            )
        )  # fmt: skip

    def laptop(self, name: str = "laptop", *, wrong: float = 0, worker: str = WORKER) -> Laptop:
        """A laptop whose clock is so many seconds off."""
        made = Laptop(self, name, FakeClock(START + round(wrong * 1_000_000)), worker)
        self.laptops.append(made)
        return made

    def twin(self, of: Laptop, name: str = "twin") -> Laptop:
        """Another laptop with a copy of this one's outbox."""
        of.kept(name)
        return self.laptop(name)

    def offer(self, *keys: str) -> list[str]:
        """Tasks of these keys; their ids."""
        return [self.fp.enqueue(QUEUE, {"snapshot": key}, key=key).task_id for key in keys]

    def by_other(self, task_id: str, lease_seconds: int = 60) -> Any:
        """The task in somebody else's hands."""
        (lease,) = self.fp.claim(worker_id=OTHER, task_id=task_id, lease_seconds=lease_seconds)
        return lease

    def results(self, task_id: str) -> list[Any]:
        return [result.value for result in self.fp.results(task_id)]

    # -- what must hold

    def judge(self) -> None:
        """Raises AssertionError."""
        assert self.fp.verify().clean
        for laptop in self.laptops:
            laptop.box.verify()
            self._nothing_lost(laptop)
        self._nothing_doubled()

    def _nothing_lost(self, laptop: Laptop) -> None:
        """Each recorded result is in the store, or still to be sent, or kept as a conflict; and its
        bytes are there in each case."""
        box = laptop.box
        waiting = {
            (kept.task_id, row[0].hex())
            for kept, row in rows(box)
            if kept.state in ("open", "closed", "conflict") and row[2] is None
        }
        decided = {c.task_id for c in box.conflicts(every=True) if c.decided == "theirs"}
        for kept, (sha256, content, revision) in rows(box):
            assert fencepost.commands.canonical.sha256(content) == sha256
            if (kept.task_id, sha256.hex()) in waiting or kept.task_id in decided:
                continue
            assert revision is not None, f"{kept.label}: {content!r} is nowhere"
            task = self.fp.task(kept.task_id)
            stored = {r.result_sha256 for r in self.fp.results(kept.task_id)}
            assert task.erased or sha256.hex() in stored, f"{kept.label}: {content!r} is lost"

    def _nothing_doubled(self) -> None:
        owed = Counter(
            task.parent for task in self.fp.tasks("owed") if not task.erased and task.parent
        )
        for task in self.fp.tasks(QUEUE):
            results = list(self.fp.results(task.task_id))
            seen = Counter((r.round, r.result_sha256) for r in results if r.result_sha256)
            assert not seen or max(seen.values()) == 1, f"{task.key}: a result stands twice"
            assert [r.revision for r in results] == list(range(1, task.revision + 1))
            if not task.erased:
                assert owed[task.task_id] == len(results), f"{task.key}: an effect is doubled"


def rows(box: offline.Outbox) -> list[tuple[offline.Kept, tuple[bytes, bytes, int | None]]]:
    """Every recorded result of an outbox: its task, and (digest, bytes, revision)."""
    notes = box._notes
    found = []
    for number in range(1, box.counts()["tasks"] + 1):
        kept = notes.kept(number)
        for _, sha256, _, content, _, revision in box._file.rows("results_of", taking=number):
            found.append((kept, (sha256, content, revision)))
    return found
