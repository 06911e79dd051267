"""COMMIT with an end: what may have happened is never waited for without end, and a commit that
was not waited for is never told as one.

`statement_timeout` does not end the wait for a synchronous standby, and a cancelled wait is
answered like a success, with a warning. So the wait has a deadline of its own, after which the
connection is dropped, and any warning on a commit means that its outcome is not known.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import generators, pq, waiting
from psycopg.errors import Diagnostic

from fencepost.clock import SECOND, SystemClock
from fencepost.storage.postgres.driver import Connection
from fencepost.storage.postgres.talk import Talk

COMMIT_SECONDS = 20.0
LOOK_SECONDS = 0.1  # how often a wait looks whether its time is over
_clock = SystemClock()


def commit(connection: Connection, seconds: float | None = None) -> None:
    """Commit the transaction. Whatever is raised (psycopg.Error, OSError), it may have happened."""
    with connection.lock, _watched(connection) as told:
        talk = _bounded(_committed(connection.pgconn, told), seconds or COMMIT_SECONDS)
        waiting.wait(talk, connection.fileno(), LOOK_SECONDS)


async def commit_async(connection: psycopg.AsyncConnection[Any]) -> None:
    """The same. It is not cancelled: whoever tries drops the connection."""
    async with connection.lock:
        with _watched(connection) as told:
            talk = _bounded(_committed(connection.pgconn, told), COMMIT_SECONDS)
            await waiting.wait_async(talk, connection.fileno(), LOOK_SECONDS)


@contextmanager
def _watched(connection: Any) -> Iterator[list[str]]:
    """What the server warns of meanwhile, read as it comes: a remark is gone when it has been
    handed over. Where it comes to no good end the connection is dropped:
    a commit that was asked for is not taken back."""
    told: list[str] = []

    def remarked(notice: Diagnostic) -> None:
        if notice.severity_nonlocalized == "WARNING":
            told.append(notice.message_primary or "a warning")

    connection.add_notice_handler(remarked)
    try:
        yield told
    except BaseException:
        connection.pgconn.finish()
        raise
    finally:
        connection.remove_notice_handler(remarked)


def _committed(pgconn: pq.abc.PGconn, told: list[str]) -> Talk[None]:
    pgconn.send_query(b"commit")
    *_, result = yield from generators.execute(pgconn)
    if result.command_status != b"COMMIT":
        error = result.error_message.decode(errors="replace").strip()
        raise psycopg.OperationalError(error or "the transaction was not committed")
    if told:
        raise psycopg.OperationalError("; ".join(told))


def _bounded(talk: Talk[None], seconds: float) -> Talk[None]:
    """Whoever waits comes by with nothing in hand now and then: that is when the time is over."""
    until = _clock.steady() + int(seconds * SECOND)
    try:
        wanted = next(talk)
        while True:
            ready = yield wanted
            if not ready and _clock.steady() >= until:
                raise psycopg.OperationalError(
                    "the commit was not answered in time; connection dropped"
                )
            wanted = talk.send(ready)
    except StopIteration:
        return
