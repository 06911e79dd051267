"""What is done to a store's file as a whole, before or after it is one: make, replace, migrate,
take our tables out. Each takes the turn, so nobody writes meanwhile."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from fencepost.issues import SchemaMismatch, Unavailable
from fencepost.storage.migrate import Migration
from fencepost.storage.sqlite import copying, schema
from fencepost.storage.sqlite.connect import connect
from fencepost.storage.sqlite.driver import STATEMENTS, explained
from fencepost.storage.sqlite.place import Place, check_place, pasted
from fencepost.storage.sqlite.sidecar import ENDING
from fencepost.storage.sqlite.turn import TurnLock

BESIDE = ("-wal", "-shm", "-turn1", "-turn2", ENDING)


@contextmanager
def _held(place: Place) -> Iterator[sqlite3.Connection]:
    """A connection to an existing file, in a turn, with SQLite's errors in our words."""
    if not place.writable:
        raise Unavailable(f"{place.path} is read-only; make the file and its folder writable")
    turn = TurnLock(place.path)
    try:
        with turn, closing(connect(place.path, writable=True)) as connection:
            yield connection
    except sqlite3.Error as error:
        raise explained(error, str(place.path)) from error
    finally:
        turn.close()


def existing(path: str, allow_filesystem: str | None = None) -> Place:
    """The place of a file that is there. Raises Unavailable."""
    place = check_place(Path(path), allow_filesystem)
    if not place.exists:
        raise Unavailable(f"there is no file at {place.path}")
    return place


def stored_version(place: Place) -> int | None:
    """The schema version of the store in this file; None where the file holds no store."""
    try:
        with closing(connect(place.path, writable=False)) as connection:
            return schema.version_of(connection) if schema.is_store(connection) else None
    except sqlite3.Error as error:
        raise explained(error, str(place.path)) from error


def checked_version(place: Place) -> int:
    """The same of a file that has to hold one. Raises Unavailable."""
    version = stored_version(place)
    if version is None:
        raise Unavailable(f"{place.path} is not a Fencepost store")
    return version


def remove(place: Place) -> None:
    """Remove a file that holds a store (of any version) or nothing. Whoever has it open goes on
    with what nobody else sees. Raises Unavailable where there is something of somebody else's."""
    with _held(place) as connection:
        if not schema.is_empty(connection):
            others = [t for (t,) in connection.execute(schema.SQL["other_tables"]).fetchall()]
            if others:
                raise Unavailable(
                    f"{place.path} has tables that are not ours ({', '.join(others[:5])}) and is "
                    f"never replaced; name another path, or run: "
                    f"fencepost init --into {pasted(place.path)}"
                )
        for end in ("", *BESIDE):
            with suppress(FileNotFoundError):
                os.unlink(f"{place.path}{end}")


def migrate(
    place: Place, now: int, backup: Path, steps: Sequence[Migration] = schema.MIGRATIONS
) -> tuple[int, list[str]]:
    """Bring the store up to the last of `steps`, after a copy to `backup` if there is anything
    to do. Returns the version it had and the names of what was applied."""
    with _held(place) as connection:
        if not schema.is_store(connection):
            raise Unavailable(f"{place.path} is not a Fencepost store")
        before, latest = schema.version_of(connection), len(steps)
        if before > latest:
            raise SchemaMismatch(
                f"{place.path} has schema {before}; this program knows up to {latest}: "
                "use a newer one"
            )
        if before == latest:
            return before, []
        copying.copy(connection, backup, lambda done, pages: None)
        with copying.sealed_file(backup) as read:
            problems = copying.integrity(read)
        if problems:
            raise Unavailable(f"{backup}: the copy is damaged ({problems[0]}); nothing was done")
        return before, schema.migrate(connection, now, steps)


def uninstall(place: Place) -> list[str]:
    """Drop our tables and nothing else, and the files beside. Returns the tables' names."""
    with _held(place) as connection:
        if not schema.is_store(connection):
            raise Unavailable(f"{place.path} is not a Fencepost store; nothing was done")
        names = schema.uninstall(connection)
        # no erased byte may stay in the log, and the files beside have no use any more
        connection.execute(STATEMENTS["shorten_log"]).fetchall()
        for end in ("-turn1", "-turn2", ENDING):
            with suppress(FileNotFoundError):
                os.unlink(f"{place.path}{end}")
    return names
