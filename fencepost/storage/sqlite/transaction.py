"""One transaction on a sqlite3 connection: the store's own, or an application's."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from fencepost.clock import SystemClock
from fencepost.issues import InvalidRequest, OutcomeUnknown, Unavailable
from fencepost.machine.drawing import Draw
from fencepost.machine.needs import Needs, Sent
from fencepost.machine.rows import Changes, Loaded, QueueRow
from fencepost.model import StoreState, TaskRow
from fencepost.storage import loading, looking, saving
from fencepost.storage.loading import TimeOf
from fencepost.storage.port import AnotherServer
from fencepost.storage.sqlite import scrub
from fencepost.storage.sqlite.connect import make_durable
from fencepost.storage.sqlite.driver import STATEMENTS, explained, run
from fencepost.storage.sqlite.identity import Identity
from fencepost.storage.steps import Ask, Steps, one, rows_of

T = TypeVar("T")


class SqliteTransaction:
    """begin → load → save → commit, on one connection. Keeps `storage/port.py`'s Transaction."""

    def __init__(
        self, connection: sqlite3.Connection, where: str, *, read_only: bool,
        identity: Identity | None = None,
    ) -> None:  # fmt: skip
        self.connection = connection
        self.where = where
        self.identity = identity
        self.read_only = read_only
        self._secret: bytes | None = None
        self._saved: StoreState | None = None

    def begin(self) -> None:
        self._saved = None
        try:
            self.connection.execute(STATEMENTS["begin_read" if self.read_only else "begin"])
        except sqlite3.Error as error:
            raise explained(error, self.where) from error

    def commit(self) -> None:
        try:
            self.connection.execute(STATEMENTS["commit"])
        except sqlite3.Error as error:
            raise OutcomeUnknown(
                f"{explained(error, self.where)} (while committing; it may have happened)"
            ) from error
        if self.identity is not None and self._saved is not None:
            self.identity.passed(self._saved)

    def look(self) -> None:
        """How far the store has come by what is to be committed."""
        if self._saved is not None:
            with plain_rows(self.connection):
                self._saved = StoreState(*self.run(rows_of("store"))[0])

    def rollback(self) -> None:
        try:
            if self.connection.in_transaction:
                self.connection.execute(STATEMENTS["rollback"])
        except sqlite3.Error:
            pass  # SQLite has rolled back by itself, as it does when the disk is full

    def usable(self) -> bool:
        return True

    def going(self) -> bool:
        return self.connection.in_transaction

    def load(self, sent: Sequence[Sent], time_of: TimeOf, draw: Draw) -> Steps[Loaded]:
        return (yield from loading.load(sent, time_of, draw, self))

    def save(self, changes: Changes, loaded: Loaded) -> Steps[None]:
        if self.identity is not None and changes.store is not None:
            self.identity.reserve(loaded.store, changes.store)
        yield from saving.save(changes, loaded, self.bury)
        self._saved = changes.store
        if changes.erases():
            self.connection.execute(scrub.SQL["mark"])

    def confirm(self) -> Steps[bool]:
        """What is committed here is on disk."""
        yield from ()
        return False

    def contents(self, task_ids: Sequence[str]) -> Steps[dict[str, tuple[bytes, bytes | None]]]:
        return (yield from loading.contents(task_ids))

    def run(self, steps: Steps[T]) -> T:
        """Drive steps, with SQLite's errors in our words."""
        try:
            return run(self.connection, steps)
        except sqlite3.IntegrityError:
            raise  # a second lock held: the batch is undone and run command by command
        except sqlite3.Error as error:
            raise explained(error, self.where) from error

    def row(self) -> Ask:
        """Held by the turn."""
        return one("store")

    def state(self, row: tuple[Any, ...]) -> StoreState:
        """AnotherServer where the store has come less far than we know: an older copy was written
        into its file. It is recognised at the next beginning."""
        state = StoreState(*row)
        if self.identity is not None and not self.read_only and not self.identity.goes_on(state):
            raise AnotherServer(f"{self.where}: the store had come further than this")
        return state

    def likely(self, wanted: Needs) -> tuple[()]:
        """None: to ask once more costs nothing here."""
        return ()

    def learn(self, loaded: Loaded) -> None:
        """Nothing, then."""

    def keys(self, wanted: Needs) -> list[Ask]:
        """It waits for its turn."""
        return []

    def time(self) -> list[Ask]:
        """By this machine's clock: nobody on another one writes to the file."""
        return []

    def draws(
        self, sent: Sequence[Sent], queues: Mapping[tuple[str, str], QueueRow],
        tasks: Mapping[str, TaskRow], more: int = 0,
    ) -> list[Ask]:
        """None: with one transaction at a time they go on from the last."""
        return []

    def before(self) -> None:
        """Nothing is saved by it: to ask takes no time."""

    def drawn(self, loaded: Loaded, answers: Sequence[Any]) -> None:
        """Nothing was."""

    def ready(self, queue_id: int, limit: int) -> list[Ask]:
        return [one("ready_tasks", queue_id=queue_id, limit=limit)]

    def over(self, queue_id: int, now: int, limit: int) -> list[Ask]:
        asks = [looking.lapsed(queue_id, now, limit)]
        return asks if self.read_only else [*asks, looking.due(queue_id, now)]

    def enough(self, queue_id: int, found: Sequence[Sequence[Any]], limit: int) -> bool:
        """They are the first."""
        return True

    def bury(self, lookup: str) -> bytes:
        """The lookup of an erased key, under this store's secret."""
        if self._secret is None:
            rows = self.connection.execute(STATEMENTS["store_about"]).fetchall()
            self._secret = rows[0][-1]
        assert self._secret is not None
        return loading.buried(self._secret, lookup)


class OwnTransaction(SqliteTransaction):
    """On the store's own connection: what is not known to be the file that was written last is
    looked at before the next beginning."""

    def begin(self) -> None:
        if self.identity is not None and self.identity.suspect and not self.read_only:
            self.identity.recognise(self.connection, SystemClock().wall())
        super().begin()


class Borrowed:
    """On an application's connection. Its own ways to read rows are set aside while our steps
    run, and a savepoint shows whether the application has ended the transaction meanwhile."""

    read_only = False

    def __init__(
        self, connection: sqlite3.Connection, where: str, identity: Identity | None
    ) -> None:
        self.connection = connection
        self._transaction = SqliteTransaction(
            connection, where, read_only=False, identity=identity
        )
        self.save = self._transaction.save
        self.contents = self._transaction.contents
        self.confirm = self._transaction.confirm

    def load(self, sent: Sequence[Sent], time_of: TimeOf, draw: Draw) -> Steps[Loaded]:
        try:
            return (yield from self._transaction.load(sent, time_of, draw))
        except AnotherServer as error:
            raise Unavailable(f"{error}; it is looked at first: open the block again") from error

    def begin(self) -> Steps[None]:
        self._transaction.begin()
        self.connection.execute("savepoint fencepost_within")
        yield from ()

    def check_going(self) -> None:
        if not self._transaction.going():
            raise InvalidRequest(
                "within: the transaction was ended inside the block; leave that to the block"
            )

    def mark(self, seconds: float) -> Steps[None]:
        """Nobody comes in between, so nothing is undone alone."""
        yield from ()

    def unmark(self) -> Steps[None]:
        yield from ()

    def back(self) -> Steps[None]:
        yield from ()

    def again(self, error: BaseException) -> bool:
        return False

    def release(self) -> Steps[None]:
        try:
            self.connection.execute("release fencepost_within")
        except sqlite3.Error as error:
            raise InvalidRequest(ENDED) from error
        yield from ()

    def rollback(self) -> Steps[None]:
        self._transaction.rollback()
        yield from ()

    def run(self, steps: Steps[T]) -> T:
        with plain_rows(self.connection):
            return self._transaction.run(steps)

    def commit(self) -> None:
        # the application may have undone what we had saved, by a savepoint of its own
        self._transaction.look()
        self._transaction.commit()


ENDED = (
    "within: the transaction was ended inside the block; what was done before that stands, what "
    "came after is rolled back. Leave commit and rollback to the block"
)


@contextmanager
def plain_rows(connection: sqlite3.Connection) -> Iterator[None]:
    """Rows as tuples and text as str, whatever the application has set."""
    factories = connection.row_factory, connection.text_factory
    connection.row_factory, connection.text_factory = None, str
    try:
        yield
    finally:
        connection.row_factory, connection.text_factory = factories


def borrowed(connection: sqlite3.Connection, path: str, identity: Identity | None) -> Borrowed:
    """A transaction on an application's connection to the store at `path`, made durable.

    Raises InvalidRequest if it is not to this file or inside a transaction, Unavailable if it
    is closed, may not be used by this thread, or the file cannot be looked at.
    """
    if not isinstance(connection, sqlite3.Connection):
        raise InvalidRequest(f"within: {type(connection).__name__} is not a sqlite3.Connection")
    try:
        with plain_rows(connection):
            _check_borrowed(connection, path)
            make_durable(connection)
    except sqlite3.Error as error:
        raise explained(error, "within") from error
    return Borrowed(connection, path, identity)


def _check_borrowed(connection: sqlite3.Connection, path: str) -> None:
    if connection.in_transaction:
        raise InvalidRequest(
            "within: the connection is inside a transaction; end it first, since the turn has to "
            "be taken before a transaction begins (a connection with autocommit=False always is)"
        )
    files = {name: file for _, name, file in connection.execute("pragma database_list")}
    main = files.get("main")
    try:
        same = main is not None and main != "" and os.path.samefile(main, path)
    except FileNotFoundError:
        same = False
    except OSError as error:  # the disk, not the application, is at fault
        raise Unavailable(f"within: {path} cannot be looked at: {error}") from error
    if not same:
        raise InvalidRequest(f"within: the connection is not to {path} but to {main or 'no file'}")
