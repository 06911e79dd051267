"""A backup becomes the file of a store, under a name that nobody opens until all is done."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from fencepost.handle import open_handle
from fencepost.issues import InvalidRequest, JournalBroken, SchemaMismatch, Unavailable
from fencepost.operate.backup import Told, beside, checked, manifest_of
from fencepost.operate.restoring.progress import Progress, write
from fencepost.storage.sqlite.connect import sync_folder
from fencepost.storage.sqlite.schema import LATEST
from fencepost.storage.sqlite.sidecar import ENDING as SIDECAR
from fencepost.storage.sqlite.sidecar import Sidecar
from fencepost.storage.sqlite.upkeep import BESIDE

BLOCK = 1 << 20
LOGS = ("-wal", "-journal")


def manifest(backup: Path) -> dict[str, Any]:
    """What was written beside the backup when it was made. Raises InvalidRequest, SchemaMismatch,
    Unavailable."""
    if not backup.is_file():
        raise InvalidRequest(f"{backup} is no file; name a backup made by: fencepost backup")
    path = manifest_of(backup)
    try:
        facts = json.loads(path.read_bytes())
        version, size, digest = (facts[name] for name in ("schema_version", "bytes", "sha256"))
        if (type(version), type(size), type(digest)) != (int, int, str):
            raise ValueError("it is not one that fencepost backup has written")
    except FileNotFoundError:
        raise InvalidRequest(
            f"{backup} has no manifest ({path.name} beside it): whether it is whole cannot be "
            "told; for a copy that was made otherwise see: fencepost adopt --help"
        ) from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise Unavailable(f"{path} cannot be read: {error!r}") from error
    if version != LATEST:
        raise SchemaMismatch(
            f"{backup} has schema {version}, this program restores {LATEST}: restore it with the "
            f"program that made it (version {facts.get('fencepost_version')}), then migrate"
        )
    return dict(facts)


def hidden(target: Path) -> Path:
    """The name of the store until it serves."""
    return beside(target, ".restoring")


def copy(backup: Path, target: Path, facts: dict[str, Any], progress: Progress, tell: Told) -> Path:
    """The backup, checked byte by byte and against its journal, as a hidden file. Returns its path.
    Raises InvalidRequest where the target is there, JournalBroken for a backup that is not what
    its manifest says, Unavailable."""
    there = hidden(target)
    if progress.get("copied"):
        return there
    partial = beside(target, ".partial")
    try:
        partial.unlink(missing_ok=True)
        try:
            with backup.open("rb") as source, open(partial, "xb", opener=_for_us) as file:
                _same(source, file, facts, backup, tell)
            checked(partial, tell)
            progress.keep("began", True)
            os.replace(partial, there)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        sync_folder(there.parent)
    except OSError as error:
        raise Unavailable(f"{there}: the backup could not be copied: {error}") from error
    progress.keep("copied", True)
    return there


def check_free(target: Path, progress: Progress) -> None:
    """Before anything is done: nothing stands at the target that would be taken for a part of the
    new store. Raises InvalidRequest."""
    if progress.get("copied"):
        return
    there = hidden(target)
    if target.exists() or target.is_symlink():
        raise InvalidRequest(f"{target} is there already; move it away, or name another file")
    for ending in LOGS:
        log = beside(target, ending)
        if log.exists():
            raise InvalidRequest(
                f"{log} is there: it belongs to a store of this name that was lost, and may hold "
                "its last commits; SQLite would take it for the new store's. Move it away"
            )
    if there.exists() and not progress.begun:
        raise InvalidRequest(f"{there} is there, of a run that is not known; remove it")


def _for_us(path: str, flags: int) -> int:
    """As a backup is: what destinations are signed with stands in it."""
    return os.open(path, flags, 0o600)


def _same(
    source: BinaryIO, file: BinaryIO, facts: dict[str, Any], backup: Path, tell: Told
) -> None:
    digest, size, total = hashlib.sha256(), 0, int(facts["bytes"])
    while block := source.read(BLOCK):
        digest.update(block)
        file.write(block)
        size += len(block)
        tell("bytes", size, total)
    file.flush()
    os.fsync(file.fileno())
    if size != total or digest.hexdigest() != facts["sha256"]:
        raise JournalBroken(
            f"{backup} is not the backup that its manifest tells of: {size} bytes, sha256 "
            f"{digest.hexdigest()}, not {total} and {facts['sha256']}; nothing was restored"
        )


def heard_of(target: Path) -> int:
    """The epoch that a lost store of this name has come to, as far as its sidecar tells."""
    record = Sidecar(target).peek()
    return 0 if record is None else max(record.epoch, record.high >> 32)


def serve(target: Path, allow_filesystem: str | None = None) -> None:
    """The hidden store gets its name, and its sidecar with it: first, so that it never lies there
    without one, and both may be opened until it has. Done again it does nothing."""
    there = hidden(target)
    old, new = (beside(path, SIDECAR) for path in (there, target))
    try:
        if there.exists():
            if target.exists():
                raise InvalidRequest(
                    f"{target} was made meanwhile by somebody else; move it away, and run again"
                )
            _fold(there, allow_filesystem)
            write(new, old.read_bytes(), old.stat().st_mode & 0o777)
            os.replace(there, target)
        elif not target.exists():
            raise Unavailable(f"{target} is gone; remove {target}.restore.json to begin anew")
        for ending in BESIDE:
            with suppress(FileNotFoundError):
                beside(there, ending).unlink()
        sync_folder(target.parent)
    except OSError as error:
        raise Unavailable(f"{target}: the store could not be given its name: {error}") from error


def _fold(store: Path, allow_filesystem: str | None) -> None:
    """What stands in the log goes into the file, which is moved without it: closing does that."""
    with open_handle(store, allow_filesystem=allow_filesystem):
        pass
    log = beside(store, "-wal")
    if log.exists() and log.stat().st_size:
        raise Unavailable(f"{store} is in use; end what uses it, and run this again")
