"""An application's own psycopg connection, for our rows in its transaction."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import pq

from fencepost.issues import InvalidRequest
from fencepost.storage.postgres.driver import STATEMENTS, Connection
from fencepost.storage.postgres.transaction import PostgresTransaction

SAVEPOINT = "savepoint fencepost_within"
RELEASE = "release savepoint fencepost_within"
BACK = "rollback to savepoint fencepost_within"
ENDED = (
    "within: the transaction was ended inside the block; what was done before that stands, what "
    "came after is rolled back. Leave commit and rollback to the block"
)


class BorrowedTransaction(PostgresTransaction):
    """Begins where the application has not; where it has, our part is a savepoint of its
    transaction, and the commit stays the application's."""

    def begin(self) -> None:
        self.nested = self.connection.info.transaction_status != pq.TransactionStatus.IDLE
        if not self.nested:
            self._execute(STATEMENTS["begin"])
        self._execute(STATEMENTS["settings"])
        self._execute(SAVEPOINT)

    def commit(self) -> None:
        try:
            self.connection.execute(RELEASE)
        except psycopg.Error as error:
            raise InvalidRequest(ENDED) from error
        if not self.nested:
            super().commit()

    def rollback(self) -> None:
        if not self.nested:
            super().rollback()
        elif self.going():
            try:
                self.connection.execute(BACK)
                self.connection.execute(RELEASE)
            except psycopg.Error:
                return  # released by the commit, or the application has ended it


def borrowed(connection: Any, own: PostgresTransaction) -> BorrowedTransaction:
    """A transaction on an application's connection to the database of `own`.

    Raises InvalidRequest for what is no psycopg connection, is to another database, or is inside
    a failed transaction or one that is not READ COMMITTED."""
    if not isinstance(connection, psycopg.Connection):
        raise InvalidRequest(f"within: {type(connection).__name__} is not a psycopg.Connection")
    status = connection.info.transaction_status
    if status not in (pq.TransactionStatus.IDLE, pq.TransactionStatus.INTRANS):
        raise InvalidRequest("within: the connection's transaction has failed; roll it back first")
    fresh = status == pq.TransactionStatus.IDLE
    try:
        theirs, ours = _place(connection), _place(own.connection)
    except psycopg.Error as error:
        raise InvalidRequest(f"within: the connection cannot be used: {error}") from error
    finally:
        if fresh and connection.info.transaction_status == pq.TransactionStatus.INTRANS:
            connection.rollback()  # a connection without autocommit has begun for our question
    if theirs[:-1] != ours[:-1]:
        raise InvalidRequest(f"within: the connection is not to {own.where}")
    if not fresh and theirs[-1] != "read committed":
        raise InvalidRequest(
            f"within: the transaction is {theirs[-1]}; ours has to see what others have committed "
            "meanwhile: use READ COMMITTED"
        )
    return BorrowedTransaction(connection, own.where, own.clock)


def _place(connection: Connection) -> tuple[Any, ...]:
    rows = connection.execute(STATEMENTS["place_of_connection"]).fetchall()
    return tuple(rows[0])
