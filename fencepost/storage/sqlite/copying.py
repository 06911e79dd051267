"""Long reading that holds up nobody: a snapshot of its own, and a copy made from one.

In write-ahead logging a reader keeps no writer waiting, and a connection that stays inside one
reading transaction goes on seeing the same pages however much is committed meanwhile. So a copy
needs no turn and never starts over. What it costs: the log cannot be shortened until it ends.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from fencepost.issues import Unavailable
from fencepost.storage.sqlite.connect import connect
from fencepost.storage.sqlite.driver import STATEMENTS, explained, run
from fencepost.storage.steps import Read, Steps, rows_of

T = TypeVar("T")
PAGES_A_STEP = 256
STEPS_A_SYNC = 8

Told = Callable[[int, int], None]


def reader(connection: sqlite3.Connection, where: str) -> Read:
    """A function that runs reading steps on the connection, with errors in our words."""

    def read(steps: Steps[T]) -> T:
        try:
            return run(connection, steps)
        except sqlite3.Error as error:
            raise explained(error, where) from error
        except UnicodeDecodeError as error:  # a damaged schema, told in its own bytes
            raise Unavailable(f"{where}: the file is damaged ({error})") from None

    return read


@contextmanager
def pinned(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection of its own that sees the file as it is now until the block ends."""
    try:
        connection = connect(path, writable=False)
    except sqlite3.Error as error:
        raise explained(error, str(path)) from error
    with closing(connection):
        try:
            connection.execute(STATEMENTS["begin_read"])
            connection.execute(STATEMENTS["store"]).fetchall()  # the snapshot is taken by reading
        except sqlite3.Error as error:
            raise explained(error, str(path)) from error
        yield connection
        with suppress(sqlite3.Error):
            connection.execute(STATEMENTS["rollback"])


@contextmanager
def sealed_file(path: Path) -> Iterator[Read]:
    """Reading from a file that nobody writes: no lock and no file beside it is made."""
    try:
        connection = sqlite3.connect(
            path.absolute().as_uri() + "?mode=ro&immutable=1", uri=True, isolation_level=None
        )
    except sqlite3.Error as error:
        raise explained(error, str(path)) from error
    with closing(connection):
        yield reader(connection, str(path))


def copy(source: sqlite3.Connection, target: Path, told: Told) -> None:
    """Copy what `source` sees to a new file, in small steps, and sync it as it goes.

    The target is synced in slices, since one sync of hundreds of megabytes at the end would
    keep the commits of everybody else on that disk waiting. `told(done, all)` counts pages.
    """
    file = os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    try:
        with closing(sqlite3.connect(target, isolation_level=None)) as copied:
            copied.execute("pragma journal_mode = off")  # a copy that fails is thrown away
            copied.execute("pragma synchronous = off")  # synced here instead
            steps = 0

            def step(_: int, left: int, pages: int) -> None:
                nonlocal steps
                steps += 1
                if steps % STEPS_A_SYNC == 0:
                    os.fsync(file)
                told(pages - left, pages)

            source.backup(copied, pages=PAGES_A_STEP, progress=step)
        os.fsync(file)
    except sqlite3.Error as error:
        raise explained(error, str(target)) from error
    finally:
        os.close(file)


def integrity(read: Read) -> list[str]:
    """What SQLite's own check of pages, indexes and constraints finds; empty if nothing."""
    found = [str(line) for (line,) in read(rows_of("integrity"))]
    return [] if found == ["ok"] else found
