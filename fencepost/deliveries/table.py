"""Deliveries into a table of a SQLite or PostgreSQL database: the receiver kit, in this process.

So the rules exist once: the row of a task is written in the transaction in which the receipt is,
by `fencepost.receiver`, whose tables lie beside this one. A writer is greeted there like anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import TimeoutError as Late
from secrets import token_hex
from typing import Any

from fencepost.clock import SECOND
from fencepost.deliveries import answers
from fencepost.deliveries.event import Event
from fencepost.deliveries.places import Greeting, Place, Try
from fencepost.destinations import kind_of, new_secret
from fencepost.issues import InvalidRequest
from fencepost.receiver import signing
from fencepost.receiver.answers import Answer
from fencepost.receiver.receiver import Receiver
from fencepost.receiver.store import Store
from fencepost.receiver.wire import EVENT_TYPE, HELLO_TYPE
from fencepost.receiver.wire import Event as Received
from fencepost.storage.address import psycopg_here
from fencepost.storage.sqltext import statements

SQL = statements("fencepost.deliveries", "table.sql")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")


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
        self._make = named(SQL[f"make_{kind}"], table)
        self._made = False
        self._receiver = Receiver(
            store_of(kind, where), self._effect, [self._secret], name=table,
            now=lambda: round(now() * SECOND),
        )  # fmt: skip

    def send(self, event: Event, seconds: float) -> Try:
        answer = self._ask(EVENT_TYPE, event.id, event.body, seconds)
        if answer is None:
            return Try("unanswered", "the database did not answer in time")
        return answers.understood("fenced", event, answer, self._keys, self._now())

    def greet(self, body: bytes, seconds: float) -> Greeting:
        message_id = f"hello_{token_hex(12)}"
        answer = self._ask(HELLO_TYPE, message_id, body, seconds)
        if answer is None:
            return Greeting(0, None, "the database did not answer in time")
        return answers.greeted(answer, message_id, self._keys, self._now())

    def close(self) -> None:
        self._receiver.close()

    def _ask(
        self, kind: str, message_id: str, body: bytes, seconds: float
    ) -> answers.Answer | None:
        signed = signing.sign(self._keys, message_id, int(self._now()), body)
        headers = {"content-type": kind, **signed}
        try:
            answer: Answer = self._receiver.submit(headers, body).result(seconds)
        except Late:
            return None
        return answers.Answer(answer.status, answer.headers, answer.body)

    def _effect(self, connection: Any, event: Received) -> None:
        if not self._made:
            connection.execute(self._make)
        connection.execute(self._upsert, {
            "task_id": event.task_id, "queue": event.queue, "outcome": event.kind,
            "epoch": event.epoch, "fence": event.fence, "revision": event.revision,
            "operation": event.operation, "data": event.data.decode(),
        })  # fmt: skip
        self._made = True


def named(statement: str, table: str) -> str:
    """The statement for this table. Its name, and its schema's, are judged and quoted here."""
    parts = table.split(".")
    if not all(NAME.fullmatch(part) for part in parts):
        raise InvalidRequest("a table is named by letters, digits and _")
    return statement.replace("delivered_table", ".".join(f'"{part}"' for part in parts))


def store_of(kind: str, where: str) -> Store:
    """The kit's store in that database. Raises InvalidRequest where psycopg is missing."""
    if kind == "sqlite":
        from fencepost.receiver.sqlite import SqliteStore

        return SqliteStore(where.removeprefix("sqlite:"))
    with psycopg_here():
        from fencepost.receiver.postgres import PostgresStore
    return PostgresStore(where)
