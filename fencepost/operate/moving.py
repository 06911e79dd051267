"""Moves a store from a SQLite file to PostgreSQL, with its journal, in a new epoch.

While it runs the file's turn is kept, so nothing is acknowledged there that does not come along.
Both sides are verified: the file before, the database before its commit. What runs on the file
afterwards knows nothing of the move: end it first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fencepost.handle import open_handle
from fencepost.handle.journal import verified
from fencepost.issues import InvalidRequest, JournalBroken
from fencepost.journal.verify import Verification
from fencepost.storage.address import is_postgres, psycopg_here
from fencepost.storage.sqlite.leaving import leaving
from fencepost.storage.steps import Read

TURN_SECONDS = 30.0
Told = Callable[[str, int, int], None]


def copy(
    source: str, target: str, progress: Told | None = None, *, allow_filesystem: str | None = None
) -> dict[str, Any]:
    """Copy the store in the file `source` to the PostgreSQL database `target`.

    Returns `path`, `writer_id`, `epoch`, `entries`, `tasks`, `results`, `root` (hex). Nothing is
    there unless all is. Raises InvalidRequest where the target has a store that was used,
    JournalBroken where either side is not what its journal says, Unavailable, OutcomeUnknown.
    """
    if not is_postgres(target):
        raise InvalidRequest(
            "copy: the target is a PostgreSQL URL; to copy a store to a file: fencepost backup"
        )
    if "://" in source or source == ":memory:":
        raise InvalidRequest("copy: the source is the file of a store")
    with psycopg_here():
        from fencepost.storage.postgres.arriving import arrive
    tell = progress or (lambda what, done, total: None)
    with open_handle(source, allow_filesystem=allow_filesystem) as handle:
        if handle.about()["writable"]:
            handle.seal()
        with handle.held(TURN_SECONDS), leaving(handle.address) as found:
            before = _checked(found.read, "the source", tell)

            def check(read: Read) -> None:
                after = _checked(read, "the copy", tell)
                if _told(after) != _told(before):
                    raise JournalBroken(f"the copy differs: {_told(after)}, not {_told(before)}")

            arrived = arrive(target, found, check, tell)
    return {
        "path": arrived.path, "writer_id": found.whole[0], "epoch": arrived.epoch,
        **_told(before),
    }  # fmt: skip


def _checked(read: Read, which: str, tell: Told) -> Verification:
    found = verified(read, progress=lambda at: tell(f"verify {at.what}", at.done, at.total))
    if found.problems:
        first = found.problems[0]
        raise JournalBroken(
            f"{which} is not what its journal says: {len(found.problems)} problems, the first "
            f"{first.code} at {first.place}: {first.message}; nothing was copied"
        )
    return found


def _told(found: Verification) -> dict[str, Any]:
    return {
        "entries": found.entries, "purged": found.purged, "unsealed": found.unsealed,
        "tasks": found.tasks, "results": found.results, "root": found.root.hex(),
    }  # fmt: skip
