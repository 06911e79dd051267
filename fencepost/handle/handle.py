"""The handle of a store: the verbs, and what can be read of tasks and receipts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from os import PathLike, fspath
from os.path import realpath
from time import sleep as system_sleep
from typing import TYPE_CHECKING, Any, TypeVar

from fencepost import fields
from fencepost.clock import Clock, SystemClock
from fencepost.commands import Claim, Command, Request
from fencepost.engine import Call, SystemDraw, Within, Writer
from fencepost.handle import waiting
from fencepost.handle.closing import Closing
from fencepost.handle.journal import turned_away
from fencepost.handle.lease import Moment
from fencepost.handle.places import Places, not_found
from fencepost.handle.verbs import request_of
from fencepost.handle.within import Transaction
from fencepost.issues import InvalidRequest, Unavailable, error_for
from fencepost.machine.batch import lookup_of
from fencepost.machine.drawing import Draw
from fencepost.machine.needs import Sent
from fencepost.machine.rows import Stored
from fencepost.model import (
    KINDS,
    STATES,
    Caller,
    Kind,
    Outcome,
    Receipt,
    RefusedResult,
    Result,
    Task,
)
from fencepost.rules import authority
from fencepost.storage import reading
from fencepost.storage.address import is_postgres, psycopg_here
from fencepost.storage.port import Store
from fencepost.storage.sqlite import open_store
from fencepost.storage.steps import Steps, rows_of

if TYPE_CHECKING:
    from concurrent.futures import Future  # loaded when somebody sends without waiting

    from fencepost.handle.within_async import AsyncTransaction  # and this one when he awaits

T = TypeVar("T")
WAIT_SECONDS = 30.0


class Handle(Places, Closing):
    """One store, one scope, one caller. May be shared by threads; not by processes after a fork.

    Close it when done, or use it in a `with` block. `address` is the whole path of its file, or
    `:memory:`.
    """

    address = ":memory:"

    def __init__(
        self, store: Store, caller: Caller, clock: Clock, draw: Draw, wait_seconds: float,
        sleep: Callable[[float], None] = system_sleep,
    ) -> None:  # fmt: skip
        self.caller = caller
        self.clock = clock
        self.sleep = sleep
        self.asked_again = waiting.AskedAgain()
        self._store = store
        self._writer = Writer(store, clock, draw)
        self._wait_seconds = wait_seconds

    def close(self) -> None:
        """Finish what was sent and give the store back. A second call does nothing.

        Where no turn comes within `wait_seconds`, what was sent stays open, and so does the store:
        nobody who waits for an answer has been given one.
        """
        self._store.not_inside()
        if self._writer.close(self._wait_seconds):
            self._store.close(self._wait_seconds)

    @property
    def scope_name(self) -> str:
        """The scope whose tasks this handle sees."""
        return self.caller.scope

    def as_caller(self, actor: str, kind: Kind = "operator", scope: str | None = None) -> Handle:
        """The same store for another caller, sharing its commits. Close only the first handle."""
        return self.for_caller(caller_of(scope or self.caller.scope, actor, kind))

    def for_caller(self, caller: Caller) -> Handle:
        """The same for a caller whom a face has recognised."""
        twin = object.__new__(Handle)
        twin.__dict__.update(self.__dict__)
        twin.caller = caller
        return twin

    # -- sending

    def send(self, commands: Sequence[Command | Request]) -> Future[list[Outcome]]:
        """Hand commands in without waiting; the future gives one outcome each.

        Cancelling the future does not take the commands back. For asyncio wrap it with
        `asyncio.wrap_future`. A callback of the future's own runs inside the turn to write: it
        must be short, and can send nothing.
        """
        from concurrent.futures import Future

        future: Future[list[Outcome]] = Future()

        def told(call: Call) -> None:
            if not future.set_running_or_notify_cancel():
                return
            if call.error is None:
                future.set_result(call.wait())
            else:
                future.set_exception(call.error)

        self._writer.send(self._call(commands, told))
        return future

    def hand_in(self, sent: Sequence[Sent], told: Callable[[Call], None]) -> Call:
        """For a face that serves many callers: commands of any of them, as one call.

        `told` is called in the writer's thread once it is answered: it must be short. Raises
        Unavailable where the handle is closed.
        """
        return self._writer.send(Call(list(sent), told))

    def read(self, steps: Steps[T]) -> T:
        """Run reading steps as they are: nobody's rights are judged here."""
        return self._store.read(steps)

    def claimed(self, request: Request, wait_seconds: int) -> tuple[Outcome, Moment]:
        if isinstance(request.command, Claim):
            if wait_seconds:
                return waiting.claimed(self, request, request.command, wait_seconds)
            asked = waiting.asked_of(self.caller.scope, request.command, request.key)
            self.asked_again.tell(asked)
        return super().claimed(request, 0)

    def steady(self) -> int:
        return self.clock.steady()

    def wall(self) -> int:
        return self.clock.wall()

    def _call(
        self, commands: Sequence[Command | Request], told: Callable[[Call], None] | None = None
    ) -> Call:
        return Call([(self.caller, request_of(command)) for command in commands], told)

    def execute(self, commands: Sequence[Command | Request]) -> list[Outcome]:
        """One outcome each. Raises Unavailable if the turn did not come in time: nothing done."""
        if not commands:
            return []
        self._store.not_inside()
        call = self._writer.send(self._call(commands))
        try:
            return call.wait(self._wait_seconds)
        except TimeoutError:
            if call.give_up():
                raise Unavailable(
                    f"the turn to write did not come within {self._wait_seconds:g} s: another "
                    "process holds it, perhaps stopped; nothing was done, try again"
                ) from None
            return call.wait()

    def within(self, connection: Any, *, seconds: float = 5.0) -> Transaction:
        """The verbs inside the application's own transaction on this very store.

        `with fp.within(connection) as tx:` takes the turn, begins, and commits or rolls back
        with the block, which may last `seconds`. On PostgreSQL it takes part in a transaction
        that is open, whose commit stays the application's (docs/postgres-transactions.md).
        """
        within = Within(
            self._store, self._writer.transactor, connection, seconds, self._wait_seconds
        )
        return Transaction(within, self.caller)

    def within_async(self, connection: Any, *, seconds: float = 5.0) -> AsyncTransaction:
        """The same on a psycopg.AsyncConnection, whose verbs are awaited:
        `async with fp.within_async(connection) as tx: await tx.enqueue(…)`."""
        from fencepost.engine.within_async import WithinAsync
        from fencepost.handle.within_async import AsyncTransaction

        within = WithinAsync(self._store, self._writer.transactor, connection, seconds)
        return AsyncTransaction(within, self.caller)

    # -- reading; scoped, on a snapshot of what is committed

    def task(self, task_id: str) -> Task:
        """One task with its payload. Raises NotFound."""
        return self._task(task_id)[1]

    def _task(self, task_id: str, *, with_payload: bool = True) -> tuple[int, Task]:
        fields.task_id(task_id, "task_id")
        self._may_read()
        queues = authority.queues_seen(self.caller, None)
        steps = reading.task(self.caller.scope, task_id, queues, with_payload=with_payload)
        found = self._store.read(steps)
        if found is None:
            raise error_for(not_found(f"there is no task {task_id} in scope {self.caller.scope}"))
        return found

    def task_by_key(self, queue: str, key: str) -> Task:
        """The task that bears this key on the queue. Raises NotFound."""
        fields.name(queue, "queue")
        fields.key(key, "key")
        self._may_read()
        task_id = self._store.read(reading.task_id_of_key(self.caller.scope, queue, key))
        if task_id is None or authority.hidden_queue(self.caller, queue):
            raise error_for(not_found(f"queue {queue} has no task of the key {key}"))
        return self.task(task_id)

    def tasks(self, queue: str | None = None, *, state: str | None = None) -> Iterator[Task]:
        """Tasks in the order of their enqueueing, without payloads."""
        fields.optional(fields.name)(queue, "queue")
        fields.optional(fields.one_of(*STATES))(state, "state")
        self._may_read()
        return self._tasks(authority.queues_seen(self.caller, queue), state)

    def _tasks(self, queues: list[str] | None, state: str | None) -> Iterator[Task]:
        after = 0
        while True:
            steps = reading.tasks(self.caller.scope, queues, state, after)
            page, after = self._store.read(steps)
            yield from page
            if not after:
                return

    def results(self, task_id: str) -> Iterator[Result]:
        """The accepted results of a task by revision, with the state of their commitments."""
        row_id, _ = self._task(task_id, with_payload=False)
        return self._results(row_id, task_id)

    def _results(self, row_id: int, task_id: str) -> Iterator[Result]:
        after = 0
        while page := self._store.read(reading.results(row_id, task_id, after)):
            yield from page
            after = page[-1].revision

    def refused(self, task_id: str) -> Iterator[RefusedResult]:
        """Late results that were refused and kept aside (`keep_refused`), oldest first."""
        row_id, _ = self._task(task_id, with_payload=False)
        return self._refused(row_id, task_id)

    def _refused(self, row_id: int, task_id: str) -> Iterator[RefusedResult]:
        after = 0
        while True:
            page, after = self._store.read(reading.refused(row_id, task_id, after))
            yield from page
            if not after:
                return

    def receipt(self, key: str, *, actor: str | None = None) -> Receipt:
        """The receipt of the command that had this key. Raises NotFound or ReceiptErased.

        The key is the caller's (of `actor`, or of this handle's own); for a lease command
        without one it is the SHA-256 of its bytes in hex.
        """
        fields.key(key, "key")
        fields.optional(fields.name)(actor, "actor")
        self._may_read()
        lookup = lookup_of(self.caller.scope, actor or self.caller.actor, key)
        stored = self._store.read(reading.receipt(lookup))
        if stored is None and len(key) == 64 and set(key) <= set("0123456789abcdef"):
            steps = reading.receipt_of_request(self.caller.scope, bytes.fromhex(key))
            stored = self._store.read(steps)
        seen = self.caller.queues is None or (actor or self.caller.actor) == self.caller.actor
        if stored is not None and stored.body is not None:
            seen = self._shown(stored) is not None
        if stored is not None and seen:
            return opened(stored)
        if stored is None and seen and self._store.read(reading.is_erased(lookup)):
            raise turned_away("receipt_erased")
        raise error_for(not_found(f"there is no receipt under the key {key}"))

    def stats(self) -> dict[str, Any]:
        """Tasks by queue and state, and what the clock and the store have to say."""
        self._may_read()
        now = self.now()
        return {
            "scope": self.caller.scope,
            "now": now,
            "queues": [
                row
                for row in self._store.read(reading.counts(self.caller.scope, now))
                if not authority.hidden_queue(self.caller, row["queue"])
            ],
            "clock_jumps": list(self._writer.transactor.time.jumps),
        }

    def now(self) -> int:
        """The store's time (microseconds UTC): never before what it has committed."""
        ((_, *numbers),) = self._store.read(rows_of("store"))
        return max(int(numbers[-1]), self.clock.wall())

    def knows(self, actor: str, key: str) -> bool:
        """Whether a command of this actor's under the key has left its receipt."""
        lookup = lookup_of(self.caller.scope, actor, key)
        return self._store.read(reading.receipt(lookup)) is not None

    def hinted(self, hint: Callable[[tuple[str, str]], None]) -> AbstractContextManager[bool]:
        """While inside, `hint` is called, in another thread, with each (scope, queue) that a
        process tells to have tasks. Any of it may be lost. False where nothing will come."""
        return self._store.hinted(hint)

    def changed(self) -> int:
        """A number that changes when another process has committed: cheap to poll."""
        return self._store.changed()


def opened(stored: Stored) -> Receipt:
    """The receipt, or ReceiptErased where its opening is gone."""
    receipt = stored.receipt()
    if receipt is None:
        raise error_for(Outcome("failed", ("receipt_erased",), "the receipt has been erased"))
    return receipt


def caller_of(scope: str, actor: str, kind: Kind) -> Caller:
    """A caller, checked."""
    fields.name(scope, "scope")
    fields.name(actor, "actor")
    fields.one_of(*KINDS)(kind, "kind")
    return Caller(scope, kind, actor)


def open_handle(
    url: str | PathLike[str],
    *,
    scope: str = "default",
    actor: str = "local",
    kind: Kind = "operator",
    create: bool = False,
    allow_filesystem: str | None = None,
    wait_seconds: float = WAIT_SECONDS,
    clock: Clock | None = None,
    draw: Draw | None = None,
    sleep: Callable[[float], None] = system_sleep,
) -> Handle:
    """Open a store: a path, `:memory:`, or `postgresql://…`. One that is missing is made only with
    `create`.

    `wait_seconds` bounds how long opening and each call wait for their turn. `allow_filesystem`
    names a network or user-space file system type that is to be allowed although SQLite is not
    safe there. `clock`, `draw` and `sleep` are for tests. Raises Unavailable, SchemaMismatch and
    InvalidRequest.
    """
    if type(url) is not str:
        url = fspath(url)
    caller = caller_of(scope, actor, kind)
    store: Store
    if is_postgres(url):
        store, address, clock = _open_postgres(url, create, clock)
    elif "://" in url:
        raise InvalidRequest(f"{url.split(':', 1)[0]}:// is not a store that this can be done on")
    else:
        store = open_store(
            url, create=create, now=(clock or SystemClock()).wall(),
            allow_filesystem=allow_filesystem, wait_seconds=wait_seconds,
        )  # fmt: skip
        address = url if url == Handle.address else realpath(url)
    handle = Handle(
        store, caller, clock or SystemClock(), draw or SystemDraw(), wait_seconds, sleep
    )
    handle.address = address
    return handle


def _open_postgres(url: str, create: bool, clock: Clock | None) -> tuple[Store, str, Clock]:
    """The store, its address, and the clock by which it goes: the server's."""
    with psycopg_here():
        from fencepost.storage.postgres import open_store as open_postgres
    store = open_postgres(url, create=create, clock=clock)
    return store, store.where, store.clock
