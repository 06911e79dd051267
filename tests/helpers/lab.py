"""A store on a file, a clock that moves only when told, and as many independent handles on it
as a test wants: each has connections, a writer thread and a turn of its own.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import fencepost
from fencepost import commands as c
from fencepost.clock import FakeClock
from fencepost.engine import SystemDraw
from fencepost.handle import Handle, Lease
from fencepost.model import Outcome

START = 1_767_225_600_000_000  # 2026-01-01T00:00:00Z
SCOPE, QUEUE, OUTBOX = "lab", "intake", "outbox"
SECOND = 1_000_000


class Lab:
    """One store file with a queue `intake` whose results owe a message to `outbox`."""

    def __init__(self, path: Path, *, obligations: bool = True, seed: int = 1) -> None:
        self.path = path
        self.clock = FakeClock(START)
        self.seed = seed
        self._stack = ExitStack()
        self.fp = self.open(create=True)
        if obligations:
            self.fp.queue_set(QUEUE, destinations=[OUTBOX])

    def close(self) -> None:
        self._stack.close()

    def open(self, path: Path | None = None, **options: Any) -> Handle:
        """Another independent handle on this file (or a copy of it); closed with the lab."""
        self.seed += 1
        draw = SystemDraw(random.Random(self.seed).randbytes)
        settings = {"scope": SCOPE, "clock": self.clock, "draw": draw, **options}
        return self._stack.enter_context(fencepost.open(str(path or self.path), **settings))

    def offer(self, payload: Any = "work", **options: Any) -> str:
        """Enqueue one task; its id."""
        return self.fp.enqueue(QUEUE, payload, **options).task_id

    def claim(self, worker: str = "w1", **options: Any) -> Lease:
        """The one lease of a claim that must find a task."""
        (lease,) = self.fp.claim(QUEUE, worker_id=worker, **options)
        return lease

    def lease(self, worker: str = "w1", payload: Any = "work", **options: Any) -> Lease:
        """A fresh task in the hands of this worker, for 60 s unless `lease_seconds` says more."""
        seconds = options.pop("lease_seconds", None)
        task_id = self.offer(payload, **options)
        (lease,) = self.fp.claim(worker_id=worker, task_id=task_id, lease_seconds=seconds)
        return lease

    @contextmanager
    def sql(self, path: Path | None = None) -> Iterator[sqlite3.Connection]:
        """A connection of the test's own, outside the product."""
        with raw(path or self.path) as connection:
            yield connection

    def counts(self, path: Path | None = None) -> tuple[int, int, int]:
        """(results, receipts of results, outbox rows) as any reader of the file sees them."""
        with self.sql(path) as connection:
            return counts(connection)

    def dump(self) -> dict[str, list[tuple[Any, ...]]]:
        """Every row of every table of ours but the journal's tree, which is sealed on the side."""
        with self.sql() as connection:
            return dump(connection)


@contextmanager
def raw(path: Path) -> Iterator[sqlite3.Connection]:
    """A plain sqlite3 connection in autocommit, closed at the end."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=5)
    try:
        yield connection
    finally:
        connection.close()


def counts(connection: sqlite3.Connection) -> tuple[int, int, int]:
    """(results, receipts of results, outbox rows)."""
    (found,) = connection.execute(
        "select (select count(*) from fencepost_result), "
        "(select count(*) from fencepost_entry where result_sha256 is not null), "
        "(select count(*) from fencepost_task t join fencepost_queue q on q.id = t.queue_id "
        "where q.is_destination = 1)"
    ).fetchall()
    return found


def dump(connection: sqlite3.Connection) -> dict[str, list[tuple[Any, ...]]]:
    """Table → its rows, in the order of their keys. Without the tree and its checkpoints."""
    names = connection.execute(
        "select name from sqlite_master where type = 'table' and name glob 'fencepost_*' "
        "and name not in ('fencepost_node', 'fencepost_checkpoint') order by name"
    ).fetchall()
    return {
        name: connection.execute(f"select * from {name} order by 1, 2").fetchall()
        for (name,) in names
    }


def submission(lease: Lease, result: Any, **options: Any) -> c.Submit:
    """A submit of this lease, as a command."""
    return c.Submit(lease.task_id, lease.worker_id, lease.fence, result=result, **options)


def completion(lease: Lease, result: Any, **options: Any) -> c.Complete:
    """A complete of this lease, as a command."""
    return c.Complete(lease.task_id, lease.worker_id, lease.fence, result=result, **options)


def ask(handle: Handle, command: c.Command | c.Request) -> Outcome:
    """The outcome of one command, refusals too."""
    (outcome,) = handle.execute([command])
    return outcome
