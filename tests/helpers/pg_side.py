"""Two sides of a race on PostgreSQL, in an order that a test gives: who must wait is held by a row,
a key or a table that a connection of the test's has, and is seen waiting in pg_locks before the
next thing is done.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Self, TypeVar

import psycopg

import fencepost
from fencepost.clock import FakeClock
from fencepost.engine import SystemDraw
from fencepost.handle import Handle, Lease
from helpers import postgres
from helpers.lab import QUEUE, SCOPE, START

T = TypeVar("T")
POLL_SECONDS = 0.005
PATIENCE_SECONDS = 40.0
# Backends of this database that wait for a lock, whatever it is.
WAITING = """
    select pid from pg_stat_activity a where datname = current_database()
    and exists (select 1 from pg_locks l where l.pid = a.pid and not l.granted) order by pid
"""


class Sides:
    """One database, a clock that moves only when told, handles, and eyes of the test's own."""

    def __init__(self, url: str, *, clock: bool = True, seed: int = 1) -> None:
        self.url = url
        self.clock = FakeClock(START) if clock else None
        self.seed = seed
        self._stack = ExitStack()
        self._pool = self._stack.enter_context(ThreadPoolExecutor(32))
        self._eyes = self._stack.enter_context(psycopg.connect(url, autocommit=True))
        self.fp = self.open(create=True)
        self.other = self.fp

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def open(self, **options: Any) -> Handle:
        """Another independent handle: connections and a writer thread of its own."""
        self.seed += 1
        draw = SystemDraw(random.Random(self.seed).randbytes)
        settings = {"scope": SCOPE, "clock": self.clock, "draw": draw, **options}
        return self._stack.enter_context(fencepost.open(self.url, **settings))

    def lease(self, worker: str = "w1", seconds: int = 60) -> Lease:
        """A fresh task in the hands of this worker."""
        task_id = self.fp.enqueue(QUEUE, {"work": 1}).task_id
        (lease,) = self.fp.claim(worker_id=worker, task_id=task_id, lease_seconds=seconds)
        return lease

    def sql(self, text: str, *values: Any) -> list[tuple[Any, ...]]:
        """One statement of the test's own, at once."""
        cursor = self._eyes.execute(text, values or None)  # type: ignore[arg-type]
        return cursor.fetchall() if cursor.description is not None else []

    def go(self, what: Callable[..., T], *arguments: Any, **named: Any) -> Future[T]:
        """Begin it in a thread of its own."""
        return self._pool.submit(what, *arguments, **named)

    def waiting(self, count: int) -> None:
        """Return as soon as so many backends of this database wait for a lock."""
        until(lambda: len(self.sql(WAITING)) >= count, f"{count} to wait for a lock")

    @contextmanager
    def holding(self, *statements: str) -> Iterator[Callable[[], None]]:
        """A transaction of somebody else's that has done this and is not at its end. What is
        yielded rolls it back; so does the end of the block."""
        with psycopg.connect(self.url) as other:
            for text in statements:
                other.execute(text)  # type: ignore[arg-type]
            try:
                yield other.rollback
            finally:
                with suppress(psycopg.Error):
                    other.rollback()

    def holding_key(self, key: str, actor: str = "local") -> Any:
        """Whoever writes an entry under this key waits, all its rows held and numbers drawn."""
        lookup = f"{SCOPE} {actor} {key}"
        return self.holding(
            f"insert into fencepost_entry (number, key) values (-{abs(hash(lookup))}, '{lookup}')"
        )

    def holding_task(self, task_id: str) -> Any:
        """Whoever names this task waits before the time is asked."""
        return self.holding(f"select 1 from fencepost_task where task_id = '{task_id}' for update")

    def deadlocks(self) -> int:
        """How many the server has broken in this database."""
        self.sql("select pg_stat_force_next_flush()")
        ((count,),) = self.sql(
            "select deadlocks from pg_stat_database where datname = current_database()"
        )
        return int(count)

    def sound(self) -> None:
        """The journal and the rows agree, and each entry has its place in the tree."""
        self.fp.seal()
        assert not self.fp.verify().problems
        ((entries, placed, unsealed),) = self.sql(
            "select (select count(*) from fencepost_entry), (select count(*) from fencepost_node "
            "where level = 0), (select count(*) from fencepost_unsealed)"
        )
        assert (placed, unsealed) == (entries, 0)

    def order(self) -> list[int]:
        """The numbers of entries in the order of the tree."""
        rows = self.sql("select number from fencepost_node where level = 0 order by position")
        return [number for (number,) in rows]


def until(true: Callable[[], bool], what: str) -> None:
    """Ask again until it is so. AssertionError if that does not come."""
    for _ in range(int(PATIENCE_SECONDS / POLL_SECONDS)):
        if true():
            return
        threading.Event().wait(POLL_SECONDS)
    raise AssertionError(f"waited in vain for {what}")


@contextmanager
def sides(**options: Any) -> Iterator[Sides]:
    """A fresh database and what a test needs on it."""
    with postgres.database() as url, Sides(url, **options) as made:
        yield made


@contextmanager
def two_sides() -> Iterator[Sides]:
    """The same with a second handle, as another process would have one; sound at the end."""
    with sides() as two:
        two.other = two.open()
        yield two
        two.sound()


def outcomes(waiting: Sequence[Future[T]]) -> list[T]:
    """What each came to, waited for."""
    return [future.result(PATIENCE_SECONDS) for future in waiting]
