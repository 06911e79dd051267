"""The outbox's file: SQLite with a write-ahead log, `synchronous=FULL` set and read back.

Connections, turns and places are the store's own (storage/sqlite): what keeps an acknowledged
commit through a power cut there keeps a recorded result here.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from fencepost import fields
from fencepost.issues import InvalidRequest, OutcomeUnknown, SchemaMismatch, Unavailable
from fencepost.storage.sqlite.connect import connect, use_wal
from fencepost.storage.sqlite.driver import explained
from fencepost.storage.sqlite.place import check_place, pasted
from fencepost.storage.sqlite.turn import TurnLock
from fencepost.storage.sqltext import statements

SQL = statements("fencepost.offline", "schema.sql", "outbox.sql")
VERSION = 2
WAIT_SECONDS = 30.0
LOG_BYTES = 1024 * 1024


class File:
    """One outbox, opened. Every transaction takes the turn; threads may share it."""

    scope: str
    worker_id: str
    outbox_id: str

    def __init__(
        self, path: str, now: int, *, create: bool, scope: str | None, worker_id: str | None,
        allow_filesystem: str | None = None,
    ) -> None:  # fmt: skip
        place = check_place(Path(path), allow_filesystem)
        self.path = place.path
        if not place.exists and not create:
            raise Unavailable(
                f"there is no outbox at {self.path}; fill one with: fencepost offline take QUEUE "
                f"--worker W --lease-seconds S --outbox {pasted(path)}"
            )
        if not place.writable:
            raise Unavailable(f"{self.path} is read-only; make it and its folder writable")
        self._turn = TurnLock(self.path)
        self._mutex = threading.RLock()
        self._inside = self._lost = False
        self._db: sqlite3.Connection | None = None
        self._pid = os.getpid()
        try:
            self._open(now, create, scope, worker_id)
        except sqlite3.Error as error:
            self.abandon()
            raise explained(error, str(self.path)) from error
        except OSError as error:
            self.abandon()
            raise Unavailable(f"{self.path}: the file cannot be made: {error}") from error
        except BaseException:
            self.abandon()
            raise

    def _open(self, now: int, create: bool, scope: str | None, worker_id: str | None) -> None:
        with self._having_turn():
            if create:
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            self._db = self._connected()
            if not self._db.execute(SQL["has_outbox"]).fetchall():
                if not create or self._db.execute(SQL["has_tables"]).fetchall() != [(0,)]:
                    raise Unavailable(f"{self.path} is not an outbox: name another file")
                if worker_id is None:
                    raise InvalidRequest("an outbox belongs to one worker: give worker_id")
                use_wal(self._db)
                self._begin(self._db, now, scope or "default", worker_id)
            use_wal(self._db)
            self._check(self._db, scope, worker_id)

    def _connected(self) -> sqlite3.Connection:
        db = connect(self.path, writable=True)
        db.execute(SQL["small_cache"])
        return db

    def _begin(self, db: sqlite3.Connection, now: int, scope: str, worker_id: str) -> None:
        fields.name(scope, "scope")
        fields.name(worker_id, "worker_id")
        values = {
            "version": VERSION, "outbox_id": os.urandom(16).hex(), "scope": scope,
            "worker_id": worker_id, "now": now,
        }  # fmt: skip
        db.execute(SQL["begin"])
        for name, statement in SQL.items():
            if name.startswith("create_"):
                db.execute(statement)
        db.execute(SQL["begin_outbox"], values)
        db.execute(SQL["commit"])

    def _check(self, db: sqlite3.Connection, scope: str | None, worker_id: str | None) -> None:
        ((product, version, self.outbox_id, self.scope, self.worker_id, _),) = db.execute(
            SQL["outbox"]
        ).fetchall() or [("", 0, "", "", "", 0)]
        if product != "fencepost-offline":
            raise Unavailable(f"{self.path} is not an outbox: name another file")
        if version != VERSION:
            raise SchemaMismatch(
                f"{self.path} is an outbox of version {version}; this program knows {VERSION}"
            )
        for what, asked, own in (
            ("scope", scope, self.scope), ("worker", worker_id, self.worker_id),
        ):  # fmt: skip
            if asked is not None and asked != own:
                raise InvalidRequest(
                    f"{self.path} is the outbox of {what} {own}, not of {asked}: leave --{what} "
                    "out, or name another file with --outbox"
                )

    @contextmanager
    def _having_turn(self) -> Iterator[None]:
        self._turn.acquire(WAIT_SECONDS)
        try:
            yield
        finally:
            self._turn.release()

    def _connection(self) -> sqlite3.Connection:
        if self._pid != os.getpid():
            raise Unavailable(f"{self.path} was opened before a fork; open it again in the child")
        if self._db is None and self._lost:
            try:
                with nullcontext() if self._turn.held else self._having_turn():
                    self._db = self._connected()
            except sqlite3.Error as error:
                raise explained(error, str(self.path)) from error
            self._lost = False
        if self._db is None:
            raise Unavailable(f"{self.path} is closed; open it again")
        return self._db

    def rows(self, name: str, **values: Any) -> list[tuple[Any, ...]]:
        """All rows of a statement. Outside a transaction it only reads."""
        with self._mutex:
            try:
                return self._connection().execute(SQL[name], values).fetchall()
            except sqlite3.Error as error:
                if self._inside:
                    raise
                raise explained(error, str(self.path)) from error

    def one(self, name: str, **values: Any) -> tuple[Any, ...] | None:
        """The first row, if any."""
        found = self.rows(name, **values)
        return found[0] if found else None

    @contextmanager
    def as_it_is(self) -> Iterator[None]:
        """All that the block reads is of one moment, whatever others write meanwhile."""
        with self._mutex:
            db = self._connection()
            try:
                db.execute(SQL["begin_reading"])
                yield
            finally:
                self._undo(db)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All of the block is on the disk when it ends, or nothing is.

        Raises Unavailable where nothing was done, OutcomeUnknown where the commit failed.
        """
        with self._mutex, self._having_turn():
            db = self._connection()
            try:
                db.execute(SQL["begin"])
                self._inside = True
                yield
            except sqlite3.Error as error:
                self._undo(db)
                raise explained(error, str(self.path)) from error
            except BaseException:
                self._undo(db)
                raise
            self._inside = False
            self._commit(db)

    def _undo(self, db: sqlite3.Connection) -> None:
        self._inside = False
        with suppress(sqlite3.Error):
            if db.in_transaction:
                db.execute(SQL["rollback"])

    def _commit(self, db: sqlite3.Connection) -> None:
        try:
            db.execute(SQL["commit"])
        except sqlite3.Error as error:
            # What a failed sync has left is not known to this connection: the next one looks.
            self.abandon()
            self._lost = True
            raise OutcomeUnknown(
                f"{explained(error, str(self.path))}; it may be kept or not: do the same again, "
                "which is recognised if it was"
            ) from error
        with suppress(OSError, sqlite3.Error):
            if os.stat(f"{self.path}-wal").st_size > LOG_BYTES:
                db.execute(SQL["tidy"])

    def abandon(self) -> None:
        """Give the connection up as it is."""
        db, self._db = self._db, None
        if db is not None and self._pid == os.getpid():
            with suppress(sqlite3.Error):
                db.close()

    def close(self) -> None:
        """Bring the log into the file and close it. A second call does nothing."""
        with self._mutex:
            self._lost = False
            if self._db is None or self._pid != os.getpid():
                self._db = None
                return
            try:
                with self._having_turn():
                    self.abandon()
            finally:
                self.abandon()
                self._turn.close()
