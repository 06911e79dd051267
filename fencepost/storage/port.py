"""What a back end must be able to do. The engine and the handle know a store by this alone.

A store knows rows and transactions and no rule. It must not rely on being asked in any order
beyond begin → load → save → commit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from fencepost.machine.drawing import Draw
from fencepost.machine.needs import Sent
from fencepost.machine.rows import Changes, Loaded
from fencepost.storage.loading import TimeOf
from fencepost.storage.steps import Read, Steps

T = TypeVar("T")


class Conflict(Exception):
    """Another transaction came in between. Nothing was done: run the whole again, and see it."""


class AnotherServer(Conflict):
    """The server is not the one that is known: it is recognised first (`Store.recognise`; the
    store's own transaction does so at its next beginning), and then the whole is run again."""


class Folding(Protocol):
    """What a batch is decided with, as steps, inside a transaction that has begun."""

    read_only: bool

    def load(self, sent: Sequence[Sent], time_of: TimeOf, draw: Draw) -> Steps[Loaded]:
        """The rows that these commands are judged with, read under the locks."""

    def save(self, changes: Changes, loaded: Loaded) -> Steps[None]:
        """Write them, guarded. GuardTripped if a guard refuses; the caller then rolls back."""

    def confirm(self) -> Steps[bool]:
        """A stored receipt is told again: see that what it says is as lasting as what is told for
        the first time. Whether there is now something to commit."""

    def contents(self, task_ids: Sequence[str]) -> Steps[dict[str, tuple[bytes, bytes | None]]]:
        """Payload and progress by task id, as the transaction sees them; what is erased is left
        out."""


class Transaction(Folding, Protocol):
    """One transaction at a time: begin → load → save → commit, or rollback."""

    def begin(self) -> None:
        """Begin, holding the writer's lock (a read-only store begins a reading one)."""

    def run(self, steps: Steps[T]) -> T:
        """Drive steps inside it. This and `commit` may raise Conflict; the caller then rolls back
        and begins again."""

    def usable(self) -> bool:
        """Its connection is there still, so that another may be begun."""

    def commit(self) -> None:
        """Make it durable. OutcomeUnknown if it failed: it may be there or not."""

    def rollback(self) -> None:
        """Undo. Never raises; where nothing has begun it does nothing."""

    def going(self) -> bool:
        """It has begun and has not ended: nobody has ended it from outside."""


class Lent(Folding, Protocol):
    """A transaction on an application's own connection: each of its moves as steps."""

    def begin(self) -> Steps[None]:
        """Begin, or take part in the transaction that is open. InvalidRequest where that cannot
        be, AnotherServer where it is not (yet) known to be the store's database."""

    def check_going(self) -> None:
        """Raises InvalidRequest where somebody else has ended the transaction, or spoilt it."""

    def mark(self, seconds: float) -> Steps[None]:
        """Before a command, which may take so long: from here it can be undone alone."""

    def unmark(self) -> Steps[None]:
        """After it went well: what was set for it is as it was."""

    def back(self) -> Steps[None]:
        """Undo all since `mark`."""

    def again(self, error: BaseException) -> bool:
        """Whether it means that another transaction came in between."""

    def release(self) -> Steps[None]:
        """The block has ended well. InvalidRequest where its transaction is not there any more."""

    def rollback(self) -> Steps[None]:
        """Undo the block. Never raises; after its end it does nothing."""


class Borrowed(Lent, Protocol):
    """The same with its driver, on a blocking connection."""

    def run(self, steps: Steps[T]) -> T:
        """Drive steps to their end, which meet the database's errors as it raises them."""

    def commit(self) -> None:
        """After `release`, where the commit is not the application's: as `Transaction.commit`."""


class BorrowedAsync(Lent, Protocol):
    """The same on an asynchronous one."""

    async def run(self, steps: Steps[T]) -> T:
        """As `Borrowed.run`."""

    async def commit(self) -> None:
        """As `Borrowed.commit`."""


class Store(Protocol):
    """One store, opened. Methods raise Unavailable when it cannot be used."""

    read_only: bool
    turn_microseconds: int
    """How long a turn may take: others wait for theirs."""
    company_microseconds: int
    """How long it is worth while to wait with a commit for those who come back from the last one
    and will share it."""

    def turn(self, seconds: float | None = None) -> AbstractContextManager[Any]:
        """The right to write. Everything from `begin` to `commit`, and `tidy`, is inside it.

        It is waited for without end, or, where `seconds` are given, until Unavailable."""

    def not_inside(self) -> None:
        """InvalidRequest if the calling thread has the turn, in a block of `within`: to wait for
        it would be to wait for itself."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """The store's own connection for writing, for the thread that has the turn."""

    def borrow(self, connection: Any) -> Borrowed:
        """The same on an application's own connection. InvalidRequest if it cannot be."""

    def borrow_async(self, connection: Any) -> BorrowedAsync:
        """The same on an asynchronous one."""

    def recognise(self) -> None:
        """After AnotherServer on a connection that was borrowed: know who writes now."""

    def begin_writer(self, why: str, heard: int) -> None:
        """A person says that another writer begins: a new epoch above each that was `heard` of, and
        incarnation; leases of before have ended, destinations stand still."""

    def read(self, steps: Steps[T]) -> T:
        """Run reading steps on a snapshot of what is committed, without waiting for a turn."""

    def reading(self) -> AbstractContextManager[Any]:
        """All `read`s inside see one snapshot."""

    def seal(self, now: int, limit: int) -> bool:
        """Put up to `limit` committed entries into the tree, inside an own transaction, and
        write the checkpoint. Returns whether more are left unsealed."""

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

    def tell(self, places: Collection[tuple[str, str]]) -> None:
        """After a commit: these queues, by (scope, queue), have tasks now. Returns at once."""

    def hinted(
        self, hint: Callable[[tuple[str, str]], None]
    ) -> AbstractContextManager[bool]:
        """While inside, `hint` is called (by another thread; it must be short) with each queue that
        any process has told of. Any of it may be lost. False where nothing will come."""

    def snapshot(self) -> AbstractContextManager[Read]:
        """For long reading: a function that runs steps on one snapshot, and holds up nobody."""

    def backup(self, target: Path, told: Callable[[int, int], None]) -> None:
        """Copy to a file that does not exist, synced; `told(done, all)` counts pages. What was
        acknowledged before the call is in it, and nobody has to wait meanwhile."""

    def probe_turn(self, seconds: float) -> float:
        """Take the turn and give it back: the seconds waited. Unavailable, naming who has it,
        if it did not come in time."""

    def about(self) -> dict[str, Any]:
        """What is told of the store: what it stands on, and whether it can be written. Cheap."""

    def examine(self) -> dict[str, Any]:
        """What only `doctor` looks at, since it takes longer."""

    def close(self, seconds: float | None = None) -> None:
        """Give everything back, waiting at most `seconds` for a turn. Again: does nothing."""
