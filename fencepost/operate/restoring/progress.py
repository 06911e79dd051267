"""What a run has done so far, in a file beside the store: whoever is interrupted goes on there."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from fencepost.issues import InvalidRequest, Unavailable
from fencepost.operate.backup import beside
from fencepost.storage.sqlite.connect import sync_folder

VERSION = 1


class Progress:
    """Facts by name; `keep` writes them to the disk before it returns."""

    def __init__(self, path: Path, of: dict[str, Any]) -> None:
        """`of` says what the run is about: one that was about something else is not gone on with.
        Raises InvalidRequest, Unavailable."""
        self.path = path
        self.facts: dict[str, Any] = {"v": VERSION, "of": of}
        found = _read(path)
        if found is None:
            return
        if found.get("v") != VERSION or found.get("of") != of:
            raise InvalidRequest(
                f"{path}: a run about something else was not finished; finish it, or remove the "
                "file and what it has left"
            )
        self.facts = found

    @property
    def begun(self) -> bool:
        """Whether anything has been kept."""
        return len(self.facts) > len(("v", "of"))

    def get(self, name: str) -> Any:
        """What was kept under this name; None if nothing was."""
        return self.facts.get(name)

    def keep(self, name: str, value: Any) -> Any:
        """Keep a fact (JSON). Returns it. Raises Unavailable."""
        self.facts[name] = value
        write(self.path, json.dumps(self.facts, indent=1, sort_keys=True).encode() + b"\n")
        return value

    def end(self) -> None:
        """All is done; nothing has to be gone on with."""
        self.path.unlink(missing_ok=True)
        sync_folder(self.path.parent)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise Unavailable(f"{path} cannot be read: {error}") from error
    return found if isinstance(found, dict) else {}


def write(path: Path, content: bytes, mode: int = 0o600) -> None:
    """The file has this content or what it had before, also after a power cut. Raises
    Unavailable."""
    partial = beside(path, ".partial")
    try:
        file = os.open(partial, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, mode)
        try:
            view = memoryview(content)
            while view:
                view = view[os.write(file, view) :]
            os.fsync(file)
        finally:
            os.close(file)
        os.chmod(partial, mode)  # a file that was left there keeps its own
        os.replace(partial, path)
        sync_folder(path.parent)
    except OSError as error:
        raise Unavailable(f"{path} cannot be written: {error}") from error
