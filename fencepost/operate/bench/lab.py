"""The work folder of one run, fresh stores in it, and what could not be measured."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from fencepost.commands import Complete
from fencepost.handle import Handle, Lease, open_handle
from fencepost.operate.bench.options import Sizes

QUEUE, DESTINATION, WORKER = "work", "out", "worker"
LEASE_SECONDS = 900
BATCH = 100

Figures: TypeAlias = dict[str, float]
"""What a phase found in one repetition, by the names in goals.py."""

Measuring: TypeAlias = Generator[Figures, None, None]
"""A phase: sets up at the first `next`, then gives the figures of one repetition a `next`."""


class CheckFailed(Exception):
    """What was written is not what was acknowledged: no rate of that phase is shown."""


class NotHere(Exception):
    """Something that a figure needs is not on this machine; the message says what."""


@dataclass(slots=True)
class Lab:
    """Where a run works and what it is given. `missing` is (phase, name) → why; `postgres` the URL
    of a server, or nothing for one of our own; `servers` those that run, until `stack` is closed;
    `told` what is said of them in the head."""

    folder: Path
    sizes: Sizes
    peers: tuple[str, ...] = ()
    slow_ms: float = 2.0
    missing: dict[tuple[str, str], str] = field(default_factory=dict)
    postgres: str = ""
    servers: dict[str, Any] = field(default_factory=dict)
    told: dict[str, str] = field(default_factory=dict)
    stack: ExitStack = field(default_factory=ExitStack)

    def fresh(self, name: str) -> Path:
        """An empty folder of this name."""
        path = self.folder / name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
        return path


def new_store(path: Path | str) -> Handle:
    """A store as the benchmark uses it: one queue, whose results owe one obligation each."""
    handle = open_handle(str(path), create=True)
    handle.queue_set(QUEUE, destinations=[DESTINATION], lease_seconds=LEASE_SECONDS)
    return handle


def reopen(path: Path | str) -> Handle:
    """A store that is there, by its path or its URL."""
    return open_handle(str(path))


def payload(number: int) -> dict[str, Any]:
    """What every contender is given to work on: a few bytes."""
    return {"n": number}


def result(number: int) -> dict[str, Any]:
    """What every contender hands in."""
    return {"ok": True, "n": number}


SLICE = 10_000


def fill(handle: Handle, tasks: int) -> None:
    """Enqueue so many tasks with `enqueue_many`, in slices whose receipts fit in a few MB."""
    for start in range(0, tasks, SLICE):
        numbers = range(start, min(start + SLICE, tasks))
        handle.enqueue_many(QUEUE, ({"payload": payload(n)} for n in numbers))


def completion(lease: Lease) -> Complete:
    """The command that hands in the result of a lease."""
    return Complete(
        task_id=lease.task_id, worker_id=lease.worker_id, fence=lease.fence,
        result=result(lease.payload["n"]),
    )  # fmt: skip


def drain_batch(handle: Handle, limit: int = BATCH) -> int:
    """Claim up to `limit` and complete each. Returns how many; CheckFailed if one was refused."""
    leases = handle.claim(QUEUE, worker_id=WORKER, limit=limit)
    finish(handle, leases)
    return len(leases)


def finish(handle: Handle, leases: list[Lease]) -> None:
    """Complete all in one batch, each with its result."""
    for outcome in handle.execute([completion(lease) for lease in leases]):
        accepted(outcome)


def accepted(outcome: Any) -> Any:
    """The outcome itself. CheckFailed if the command was refused."""
    if not outcome.accepted:
        raise CheckFailed(f"a command was refused: {outcome.message}")
    return outcome
