"""Runs storage steps on a psycopg connection, and says what PostgreSQL's errors mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import psycopg
from psycopg import errors

from fencepost.issues import FencepostError, SchemaMismatch, Unavailable
from fencepost.storage.port import Conflict
from fencepost.storage.postgres import arrays
from fencepost.storage.sqltext import statements
from fencepost.storage.steps import Ask, Steps, Together

T = TypeVar("T")
Connection = psycopg.Connection[tuple[Any, ...]]
Cursor = psycopg.Cursor[tuple[Any, ...]]

STATEMENTS: Mapping[str, str] = statements(
    "fencepost.storage.postgres",
    "queries.sql",
    "writes.sql",
    "forget.sql",
    "reads.sql",
    "verify.sql",
    "locks.sql",
)


ARRAYS = {name: arrays.kinds_of(sql) for name, sql in STATEMENTS.items()}


def run(connection: Connection, steps: Steps[T]) -> T:
    """Drive the steps to their end and return what they return."""
    try:
        ask = next(steps)
        while True:
            if type(ask) is Together and len(ask.asks) > 1:
                with connection.pipeline():
                    cursors = [_sent(connection, each) for each in ask.asks]
                ask = steps.send([_heard(*p) for p in zip(ask.asks, cursors, strict=True)])
                continue
            each = ask.asks[0] if type(ask) is Together else ask
            assert type(each) is Ask
            heard = _heard(each, _sent(connection, each))
            ask = steps.send([heard] if type(ask) is Together else heard)
    except StopIteration as stop:
        result: T = stop.value
        return result


def _sent(connection: Connection, ask: Ask) -> Cursor | None:
    """The cursor of a statement that is under way; None where a list is empty."""
    cursor = connection.cursor(binary=True)
    arrays.register(cursor.adapters)
    sql, values = statement(ask)
    return None if sql is None else cursor.execute(sql, values)


def _heard(ask: Ask, cursor: Cursor | None) -> Any:
    """What a step is sent: rows, or for many rows how many were changed."""
    if ask.rows is not None:
        return 0 if cursor is None else cursor.rowcount
    return [] if cursor is None or cursor.description is None else cursor.fetchall()


def statement(ask: Ask) -> tuple[str | None, dict[str, Any]]:
    """The statement's text and its parameters; None where a list is empty, and so the answer."""
    sql, kinds = STATEMENTS[ask.name], ARRAYS[ask.name]
    if ask.rows is not None:
        return sql, _encoded(kinds, "c", zip(*ask.rows, strict=True))
    values = dict(ask.values)
    for name, value in ask.values.items():
        if type(value) is not list:
            continue
        if not value:
            return None, values
        if type(value[0]) is tuple:
            values.update(_encoded(kinds, f"{name}_", zip(*value, strict=True)))
        else:
            values[name] = arrays.encode(kinds[name], value)
    return sql, values


def _encoded(
    kinds: Mapping[str, str], prefix: str, columns: Iterable[Sequence[Any]]
) -> dict[str, Any]:
    """One array a column: c1, c2 …"""
    names = ((f"{prefix}{place}", column) for place, column in enumerate(columns, start=1))
    return {name: arrays.encode(kinds[name], column) for name, column in names}


# Another transaction came in between: run the whole again, and it will be seen.
AGAIN = (
    errors.SerializationFailure,
    errors.DeadlockDetected,
    errors.UniqueViolation,
)

MEANINGS: tuple[tuple[type[psycopg.Error], str], ...] = (
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
