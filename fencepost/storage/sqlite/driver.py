"""Runs storage steps on a sqlite3 connection, and says what SQLite's errors mean."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from typing import Any, TypeVar

from fencepost.issues import FencepostError, SchemaMismatch, Unavailable
from fencepost.storage.sqltext import statements
from fencepost.storage.steps import Ask, Steps, Together

T = TypeVar("T")

STATEMENTS: Mapping[str, str] = statements(
    "fencepost.storage.sqlite", "queries.sql", "writes.sql", "forget.sql", "reads.sql",
    "verify.sql", "destinations.sql",
)  # fmt: skip


def run(connection: sqlite3.Connection, steps: Steps[T]) -> T:
    """Drive the steps to their end and return what they return."""
    try:
        ask = next(steps)
        while True:
            try:
                answer = _answer(connection, ask)
            except BaseException as error:  # noqa: BLE001  the steps may know what to do
                ask = steps.throw(error)
            else:
                ask = steps.send(answer)
    except StopIteration as stop:
        result: T = stop.value
        return result


def _answer(connection: sqlite3.Connection, ask: Ask | Together) -> Any:
    if type(ask) is Together:
        return [_answer(connection, each) for each in ask.asks]
    assert type(ask) is Ask
    sql = STATEMENTS[ask.name]
    if ask.rows is not None:
        return connection.executemany(sql, ask.rows).rowcount
    values = {
        name: json.dumps(value) if type(value) is list else value
        for name, value in ask.values.items()
    }
    return connection.execute(sql, values).fetchall()


MEANINGS = {
    sqlite3.SQLITE_FULL: "the disk is full; free some space and try again",
    sqlite3.SQLITE_READONLY: "the file is read-only; make it and its folder writable",
    sqlite3.SQLITE_CORRUPT: "the file is damaged; keep it as it is and restore a backup beside it",
    sqlite3.SQLITE_NOTADB: "the file is not a SQLite database",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened; check that it is there and readable",
    sqlite3.SQLITE_BUSY: "another program holds the file locked; it must write in shorter turns",
    sqlite3.SQLITE_LOCKED: "another statement holds the table locked",
    sqlite3.SQLITE_IOERR: "the disk reported an error; look at the system's log",
    sqlite3.SQLITE_PERM: "access was denied by the system",
    sqlite3.SQLITE_NOMEM: "memory ran out",
    sqlite3.SQLITE_TOOBIG: "a value is longer than SQLite allows",
}


def explained(error: sqlite3.Error, where: str) -> FencepostError:
    """The error in our own words: nothing was done, and what to do about it."""
    code = getattr(error, "sqlite_errorcode", 0) or 0
    if "no such table: fencepost_" in str(error) or "no such column" in str(error):
        return SchemaMismatch(f"{where}: {error}; this is not a store of this version")
    meaning = MEANINGS.get(code & 0xFF, str(error))
    return Unavailable(f"{where}: {meaning}")
