"""Deliveries into a directory: a file an effect, whose name says under which fence it was accepted.

`QUEUE/TASK/<epoch>-<fence>-<revision>-<round>-<outcome>.json`: the latest of a task is the last by
name. A file is written whole under another name, synced, and linked to its own, which fails where
it is there already: then it is looked at, and the same bytes are the same effect.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import Any

from fencepost.deliveries.event import Event
from fencepost.deliveries.places import Greeting, Place, Try

SCHEME = "directory:"
DIGITS = 15
PARTIAL = ".partial"


def name_of(event: Event) -> str:
    """Where the effect goes, below the destination: the same for each try, and for no other
    effect. Of names that sort as text the last is the latest."""
    _, *rest = event.operation.split(":")
    round_, outcome = (rest[0], rest[-1]) if len(rest) > 1 else ("0", "result")
    order = (event.epoch, event.fence, event.revision, int(round_))
    return f"{event.subject}/{'-'.join(f'{each:0{DIGITS}d}' for each in order)}-{outcome}.json"


class DirectorySender:
    """Delivers into one directory, which must be there. See `places.Sender`."""

    greets = False

    def __init__(self, place: Place, now: Callable[[], float]) -> None:
        self._root = Path(place.address.removeprefix(SCHEME))

    def send(self, event: Event, seconds: float) -> Try:
        if not self._root.is_dir():
            return Try("unsent", "the directory is not there")
        name = name_of(event)
        path = self._root / name
        partial = path.with_name(f".{path.name}.{token_hex(8)}{PARTIAL}")
        try:
            self._make_folders(path.parent)
            _write(partial, event.data)
        except OSError as error:
            _forget(partial)
            return Try("later", f"nothing was written: {error.strerror}")
        return _placed(partial, path, name, event)

    def greet(self, body: bytes, seconds: float) -> Greeting:
        return Greeting(0, None, "a directory knows no writers")

    def close(self) -> None:
        """Nothing is kept open."""

    def _make_folders(self, folder: Path) -> None:
        """The queue's and the task's, on the disk, whoever has made them. A link in place of one
        could lead out of the destination."""
        for each in (folder.parent, folder):
            with suppress(FileExistsError):
                each.mkdir()
            if each.is_symlink() or not each.is_dir():
                raise NotADirectoryError(0, "a folder is needed where something else is")
            _sync(each.parent)


def _placed(partial: Path, path: Path, name: str, event: Event) -> Try:
    """Give it its name, unless something has it."""
    try:
        os.link(partial, path)
    except (FileExistsError, FileNotFoundError):  # it is there; or another has tidied (`_tidy`)
        try:
            same = _is(path, event.data)
        except OSError as error:
            return Try("later", f"what is there cannot be read: {error.strerror}")
        if not same:
            return Try("effect_conflict", f"{name} is there with other content")
    except OSError as error:
        return Try("later", f"nothing was written: {error.strerror}")
    finally:
        _forget(partial)
    try:
        _sync(path.parent)
    except OSError as error:
        return Try("unanswered", f"it is written, perhaps not on the disk: {error.strerror}")
    _tidy(path)
    return Try("delivered", evidence=evidence(name, event))


def evidence(name: str, event: Event, **more: Any) -> dict[str, Any]:
    """What is kept as evidence of an object that was stored."""
    digest = event.data_sha256.hex()
    return {"name": name, "bytes": len(event.data), "sha256": digest, **more}


def _is(path: Path, content: bytes) -> bool:
    """Whether a file has this content. What is no file has not."""
    if not stat.S_ISREG(os.lstat(path).st_mode):
        return False
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
        return file.read(len(content) + 1) == content


def _tidy(path: Path) -> None:
    """What tries that were killed have left of this very effect. One that is at it now finds its
    own gone, and then the effect."""
    with suppress(OSError), os.scandir(path.parent) as found:
        for each in found:
            if each.name.startswith(f".{path.name}.") and each.name.endswith(PARTIAL):
                _forget(Path(each.path))


def _write(path: Path, content: bytes) -> None:
    file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(file, view) :]
        os.fsync(file)
    finally:
        os.close(file)


def _sync(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _forget(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
