"""The two lock files beside a SQLite database, and a wait for them that can be given up.

The rules of the turn are in turn.py; here is only what the operating system has to do with it.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
    import time
else:
    import fcntl

_HINT_BYTES = 20


class Gate:
    """Both lock files, open. The way in: take the first, take the second, free the first.

    A Gate belongs to one caller at a time. Every method raises OSError as the system gives it.
    """

    def __init__(self, store: Path) -> None:
        self._open: list[int] = []
        self.second = store.with_name(store.name + "-turn2")
        try:
            self._open.append(open_beside(store.with_name(store.name + "-turn1"), store))
            self._open.append(open_beside(self.second, store))
        except BaseException:
            self.close()
            raise
        self._identity = _identity(os.fstat(self._open[1]))

    def wait(self) -> None:
        """Wait in the system's queue, for as long as it takes."""
        first, second = self._open
        _lock(first)
        _lock(second)
        _unlock(first)

    def try_at_once(self) -> bool:
        """Go through if that needs no waiting. On False the first lock may be held already;
        `wait` goes on from there, so no place in the queue is lost."""
        first, second = self._open
        if not (_try_lock(first) and _try_lock(second)):
            return False
        _unlock(first)
        return True

    def leave(self) -> None:
        """Free whatever is held: nothing, the first, the second or both."""
        for file in reversed(self._open):
            _unlock(file)

    def is_current(self) -> bool:
        """Whether the second file still is the one that others open. If not, it was deleted
        while in use, and its lock keeps nobody out."""
        if sys.platform == "win32":
            return True  # an open file cannot be deleted there
        try:
            return _identity(os.stat(self.second)) == self._identity
        except FileNotFoundError:
            return False

    def sign(self) -> None:
        """Leave our pid in the second file. Only a hint, so a full disk does not matter."""
        if sys.platform != "win32":  # where the locked byte range would hide it from readers
            hint = (b"%d\n" % os.getpid()).rjust(_HINT_BYTES)
            with suppress(OSError):
                if os.pread(self._open[1], _HINT_BYTES, 0) != hint:
                    os.pwrite(self._open[1], hint, 0)

    def holder(self) -> str:
        """Who has the turn, in words, as far as can be told."""
        if sys.platform != "win32":
            with suppress(OSError, ValueError):
                return f"process {int(os.pread(self._open[1], _HINT_BYTES, 0))}"
        return "another process"

    def close(self) -> None:
        """Close both files. That frees their locks too, unless a forked child has copies."""
        while self._open:
            os.close(self._open.pop())

    def __del__(self) -> None:
        with suppress(AttributeError):  # interrupted before it had begun
            self.close()


class Waiter:
    """A thread that waits at a gate for a caller who may give up.

    flock(2) knows no timeout. Polling would, but among processes that wait in the system's queue
    a polling one starves (measured: it got 0.06 of the others' share). So a thread waits in the
    queue, and the caller waits for the thread. If the caller gives up, the thread waits on:
    when its turn comes it lets it go at once, unless a caller has come back by then.
    """

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._changed = threading.Condition()
        self._wanted = True
        self._closing = False
        self._over = False
        self._error: OSError | None = None

    def start(self) -> None:
        """Start waiting."""
        threading.Thread(target=self._run, name="fencepost-turn", daemon=True).start()

    def wait(self, seconds: float | None) -> bool:
        """Wait for the thread. True: the gate is passed, and the gate is the caller's again."""
        with self._changed:
            self._changed.wait_for(lambda: self._over, seconds)
            if self._error is not None:
                raise self._error
            return self._over

    def give_up(self, close: bool = False) -> bool:
        """Want the turn no more. True: the gate is the caller's again, passed or not. False: it
        stays the thread's, which frees it when it can, and with `close` closes it too."""
        with self._changed:
            self._wanted = False
            self._closing = close and not self._over
            return self._over

    def resume(self) -> bool:
        """Want the turn again. False: too late, it has come and was let go."""
        with self._changed:
            self._wanted = not self._over
            return self._wanted

    def _run(self) -> None:
        error: OSError | None = None
        try:
            self._gate.wait()
        except OSError as caught:
            error = caught
        with self._changed:
            if error is not None or not self._wanted:
                self._gate.leave()
            if self._closing:
                self._gate.close()
            self._over, self._error = True, error
            self._changed.notify()


def open_beside(path: Path, store: Path) -> int:
    """Open or create a file beside the store; who may write the store must be able to write it (a
    lock file: to take its turn), so it gets the store's mode, and from root its owner (as SQLite
    does with its own files)."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
    file = os.open(path, flags, 0o666)
    if sys.platform != "win32":
        with suppress(OSError):  # no store yet, or not our file: then its owner has seen to it
            like, own = os.stat(store), os.fstat(file)
            if os.geteuid() == 0 and (own.st_uid, own.st_gid) != (like.st_uid, like.st_gid):
                os.fchown(file, like.st_uid, like.st_gid)
            if own.st_mode & 0o666 != like.st_mode & 0o666:
                os.fchmod(file, like.st_mode & 0o666)
    return file


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


if sys.platform == "win32":
    _FAR = 1 << 30  # locks are mandatory there: a byte that nobody reads

    def _try_lock(file: int) -> bool:
        os.lseek(file, _FAR, os.SEEK_SET)
        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        return True

    def _lock(file: int) -> None:
        while not _try_lock(file):  # its own waiting mode tries only once a second
            time.sleep(0.001)

    def _unlock(file: int) -> None:
        os.lseek(file, _FAR, os.SEEK_SET)
        with suppress(OSError):  # was not locked
            msvcrt.locking(file, msvcrt.LK_UNLCK, 1)

else:

    def _try_lock(file: int) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _lock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX)

    def _unlock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_UN)
