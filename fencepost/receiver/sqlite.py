"""Effects and receipts in a SQLite database: your own, or a file for the purpose."""

from __future__ import annotations

import os
import sqlite3
from typing import Any

from .store import EffectBroke, Unavailable, make_tables, statements

_STATEMENTS = statements("sqlite.sql")
# Not the texts that an effect would write: a statement that was prepared once is not judged again.
_BEGIN, _COMMIT, _ROLLBACK = "BEGIN IMMEDIATE /* kit */", "COMMIT /* kit */", "ROLLBACK /* kit */"
_SAVEPOINT, _RELEASE = "SAVEPOINT fencepost_receiver", "RELEASE fencepost_receiver"
_UNDO = "ROLLBACK TO fencepost_receiver"
_FULL = 2


class SqliteStore:
    """`SqliteStore("effects.db")`. Effects get the `sqlite3.Connection`.

    A commit is on the disk: `synchronous=FULL`, read back. The journal is TRUNCATE unless the file
    is in WAL mode, which stays. Several processes may share the file; they wait `busy_seconds` for
    one another.
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
        if mode not in ("wal", "memory"):  # "memory" is a database without a file
            (mode,) = connection.execute("PRAGMA journal_mode=TRUNCATE").fetchone()
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

    def begin(self) -> None:
        """Take the write lock, so that nothing that was read becomes old."""
        self.connection.execute(_BEGIN)

    def commit(self) -> None:
        """An error means that the outcome is not known."""
        self.connection.execute(_COMMIT)

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

    def release(self) -> None:
        """Keep it. What an effect may do to our savepoint, it can only have done on purpose."""
        self._effect = False
        try:
            self.connection.execute(_RELEASE)
        except sqlite3.OperationalError as error:
            raise EffectBroke(f"the effect has ended the transaction: {error}") from error

    def undo(self) -> None:
        """Back to the savepoint. SQLite may itself have undone everything: then it raises."""
        self._effect = False
        self.connection.execute(_UNDO)
        self.connection.execute(_RELEASE)

    def rows(self, name: str, **values: Any) -> list[tuple[Any, ...]]:
        """Run a named statement."""
        return self.connection.execute(_STATEMENTS[name], values).fetchall()

    def passing(self, error: BaseException) -> bool:
        """Whether another process was in the way."""
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        return isinstance(error, sqlite3.Error) and code in (
            sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED,
        )  # fmt: skip
