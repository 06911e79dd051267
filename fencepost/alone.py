"""One process at a time: a lock file that is held until its process ends, however it ends."""

from __future__ import annotations

import os
from pathlib import Path


class Taken(Exception):
    """Another process has it: `holder` is its number, as far as it has told."""

    def __init__(self, holder: str) -> None:
        super().__init__(holder)
        self.holder = holder


def alone(path: Path) -> int:
    """Hold this lock; the descriptor to be closed at the end. Raises Taken, OSError. Whoever holds
    it may remove the file: who had opened it before begins with a new one.

    Where a system has no such locks (Windows), nobody is kept out."""
    while not _same(guard := _locked(path), path):
        os.close(guard)
    os.ftruncate(guard, 0)
    os.pwrite(guard, b"%d\n" % os.getpid(), 0)
    return guard


def _locked(path: Path) -> int:
    guard = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        import fcntl

        fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:
        return guard
    except BlockingIOError:
        holder = os.pread(guard, 20, 0).decode("ascii", "replace").strip()
        os.close(guard)
        raise Taken(holder) from None
    except BaseException:
        os.close(guard)
        raise
    return guard


def _same(guard: int, path: Path) -> bool:
    """Whether what is held still has this name: else another may hold the one that has it now."""
    try:
        return os.path.samestat(os.fstat(guard), os.stat(path))
    except FileNotFoundError:
        return False
