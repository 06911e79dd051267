"""Copies a store while it is in use, and lets nobody take an unchecked copy for a backup.

The copy is made under another name (`<target>.partial`), synced, opened for reading, checked page
by page and against its journal, and only then gets its own name. Beside it lies a manifest. What
was acknowledged before the call is in it; nobody waits for it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from fencepost.clock import to_rfc3339
from fencepost.handle import Handle
from fencepost.handle.journal import verified
from fencepost.handle.masking import for_others
from fencepost.issues import InvalidRequest, JournalBroken, Unavailable
from fencepost.storage import reading
from fencepost.storage.rows import destination_row
from fencepost.storage.sqlite.connect import sync_folder
from fencepost.storage.sqlite.copying import integrity, sealed_file
from fencepost.storage.steps import Read, rows_of
from fencepost.version import VERSION

Told = Callable[[str, int, int], None]


def backup(
    handle: Handle, target: str | Path, progress: Told | None = None, force: bool = False
) -> dict[str, Any]:
    """Back the store up to `target`; returns what the manifest says.

    `progress(what, done, all)` is told of pages, entries and tasks. Raises InvalidRequest where
    the target is there already (unless `force`) or is the store itself, JournalBroken where the
    copy is not what its journal says (it stays as `.partial`, the target is untouched),
    Unavailable where it cannot be written, Forbidden to all but the operator.
    """
    path = Path(os.path.realpath(target))
    about = handle.about()
    _check_target(path, about["path"], force)
    tell = progress or (lambda what, done, total: None)
    if about["writable"]:
        handle.seal()
    partial, manifest = beside(path, ".partial"), manifest_of(path)
    try:
        with suppress(FileNotFoundError):
            os.unlink(partial)
        handle.copy_to(partial, lambda done, total: tell("pages", done, total))
        facts = {**checked(partial, tell), **_facts(partial, handle)}
        _write(beside(manifest, ".partial"), facts)
        with suppress(FileNotFoundError):
            os.unlink(manifest)  # never a new file beside the manifest of an old one
        os.replace(partial, path)
        os.replace(beside(manifest, ".partial"), manifest)
        sync_folder(path.parent)
    except OSError as error:
        raise Unavailable(f"{path}: the backup could not be written: {error}") from error
    return facts


def manifest_of(path: Path) -> Path:
    """Where the manifest of a backup lies."""
    return beside(path, ".manifest.json")


def beside(path: Path, ending: str) -> Path:
    """A name that begins with that of a file, in its folder."""
    return path.with_name(path.name + ending)


def _check_target(path: Path, store: str, force: bool) -> None:
    if path.is_dir():
        raise InvalidRequest(f"{path} is a directory; name a file in it")
    if not path.parent.is_dir():
        raise InvalidRequest(f"the folder {path.parent} does not exist; create it first")
    if not path.exists():
        return
    if store != ":memory:" and os.path.samefile(path, store):
        raise InvalidRequest(f"{path} is the store itself; name another file")
    if not force:
        raise InvalidRequest(f"{path} is there already; name another file, or use force")
    if beside(path, "-wal").exists() or beside(path, "-journal").exists():
        raise InvalidRequest(
            f"{path} is in use, or was not closed: it has a log beside it; name another file"
        )


def checked(partial: Path, tell: Told) -> dict[str, Any]:
    """What the copy itself says, once its pages and its journal have been checked."""
    with sealed_file(partial) as read:
        tell("integrity", 0, 1)
        problems = integrity(read)
        if problems:
            raise JournalBroken(f"{partial}: the copy is damaged: {problems[0]}")
        tell("integrity", 1, 1)
        found = verified(read, None, lambda seen: tell(seen.what, seen.done, seen.total))
        if not found.clean:
            first = found.problems[0]
            raise JournalBroken(
                f"{partial}: the copy is not what its journal says: {len(found.problems)} "
                f"problems, the first {first.code} at {first.place}: {first.message}"
            )
        return {**_counters(read), "entries": found.entries + found.purged, "tasks": found.tasks,
                "results": found.results, "unsealed": found.unsealed}  # fmt: skip


def _counters(read: Read) -> dict[str, Any]:
    ((writer_id, epoch, floor, last_fence, *_),) = read(rows_of("store"))
    ((_, schema_version, *_),) = read(rows_of("store_about"))
    heads = read(rows_of("last_checkpoint"))
    lineage = read(reading.writers())
    return {
        "incarnation": lineage[-1].incarnation,
        "lineage": [[writer.epoch, writer.incarnation] for writer in lineage],
        "destinations": [_destination(*row) for row in read(rows_of("all_destinations"))],
        "checkpoint": heads[0][2].decode() if heads else None,
        "writer_id": writer_id, "epoch": epoch, "floor": floor, "last_fence": last_fence,
        "schema_version": schema_version,
    }  # fmt: skip


def _destination(scope: str, queue: str, *columns: Any) -> dict[str, Any]:
    """Where a restored store would deliver to, as far as anybody may read it."""
    one = for_others(destination_row(queue, columns))
    return {"scope": scope, "queue": queue, "address": one.address, "class": one.class_}


def _facts(partial: Path, handle: Handle) -> dict[str, Any]:
    digest = hashlib.sha256()
    with partial.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return {
        "bytes": partial.stat().st_size,
        "sha256": digest.hexdigest(),
        "fencepost_version": VERSION,
        "sqlite_version": handle.about()["sqlite_version"],
        "created_at": to_rfc3339(handle.clock.wall()),
    }


def _write(path: Path, facts: dict[str, Any]) -> None:
    with path.open("w", encoding="utf-8") as file:
        json.dump(facts, file, indent=2, sort_keys=True)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
