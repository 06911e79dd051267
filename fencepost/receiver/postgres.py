"""Effects and receipts in a PostgreSQL database, with psycopg 3."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import psycopg

from .store import EffectBroke, Unavailable, make_tables, statements

_STATEMENTS = statements("postgres.sql")
_DEADLOCK, _SERIALIZATION = "40P01", "40001"
_SET = "savepoint fencepost_receiver"
_KEEP = "release savepoint fencepost_receiver"
_BACK = "rollback to savepoint fencepost_receiver"

_Sent = tuple[str, Mapping[str, Any]]


class PostgresStore:
    """`PostgresStore("postgresql://…")`. Effects get the `psycopg.Connection`.

    The tables are made in the first schema of the search path. A commit is on the disk of the
    server: `synchronous_commit` is raised from `off`, and left alone where it is stricter.

    A statement whose answer nobody needs waits for the next one and goes with it, in a pipeline:
    the way there and back takes longer than the work. Nothing waits while an effect runs.
    """

    def __init__(self, dsn: str, *, lock_seconds: float = 5.0) -> None:
        self._dsn = dsn
        self._lock_seconds = lock_seconds
        self._connection: psycopg.Connection[Any] | None = None
        self._batch = ExitStack()
        self._waiting: list[_Sent] = []
        self._marked = False  # the savepoint is set, and nothing was done since
        self.name = "PostgreSQL"

    @property
    def connection(self) -> psycopg.Connection[Any]:
        """The one connection; open."""
        if self._connection is None:
            raise Unavailable(f"{self.name} is not connected")
        return self._connection

    def open(self) -> None:
        """Connect, and make sure of the tables."""
        if self._connection is not None:
            return
        try:
            self._connection = psycopg.connect(self._dsn, autocommit=True)
            info = self._connection.info
            self.name = f"{info.dbname} at {info.host or 'a local socket'}"
            make_tables(self)
        except psycopg.Error as error:
            self.rollback()
            self.close()
            raise Unavailable(f"{self.name}: {type(error).__name__}") from error
        except BaseException:
            self.rollback()
            self.close()
            raise

    def close(self) -> None:
        """Let go of the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    @contextmanager
    def making(self) -> Iterator[None]:
        """A transaction in which the tables are made."""
        with self.connection.transaction():
            yield

    def begin(self) -> None:
        """Begin a transaction whose commit waits for the disk."""
        self._waiting, self._marked = [], False
        self._batch = ExitStack()
        self._batch.enter_context(self.connection.transaction())
        self.later("settle", lock_timeout=str(round(self._lock_seconds * 1000)))

    def commit(self) -> None:
        """An error means that the outcome is not known."""
        self.rows("unseal")
        self._batch.close()

    def rollback(self) -> None:
        """Undo everything; a connection that cannot is closed, which does it too."""
        self._waiting, self._marked = [], False
        with suppress(psycopg.Error):
            self._batch.__exit__(psycopg.Rollback, psycopg.Rollback(), None)
        self._batch = ExitStack()
        connection = self._connection
        if connection is None:
            return
        idle = psycopg.pq.TransactionStatus.IDLE
        if connection.closed or connection.info.transaction_status != idle:
            self.close()

    def savepoint(self) -> None:
        """From here on it is the effect's."""
        if not self._marked:
            self._send(_SET, {})
        self._marked = False

    def release(self) -> None:
        """Keep it."""
        self._waiting.append((_KEEP, {}))

    def undo(self) -> None:
        """Back to the savepoint. What waits is of the time since."""
        self.check()
        self._waiting = []
        self._send(_BACK, {})
        self.release()

    def check(self) -> None:
        """A `COMMIT` of the effect's has met the seal: nothing of the transaction is left."""
        if self.connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
            raise EffectBroke("the effect tried to end the transaction")

    def rows(self, name: str, **values: Any) -> list[tuple[Any, ...]]:
        """Run a named statement."""
        self._marked = False
        return self._send(_STATEMENTS[name], values)

    def later(self, name: str, **values: Any) -> None:
        """Run one of which there is nothing to be read, before the next."""
        self._marked = False
        self._waiting.append((_STATEMENTS[name], values))

    def look(self, name: str, **values: Any) -> list[tuple[Any, ...]]:
        """Run one that changes nothing; the savepoint that may be needed next is set with it."""
        if not self._marked:
            self._waiting.append((_SET, {}))
        found = self._send(_STATEMENTS[name], values)
        self._marked = True
        return found

    def _send(self, statement: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """What waits and this, in one round trip where the client library has pipelines."""
        connection = self.connection
        waiting, self._waiting = self._waiting, []
        with ExitStack() as together:
            if waiting and psycopg.Pipeline.is_supported():
                together.enter_context(connection.pipeline())
            for each, own in waiting:
                connection.execute(each, own)
            cursor = connection.execute(statement, values)
        return cursor.fetchall() if cursor.description else []

    def passing(self, error: BaseException) -> bool:
        """Whether others were in the way, or the connection is gone."""
        if not isinstance(error, psycopg.Error):
            return False
        return error.sqlstate in (_DEADLOCK, _SERIALIZATION) or (
            isinstance(error, psycopg.OperationalError) or self.connection.closed
        )
