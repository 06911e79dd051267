"""What a back end must be able to do. The engine and the handle know a store by this alone.

A store knows rows and transactions and no rule. It must not rely on being asked in any order
beyond begin → load → save → commit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from fencepost.machine.batch import Changes, Loaded
from fencepost.machine.drawing import Draw
from fencepost.machine.needs import Sent
from fencepost.storage.loading import TimeOf
from fencepost.storage.steps import Read, Steps

T = TypeVar("T")


class Conflict(Exception):
    """Another transaction came in between. Nothing was done: run the whole again, and see it."""


class Transaction(Protocol):
    """One transaction at a time: begin → load → save → commit, or rollback."""

    read_only: bool

    def begin(self) -> None:
        """Begin, holding the writer's lock (a read-only store begins a reading one)."""

    def load(self, sent: Sequence[Sent], time_of: TimeOf, draw: Draw) -> Loaded:
        """The rows that these commands are judged with, read under the locks. This, `save` and
        `commit` may raise Conflict; the caller then rolls back and begins again."""

    def save(self, changes: Changes, loaded: Loaded) -> None:
        """Write them, guarded. GuardTripped if a guard refuses; the caller then rolls back."""

    def contents(self, task_ids: Sequence[str]) -> dict[str, tuple[bytes, bytes | None]]:
        """Payload and progress by task id, as the transaction sees them; what is erased is left
        out."""

    def commit(self) -> None:
        """Make it durable. OutcomeUnknown if it failed: it may be there or not."""

    def rollback(self) -> None:
        """Undo. Never raises; where nothing has begun it does nothing."""

    def going(self) -> bool:
        """It has begun and has not ended: nobody has ended it from outside."""


class Store(Protocol):
    """One store, opened. Methods raise Unavailable when it cannot be used."""

    read_only: bool

    def turn(self, seconds: float | None = None) -> AbstractContextManager[Any]:
        """The right to write. Everything from `begin` to `commit`, and `tidy`, is inside it.

        It is waited for without end, or, where `seconds` are given, until Unavailable."""

    def not_inside(self) -> None:
        """InvalidRequest if the calling thread has the turn, in a block of `within`: to wait for
        it would be to wait for itself."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """The store's own connection for writing, for the thread that has the turn."""

    def borrow(self, connection: Any) -> Transaction:
        """The same on an application's own connection. InvalidRequest if it cannot be."""

    def read(self, steps: Steps[T]) -> T:
        """Run reading steps on a snapshot of what is committed, without waiting for a turn."""

    def reading(self) -> AbstractContextManager[Any]:
        """All `read`s inside see one snapshot."""

    def seal(self, now: int, limit: int) -> int:
        """Put up to `limit` committed entries into the tree, inside an own transaction, and
        write the checkpoint. Returns how many were left unsealed."""

    def tidy(self, *, erased: bool) -> bool:
        """What has to be done inside a turn after a commit: checkpoints of the log. After an
        erasure no erased byte may be left in any file of the store: True where that is not yet
        so and more turns are needed."""

    def reopen(self) -> None:
        """After OutcomeUnknown: new connections, and what was written made durable."""

    def listed(self) -> None:
        """Have the journal's lists show what is committed, where they show only what is sealed."""

    def changed(self) -> int:
        """A number that changes when another process has committed."""

    def snapshot(self) -> AbstractContextManager[Read]:
        """For long reading: a function that runs steps on one snapshot, and holds up nobody."""

    def backup(self, target: Path, told: Callable[[int, int], None]) -> None:
        """Copy to a file that does not exist, synced; `told(done, all)` counts pages. What was
        acknowledged before the call is in it, and nobody has to wait meanwhile."""

    def probe_turn(self, seconds: float) -> float:
        """Take the turn and give it back: the seconds waited. Unavailable, naming who has it,
        if it did not come in time."""

    def about(self) -> dict[str, Any]:
        """What `doctor` tells of the store."""

    def close(self, seconds: float | None = None) -> None:
        """Give everything back, waiting at most `seconds` for a turn. Again: does nothing."""
