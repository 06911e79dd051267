"""Care of a store's file: make one, migrate it after a backup, take our tables out again."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

from fencepost.clock import Clock, SystemClock
from fencepost.handle import open_handle
from fencepost.issues import InvalidRequest
from fencepost.storage.migrate import Migration
from fencepost.storage.sqlite import install_into, upkeep
from fencepost.storage.sqlite.place import check_place
from fencepost.storage.sqlite.schema import MIGRATIONS


def init(
    path: str,
    into: bool = False,
    force: bool = False,
    *,
    allow_filesystem: str | None = None,
    clock: Clock | None = None,
) -> dict[str, Any]:
    """Make a store. Returns `path`, `created` (False: it was one already), `schema_version`.

    `into` installs our tables in an application's own database, beside what is there. `force`
    replaces a store by a new, empty one, and never a file that has tables of somebody else's.
    Raises Unavailable, SchemaMismatch, InvalidRequest.
    """
    if into and force:
        raise InvalidRequest("init: force replaces a file, into adds to one; give one of the two")
    clock = clock or SystemClock()
    place = check_place(Path(path), allow_filesystem)
    if force and place.exists:
        upkeep.remove(place)
        place = check_place(Path(path), allow_filesystem)
    was_store = place.exists and upkeep.stored_version(place) is not None
    if into:
        install_into(path, now=clock.wall(), allow_filesystem=allow_filesystem)
    with open_handle(
        path, create=not into, allow_filesystem=allow_filesystem, clock=clock
    ) as handle:
        about = handle.about()
    return {
        "path": str(place.path),
        "created": not was_store,
        "schema_version": about["schema_version"],
        "writer_id": about["writer_id"],
    }


def migrate(
    path: str,
    steps: Sequence[Migration] = MIGRATIONS,
    *,
    allow_filesystem: str | None = None,
    clock: Clock | None = None,
) -> dict[str, Any]:
    """Bring a store to this program's schema, after a copy of it that has been checked.

    Returns `path`, `from` and `to` (schema versions), `applied` (names of migrations) and
    `backup` (where the copy is; None where there was nothing to do). Raises SchemaMismatch for a
    store that is newer than this program, Unavailable for a file that is no store.
    """
    place = upkeep.existing(path, allow_filesystem)
    version = upkeep.stored_version(place)
    backup = _free_name(place.path, f".schema-{version}")
    now = (clock or SystemClock()).wall()
    before, applied = upkeep.migrate(place, now, backup, steps)
    return {
        "path": str(place.path),
        "from": before,
        "to": before + len(applied),
        "applied": applied,
        "backup": str(backup) if applied else None,
    }


def _free_name(path: Path, end: str) -> Path:
    """A name beside the store that nothing has."""
    for number in count(1):
        name = path.with_name(f"{path.name}{end}" + (f"-{number}" if number > 1 else "") + ".db")
        if not os.path.lexists(name):
            return name
    raise AssertionError("count does not end")


def uninstall(path: str, *, allow_filesystem: str | None = None) -> dict[str, Any]:
    """Drop our tables from a database, and nothing else. Returns `path` and `dropped`.

    Everything in them is gone. The file stays, also where nothing else is in it.
    """
    place = upkeep.existing(path, allow_filesystem)
    return {"path": str(place.path), "dropped": upkeep.uninstall(place)}
