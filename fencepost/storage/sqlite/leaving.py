"""All rows of a store, for another that takes them up."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fencepost.storage.leaving import TABLES, Leaving
from fencepost.storage.sqlite import schema
from fencepost.storage.sqlite.copying import pinned, reader
from fencepost.storage.sqlite.driver import explained
from fencepost.storage.sqltext import statements

SQL = statements(schema.PACKAGE, "leave.sql")


@contextmanager
def leaving(path: str) -> Iterator[Leaving]:
    """What is committed now, on one snapshot. Nobody is kept waiting by it: to have nothing
    come after it, the caller keeps the turn."""
    with pinned(Path(path)) as connection:

        def rows(name: str) -> Iterator[tuple[Any, ...]]:
            try:
                yield from connection.execute(SQL[name])
            except sqlite3.Error as error:
                raise explained(error, path) from error

        ((total,),) = rows("number_of_rows")
        (whole,) = rows("whole_store")
        assert set(TABLES) <= set(SQL)
        yield Leaving(whole, total, rows, reader(connection, path))
