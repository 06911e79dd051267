"""The SQLite back end: one connection that writes, one that reads, one turn for both kinds of
write. Keeps the contract of `storage/port.py`."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, TypeVar

from fencepost.clock import SystemClock
from fencepost.issues import InvalidRequest, OutcomeUnknown, Unavailable
from fencepost.log import Log
from fencepost.storage import sealing
from fencepost.storage.owner import check_process
from fencepost.storage.port import BorrowedAsync
from fencepost.storage.sqlite import copying, schema, scrub
from fencepost.storage.sqlite.connect import BUSY_SECONDS, connect
from fencepost.storage.sqlite.driver import STATEMENTS, explained, run
from fencepost.storage.sqlite.identity import Change, Identity
from fencepost.storage.sqlite.place import Place
from fencepost.storage.sqlite.transaction import Borrowed, OwnTransaction, borrowed
from fencepost.storage.sqlite.turn import Turn
from fencepost.storage.steps import Read, Steps

log = Log("fencepost.storage")

T = TypeVar("T")
MEMORY = ":memory:"
WAL_BYTES = 16 * 1024 * 1024
LOG_COMMITS = 32  # at least so many between two copies of a long log into the file
FIRST_WAIT = 200  # milliseconds that an erasure waits for readers to let go of the log
TURN_SECONDS = 30.0


@contextmanager
def having(turn: Turn, seconds: float | None) -> Iterator[None]:
    """The turn, waited for without end or, where `seconds` are given, until Unavailable."""
    turn.acquire(seconds)
    try:
        yield
    finally:
        turn.release()


class SqliteStore:
    """One store, opened. `path` is a file or `:memory:`."""

    turn_microseconds = 10_000
    company_microseconds = 0  # a commit is one sync, and meanwhile nobody else could write

    def __init__(self, path: Path | str, place: Place | None, turn: Turn) -> None:
        self.path = path
        self.place = place
        self.read_only = place is not None and not place.writable
        self._turn = turn
        self._pid = os.getpid()
        # The page that cleaning has reached after an erasure; None: nothing is to be cleaned.
        self._scrub: int | None = None
        self._again = False
        # Commits since the log was copied. A log keeps its length on disk once it was long, so
        # by its length alone it would be copied, and synced, after every commit.
        self._uncopied = LOG_COMMITS
        self._mutex = threading.RLock()
        # A commit failed and the reopening has not succeeded yet: nothing may be written.
        self._lost = False
        self._identity = None if place is None else Identity(place)
        self._open()

    def _open(self) -> None:
        writable = not self.read_only
        self._write = self._read = connect(self.path, writable=writable)
        if self.path != MEMORY:
            self._read = connect(self.path, writable=writable, settled=True)
        self._main = OwnTransaction(
            self._write, str(self.path), read_only=self.read_only, identity=self._identity
        )
        self.closed = False

    # -- whose turn, whose process

    @contextmanager
    def turn(self, seconds: float | None = None) -> Iterator[None]:
        """The right to write, among all threads and processes that use the file."""
        self._check_process()
        if self.read_only:
            yield
            return
        self.not_inside()
        self._turn.acquire(seconds)
        try:
            self._mind_the_file()
            yield
        except OutcomeUnknown:
            self._lost = True
            raise
        finally:
            self._turn.release()

    def _mind_the_file(self) -> None:
        """In a turn, before anything is done: it is the file that we know, and it is whole."""
        if self._identity is not None and self._identity.replaced():
            self._lost = self._identity.suspect = True
        if self._lost:
            self.reopen()
        if self._identity is not None and self._identity.suspect:
            schema.check(self._write, self.path)
            self.recognise()

    def not_inside(self) -> None:
        if self._turn.held:
            raise InvalidRequest(
                "this thread is inside a `within` block already, which holds the turn: send "
                "commands through the block's own object, and do all else after it"
            )

    def _check_process(self) -> None:
        check_process(self.path, self._pid, self.closed)

    # -- one transaction

    @contextmanager
    def transaction(self) -> Iterator[OwnTransaction]:
        """The store's own writing connection. Readers of an in-memory store wait meanwhile."""
        with self._mutex if self.path == MEMORY else nullcontext():
            yield self._main

    def borrow(self, connection: sqlite3.Connection) -> Borrowed:
        """Made durable. InvalidRequest if it is to another file or inside a transaction."""
        return borrowed(connection, str(self.path), self._identity)

    def borrow_async(self, connection: Any) -> BorrowedAsync:
        raise InvalidRequest("within_async: a SQLite store has blocking connections; use within")

    def recognise(self, now: int | None = None) -> None:
        """In a turn: a new epoch if the file is not the one that the store has written last."""
        if self._identity is not None and not self.read_only:
            self._identity.recognise(self._write, SystemClock().wall() if now is None else now)

    def begin_writer(self, why: str, heard: int) -> None:
        if self._identity is None:
            raise InvalidRequest("a store in memory has no copies: nobody else can write it")
        with self.turn():
            self._identity.recognise(
                self._write, SystemClock().wall(), Change(why, "a person said so"), heard
            )

    # -- reading

    @contextmanager
    def reading(self) -> Iterator[None]:
        """One snapshot for all reads inside. Not inside a transaction of the same thread."""
        self._check_process()
        with self._mutex:
            try:
                if self._read.in_transaction:
                    yield
                    return
                self._read.execute(STATEMENTS["begin_read"])
                try:
                    yield
                except BaseException:
                    with suppress(sqlite3.Error):  # SQLite may have ended it; the cause is told
                        self._read.execute(STATEMENTS["rollback"])
                    raise
                self._read.execute(STATEMENTS["rollback"])
            except sqlite3.Error as error:
                raise explained(error, str(self.path)) from error

    def read(self, steps: Steps[T]) -> T:
        self._check_process()
        with self._mutex:
            try:
                return run(self._read, steps)
            except sqlite3.Error as error:
                raise explained(error, str(self.path)) from error

    def listed(self) -> None:
        """It is: entries are listed by number, and none is committed behind another."""

    def tell(self, places: Collection[tuple[str, str]]) -> None:
        """Nobody hears of it: whoever waits looks."""

    def hinted(self, hint: Callable[[tuple[str, str]], None]) -> AbstractContextManager[bool]:
        return nullcontext(False)

    def changed(self) -> int:
        self._check_process()
        with self._mutex:
            ((version,),) = self._read.execute(STATEMENTS["data_version"]).fetchall()
            return int(version)

    # -- the journal's tree, the log, the file

    def seal(self, now: int, limit: int) -> bool:
        with self.transaction() as main:
            main.begin()
            try:
                last = main.run(sealing.seal(now, limit))
                main.commit()
            except BaseException:
                main.rollback()
                raise
        return last is not None

    def tidy(self, *, erased: bool) -> bool:
        if self.path == MEMORY or self.read_only:
            return False
        self._uncopied += 1
        if erased:
            # pages that an unfinished cleaning has passed are looked at once more after it
            self._again = self._again or bool(self._scrub)
            self._scrub = self._scrub or 0
        try:
            if self._scrub is not None:
                self._clean(FIRST_WAIT if erased else 0)
            elif self._uncopied >= LOG_COMMITS and self.wal_bytes() > WAL_BYTES:
                self._uncopied = 0
                self._write.execute("pragma wal_checkpoint(passive)").fetchall()
        except (sqlite3.Error, OSError) as error:
            # what was committed stands; the log stays long and is shortened at the next turn
            log.warning("%s: the file could not be tidied: %s", self.path, error)
        return self.scrub_pending

    def _clean(self, wait: int) -> None:
        """Cut the log to nothing and zero what SQLite left of erased rows (scrub.py).

        A reader that holds the log is waited for `wait` milliseconds; then the next turn goes on.
        """
        assert self._scrub is not None
        if not self._mutex.acquire(timeout=wait / 1_000):
            return  # a reader of our own
        try:
            self._write.execute(f"pragma busy_timeout = {wait}")
            ((busy, *_),) = self._write.execute("pragma wal_checkpoint(truncate)").fetchall()
            if not busy and not self._read.in_transaction:
                place, again = self._scrub, self._again
                self._scrub = scrub.scrub(self._read, str(self.path), place, again)
                if self._scrub is None and again:
                    self._scrub, self._again = 0, False
        finally:
            self._write.execute(f"pragma busy_timeout = {int(BUSY_SECONDS * 1_000)}")
            self._mutex.release()

    def resume_cleaning(self) -> None:
        """Go on with an erasure whose process ended before its bytes had been overwritten."""
        if scrub.marked(self._write):
            self.tidy(erased=True)

    @property
    def scrub_pending(self) -> bool:
        """Erased bytes may still lie in the file or its log: a reader holds the log, or there is
        much to clean. Each next turn goes on with it."""
        return self._scrub is not None

    def wal_bytes(self) -> int:
        """Length of the write-ahead log in bytes."""
        try:
            return os.stat(f"{self.path}-wal").st_size
        except OSError:
            return 0

    def reopen(self) -> None:
        """New connections. What the log holds is brought into the file and synced once more, so
        that what is answered from it is durable even if the failed sync dropped its pages; and
        the log goes on with a synced commit, so that what failed does not come back after all."""
        if self.path == MEMORY:
            return
        self._lost = True
        with self._mutex:
            self._close_connections()
            try:
                self._open()
                rows = self._write.execute("pragma wal_checkpoint(full)").fetchall()
                if rows and rows[0][0]:
                    raise Unavailable(
                        f"{self.path}: a reader holds the log; it could not be synced"
                    )
                scrub.overwrite_log(self._write)
            except sqlite3.Error as error:
                raise explained(error, str(self.path)) from error
        self._lost = False

    @contextmanager
    def snapshot(self) -> Iterator[Read]:
        if self.path == MEMORY:
            with self.reading():
                yield self.read
            return
        self._check_process()
        with copying.pinned(Path(self.path)) as connection:
            yield copying.reader(connection, str(self.path))

    def backup(self, target: Path, told: Callable[[int, int], None]) -> None:
        self._check_process()
        if self.path == MEMORY:
            with self._mutex:
                copying.copy(self._write, target, told)
            return
        with copying.pinned(Path(self.path)) as connection:
            copying.copy(connection, target, told)

    def probe_turn(self, seconds: float) -> float:
        if self.read_only or self._turn.held:
            return 0.0
        waited = self._turn.acquire(seconds)
        self._turn.release()
        return waited

    def about(self) -> dict[str, Any]:
        self._check_process()
        try:
            with self._mutex:
                ((product, version, created_at, _),) = self._read.execute(
                    STATEMENTS["store_about"]
                ).fetchall()
                ((journal_mode,),) = self._read.execute("pragma journal_mode").fetchall()
                ((synchronous,),) = self._read.execute("pragma synchronous").fetchall()
                changed = schema.changed(self._read)
        except sqlite3.Error as error:
            raise explained(error, str(self.path)) from error
        return {
            "product": product,
            "schema_version": version,
            "schema_changed": changed,
            "created_at": created_at,
            "path": str(self.path),
            "filesystem": "memory" if self.place is None else self.place.filesystem,
            "writable": not self.read_only,
            "sqlite_version": sqlite3.sqlite_version,
            "journal_mode": journal_mode,
            "synchronous": {0: "off", 1: "normal", 2: "full", 3: "extra"}[synchronous],
            "wal_bytes": self.wal_bytes(),
            "scrub_pending": self.scrub_pending,
        }

    def examine(self) -> dict[str, Any]:
        if self._identity is None:
            return {}
        with self._mutex:
            return {"identity": self._identity.told(self._read)}

    def close(self, seconds: float | None = None) -> None:
        if self.closed or os.getpid() != self._pid:
            return
        with ExitStack() as stack:
            # The last connection to close writes the log back: that is a checkpoint, so a turn.
            # Where none is to be had, somebody else has the file open and ours is not the last.
            if not self.read_only:
                with suppress(Unavailable):
                    stack.enter_context(having(self._turn, seconds))
            with self._mutex:
                self._close_connections()
                self.closed = True
        if self._identity is not None:
            self._identity.close()
        self._turn.close()

    def _close_connections(self) -> None:
        for connection in (self._read, self._write):
            with suppress(sqlite3.Error):  # closing what is broken must not hide what broke it
                connection.close()
