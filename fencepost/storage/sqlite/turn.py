"""One fair turn for every write and checkpoint on a SQLite file, among threads and processes.

Two reasons. SQLite before 3.51.3 can corrupt a WAL file when two connections write or checkpoint
at the same moment. And SQLite's own waiting is unfair: one process takes everything while the
others starve until their leases run out.

The turn is a pair of locks: take A, take B, free A, work, free B. With one lock alone, whoever
has just freed it takes it again before a sleeping waiter has woken (8 processes: the least
served got 0.03 of the most served). With two, it must queue behind the one that waits for B.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Self

from fencepost.clock import SystemClock
from fencepost.issues import Unavailable
from fencepost.storage.sqlite.gate import Gate, Waiter

_now = SystemClock().steady


class Turn:
    """The turn among the threads of one process, and what every kind of turn shares.

    Any thread may acquire; the thread that did must release. Not re-entrant: a second acquire
    by the same thread would wait for itself, and raises RuntimeError instead.

    After a fork the child holds nothing, whatever its parent held: it starts afresh, and leaving
    a `with` block it was born in frees nothing of its parent's.
    """

    def __init__(self) -> None:
        self._inherited = False
        self._start_afresh()
        _turns.add(self)

    @property
    def held(self) -> bool:
        """Whether the calling thread has the turn."""
        return self._owner == threading.get_ident() and self._pid == os.getpid()

    def acquire(self, timeout: float | None = None) -> float:
        """Wait for the turn, for ever or for `timeout` seconds. Returns the seconds waited.

        Raises Unavailable if the time is over or the lock files cannot be used. Whatever is
        raised, KeyboardInterrupt too, nothing is held afterwards.
        """
        self._mind_fork()
        if self.held:
            raise RuntimeError("this thread already has the turn: release it first")
        self._inherited = False
        began = _now()
        try:
            self._take(None if timeout is None else began + int(timeout * 1e6))
            return (_now() - began) / 1e6
        except BaseException:
            self._free()
            raise

    def release(self) -> None:
        """End the turn. RuntimeError if the calling thread does not have it."""
        self._mind_fork()
        if self._inherited:
            self._inherited = False
            return
        if not self.held:
            raise RuntimeError("this thread does not have the turn")
        self._free()

    def close(self) -> None:
        """Give back what is open, ending a turn of this thread's and waiting for those of
        others. A later acquire opens anew."""
        if self.held:
            self.release()

    def __enter__(self) -> Self:
        before = self.held
        try:
            self.acquire()
            return self
        except BaseException:
            if self.held and not before:  # interrupted after acquire, before the block began
                self._free()
            raise

    def __exit__(self, *raised: object) -> None:
        self.release()

    def _take(self, deadline: int | None) -> None:
        if not (_acquire(self._first, deadline) and _acquire(self._second, deadline)):
            raise Unavailable(
                "no turn to write in the time given: another thread of this process has it."
                " Allow more time, or look for a transaction left open"
            )
        self._owner = threading.get_ident()
        self._first.release()

    def _free(self) -> None:
        """Free what this thread holds, if anything. RLocks, because they refuse to be freed by
        one who does not own them: after an interrupt one cannot know how far _take had got."""
        if self.held:
            self._owner = 0
        for lock in (self._second, self._first):
            with suppress(RuntimeError):
                lock.release()

    def _start_afresh(self) -> None:
        self._first, self._second = threading.RLock(), threading.RLock()
        self._owner = 0
        self._pid = os.getpid()

    def _mind_fork(self) -> None:
        if self._pid != os.getpid():
            self._inherited = self._owner != 0
            self._start_afresh()


class NoTurn(Turn):
    """The turn of a store in memory: no other process can see it, so threads alone take turns."""


class TurnLock(Turn):
    """The turn of a store in a file: also among processes, through two files beside it.

    The files, `<store>-turn1` and `<store>-turn2`, carry no data (the second has the pid of
    the last holder, as a hint for messages) and may be deleted when nobody uses the store. They
    are locked with flock(2) on Linux and macOS and msvcrt.locking on Windows, where this has
    not been tried. The locks end with their process, however it ends.

    Every TurnLock has open file descriptions of its own, so two in one process exclude each
    other. Descriptors are closed on exec and in a forked child, so that a child that outlives
    its parent does not keep the parent's turn.
    """

    def __init__(self, store_path: Path) -> None:
        # Two names of one store must lead to the same lock files.
        self._store = Path(os.path.realpath(store_path))
        self._gate: Gate | None = None
        self._waiter: Waiter | None = None
        super().__init__()

    def close(self) -> None:
        """Close the lock files, ending a turn of this thread's and waiting for those of others.
        A later acquire opens them again."""
        super().close()
        self._mind_fork()
        try:
            super()._take(None)
            self._drop_gate()
        finally:
            super()._free()

    def _take(self, deadline: int | None) -> None:
        super()._take(deadline)
        try:
            while not self._pass(deadline):
                self._drop_gate()
        except OSError as error:
            raise Unavailable(
                f"{self._store}: its lock files cannot be used: {error}. The folder must be"
                " writable and on a file system with file locks"
            ) from error

    def _pass(self, deadline: int | None) -> bool:
        """Go through the gate. False if its files were deleted meanwhile: others may be using
        new ones, so the turn just won means nothing."""
        if self._gate is None:
            self._gate = Gate(self._store)
        if deadline is None and self._waiter is None:
            self._gate.wait()
        elif not self._queue(self._gate, deadline):
            raise Unavailable(
                f"{self._gate.second}: no turn to write in the time given;"
                f" {self._gate.holder()} has it. Turns last milliseconds: see whether that process"
                " is stopped or its disk hangs, or end it, which ends its turn"
            )
        if not self._gate.is_current():
            return False
        self._gate.sign()
        return True

    def _queue(self, gate: Gate, deadline: int | None) -> bool:
        """Wait until the deadline. A waiter of an earlier acquire that gave up has kept its
        place in the queue, and is taken on."""
        if self._waiter is None or not self._waiter.resume():
            self._waiter = None
            if gate.try_at_once():
                return True
            if _left(deadline) == 0:
                return False
            self._waiter = Waiter(gate)
            try:
                self._waiter.start()
            except BaseException:  # it may run or not: never touch this gate again
                gate.leave()
                self._drop_gate()
                raise
        if not self._waiter.wait(_left(deadline)):
            return False
        self._waiter = None
        return True

    def _free(self) -> None:
        # `held` first: the waiter and the gate may be at work for another thread.
        if self.held and self._gate and (self._waiter is None or self._waiter.give_up()):
            self._waiter = None
            try:
                self._gate.leave()
            except OSError:  # its locks end with its files
                self._drop_gate()
        super()._free()

    def _drop_gate(self) -> None:
        if self._gate is not None and (self._waiter is None or self._waiter.give_up(close=True)):
            self._gate.close()
        self._gate = self._waiter = None

    def _start_afresh(self) -> None:
        if self._gate is not None:
            self._gate.close()  # in a child: its copies. Its parent's locks stay
        self._gate = self._waiter = None
        super()._start_afresh()


def _left(deadline: int | None) -> float | None:
    return None if deadline is None else max(0, deadline - _now()) / 1e6


def _acquire(lock: threading.RLock, deadline: int | None) -> bool:
    left = _left(deadline)
    return lock.acquire(timeout=-1 if left is None else min(left, threading.TIMEOUT_MAX))


_turns: weakref.WeakSet[Turn] = weakref.WeakSet()


def _after_fork() -> None:
    for turn in list(_turns):
        turn._mind_fork()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_after_fork)
