"""Effects and receipts in a SQLite database: your own, or a file for the purpose."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from .store import EffectBroke, Unavailable, make_tables, statements

_STATEMENTS = statements("sqlite.sql")
# Not the texts that an effect would write: a statement that was prepared once is not judged again.
_BEGIN, _COMMIT, _ROLLBACK = "BEGIN IMMEDIATE /* kit */", "COMMIT /* kit */", "ROLLBACK /* kit */"
_SAVEPOINT, _RELEASE = "SAVEPOINT fencepost_receiver", "RELEASE fencepost_receiver"
_UNDO = "ROLLBACK TO fencepost_receiver"
_FULL = 2
_LONG_LOG = 4 * 1024 * 1024


class SqliteStore:
    """`SqliteStore("effects.db")`. Effects get the `sqlite3.Connection`.

    A commit is on the disk: `synchronous=FULL`, read back. A new file is in WAL mode, where a
    commit costs one sync in place of four; a file of yours stays in WAL mode if it is, and else its
    journal is TRUNCATE. Several processes may share the file, and wait `busy_seconds` for one
    another.
    """

    def __init__(self, path: str | os.PathLike[str], *, busy_seconds: float = 5.0) -> None:
        self.path = os.fspath(path)
        self.name = self.path
        self._busy_seconds = busy_seconds
        self._connection: sqlite3.Connection | None = None
        self._effect = False

    @property
    def connection(self) -> sqlite3.Connection:
        """The one connection; open."""
        if self._connection is None:
            raise Unavailable(f"{self.path} is not open")
        return self._connection

    def open(self) -> None:
        """Connect, set and read back what makes a commit last, make sure of the tables."""
        if self._connection is not None:
            return
        try:
            self._connection = sqlite3.connect(
                self.path, timeout=self._busy_seconds, isolation_level=None
            )
            self._settle(self._connection)
            make_tables(self)
        except sqlite3.Error as error:
            self.close()
            raise Unavailable(f"{self.path}: {error}") from error
        except BaseException:
            self.close()
            raise

    def _settle(self, connection: sqlite3.Connection) -> None:
        (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        if mode not in ("wal", "memory"):  # "memory" is a database without a file
            wanted = "TRUNCATE" if pages else "WAL"
            (mode,) = connection.execute(f"PRAGMA journal_mode={wanted}").fetchone()
        # Before 3.51.3 SQLite may spoil the file when one writes while another copies the log back.
        # So the log is never copied back by the way, but under the write lock; see `commit`.
        connection.execute("PRAGMA wal_autocheckpoint=0")
        connection.execute("PRAGMA synchronous=FULL")
        (synchronous,) = connection.execute("PRAGMA synchronous").fetchone()
        if mode not in ("wal", "truncate", "memory") or synchronous != _FULL:
            raise Unavailable(f"{self.path} is not durable: {mode}, synchronous {synchronous}")
        connection.set_authorizer(self._authorize)

    def _authorize(self, action: int, *_: object) -> int:
        """An effect may not end the transaction that holds its receipt, by whatever call."""
        ends = self._effect and action == sqlite3.SQLITE_TRANSACTION
        return sqlite3.SQLITE_DENY if ends else sqlite3.SQLITE_OK

    def close(self) -> None:
        """Let go of the file."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    @contextmanager
    def making(self) -> Iterator[None]:
        """A transaction in which the tables are made."""
        self.begin()
        yield
        self.commit()

    def begin(self) -> None:
        """Take the write lock, so that nothing that was read becomes old."""
        self.connection.execute(_BEGIN)

    def commit(self) -> None:
        """An error means that the outcome is not known."""
        self.connection.execute(_COMMIT)
        try:
            if os.path.getsize(self.path + "-wal") > _LONG_LOG:
                self._copy_back()
        except OSError:
            return  # no log: another mode, or no file

    def _copy_back(self) -> None:
        """Shorten the log, unless somebody is reading in it: then after a later commit."""
        self.connection.execute("PRAGMA busy_timeout=0")
        with suppress(sqlite3.Error):  # the commit stands, whatever comes of this
            self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        self.connection.execute(f"PRAGMA busy_timeout={round(self._busy_seconds * 1000)}")

    def rollback(self) -> None:
        """Undo everything; a connection that cannot is closed, which does it too."""
        self._effect = False
        if self._connection is None:
            return
        try:
            if self._connection.in_transaction:
                self._connection.execute(_ROLLBACK)
        except sqlite3.Error:
            self.close()

    def savepoint(self) -> None:
        """From here on it is the effect's."""
        self.connection.execute(_SAVEPOINT)
        self._effect = True

    def check(self) -> None:
        """SQLite may have undone everything because of what the effect met: a full disk."""
        if not self.connection.in_transaction:
            raise EffectBroke("the transaction has ended under the effect")

    def release(self) -> None:
        """Keep it."""
        self._effect = False
        self.connection.execute(_RELEASE)

    def undo(self) -> None:
        """Back to the savepoint."""
        self._effect = False
        self.check()
        self.connection.execute(_UNDO)
        self.connection.execute(_RELEASE)

    def rows(self, name: str, **values: Any) -> list[tuple[Any, ...]]:
        """Run a named statement."""
        return self.connection.execute(_STATEMENTS[name], values).fetchall()

    def later(self, name: str, **values: Any) -> None:
        """Run one of which there is nothing to be read."""
        self.connection.execute(_STATEMENTS[name], values)

    def look(self, name: str, **values: Any) -> list[tuple[Any, ...]]:
        """Run one that changes nothing."""
        return self.rows(name, **values)

    def passing(self, error: BaseException) -> bool:
        """Whether another process was in the way."""
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        return isinstance(error, sqlite3.Error) and code in (
            sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED,
        )  # fmt: skip
