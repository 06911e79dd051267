"""A connection of APSW that answers as one of `sqlite3` does, as far as the store asks.

APSW brings a SQLite of its own and lets a test stand between it and the disk; the store's own
modules run on it unchanged, settings read back and all.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import apsw
import pytest

from fencepost.storage.sqlite import connect, opening, schema, transaction


class Cursor:
    """The rows of a statement that has run to its end."""

    def __init__(self, rows: list[tuple[Any, ...]], rowcount: int) -> None:
        self._rows = rows
        self.rowcount = rowcount

    def fetchall(self) -> list[tuple[Any, ...]]:
        rows, self._rows = self._rows, []
        return rows

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.fetchall())


class Connection:
    """`told(what)` hears of each commit: before it ("committing") and after ("committed")."""

    row_factory = text_factory = None

    def __init__(self, target: str, vfs: str, told: Callable[[str, Connection], None]) -> None:
        flags = apsw.SQLITE_OPEN_URI | apsw.SQLITE_OPEN_READWRITE
        self._told = told
        self._db = _translated(lambda: apsw.Connection(target, flags=flags, vfs=vfs))
        self._db.set_busy_timeout(5_000)

    @property
    def in_transaction(self) -> bool:
        return bool(self._db.in_transaction)

    def execute(self, sql: str, values: Any = ()) -> Cursor:
        commits = sql.strip().rstrip(";").lower() in ("commit", "release fencepost_within")
        if commits:
            self._told("committing", self)
        found = _translated(lambda: self._run(sql, values))
        if commits:
            self._told("committed", self)
        return found

    def _run(self, sql: str, values: Any) -> Cursor:
        rows = list(self._db.execute(sql, values))
        return Cursor(rows, self._db.changes())

    def executemany(self, sql: str, rows: Iterable[Any]) -> Cursor:
        return Cursor([], sum(self.execute(sql, row).rowcount for row in rows))

    def create_function(self, name: str, arguments: int, function: Callable[..., Any]) -> None:
        self._db.create_scalar_function(name, function, arguments)

    def close(self) -> None:
        _translated(self._db.close)


def _translated(work: Callable[[], Any]) -> Any:
    """Do it, with the errors that sqlite3 would raise."""
    try:
        return work()
    except apsw.ConstraintError as error:
        raise _error(sqlite3.IntegrityError, error) from error
    except apsw.Error as error:
        raise _error(sqlite3.OperationalError, error) from error


def _error(kind: type[sqlite3.Error], error: apsw.Error) -> sqlite3.Error:
    made = kind(str(error))
    made.sqlite_errorcode = getattr(error, "extendedresult", 1)  # type: ignore[attr-defined]
    return made


def put_in_place(
    patch: pytest.MonkeyPatch, vfs: str, told: Callable[[str, Connection], None],
    *, journal: str = "wal", synchronous: int = 2,
) -> None:  # fmt: skip
    """From now on the store opens its connections on APSW, in this journal mode."""

    def opened(target: str, **options: Any) -> Connection:
        return Connection(target, vfs, told)

    def use_journal(connection: Connection) -> None:
        ((mode,),) = connection.execute(f"pragma journal_mode = {journal}").fetchall()
        assert mode == journal, f"the journal mode is {mode}, not {journal}"

    seen_by_connect = SimpleNamespace(**{**vars(sqlite3), "connect": opened})
    seen_by_within = SimpleNamespace(**{**vars(sqlite3), "Connection": Connection})
    patch.setattr(connect, "sqlite3", seen_by_connect)
    patch.setattr(transaction, "sqlite3", seen_by_within)
    patch.setitem(connect.DURABLE, "synchronous", synchronous)
    patch.setattr(opening, "use_wal", use_journal)
    assert schema.LATEST >= 1
