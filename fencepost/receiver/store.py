"""What the kit asks of a database: one connection, one transaction at a time, named statements."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import Any, Protocol

VERSION = 1
"""Of the tables. A store of another version is refused."""

TABLES = (
    "make_schema_table", "make_stream_table", "make_subject_table", "make_subject_index",
    "make_receipt_table", "make_receipt_index", "make_seal_table",
)  # fmt: skip

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


class Unavailable(Exception):
    """The database cannot be used now. Nothing is known to be lost; ask again."""


class EffectBroke(Exception):
    """An effect has tried to end the transaction in which it was to be. All of it is undone."""


class Store(Protocol):
    """A database in which effects and receipts stand side by side.

    All methods but `__init__` and `close` are called by one thread. Errors of the driver come
    through as they are; `passing` tells which of them mean that the same may be tried again.
    """

    name: str

    @property
    def connection(self) -> Any:
        """What effects are given: the driver's own connection, with the transaction open."""

    def open(self) -> None:
        """Connect and make sure of the tables. Raises Unavailable, or ValueError for a store of
        another version. An open store stays as it is."""

    def close(self) -> None:
        """Let go of the connection."""

    def making(self) -> AbstractContextManager[None]:
        """A transaction in which the tables are made."""

    def begin(self) -> None:
        """Begin a transaction that will be on the disk once it is committed."""

    def commit(self) -> None:
        """An error means that the outcome is not known."""

    def rollback(self) -> None:
        """Undo everything. Never raises; a connection that cannot be trusted is closed."""

    def savepoint(self) -> None:
        """Where `undo` goes back to."""

    def release(self) -> None:
        """Keep what was done since the savepoint. Raises where there is none any more."""

    def undo(self) -> None:
        """Go back to the savepoint. Raises where there is none any more."""

    def check(self) -> None:
        """After an effect. Raises EffectBroke if it has ended the transaction."""

    def rows(self, name: str, **values: Any) -> list[tuple[Any, ...]]:
        """Run a named statement."""

    def later(self, name: str, **values: Any) -> None:
        """The same, of which there is nothing to be read: at the latest before the next, or before
        the commit. An error may come with that one."""

    def look(self, name: str, **values: Any) -> list[tuple[Any, ...]]:
        """Run one that changes nothing; `savepoint` may follow."""

    def passing(self, error: BaseException) -> bool:
        """Whether others were in the way: a deadlock, a lock, a connection that was cut."""


@cache
def statements(name: str) -> dict[str, str]:
    """Statement by name, of a `.sql` file beside this one."""
    text = (Path(__file__).parent / name).read_text(encoding="utf-8")
    parts = _NAME.split(text)
    found = {}
    for block, body in zip(parts[1::2], parts[2::2], strict=True):
        lines = (line for line in body.splitlines() if not line.startswith("--"))
        found[block] = "\n".join(lines).strip().rstrip(";")
    return found


def make_tables(store: Store) -> None:
    """Make the tables where they are missing. ValueError for another version."""
    if not store.rows("find_tables"):
        with store.making():
            store.rows("hold_tables")
            for table in TABLES:
                store.rows(table)
            store.rows("set_version", version=VERSION)
    ((version,),) = store.rows("get_version")
    if version != VERSION:
        raise ValueError(f"{store.name} has receiver tables of version {version}, not {VERSION}")
