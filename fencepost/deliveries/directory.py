"""Deliveries into a directory: a file an effect, whose name says under which fence it was accepted.

`QUEUE/TASK/<epoch>-<fence>-<revision>-<outcome>.json`: the latest of a task is the last by name. A
file is written whole under another name, synced, and linked to its own, which fails where it is
there already: then it is looked at, and the same bytes are the same effect.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import Any

from fencepost.deliveries.event import Event
from fencepost.deliveries.places import Greeting, Place, Try

SCHEME = "directory:"
DIGITS = 15


def name_of(event: Event) -> str:
    """Where the effect goes, below the destination: the same for each try, and for no other."""
    outcome = json.loads(event.data)["outcome"]
    round_ = event.operation.split(":")[1] if outcome != "result" else "0"
    order = (
        f"{event.epoch:0{DIGITS}d}-{event.fence:0{DIGITS}d}-{event.revision:0{DIGITS}d}-"
        f"{int(round_):0{DIGITS}d}-{outcome}"
    )
    return f"{event.subject}/{order}.json"


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
        try:
            folder = self._folder(path.parent)
            partial = folder / f".{path.name}.{token_hex(8)}"
        except OSError as error:
            return Try("later", f"nothing was written: {error.strerror}")
        try:
            _write(partial, event.data)
        except OSError as error:
            _forget(partial)
            return Try("later", f"nothing was written: {error.strerror}")
        return _placed(partial, path, name, event)

    def greet(self, body: bytes, seconds: float) -> Greeting:
        return Greeting(0, None, "a directory knows no writers")

    def close(self) -> None:
        """Nothing is kept open."""

    def _folder(self, folder: Path) -> Path:
        """The task's folder, made and on the disk; it never leads out of the destination."""
        for each in (folder.parent, folder):
            try:
                each.mkdir()
            except FileExistsError:
                if each.is_symlink() or not each.is_dir():
                    raise
            else:
                _sync(each.parent)
        return folder


def _placed(partial: Path, path: Path, name: str, event: Event) -> Try:
    """Give it its name, unless something has it."""
    try:
        os.link(partial, path)
    except FileExistsError:
        try:
            same = not path.is_symlink() and path.read_bytes() == event.data
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
    return Try("delivered", evidence=evidence(name, event.data))


def evidence(name: str, content: bytes, **more: Any) -> dict[str, Any]:
    """What is kept as evidence of an object that was stored."""
    digest = hashlib.sha256(content).hexdigest()
    return {"name": name, "bytes": len(content), "sha256": digest, **more}


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
