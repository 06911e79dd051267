"""Care of a store: make one, show and apply migrations, take our tables out again.

A path is a SQLite file, which is copied before it is migrated; a URL is a PostgreSQL database, of
which its keepers have backups of their own.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost.clock import Clock, SystemClock
from fencepost.handle import open_handle
from fencepost.issues import InvalidRequest, SchemaMismatch
from fencepost.storage.address import is_postgres, psycopg_here
from fencepost.storage.migrate import Migration
from fencepost.storage.sqlite import install_into, upkeep
from fencepost.storage.sqlite.place import check_place
from fencepost.storage.sqlite.schema import MIGRATIONS

if TYPE_CHECKING:
    from types import ModuleType


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
        raise InvalidRequest("init: force replaces a store, into adds to one; give one of the two")
    if is_postgres(path):
        now = None if clock is None else clock.wall()
        shown, created = _postgres().make(path, now, into=into, force=force)
    else:
        shown, created = _made(path, into, force, allow_filesystem, clock or SystemClock())
    with open_handle(path, allow_filesystem=allow_filesystem, clock=clock) as handle:
        about = handle.about()
    return {
        "path": shown,
        "created": created,
        "schema_version": about["schema_version"],
        "writer_id": about["writer_id"],
    }


def _made(
    path: str, into: bool, force: bool, allow_filesystem: str | None, clock: Clock
) -> tuple[str, bool]:
    """Make a file. Returns its whole path, and whether it held no store."""
    place = check_place(Path(path), allow_filesystem)
    if force and place.exists:
        upkeep.remove(place)
        place = check_place(Path(path), allow_filesystem)
    was_store = place.exists and upkeep.stored_version(place) is not None
    if into:
        install_into(path, now=clock.wall(), allow_filesystem=allow_filesystem)
    else:
        open_handle(
            path, create=True, allow_filesystem=allow_filesystem, clock=clock
        ).close()  # fmt: skip
    return str(place.path), not was_store


def _postgres() -> ModuleType:
    with psycopg_here():
        from fencepost.storage.postgres import upkeep as of_postgres
    return of_postgres


def pending(
    path: str,
    steps: Sequence[Migration] | None = None,
    *,
    allow_filesystem: str | None = None,
) -> dict[str, Any]:
    """What `migrate` would do: `path`, `from` and `to` (schema versions), `pending` (a name, a
    SHA-256 and the SQL of each step). Raises what it would raise, and changes nothing."""
    if is_postgres(path):
        module = _postgres()
        shown, version = module.stored_version(path)
        known = module.schema.MIGRATIONS if steps is None else steps
    else:
        place = upkeep.existing(path, allow_filesystem)
        shown, version = str(place.path), upkeep.checked_version(place)
        known = MIGRATIONS if steps is None else steps
    if version > len(known):
        raise SchemaMismatch(
            f"{shown} has schema {version}; this program knows up to {len(known)}: use a newer one"
        )
    return {
        "path": shown,
        "from": version,
        "to": len(known),
        "pending": [
            {"name": step.name, "sha256": step.sha256, "sql": step.sql} for step in known[version:]
        ],
    }


def migrate(
    path: str,
    steps: Sequence[Migration] | None = None,
    *,
    allow_filesystem: str | None = None,
    clock: Clock | None = None,
) -> dict[str, Any]:
    """Bring a store to this program's schema; a file after a copy of it that has been checked.

    Returns `path`, `from` and `to` (schema versions), `applied` (names of migrations) and
    `backup` (where the copy is; None where there was nothing to do, and for a database). Raises
    SchemaMismatch for a store that is newer than this program, Unavailable for what is no store.
    """
    now = (clock or SystemClock()).wall()
    backup = None
    if is_postgres(path):
        module = _postgres()
        known = module.schema.MIGRATIONS if steps is None else steps
        shown, before, applied = module.migrate(path, now, known)
    else:
        place = upkeep.existing(path, allow_filesystem)
        shown, version = str(place.path), upkeep.stored_version(place)
        backup = _free_name(place.path, f".schema-{version}")
        known = MIGRATIONS if steps is None else steps
        before, applied = upkeep.migrate(place, now, backup, known)
    return {
        "path": shown,
        "from": before,
        "to": before + len(applied),
        "applied": applied,
        "backup": str(backup) if applied and backup else None,
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
    if is_postgres(path):
        shown, dropped = _postgres().uninstall(path)
        return {"path": shown, "dropped": dropped}
    place = upkeep.existing(path, allow_filesystem)
    return {"path": str(place.path), "dropped": upkeep.uninstall(place)}
