"""Finds processes of this machine by the cookie in their environment, and kills them.

The last line: where the worker and the shim of a task have both died, nobody's child is left to
tell whose it was. Every process inherits the environment, so it is asked for there. Who empties
its own environment is not found. Linux only: elsewhere other processes' environment is not told.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator

from fencepost.clock import SECOND, SystemClock

LEASE_VARIABLE = "FENCEPOST_LEASE"
SHIM_VARIABLE = "FENCEPOST_SHIM"  # in the shim's own environment, which the command does not get
CLEAN_PASSES = 2
CHASE_SECONDS = 0.03
BEHIND = 16  # numbers below the newest that are looked at while chasing
PAUSE = 0.005
SHIM_SECONDS = 1.0
LONGEST_SECONDS = 10.0

Wanted = Callable[[int], bool]


def sweep(prefix: str, *, exact: bool = False) -> int:
    """Kill this user's processes whose FENCEPOST_LEASE begins with `prefix` (or is it: `exact`),
    until two passes find none; how many were killed. Shims of such leases are given a second to
    end by themselves. End a prefix with what no cookie has inside, or `w.1` finds `w.10` too.
    Gives up after 10 s: somebody goes on starting such processes."""
    clock = SystemClock()
    until = clock.steady() + int(LONGEST_SECONDS * SECOND)
    killed = _clear(_carries(LEASE_VARIABLE, prefix, exact), clock, until)
    shim = _carries(SHIM_VARIABLE, prefix, exact)
    patient = clock.steady() + int(SHIM_SECONDS * SECOND)
    while clock.steady() < patient and any(map(shim, pids())):
        time.sleep(PAUSE)
    if any(map(shim, pids())):  # stopped, or its worker lives: what it held is found by the first
        killed |= _clear(shim, clock, until)
        killed |= _clear(_carries(LEASE_VARIABLE, prefix, exact), clock, until)
    return len(killed)


def found(prefix: str, *, exact: bool = False) -> list[int]:
    """The processes that `sweep` would kill, at one look."""
    return list(filter(_carries(LEASE_VARIABLE, prefix, exact), pids()))


def pids() -> Iterator[int]:
    """All process numbers, highest first: who was born while we look is likely to be there."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return iter(())
    return iter(sorted((int(name) for name in names if name.isdigit()), reverse=True))


def _carries(variable: str, prefix: str, exact: bool) -> Wanted:
    wanted = b"\0" + os.fsencode(f"{variable}={prefix}") + (b"\0" if exact else b"")
    self = os.getpid()

    def carries(pid: int) -> bool:
        try:
            if pid == self or os.stat(f"/proc/{pid}").st_uid != os.geteuid():
                return False
            with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:
                return wanted in b"\0" + file.read() + b"\0"
        except OSError:  # gone, or another's after all
            return False

    return carries


def _clear(wanted: Wanted, clock: SystemClock, until: int) -> set[int]:
    """Passes over all processes until `CLEAN_PASSES` in a row found none."""
    killed, clean = set[int](), 0
    while clean < CLEAN_PASSES and clock.steady() < until:
        now = _chase(wanted, clock)
        now.update(pid for pid in pids() if wanted(pid) and _kill(pid, wanted))
        killed, clean = killed | now, 0 if now else clean + 1
        time.sleep(PAUSE)
    return killed


def _chase(wanted: Wanted, clock: SystemClock) -> set[int]:
    """Who forks and ends every millisecond is in no list by the time it is read: for a while,
    look at the newest numbers only."""
    killed, end = set[int](), clock.steady() + int(CHASE_SECONDS * SECOND)
    while clock.steady() < end:
        try:
            with open("/proc/loadavg", "rb", buffering=0) as file:
                newest = int(file.read().split()[4])
        except (OSError, ValueError, IndexError):
            return killed
        for pid in range(newest, max(newest - BEHIND, 1), -1):
            if wanted(pid) and _kill(pid, wanted):
                killed.add(pid)
    return killed


def _kill(pid: int, wanted: Wanted) -> bool:
    """SIGKILL to the process that was meant, and not to one that got its number since."""
    try:
        held = os.pidfd_open(pid)
    except AttributeError:  # a kernel or a C library without it
        held = -1
    except OSError:
        return False
    try:
        if not wanted(pid):
            return False
        if held < 0:
            os.kill(pid, signal.SIGKILL)
        else:
            signal.pidfd_send_signal(held, signal.SIGKILL)
    except OSError:
        return False
    finally:
        if held >= 0:
            os.close(held)
    return True
