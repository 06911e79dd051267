"""The folder for what commands write as their results. It is a temporary one: it goes with its
worker, and where that was killed, with the worker's next life."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
from pathlib import Path

PREFIX = "fencepost-work-"


class Folder:
    """Of one worker, by its cookie; what earlier lives have left is removed at once. Threads may
    share it. It is made when it is first asked for."""

    def __init__(self, cookie: str) -> None:
        self._prefix = f"{PREFIX}{cookie}-"
        self._lock = threading.Lock()
        self._path: str | None = None
        self._guard = -1
        self._tidy()

    def file(self, name: str) -> str:
        """A path in it. Raises OSError where it cannot be made."""
        with self._lock:
            if self._path is None:
                self._path = tempfile.mkdtemp(prefix=self._prefix)
                self._guard = _locked(self._path)
            return os.path.join(self._path, name)

    def _tidy(self) -> None:
        """What is this user's, and locked by nobody who lives."""
        for path in Path(tempfile.gettempdir()).glob(f"{self._prefix}*"):
            with contextlib.suppress(OSError):
                if path.lstat().st_uid == os.geteuid() and (guard := _locked(str(path))) >= 0:
                    shutil.rmtree(path, ignore_errors=True)
                    os.close(guard)

    def close(self) -> None:
        """Remove it, and what was held still when this life began: a process that was being started
        as its worker was killed has had its lock until it ran."""
        with self._lock:
            if self._path is not None:
                shutil.rmtree(self._path, ignore_errors=True)
                self._path = None
            if self._guard >= 0:
                os.close(self._guard)
                self._guard = -1
        self._tidy()


def _locked(path: str) -> int:
    """The folder, held by this process until it is closed or ends; -1 if another one has it.
    Raises OSError for what is no folder."""
    import fcntl

    guard = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(guard)
        return -1
    return guard
