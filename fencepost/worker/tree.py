"""A task's command and all that comes of it, as the worker holds it: a `Tree` and how it ended."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import threading
import weakref
from collections.abc import Callable
from typing import Literal

from fencepost.clock import SECOND, SystemClock
from fencepost.log import Log
from fencepost.record import dataclass
from fencepost.worker import shim, strays, sweeping

Why = Literal[
    "exit", "killed", "deadline", "worker_gone", "signal", "shim_died", "not_started"
]  # fmt: skip
OVERDUE_SECONDS = 5.0
GLANCE_SECONDS = 1.0
RESISTS = "some of its processes resist SIGKILL"

_log = Log("fencepost.worker")
_clock = SystemClock()
_trees: weakref.WeakSet[Tree] = weakref.WeakSet()


@dataclass(frozen=True, slots=True)
class Ended:
    """How the command ended. `code` is its exit code, negative for a signal, None if nobody can
    tell; `why` is `exit` if it did so by itself; `error` says what went wrong around it."""

    code: int | None
    why: Why
    error: str = ""


class Tree:
    """A command and all that comes of it. Threads may share it. Made by `start`.

    Somebody has to call `wait` or `finish`: that is also how a dead shim is noticed. `pid` is the
    shim's number, `command_pid` the command's once it is told (0 before).
    """

    def __init__(
        self, process: subprocess.Popen[bytes], lifeline: int, status: int, cookie: str, *,
        grace: float, deadline: int, group: str,
    ) -> None:  # fmt: skip
        self.cookie, self.pid, self.command_pid = cookie, process.pid, 0
        self.ended: Ended | None = None
        self.killed = 0
        self._process, self._lifeline, self._status = process, lifeline, status
        self._grace, self._deadline, self._group = grace, deadline, group
        self._rest, self._error, self._overdue = b"", "", 0
        self._gone = self._stubborn = self._told_all = self._ending = False
        self._writing, self._reading = threading.Lock(), threading.Lock()
        _trees.add(self)

    def extend(self, seconds: float) -> None:
        """The local deadline is `seconds` from now. Call it after each successful renewal."""
        if not self._ending:
            self._deadline = _clock.steady() + int(seconds * SECOND)
            self._send(b"E%d\n" % self._deadline)

    def kill(self, grace: float | None = None) -> None:
        """End the tree: SIGTERM, the grace (that of `start`, if None), SIGKILL. Does not wait.
        A second call with 0 cuts the grace short."""
        self._ending = True
        self._grace = self._grace if grace is None else grace
        self._deadline = min(self._deadline, _clock.steady())
        self._send(b"K%a\n" % float(self._grace))

    def wait(self, timeout: float | None = None) -> Ended | None:
        """How the command ended, as soon as that is known: what it has left behind is ended
        after that (`finish`). None after `timeout` seconds."""
        self._until(timeout, lambda: self.ended is not None)
        return self.ended

    def finish(self, timeout: float | None = None) -> bool:
        """True once no process of the tree is left; False after `timeout` seconds, or when some
        of it resist SIGKILL (the shim keeps trying)."""
        self._until(timeout, lambda: self._stubborn)
        return self._gone

    def alive(self) -> bool:
        """False once no process of the tree is left."""
        if not self._gone and self._reading.acquire(blocking=False):
            try:
                while self._look(0):
                    continue  # its last word may stand before its end
            finally:
                self._reading.release()
        return not self._gone

    def _until(self, timeout: float | None, enough: Callable[[], bool]) -> None:
        end = None if timeout is None else _clock.steady() + int(timeout * SECOND)
        while not self._gone and not enough():
            left = GLANCE_SECONDS if end is None else (end - _clock.steady()) / SECOND
            if left < 0 and end is not None:
                return
            if self._reading.acquire(timeout=min(max(left, 0), GLANCE_SECONDS)):
                try:
                    if not self._gone:
                        self._look(min(left, GLANCE_SECONDS))
                finally:
                    self._reading.release()

    def _look(self, seconds: float) -> bool:
        """Read what the shim has told, waiting at most so long. Whether it told anything."""
        waiting, begun = select.poll(), _clock.steady()
        waiting.register(self._status, select.POLLIN)
        if not waiting.poll(max(seconds, 0) * 1_000):
            self._hurry(begun)
            return False
        data = os.read(self._status, 65_536)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._hear(line.decode(errors="replace"))
        if not data:
            self._bury()
        return bool(data)

    def _hear(self, line: str) -> None:
        kind, text = line[:1], line[1:]
        if kind == "P":
            self.command_pid = int(text)
        elif kind == "F":
            self.ended = Ended(None, "not_started", os.strerror(int(text)))
        elif kind == "X" and self.ended is None:
            why, code = text.split()
            self.ended = Ended(int(code), why, self._error)  # type: ignore[arg-type]
        elif kind == "L":
            why, count = text.split()
            self._stubborn = True
            if self.ended is None:  # the command may be one of them: nobody waits for that
                self.ended = Ended(None, why, RESISTS)  # type: ignore[arg-type]
            _log.warning("%s processes of a task resist SIGKILL", count)
        elif kind == "D":
            self.killed, self._told_all = int(text), True
        elif kind == "!":
            self._error = text
            _log.warning("the shim of a task: %s", text)

    def _hurry(self, begun: int) -> None:
        """A shim that does not keep its deadline is stopped or stuck: what it held comes to us.
        What counts is how long it could have done so while somebody looked: in suspend the deadline
        passes, and it could not."""
        now = _clock.steady()
        if now <= self._deadline:
            self._overdue = 0
            return
        self._overdue += min(now - max(begun, self._deadline), int(GLANCE_SECONDS * SECOND))
        if not self._stubborn and self._overdue > (self._grace + OVERDUE_SECONDS) * SECOND:
            self._process.kill()

    def _bury(self) -> None:
        """The shim has ended. It has told all, unless it was killed itself."""
        self._process.wait()
        strays.forget(self.pid)
        if not self._told_all:
            _log.warning(
                "the shim of a task died (%s): its tree is hunted", self._process.returncode
            )
            self.killed += _hunt(self.cookie, self._group)
        if self.ended is None:
            self.ended = Ended(None, "shim_died", self._error)
        with self._writing:
            self._gone = True
            os.close(self._lifeline)
            os.close(self._status)

    def _send(self, line: bytes) -> None:
        """To the shim, if it is there. A pipe that is full belongs to one that is stopped."""
        with self._writing:
            if not self._gone:
                with contextlib.suppress(BrokenPipeError, BlockingIOError):
                    os.write(self._lifeline, line)

    def begin(self, block: bytes) -> None:
        """Tell the shim what to run; `start` does it."""
        with self._writing, contextlib.suppress(BrokenPipeError):
            while block:
                block = block[os.write(self._lifeline, block) :]
        os.set_blocking(self._lifeline, False)

    def _forked(self) -> None:
        """In a child that the worker has forked: the lifeline has to end with the worker."""
        if not self._gone:
            os.close(self._lifeline)
            self._gone = True


def _hunt(cookie: str, group: str) -> int:
    """What a dead shim has left. How many were killed."""
    shim.kill_group(group)
    killed = strays.kill_strays() + sweeping.sweep(cookie, exact=True)
    killed += strays.kill_strays()  # what the sweep has killed is ours to bury
    shim.kill_group(group, shim.GROUP_PATIENCE_MS)
    return killed


def _after_fork() -> None:
    """In a child that was forked: the trees and their shims are its parent's."""
    for tree in list(_trees):
        tree._forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
