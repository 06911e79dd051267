"""The PostgreSQL back end: one connection that writes, one that reads, no turn: transactions of
many processes go on side by side. Keeps the contract of `storage/port.py`."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import psycopg

from fencepost.clock import SECOND, Clock, SystemClock
from fencepost.issues import InvalidRequest, OutcomeUnknown, Unavailable
from fencepost.log import Log
from fencepost.model import StoreState
from fencepost.storage import loading, sealing
from fencepost.storage.address import Address, address_of
from fencepost.storage.owner import check_process
from fencepost.storage.port import AnotherServer, Conflict
from fencepost.storage.postgres import borrowing, health, schema, writer
from fencepost.storage.postgres.connect import connect, cut, ended
from fencepost.storage.postgres.driver import STATEMENTS, Connection, in_our_words, reader, run
from fencepost.storage.postgres.hints import Hinted, Hints
from fencepost.storage.postgres.servertime import ServerClock
from fencepost.storage.postgres.settled import Settled
from fencepost.storage.postgres.transaction import PostgresTransaction
from fencepost.storage.steps import Read, Steps, one, rows_of, together

log = Log("fencepost.storage")

T = TypeVar("T")
SEAL_AT_ONCE = 400
UNDECIDED_SECONDS = 10.0
PAUSE_SECONDS = 0.02
CLOSE_SECONDS = 10.0


class OwnTransaction(PostgresTransaction):
    """On the store's own connection: another server that was met is recognised before the next
    beginning."""

    _met = False

    def __init__(self, connection: Connection, where: str, clock: Clock | None) -> None:
        super().__init__(connection, where, clock)
        self.settled = Settled()

    def begin(self) -> None:
        if self._met:
            self.recognise()
            self._met = False
        super().begin()

    def state(self, row: tuple[Any, ...]) -> StoreState:
        try:
            return super().state(row)
        except AnotherServer:
            self._met = True
            raise

    def recognise(self, named: str | None = None, heard: int = 0) -> None:
        with in_our_words(self.where):
            writer.recognise(self.connection, self.wall(), named, heard)
        self.settled = Settled()


class PostgresStore:
    """One store, opened. `clock` is a test's; without one the server's clock is the store's."""

    read_only = False
    turn_microseconds = 50_000  # nobody waits for it but whoever is in it
    company_microseconds = 1_000  # three or four round trips and a commit are shared

    def __init__(self, address: Address, clock: Clock | None) -> None:
        self.address = address
        self.where = address.shown
        self._clock = clock
        self.clock: Clock = clock or ServerClock(self._wall)
        self._pid = os.getpid()
        self._writing = threading.RLock()
        self._reading = threading.RLock()
        self._closed = False
        self._home: borrowing.Home | None = None
        self._hints = Hints(partial(connect, address)) if address.hints else None
        self._connect()

    def _connect(self) -> None:
        self._main = OwnTransaction(connect(self.address), self.where, self._clock)
        try:
            self._read = connect(self.address)
        except BaseException:
            self._main.connection.close()
            raise

    # -- whose process, whose thread

    @contextmanager
    def turn(self, seconds: float | None = None) -> Iterator[None]:
        """Nobody waits for it here: rows are locked, not the store."""
        self._check_process()
        yield

    def not_inside(self) -> None:
        """A thread inside a block of `within` holds rows, and nobody else's turn."""

    def _check_process(self) -> None:
        check_process(self.where, self._pid, self._closed)

    # -- transactions

    @contextmanager
    def transaction(self) -> Iterator[OwnTransaction]:
        self._check_process()
        with self._writing:
            if ended(self._main.connection):
                self._check_process()
                self._main = OwnTransaction(connect(self.address), self.where, self._clock)
            yield self._main

    def borrow(self, connection: Any) -> borrowing.Borrowed:
        """An application's own psycopg connection. InvalidRequest if it is none."""
        return borrowing.Borrowed(connection, self.where, self._clock, lambda: self._home)

    def borrow_async(self, connection: Any) -> borrowing.BorrowedAsync:
        return borrowing.BorrowedAsync(connection, self.where, self._clock, lambda: self._home)

    def recognise(self) -> None:
        """Where our own connection leads now, and whether who writes there is known. The row is
        looked at first: to recognise somebody new it must be held alone."""
        try:
            row = self._look_around()
        except Unavailable:  # the server was started anew: a connection learns it when it is used
            row = self._look_around()
        if not row[-1]:
            with self.transaction() as main:
                main.recognise()

    def begin_writer(self, why: str, heard: int) -> None:
        with self.transaction() as main:
            main.recognise(why, heard)

    def _look_around(self) -> tuple[Any, ...]:
        ((cluster, database, started_at, schema, *_),) = self.read(rows_of("place_of_connection"))
        ((*_, secret),) = self.read(loading.secret())
        self._home = borrowing.Home(cluster, database, started_at, schema, secret)
        return tuple(self.read(rows_of("store_shared"))[0])

    def reopen(self) -> None:
        """New connections, once it is decided what became of a commit that was not answered."""
        with self._writing, self._reading:
            xid = self._main.xid
            self._close_connections()
            self._connect()
            if xid:
                self._decided(xid)

    def _decided(self, xid: str) -> None:
        """Wait until the transaction has ended. On another server, or after a restart, it has:
        what is not there then will never be."""
        main = self._main
        ours = SystemClock()
        until = ours.steady() + int(UNDECIDED_SECONDS * SECOND)
        while True:
            ((known, status),) = main.run(rows_of("xact_status", xid=xid))
            if not known or status != "in progress":
                return
            if ours.steady() > until:
                raise Unavailable(f"{self.where}: transaction {xid} has not ended yet")
            threading.Event().wait(PAUSE_SECONDS)

    # -- reading

    @contextmanager
    def reading(self) -> Iterator[None]:
        """One snapshot for all reads inside."""
        self._check_process()
        with self._reading:
            if self._read.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                yield
                return
            with in_our_words(self.where):
                self._reader().execute(STATEMENTS["begin_read"])
            try:
                yield
            finally:
                with suppress(psycopg.Error):
                    self._read.execute(STATEMENTS["rollback"])

    def read(self, steps: Steps[T]) -> T:
        self._check_process()
        with self._reading, in_our_words(self.where):
            return run(self._reader(), steps)

    def _reader(self) -> Connection:
        if ended(self._read):
            self._check_process()  # it may have been closed while we waited
            self._read = connect(self.address)
        return self._read

    def _wall(self) -> int:
        ((wall,),) = self.read(rows_of("clock"))
        return int(wall)

    def changed(self) -> int:
        ((version,),) = self.read(rows_of("data_version"))
        return int(version)

    def tell(self, places: Collection[tuple[str, str]]) -> None:
        if self._hints is not None:
            self._hints.tell(places)

    @contextmanager
    def hinted(self, hint: Hinted) -> Iterator[bool]:
        if self._hints is None:
            yield False
            return
        with self._hints.listening(hint):
            yield True

    @contextmanager
    def snapshot(self) -> Iterator[Read]:
        self._check_process()
        with closing(connect(self.address)) as connection:
            connection.execute(STATEMENTS["begin_read"])
            yield reader(connection, self.where)

    # -- the journal's tree

    def seal(self, now: int, limit: int) -> bool:
        """Raises Unavailable alone: what is not known to be sealed is sealed by whoever is next."""
        with self.transaction() as main:
            try:
                main.begin()
                last = main.run(_sealed(main.wall(), limit, main.settled))
                main.commit()
                main.settled.sealed(last)
            except (Conflict, OutcomeUnknown) as error:
                raise Unavailable(f"the journal could not be sealed, try again: {error}") from error
            finally:
                main.rollback()
        return last is not None

    def listed(self) -> None:
        left = bool(self.read(rows_of("unsealed", size=0, since=self._main.settled.since, limit=1)))
        while left:
            left = self.seal(0, SEAL_AT_ONCE)

    def tidy(self, *, erased: bool) -> bool:
        """Nothing: the server writes its own log, and its vacuum takes dead rows away."""
        return False

    # -- the store as a whole

    def backup(self, target: Path, told: Callable[[int, int], None]) -> None:
        raise InvalidRequest(
            "a PostgreSQL store is backed up with PostgreSQL's own tools (pg_basebackup, pg_dump), "
            "which take all of it at one moment; what is made from one of those begins with: "
            "fencepost adopt"
        )

    def probe_turn(self, seconds: float) -> float:
        """There is no turn to wait for."""
        return 0.0

    def about(self) -> dict[str, Any]:
        ((product, version, created_at, _),) = self.read(rows_of("store_about"))
        ((writable,),) = self.read(rows_of("takes_writes"))
        with self._reading:
            server_version = self._read.info.server_version
        return {
            "product": product,
            "schema_version": version,
            "created_at": created_at,
            "path": self.where,
            "writable": writable,
            "server_version": server_version,
        }

    def examine(self) -> dict[str, Any]:
        with self._reading, in_our_words(self.where):
            server = health.facts(self._read, self.clock.wall())
        changed = server.pop("schema_changed")
        return {"server": server, "schema_changed": changed}

    def close(self, seconds: float | None = None) -> None:
        if self._closed or os.getpid() != self._pid:
            return
        self._closed = True
        patience = CLOSE_SECONDS if seconds is None else seconds
        for lock, whose in ((self._writing, self._main.connection), (self._reading, self._read)):
            if not lock.acquire(timeout=patience):
                cut(whose)
                lock.acquire()
        self._close_connections()
        self._reading.release()
        self._writing.release()
        if self._hints is not None:
            self._hints.close()

    def _close_connections(self) -> None:
        for connection in (self._main.connection, self._read):
            with suppress(psycopg.Error):
                connection.close()


def _sealed(now: int, limit: int, settled: Settled) -> Steps[int | None]:
    """One sealer at a time; it also carries the mark forward, which commits leave alone."""
    yield from rows_of("sealer")
    yield from rows_of("raise_mark", now=now)
    ((last,),), (running,) = yield together([one("last_number"), one("running")])
    settled.looking(last, *running)
    return (yield from sealing.seal(now, limit, settled.since))


def open_store(url: str, *, create: bool, clock: Clock | None) -> PostgresStore:
    """Open (and if asked install) the store at `url`. Raises Unavailable or SchemaMismatch."""
    address = address_of(url)
    with closing(connect(address)) as connection, in_our_words(address.shown):
        if create:
            schema.install(connection, None if clock is None else clock.wall())
        schema.check(connection, address.shown)
    return PostgresStore(address, clock)
