"""A `Stand` whose store is on PostgreSQL: the same laws, put to the other back end.

A fresh store takes 100 ms; to empty one that was used takes one, and leaves what a fresh one has:
no row but the store's own, sequences at their beginning, the first epoch.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterable
from typing import Any

import psycopg

import fencepost
from fencepost.engine import SystemDraw
from fencepost.handle import Handle
from helpers import postgres
from helpers.lab import START
from helpers.stand import SCOPE, UNKNOWN, Stand

KEPT = ("fencepost_store", "fencepost_migration", "fencepost_writer")
TABLES = (
    "select relname from pg_class where starts_with(relname, 'fencepost_') and relkind = 'r' "
    "order by relname"
)
SEQUENCES = ("fence", "task", "entry", "queue")
# Where the tree has got to is no change of a command's; the store's mark goes with it.
ON_THE_SIDE = ("fencepost_node", "fencepost_checkpoint", "fencepost_unsealed")
STORE = "id, product, schema_version, writer_id, epoch, floor, created_at, secret"


class Pool:
    """Databases with an installed store, given out empty and taken back."""

    def __init__(self) -> None:
        self._free: list[tuple[str, psycopg.Connection[Any]]] = []
        self._owner = os.getpid()

    def take(self) -> tuple[str, psycopg.Connection[Any]]:
        """(the URL of an empty store, a connection to it)."""
        if not self._free:
            url = postgres.new_database()
            fencepost.open(url, create=True).close()
            self._free.append((url, psycopg.connect(url, autocommit=True)))
        url, connection = self._free.pop()
        empty(connection)
        return url, connection

    def give(self, url: str, connection: psycopg.Connection[Any]) -> None:
        """It may be emptied and used again: nobody is connected."""
        self._free.append((url, connection))

    def close(self) -> None:
        """Close what was given back, at the end of the process that has made it."""
        if self._owner == os.getpid():
            for _, connection in self._free:
                connection.close()
            self._free.clear()


POOL = Pool()
atexit.register(POOL.close)


def empty(connection: psycopg.Connection[Any]) -> None:
    """The store as it was installed at the beginning of a stand's time."""
    tables = [name for (name,) in connection.execute(TABLES) if name not in KEPT]
    sql = [f"delete from {name}" for name in tables]
    sql += [f"alter sequence fencepost_{name}_number restart" for name in SEQUENCES]
    sql.append("delete from fencepost_writer where epoch > 0")
    sql.append(
        f"update fencepost_store set epoch = 0, floor = 0, mark = {START}, created_at = {START}, "
        f"writer_id = '{UNKNOWN}', secret = decode(repeat('00', 32), 'hex')"
    )
    connection.execute("; ".join(sql))  # type: ignore[arg-type]


class Looking:
    """A connection that takes SQL in SQLite's words: `?` for a parameter."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.real = connection

    def execute(self, sql: str, values: Iterable[Any] = ()) -> psycopg.Cursor[Any]:
        """As psycopg's, autocommit where no transaction is open."""
        given = tuple(values)
        if not given:
            return self.real.execute(sql)  # type: ignore[arg-type]
        return self.real.execute(sql.replace("%", "%%").replace("?", "%s"), given)  # type: ignore[arg-type]


class PgStand(Stand):
    """One store on the tests' PostgreSQL, its clock, and a handle for the operator `local`."""

    gaps = True

    def _open(self, draw: SystemDraw) -> Handle:
        self.url, self._beside = POOL.take()
        return fencepost.open(self.url, scope=SCOPE, clock=self.clock, draw=draw)

    def close(self) -> None:
        self.fp.close()
        POOL.give(self.url, self._beside)

    @property
    def connection(self) -> Any:
        """The store's own connection, for looking and for tampering."""
        return Looking(self.store._main.connection)

    def dump(self) -> dict[str, list[tuple[Any, ...]]]:
        """Every row of every table of ours, but for the journal's tree."""
        return dump(self.store._main.connection)

    @property
    def last_fence(self) -> int:
        """The fence that was drawn last."""
        drawn = "case when is_called then last_value else 0 end"
        ((last,),) = self.connection.execute(f"select {drawn} from fencepost_fence_number")
        return int(last)

    @last_fence.setter
    def last_fence(self, fence: int) -> None:
        self.connection.execute("select setval('fencepost_fence_number', ?)", (fence,))


def dump(connection: psycopg.Connection[Any]) -> dict[str, list[tuple[Any, ...]]]:
    """Table → its rows, in the order of their keys. Without the tree, and of the store's row
    without what the server says of itself."""
    names = [name for (name,) in connection.execute(TABLES) if name not in ON_THE_SIDE]
    return {
        name: connection.execute(
            f"select {STORE if name == 'fencepost_store' else '*'} from {name} order by 1, 2"  # type: ignore[arg-type]
        ).fetchall()
        for name in names
    }
