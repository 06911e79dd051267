"""Deliveries into a table of a SQLite or PostgreSQL database: the receiver kit, in this process.

So the rules exist once: the row of a task is written in the transaction in which the receipt is,
by `fencepost.receiver`, whose tables lie beside this one. A writer is greeted there like anywhere.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from secrets import token_hex
from typing import Any

from fencepost.clock import SECOND, SystemClock
from fencepost.deliveries import answers
from fencepost.deliveries.event import Event
from fencepost.deliveries.places import Greeting, Place, Try
from fencepost.destinations import TABLE, kind_of, new_secret
from fencepost.issues import InvalidRequest, Unavailable
from fencepost.receiver import signing
from fencepost.receiver.answers import Answer
from fencepost.receiver.receiver import Receiver
from fencepost.receiver.store import Store
from fencepost.receiver.wire import EVENT_TYPE, HELLO_TYPE
from fencepost.receiver.wire import Event as Received
from fencepost.storage.address import address_of, psycopg_here
from fencepost.storage.sqltext import statements

SQL = statements("fencepost.deliveries", "table.sql")
NAME = re.compile(TABLE)
TIDY_SECONDS = 3_600
GLANCE_SECONDS = 0.2
CLOSE_SECONDS = 2.0
_CLOCK = SystemClock()


class TableSender:
    """Writes to one table. See `places.Sender`. Its signatures are by a secret that nobody else
    ever knows: both sides are here."""

    greets = True

    def __init__(self, place: Place, now: Callable[[], float]) -> None:
        where, _, table = place.address.partition("#")
        kind = kind_of(place.address)
        self._now, self._secret = now, new_secret()
        self._keys = [signing.secret_bytes(self._secret)]
        self._upsert = named(SQL[f"upsert_{kind}"], table)
        self._receiver = Receiver(
            store_of(kind, where, table), self._effect, [self._secret], name=table,
            now=lambda: round(now() * SECOND),
        )  # fmt: skip
        self._closed = threading.Event()
        self._tidied: int | None = None
        self._lock = threading.Lock()

    def send(self, event: Event, seconds: float) -> Try:
        self._tidy()
        answer = self._ask(EVENT_TYPE, event.id, event.body, seconds)
        if isinstance(answer, str):
            return Try("unanswered", answer)
        tried = answers.understood("fenced", event, answer, self._keys, self._now())
        if tried.word == "delivered":
            return tried._replace(evidence={"receipt": answer.body.decode()})
        return tried

    def greet(self, body: bytes, seconds: float) -> Greeting:
        message_id = f"hello_{token_hex(12)}"
        answer = self._ask(HELLO_TYPE, message_id, body, seconds)
        if isinstance(answer, str):
            return Greeting(0, None, answer)
        return answers.greeted(answer, message_id, self._keys, self._now())

    def close(self) -> None:
        """Nobody waits any more. What the database has begun it ends by itself; one that does not
        answer holds nobody up."""
        if self._closed.is_set():
            return
        self._closed.set()
        ending = threading.Thread(target=self._receiver.close, name="fencepost-table", daemon=True)
        ending.start()
        ending.join(CLOSE_SECONDS)

    def _ask(self, kind: str, message_id: str, body: bytes, seconds: float) -> answers.Answer | str:
        """The kit's answer, or why there is none."""
        until = _CLOCK.steady() + round(seconds * SECOND)
        signed = signing.sign(self._keys, message_id, int(self._now()), body)
        try:
            asked = self._receiver.submit({"content-type": kind, **signed}, body)
        except RuntimeError as error:  # in a child that was forked
            return str(error)
        while not self._closed.is_set():
            left = (until - _CLOCK.steady()) / SECOND
            try:
                answer: Answer = asked.result(max(0.0, min(left, GLANCE_SECONDS)))
            except TimeoutError:
                if left <= 0:
                    return "the database did not answer in time"
            else:
                return answers.Answer(answer.status, answer.headers, answer.body)
        return "it was not waited for any longer"

    def _effect(self, connection: Any, event: Received) -> None:
        connection.execute(self._upsert, {
            "task_id": event.task_id, "queue": event.queue, "outcome": event.kind,
            "epoch": event.epoch, "fence": event.fence, "revision": event.revision,
            "operation": event.operation, "data": event.data.decode(),
        })  # fmt: skip

    def _tidy(self) -> None:
        """Once an hour the kit drops what is older than it has to be kept."""
        with self._lock:
            now = _CLOCK.steady()
            if self._tidied is not None and now - self._tidied < TIDY_SECONDS * SECOND:
                return
            self._tidied = now
        threading.Thread(target=self._receiver.tidy, name="fencepost-tidy", daemon=True).start()


def named(statement: str, table: str) -> str:
    """The statement for this table."""
    return statement.replace("delivered_table", quoted(table))


def quoted(table: str) -> str:
    """The name of a table, and of its schema, judged and quoted. Raises InvalidRequest."""
    parts = table.split(".")
    if not all(NAME.fullmatch(part) for part in parts):
        raise InvalidRequest("a table is named by letters, digits and _")
    return ".".join(f'"{part}"' for part in parts)


class Ready:
    """Sees to it that each new connection finds the table."""

    def __init__(self, kind: str, table: str) -> None:
        self._find, self._make = SQL[f"find_{kind}"], named(SQL[f"make_{kind}"], table)
        self._asked = {"name": table if kind == "sqlite" else quoted(table)}
        self._seen: Any = None

    def __call__(self, store: Store) -> None:
        """After `store.open`. Raises what the driver does; ValueError for a file that nobody may
        write to beside Fencepost."""
        connection = store.connection
        if connection is self._seen:
            return
        ((there, ours),) = connection.execute(self._find, self._asked).fetchall()
        if ours:
            raise ValueError("the file is a store of Fencepost's: who writes there takes turns")
        if not there:
            with store.making():
                store.rows("hold_tables")
                connection.execute(self._make)
        self._seen = connection


def store_of(kind: str, where: str, table: str) -> Store:
    """The kit's store in that database. Raises InvalidRequest where psycopg is missing."""
    ready = Ready(kind, table)
    if kind == "sqlite":
        from fencepost.receiver.sqlite import SqliteStore

        class SqliteTable(SqliteStore):
            def open(self) -> None:
                super().open()
                ready(self)

        return SqliteTable(where.removeprefix("sqlite:"))
    address = address_of(where)
    if address.pooled:
        raise InvalidRequest("a table needs a session of its own: leave out pooled=1")
    try:
        with psycopg_here():
            from fencepost.receiver.postgres import PostgresStore
    except Unavailable as error:
        raise InvalidRequest(str(error)) from None

    class PostgresTable(PostgresStore):
        def open(self) -> None:
            super().open()
            ready(self)

    return PostgresTable(address.conninfo)
