"""One transaction on a psycopg connection: the store's own, or an application's."""

from __future__ import annotations

from typing import TypeVar

import psycopg
from psycopg import pq

from fencepost.clock import Clock
from fencepost.issues import OutcomeUnknown
from fencepost.storage.postgres.backing import PostgresBacking
from fencepost.storage.postgres.commit import commit
from fencepost.storage.postgres.driver import STATEMENTS, Connection, in_our_words, link_of, run
from fencepost.storage.steps import Steps, one, rows_of

T = TypeVar("T")
BEGIN = [one("begin"), one("settings"), one("durable")]


class PostgresTransaction(PostgresBacking):
    """begin → load → save → commit, on one connection. Keeps `storage/port.py`'s Transaction."""

    def __init__(self, connection: Connection, where: str, clock: Clock | None) -> None:
        super().__init__(where, clock)
        self.connection = connection

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

    def usable(self) -> bool:
        return not self.connection.closed

    def going(self) -> bool:
        status = self.connection.info.transaction_status
        return bool(link_of(self.connection).first) or status not in (
            pq.TransactionStatus.IDLE,
            pq.TransactionStatus.UNKNOWN,
        )

    def run(self, steps: Steps[T]) -> T:
        """Drive steps, with PostgreSQL's errors in our words."""
        with in_our_words(self.where):
            return run(self.connection, steps)

    def wall(self) -> int:
        """The clock by which this store goes, without its mark: microseconds UTC."""
        if self.clock is not None:
            return self.clock.wall()
        ((wall,),) = self.run(rows_of("clock"))
        return int(wall)
