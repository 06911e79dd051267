"""Restores a backup as a store of its own, and adopts a copy that is to live.

Both end with the restore receipt, and neither serves before every receiver was told of the new
writer and what it has accepted is recorded here (`restoring/`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from fencepost.alone import Taken, alone
from fencepost.handle import Handle, open_handle
from fencepost.issues import InvalidRequest, Unavailable
from fencepost.lineage import ADOPTED, RESTORED
from fencepost.operate.backup import Told, beside
from fencepost.operate.restoring import copying, receipt, steps
from fencepost.operate.restoring.progress import Progress, write
from fencepost.operate.restoring.steps import Wishes


class Restored(NamedTuple):
    """What came of it: the receipt's bytes, where they were written, and whether all is done."""

    receipt: bytes
    path: Path
    complete: bool


def _silent(what: str, done: int, total: int) -> None:
    """Tells nobody."""


def restore(
    backup: str | Path, target: str | Path, wishes: Wishes, *, receipt_path: Path | None = None,
    actor: str = "local", allow_filesystem: str | None = None, tell: Told = _silent,
) -> Restored:  # fmt: skip
    """Restore `backup` as the store `target`, which must not be there. Where a receiver does not
    answer the store stays hidden, and the same call goes on with it; so it does when it was
    interrupted. Raises InvalidRequest, JournalBroken, SchemaMismatch, Unavailable."""
    source, store = Path(os.path.realpath(backup)), Path(os.path.realpath(target))
    if not store.parent.is_dir():
        raise InvalidRequest(f"the folder {store.parent} does not exist; create it first")
    own = wishes.checked()._replace(
        heard=max(wishes.heard, copying.heard_of(store)),
        secrets_out=wishes.secrets_out or beside(store, ".restore-secrets.json"),
    )
    facts = copying.manifest(source)
    written = receipt_path or beside(store, ".restore-receipt.json")
    with _alone(beside(store, ".restore.lock")):
        progress = Progress(beside(store, ".restore.json"), {"backup": facts["sha256"]})
        if progress.get("served") is None:
            copying.check_free(store, progress)
            steps.check_secrets_out(own, progress)
            there = copying.copy(source, store, facts, progress, tell)
            with open_handle(there, actor=actor, allow_filesystem=allow_filesystem) as fp:
                found = steps.run(fp, RESTORED, own, progress, tell)
                content = receipt.build(found, fp.about()["writer_id"], facts)
            write(written, content, 0o644)
            if not found["complete"]:
                return Restored(content, written, False)
            progress.keep("served", content.decode())
        copying.serve(store, allow_filesystem)
        content = str(progress.get("served")).encode()
        write(written, content, 0o644)
        progress.end()
    return Restored(content, written, True)


def adopt(
    fp: Handle, wishes: Wishes, *, receipt_path: Path | None = None, folder: Path | None = None,
    tell: Told = _silent,
) -> Restored:  # fmt: skip
    """The store behind this handle is a copy that is to live: make it a store of its own. What is
    remembered of an interrupted run, and the receipt, lie beside its file, or in `folder`. Raises
    as `restore` does."""
    if fp.address == ":memory:":
        raise InvalidRequest("a store in memory has no copies: nobody else can write it")
    about: dict[str, Any] = fp.about()
    base = _base(fp, about["path"], folder)
    own = wishes.checked()._replace(
        secrets_out=wishes.secrets_out or beside(base, ".adopt-secrets.json")
    )
    written = receipt_path or beside(base, ".adopt-receipt.json")
    with _alone(beside(base, ".adopt.lock")):
        progress = Progress(beside(base, ".adopt.json"), {"store": about["writer_id"]})
        steps.check_secrets_out(own, progress)
        found = steps.run(fp, ADOPTED, own, progress, tell)
        content = receipt.build(found, about["writer_id"], None)
        write(written, content, 0o644)
        if found["complete"]:
            progress.end()
    return Restored(content, written, bool(found["complete"]))


def _base(fp: Handle, shown: str, folder: Path | None) -> Path:
    """What the names of a run's files begin with; `shown` is the address without a password."""
    if folder is None and "://" not in fp.address:
        return Path(fp.address)
    name = sha256(shown.encode()).hexdigest()[:16]
    return (folder or Path.cwd()) / f"fencepost-{name}"


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Nobody else does this here meanwhile. Whoever opened the lock just before it is removed finds
    that all is done, or nothing begun."""
    try:
        guard = alone(path)
    except Taken as taken:
        raise Unavailable(f"process {taken.holder or 'unknown'} is at it already") from None
    except OSError as error:
        raise Unavailable(f"{path} cannot be written: {error}") from error
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink()
        os.close(guard)
