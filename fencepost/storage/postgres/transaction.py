"""One transaction on a psycopg connection: the store's own, or an application's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import psycopg
from psycopg import pq

from fencepost.clock import Clock
from fencepost.issues import OutcomeUnknown
from fencepost.machine.batch import Changes, Loaded
from fencepost.machine.drawing import Draw, Drawn
from fencepost.machine.needs import ALONE, Sent, numbers_needed
from fencepost.model import StoreState
from fencepost.storage import loading, saving
from fencepost.storage.loading import TimeOf
from fencepost.storage.postgres.commit import commit
from fencepost.storage.postgres.driver import STATEMENTS, Connection, explained, link_of, run
from fencepost.storage.steps import Ask, Steps, one, rows_of

T = TypeVar("T")
BEGIN = [one("begin"), one("settings")]


class AnotherServer(Exception):
    """This is not the server that has written last: it has to be recognised first."""


class PostgresTransaction:
    """begin → load → save → commit, on one connection. Keeps `storage/port.py`'s Transaction."""

    read_only = False

    def __init__(self, connection: Connection, where: str, clock: Clock | None) -> None:
        self.connection = connection
        self.where = where
        self.clock = clock  # a test's; without one the server's clock is the store's
        # The transaction id of what was loaded last: after a lost commit the server is asked of it.
        self.xid = ""
        self._secret: bytes | None = None

    def begin(self) -> None:
        """Said with the first statement: one round trip less."""
        self.xid = ""
        link_of(self.connection).first = [*BEGIN]

    def commit(self) -> None:
        if link_of(self.connection).first:
            return  # nothing was asked, so nothing has begun
        try:
            commit(self.connection)
        except (psycopg.Error, OSError) as error:
            raise OutcomeUnknown(
                f"{self.where}: {error} (while committing; it may have happened)"
            ) from error

    def rollback(self) -> None:
        link = link_of(self.connection)
        begun, link.first = not link.first, []
        try:
            if begun and self.going():
                self.connection.execute(STATEMENTS["rollback"])
        except psycopg.Error:
            self.connection.close()  # the server undoes what it has heard no end of

    def going(self) -> bool:
        status = self.connection.info.transaction_status
        return bool(link_of(self.connection).first) or status not in (
            pq.TransactionStatus.IDLE,
            pq.TransactionStatus.UNKNOWN,
        )

    def load(self, sent: Sequence[Sent], time_of: TimeOf, draw: Draw) -> Loaded:
        if self._secret is None:  # once: no statement can be run in the middle of steps
            self._secret = self.run(loading.secret())[0][-1]
        return self.run(loading.load(sent, time_of, draw, self))

    def save(self, changes: Changes, loaded: Loaded) -> None:
        self.run(saving.save(changes, loaded, self.bury))

    def contents(self, task_ids: Sequence[str]) -> dict[str, tuple[bytes, bytes | None]]:
        return self.run(loading.contents(task_ids))

    def run(self, steps: Steps[T]) -> T:
        """Drive steps, with PostgreSQL's errors in our words."""
        try:
            return run(self.connection, steps)
        except psycopg.Error as error:
            raise explained(error, self.where) from error

    def _execute(self, sql: str) -> None:
        try:
            self.connection.execute(sql)
        except psycopg.Error as error:
            raise explained(error, self.where) from error

    # -- a Backing for loading.py

    def row(self, sent: Sequence[Sent]) -> Ask:
        """Shared, or held alone where a command changes what all others are judged by."""
        alone = any(request.command.verb in ALONE for _, request in sent)
        return one("store_alone" if alone else "store_shared")

    def state(self, row: tuple[Any, ...]) -> StoreState:
        *columns, known = row
        if not known:
            raise AnotherServer
        return StoreState(*columns)

    def moment(self, store: StoreState, time_of: TimeOf) -> Steps[tuple[int, int]]:
        """By the server's clock, which all who write have in common; a test injects its own."""
        if self.clock is not None:
            return time_of(store, None)
        ((wall,),) = yield one("clock")
        return time_of(store, wall)

    def wall(self) -> int:
        """The clock by which this store goes, without its mark: microseconds UTC."""
        if self.clock is not None:
            return self.clock.wall()
        ((wall,),) = self.run(rows_of("clock"))
        return int(wall)

    def numbers(self, loaded: Loaded, sent: Sequence[Sent]) -> Steps[None]:
        fences, tasks, entries = numbers_needed(sent, loaded)
        asked = {"fences": fences, "tasks": tasks, "entries": entries}
        ((self.xid, *drawn),) = yield one("numbers", **asked)
        loaded.drawn = Drawn(*([*reversed(numbers)] for numbers in drawn))

    def bury(self, lookup: str) -> bytes:
        """The lookup of an erased key, under this store's secret."""
        assert self._secret is not None
        return loading.buried(self._secret, lookup)
