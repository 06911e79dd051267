"""An application with a psycopg connection of its own, blocking or asynchronous, in autocommit or
not. A test is written once, as if all of them blocked: what is awaited is awaited here.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import pq

from fencepost.handle import Handle, Lease
from helpers.pg_side import Sides
from helpers.pg_stand import POOL

KINDS = ("autocommit", "transactions", "async autocommit", "async transactions")


@contextmanager
def laboratory(**options: Any) -> Iterator[Sides]:
    """An empty store that was used before, with a table of the application's. It has to be sound
    at the end."""
    url, beside = POOL.take()
    beside.execute("create table account (owner text primary key)")
    try:
        with Sides(url, **options) as made:
            yield made
            made.sound()
    finally:
        beside.execute("drop table account")
        POOL.give(url, beside)


class App:
    """`kind` is one of KINDS. Its own rows are in the table `account`."""

    def __init__(self, url: str, kind: str, **options: Any) -> None:
        self.awaits = kind.startswith("async")
        self.own = not kind.endswith("autocommit")
        options = {"autocommit": not self.own, **options}
        connecting: Any = (psycopg.AsyncConnection if self.awaits else psycopg.Connection).connect
        self._loop = asyncio.new_event_loop() if self.awaits else None
        self.connection = self.now(connecting(url, **options))

    def now(self, answer: Any) -> Any:
        """The answer; awaited where it has to be."""
        if self._loop is not None and inspect.isawaitable(answer):
            answer = self._loop.run_until_complete(answer)
        return answer

    def close(self) -> None:
        self.now(self.connection.close())
        if self._loop is not None:
            self._loop.close()

    def sql(self, text: str, *values: Any) -> list[Any]:
        """A statement of the application's."""
        cursor = self.now(self.connection.execute(text, values or None))
        return list(self.now(cursor.fetchall())) if cursor.description is not None else []

    def pay(self, owner: str) -> None:
        """A row of the application's."""
        self.sql("insert into account values (%s)", owner)

    def commit(self) -> None:
        self.now(self.connection.commit())

    def rollback(self) -> None:
        self.now(self.connection.rollback())

    def settle(self) -> None:
        """The application's own commit, where the block leaves it to the application."""
        if self.own:
            self.commit()

    def idle(self) -> bool:
        """In no transaction."""
        status: pq.TransactionStatus = self.connection.info.transaction_status
        return status == pq.TransactionStatus.IDLE

    @contextmanager
    def within(self, fp: Handle, **options: Any) -> Iterator[Any]:
        """The block, its verbs as if they blocked."""
        if not self.awaits:
            with fp.within(self.connection, **options) as tx:
                yield tx
            return
        block = fp.within_async(self.connection, **options)
        tx = self.now(block.__aenter__())
        try:
            yield Face(self, tx)
        except BaseException as error:
            self.now(block.__aexit__(type(error), error, error.__traceback__))
            raise
        self.now(block.__aexit__(None, None, None))


class Face:
    """Calls what it hides, and gives what that gives."""

    def __init__(self, app: App, inner: Any) -> None:
        self._app, self._inner = app, inner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        return self._call(found) if callable(found) else found

    def _call(self, verb: Any) -> Any:
        def called(*arguments: Any, **named: Any) -> Any:
            answer = self._app.now(verb(*arguments, **named))
            if isinstance(answer, list):
                return [self._faced(each) for each in answer]
            return self._faced(answer)

        return called

    def _faced(self, answer: Any) -> Any:
        return Face(self._app, answer) if isinstance(answer, Lease) else answer
