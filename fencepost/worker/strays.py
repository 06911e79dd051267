"""The worker as the second who is told of orphans: what a dead shim has left becomes its child."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator

from fencepost.clock import SECOND, SystemClock
from fencepost.worker import shim

LONGEST_SECONDS = 2.0
PAUSE = 0.001

_clock = SystemClock()
_lock = threading.RLock()
_known: set[int] = set()
_owner = 0


def own_process() -> bool:
    """Make this process the one that orphans of dead shims come to; Linux only. For a program that
    is a worker and nothing else: who then starts a process in another way than by `start` has to
    tell of it (`spawning`), or it is killed as a stray. What runs below this process already is
    somebody else's: a shell that has become this program (`server & exec fencepost work …`) leaves
    it what the shell had started."""
    global _owner  # noqa: PLW0603  it is the process's own property
    if shim.LINUX and shim.prctl(shim.PR_SET_CHILD_SUBREAPER, 1):
        _owner = os.getpid()
        with _lock:
            _known.update(shim.descendants(_owner))
    return _owner == os.getpid()


@contextlib.contextmanager
def spawning() -> Iterator[set[int]]:
    """While a child is made; add its number to what is given. `forget` it once it is buried."""
    with _lock:
        yield _known


def forget(pid: int) -> None:
    """A child of `spawning` is no more."""
    with _lock:
        _known.discard(pid)


def kill_strays() -> int:
    """Kill and bury the children that nobody here has started, and all below them. How many."""
    seen: set[int] = set()
    if _owner != os.getpid():
        return 0
    until = _clock.steady() + int(LONGEST_SECONDS * SECOND)
    with _lock:
        while (strays := set(shim.children(_owner)) - _known) and _clock.steady() < until:
            below = [pid for stray in strays for pid in shim.descendants(stray)]
            shim.strike([*strays, *below])
            seen.update(strays, below)
            for stray in strays:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(stray, os.WNOHANG)
            time.sleep(PAUSE)
    return len(seen)


def _after_fork() -> None:
    """In a child that was forked: what the worker knows are no children of this one."""
    global _lock  # noqa: PLW0603  another thread may have held it
    _lock = threading.RLock()
    _known.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
