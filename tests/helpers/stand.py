"""A store in memory with a clock that moves only when told: where rules and laws are tried."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

import fencepost
from fencepost import commands as c
from fencepost.clock import FakeClock
from fencepost.engine import SystemDraw
from fencepost.handle import Handle, Lease
from fencepost.machine.needs import Sent
from fencepost.machine.rows import Changes, Loaded
from fencepost.model import Kind, Outcome
from helpers.lab import START, ask, dump

SCOPE, QUEUE, WORKER = "s", "q", "w"
SECOND = 1_000_000
UNKNOWN = "01900000-0000-7000-8000-000000000000"


class Stand:
    """One in-memory store, its clock, and a handle for the operator `local`.

    `gaps`: whether numbers may be drawn that nobody uses, since transactions run side by side."""

    gaps = False

    def __init__(self, seed: int = 1) -> None:
        self.clock = FakeClock(START)
        self.fp = self._open(SystemDraw(random.Random(seed).randbytes))

    def _open(self, draw: SystemDraw) -> Handle:
        fp: Handle = fencepost.open(
            ":memory:", create=True, scope=SCOPE, clock=self.clock, draw=draw
        )
        # what opening draws for itself: the same seed gives the same rows, to the byte
        chance = "update fencepost_store set writer_id = ?, secret = zeroblob(32)"
        fp._store._write.execute(chance, (UNKNOWN,))  # type: ignore[attr-defined]
        own = "update fencepost_writer set incarnation = ?"
        fp._store._write.execute(own, (UNKNOWN,))  # type: ignore[attr-defined]
        return fp

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the store back."""
        self.fp.close()

    @property
    def store(self) -> Any:
        """The store below the handle."""
        return self.fp._store

    @property
    def connection(self) -> Any:
        """The store's own connection, for looking and for tampering."""
        return self.store._write

    @property
    def last_fence(self) -> int:
        """The fence that was drawn last."""
        ((last,),) = self.connection.execute("select last_fence from fencepost_store").fetchall()
        return int(last)

    @last_fence.setter
    def last_fence(self, fence: int) -> None:
        self.connection.execute("update fencepost_store set last_fence = ?", (fence,))

    def dump(self) -> dict[str, list[tuple[Any, ...]]]:
        """Every row of every table of ours, but for the journal's tree."""
        return dump(self.connection)

    def ask(
        self, command: c.Command | c.Request, actor: str = "local", kind: Kind = "operator",
        scope: str = SCOPE, key: str | None = None,
    ) -> Outcome:  # fmt: skip
        """The outcome of one command, refusals too."""
        request = c.Request.of(command, key) if isinstance(command, c.Command) else command
        return ask(self.fp.as_caller(actor, kind, scope), request)

    def task(self, payload: Any = "work", queue: str = QUEUE, **options: Any) -> str:
        """A new task's id."""
        return self.fp.enqueue(queue, payload, **options).task_id

    def claim(self, worker: str = WORKER, queue: str = QUEUE, **options: Any) -> Lease:
        """The one lease of a claim that must find a task."""
        (lease,) = self.fp.claim(queue, worker_id=worker, **options)
        return lease

    def claim_of(self, task_id: str, worker: str = WORKER) -> Lease:
        """The lease of this one task."""
        (lease,) = self.fp.claim(task_id=task_id, worker_id=worker)
        return lease

    def leased(self, worker: str = WORKER, **options: Any) -> Lease:
        """A new task, claimed by the worker."""
        self.task(**options)
        return self.claim(worker)

    def batch(self, sent: Sequence[Sent]) -> list[Outcome]:
        """Commands of several callers in one transaction, as group commit puts them there."""
        with self.store.transaction() as transaction:
            done = self.fp._writer.transactor.settle(self.store, transaction, sent)
        return list(done.outcomes)

    @contextmanager
    def loaded(self, *commands: c.Command, kind: Kind = "operator") -> Iterator[Loaded]:
        """The rows that these commands need, inside a transaction that is undone at the end."""
        caller = self.fp.as_caller("local", kind).caller
        transactor = self.fp._writer.transactor
        main = self.store._main
        main.begin()
        try:
            sent = [(caller, c.Request.of(command)) for command in commands]
            yield main.run(main.load(sent, transactor.time_of, transactor.draw))
        finally:
            main.rollback()

    def save(self, changes: Changes, loaded: Loaded) -> None:
        """Write changes inside `loaded`'s transaction, as the engine does."""
        self.store._main.run(self.store._main.save(changes, loaded))


Make = Callable[[], Stand]


def binding(lease: Lease, **changed: Any) -> dict[str, Any]:
    """What a command of this lease binds, with some of it changed."""
    bound = {"task_id": lease.task_id, "worker_id": lease.worker_id, "fence": lease.fence}
    return {**bound, **changed}
