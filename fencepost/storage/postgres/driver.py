"""Runs storage steps on a psycopg connection, and says what PostgreSQL's errors mean."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import psycopg
from psycopg import errors

from fencepost.issues import FencepostError, GuardTripped, SchemaMismatch, Unavailable
from fencepost.storage.port import Conflict
from fencepost.storage.postgres.talk import STATEMENTS, Link, talk
from fencepost.storage.steps import Read, Steps

__all__ = [
    "STATEMENTS", "Connection", "explained", "in_our_words", "link_of", "reader", "rows", "run",
    "run_async", "text_of",
]  # fmt: skip

T = TypeVar("T")
Connection = psycopg.Connection[tuple[Any, ...]]

_LINKS: WeakKeyDictionary[Any, Link] = WeakKeyDictionary()


def link_of(connection: Any, *, prepares: bool = False) -> Link:
    """Our side of a connection, made when it is first asked for."""
    link = _LINKS.get(connection)
    if link is None:
        link = _LINKS[connection] = Link(connection.pgconn, prepares=prepares)
    return link


def run(connection: Connection, steps: Steps[T]) -> T:
    """Drive the steps to their end and return what they return."""
    with connection.lock:
        return connection.wait(talk(link_of(connection), steps))


async def run_async(connection: psycopg.AsyncConnection[Any], steps: Steps[T]) -> T:
    """The same on a connection that does not block."""
    async with connection.lock:
        return await connection.wait(talk(link_of(connection), steps))


def rows(connection: Connection, sql: str, **values: Any) -> list[tuple[Any, ...]]:
    """The rows of one statement by psycopg's own cursor, for what is no step of a batch: schema,
    writer, health. Empty where it answers none."""
    cursor = connection.execute(sql, values)
    return cursor.fetchall() if cursor.description is not None else []


@contextmanager
def in_our_words(where: str) -> Iterator[None]:
    """What psycopg raises inside comes out as `explained` says it."""
    try:
        yield
    except psycopg.Error as error:
        raise explained(error, where) from error


def reader(connection: Connection, where: str) -> Read:
    """Runs reading steps on this connection."""

    def read(steps: Steps[T]) -> T:
        with in_our_words(where):
            return run(connection, steps)

    return read


# Another transaction came in between: run the whole again, and it will be seen.
AGAIN = (errors.SerializationFailure, errors.DeadlockDetected)
# What two may make at once, each without seeing the other's. Other rows are made under a lock, so
# that a second one is a fault of ours, as is whatever else a constraint refuses.
RACED = frozenset(
    f"fencepost_{name}"
    for name in ("entry_key", "task_key", "queue_scope_queue_key", "scope_pkey", "task_id")
)

_POOLER = "a pooler gives each transaction another session; add pooled=1 to the store's URL"
MEANINGS: tuple[tuple[type[psycopg.Error], str], ...] = (
    (errors.DuplicatePreparedStatement, _POOLER),
    (errors.InvalidSqlStatementName, _POOLER),
    (errors.ReadOnlySqlTransaction, "the server is a standby or read-only; name the primary"),
    (errors.DiskFull, "the server's disk is full; free some space and try again"),
    (errors.InsufficientPrivilege, "the role may not do this; grant it what docs/postgres.md says"),
    (errors.TooManyConnections, "the server has no connection to spare"),
    (errors.LockNotAvailable, "another transaction has held a row for too long; end it, try again"),
    (errors.DataCorrupted, "the server says that data is damaged; look at its log"),
    (errors.IndexCorrupted, "the server says that an index is damaged; look at its log"),
    (errors.AdminShutdown, "the server is being shut down"),
    (errors.CrashShutdown, "the server has crashed and is starting again"),
    (errors.CannotConnectNow, "the server is starting up or shutting down; try again"),
    (errors.OutOfMemory, "the server has no memory to spare"),
)


def explained(error: psycopg.Error, where: str) -> FencepostError | Conflict:
    """The error in our own words: nothing was done, and what to do about it."""
    if isinstance(error, AGAIN):
        return Conflict(f"{where}: {text_of(error)}")
    if isinstance(error, psycopg.IntegrityError):
        if error.diag.constraint_name in RACED:
            return Conflict(f"{where}: {text_of(error)}")
        return GuardTripped(f"{where}: {text_of(error)}; the change was undone. This is a bug")
    if isinstance(error, (errors.UndefinedTable, errors.UndefinedColumn, errors.UndefinedObject)):
        return SchemaMismatch(f"{where}: {text_of(error)}; this is not a store of this version")
    if isinstance(error, errors.ObjectNotInPrerequisiteState) and "recovery" in str(error):
        return Unavailable(f"{where}: the server is a standby; name the primary")
    for kind, meaning in MEANINGS:
        if isinstance(error, kind):
            return Unavailable(f"{where}: {meaning}")
    return Unavailable(f"{where}: {text_of(error)}")


def text_of(error: psycopg.Error) -> str:
    """What the server said, in one line and without values: those are content."""
    return (
        (error.diag.message_primary or str(error) or type(error).__name__).strip().splitlines()[0]
    )
