"""Opens a store in a file: finds it, makes it where that is asked for, and sees whose it is."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from fencepost.issues import Unavailable
from fencepost.storage.sqlite import schema
from fencepost.storage.sqlite.connect import connect, use_wal
from fencepost.storage.sqlite.driver import explained
from fencepost.storage.sqlite.identity import Identity
from fencepost.storage.sqlite.place import Place, check_place, pasted
from fencepost.storage.sqlite.store import MEMORY, SqliteStore, having
from fencepost.storage.sqlite.turn import NoTurn, Turn, TurnLock


def open_store(
    path: str, *, create: bool, now: int, allow_filesystem: str | None = None,
    wait_seconds: float | None = None,
) -> SqliteStore:  # fmt: skip
    """Open (and if asked create) the store at `path`. Raises Unavailable or SchemaMismatch."""
    if path == MEMORY:
        store = SqliteStore(MEMORY, None, NoTurn())
        schema.install(store._write, now)
        return store
    place = check_place(Path(path), allow_filesystem)
    if not place.exists and not create:
        raise Unavailable(
            f"there is no store at {place.path}; create it with: "
            f"fencepost --store {pasted(path)} init"
        )
    turn = TurnLock(place.path)
    if create and not (place.exists and not place.writable):
        _create(place, turn, now, into=False, seconds=wait_seconds)
        place = check_place(place.path, allow_filesystem)
    return _opened(place, turn, now, wait_seconds)


def _opened(place: Place, turn: Turn, now: int, seconds: float | None) -> SqliteStore:
    try:
        with having(turn if place.writable else NoTurn(), seconds):
            store = SqliteStore(place.path, place, turn)
            try:
                schema.check(store._write, place.path)
                if place.writable:
                    use_wal(store._write)
                    store.recognise(now)
                    store.resume_cleaning()
            except BaseException:
                store._close_connections()
                raise
        return store
    except sqlite3.Error as error:
        raise explained(error, str(place.path)) from error


def install_into(path: str, *, now: int, allow_filesystem: str | None = None) -> None:
    """Install our tables in an application's own database, beside what is there."""
    place = check_place(Path(path), allow_filesystem)
    if not place.exists:
        raise Unavailable(f"there is no database at {place.path} to install into")
    _create(place, TurnLock(place.path), now, into=True)


def _create(
    place: Place, turn: Turn, now: int, *, into: bool, seconds: float | None = None
) -> None:
    """Create the store's tables unless they are there. Ten processes may do so at once."""
    with having(turn, seconds):
        try:
            if not place.exists:
                os.close(os.open(place.path, os.O_CREAT | os.O_RDWR, 0o644))
            with closing(connect(place.path, writable=True)) as connection:
                if schema.is_store(connection):
                    return
                if not into and not schema.is_empty(connection):
                    schema.check(connection, place.path)
                use_wal(connection)
                identity = Identity(place)
                schema.install(connection, now, identity.begin())
                identity.close()
        except sqlite3.Error as error:
            raise explained(error, str(place.path)) from error
        except OSError as error:
            raise Unavailable(f"{place.path}: the file cannot be made: {error}") from error
