"""COMMIT with an end: what may have happened is never waited for without end, and a commit that
was not waited for is never told as one.

`statement_timeout` does not end the wait for a synchronous standby, and a cancelled wait is
answered like a success, with a warning. So the wait has a deadline of its own, after which the
connection is dropped, and any warning on a commit means that its outcome is not known.
"""

from __future__ import annotations

import select

import psycopg
from psycopg import pq
from psycopg.errors import Diagnostic

from fencepost.clock import SECOND, SystemClock
from fencepost.storage.postgres.driver import Connection

COMMIT_SECONDS = 20.0
_clock = SystemClock()


def commit(connection: Connection, seconds: float = COMMIT_SECONDS) -> None:
    """Commit the transaction. Whatever is raised (psycopg.Error, OSError), it may have happened."""
    told: list[Diagnostic] = []
    connection.add_notice_handler(told.append)
    try:
        result = _sent(connection.pgconn, b"commit", seconds)
    except BaseException:
        connection.close()
        raise
    finally:
        connection.remove_notice_handler(told.append)
    if result.command_status != b"COMMIT":
        error = result.error_message.decode(errors="replace").strip()
        raise psycopg.OperationalError(error or "the transaction was not committed")
    for notice in told:
        if notice.sqlstate == "01000" and notice.severity_nonlocalized == "WARNING":
            connection.close()
            raise psycopg.OperationalError(f"{notice.message_primary}")


def _sent(pgconn: pq.abc.PGconn, sql: bytes, seconds: float) -> pq.abc.PGresult:
    """The last result of a statement without parameters."""
    until = _clock.steady() + int(seconds * SECOND)
    pgconn.send_query(sql)
    while pgconn.flush() == 1:
        _wait(pgconn, until, select.POLLIN | select.POLLOUT)
        pgconn.consume_input()
    last = None
    while True:
        while pgconn.is_busy():
            _wait(pgconn, until, select.POLLIN)
            pgconn.consume_input()
        result = pgconn.get_result()
        if result is None:
            if last is None:
                raise psycopg.OperationalError("the server gave no answer")
            return last
        last = result


def _wait(pgconn: pq.abc.PGconn, until: int, events: int) -> None:
    poll = select.poll()
    poll.register(pgconn.socket, events)
    left = (until - _clock.steady()) // 1_000
    if left <= 0 or not poll.poll(left):
        raise psycopg.OperationalError("the commit was not answered in time; connection dropped")
