"""What the worker does about process trees: starts them, ends them, finds what has escaped.

Layers, each for the case in which the one before it has died:
1. the shim (`shim.py`), a process a task: every orphan of the command becomes its child;
2. the worker itself, where it owns its process (`own_process`): a shim's orphans become its own;
3. the cookie FENCEPOST_LEASE in the environment of all of them (`sweep`);
4. a namespace or a cgroup, where asked for (`isolation.py`): the kernel ends them.

All of it is a courtesy to the task and to the machine. What makes a lost lease harmless is the
fence that the store checks.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from fencepost.clock import SECOND, SystemClock
from fencepost.issues import InvalidRequest
from fencepost.record import dataclass
from fencepost.worker import isolation, shim, sweeping
from fencepost.worker.strays import forget, kill_strays, own_process, spawning
from fencepost.worker.tree import Ended, Tree, Why

__all__ = [
    "NO_LIMITS", "Ended", "Fds", "Limits", "Tree", "Why", "forget", "kill_strays", "not_covered",
    "own_process", "spawning", "start", "sweep",
]  # fmt: skip

ROOM = str(Path(__file__).parent)
# Imported, not run as a file: what is imported is compiled once, and that is a third of its time.
SHIM = "import sys; sys.path.append(sys.argv.pop(1)); import shim; shim.main()"
COOKIE = re.compile(r"[A-Za-z0-9._:@-]{1,200}")
TIDY_SECONDS = 0.2
SAFE_FD = 10  # above what a command is given
LOADER = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")  # some Pythons do not start without

_clock = SystemClock()


class Fds(NamedTuple):
    """What the command gets as 0, 1, 2 and 3 (-1: no fd 3). They stay the caller's to close."""

    stdin: int
    stdout: int
    stderr: int
    mark: int = -1


@dataclass(frozen=True, slots=True)
class Limits:
    """For each process of the tree; None leaves what the worker has. No core dump ever."""

    memory_bytes: int | None = None
    cpu_seconds: int | None = None
    open_files: int | None = None
    file_bytes: int | None = None


NO_LIMITS = Limits()


def start(
    argv: Sequence[str], environment: Mapping[str, str], fds: Fds, limits: Limits, cookie: str,
    isolate: isolation.Isolate | None = None, *, seconds: float, grace: float = 10.0,
    folder: str = "",
) -> Tree:  # fmt: skip
    """Run a command in a session of its own, held by a shim of its own.

    `environment` is all that it gets, and FENCEPOST_LEASE=`cookie`. Without `extend` the tree is
    ended `seconds` from now: SIGTERM, `grace` seconds, SIGKILL. So that nothing outlives a lease,
    let `seconds` be what is left of it less the grace. The same happens when this process dies.
    Raises InvalidRequest for what cannot be had here, OSError where no process can be made; a
    command that is not there is told by `Tree.wait`."""
    if os.name != "posix":
        raise InvalidRequest("commands run as tasks on POSIX systems only: use Python handlers")
    if not argv or not COOKIE.fullmatch(cookie):
        raise InvalidRequest("a task needs a command, and a cookie of A-Z a-z 0-9 . _ : @ -")
    command, group = list(argv), ""
    if isolate == "bwrap":
        with spawning():  # it is tried: a child that is no stray
            command[:0] = isolation.wrapper()
    deadline = _clock.steady() + int(seconds * SECOND)
    head = [
        str(deadline), repr(float(grace)), repr(min(TIDY_SECONDS, float(grace))), _numbers(limits),
        folder, "", str(int(isolate == "bwrap")),
    ]  # fmt: skip
    environment = {**environment, sweeping.LEASE_VARIABLE: cookie}
    if isolate == "cgroup":
        group = head[5] = isolation.new_group(cookie)
    try:
        block = _packed(head, command, environment)
        process, lifeline, status = _start_shim(fds, cookie)
    except BaseException:
        shim.kill_group(group)
        raise
    tree = Tree(process, lifeline, status, cookie, grace=grace, deadline=deadline, group=group)
    tree.begin(block)
    return tree


def _numbers(limits: Limits) -> str:
    each = limits.memory_bytes, limits.cpu_seconds, limits.open_files, limits.file_bytes
    return ",".join("" if number is None else str(number) for number in each)


def _packed(head: list[str], argv: list[str], environment: Mapping[str, str]) -> bytes:
    """The bytes of a `shim.Spec`."""
    texts = [*head, str(len(argv)), *argv, *(f"{k}={v}" for k, v in environment.items())]
    if any("\0" in text for text in texts) or any("=" in name for name in environment):
        raise InvalidRequest("a command and its environment may hold no NUL, and no name a =")
    block = b"\0".join(os.fsencode(text) for text in texts)
    return b"%d\n%b" % (len(block), block)


def _start_shim(fds: Fds, cookie: str) -> tuple[subprocess.Popen[bytes], int, int]:
    """The shim, our end of its lifeline and our end of its status pipe."""
    ends = [*_pipe(), *_pipe()]
    hears, lifeline, status, tells = ends
    environment = {name: os.environ[name] for name in LOADER if name in os.environ}
    environment[sweeping.SHIM_VARIABLE] = cookie
    numbers = [fds.mark, hears, tells]
    try:
        with spawning() as known:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", SHIM, ROOM, *map(str, numbers)],
                stdin=fds.stdin, stdout=fds.stdout, stderr=fds.stderr, env=environment,
                pass_fds=[number for number in numbers if number >= 0], start_new_session=True,
            )  # fmt: skip
            known.add(process.pid)
    except BaseException:
        os.close(lifeline)
        os.close(status)
        raise
    finally:
        os.close(hears)
        os.close(tells)
    return process, lifeline, status


def _pipe() -> tuple[int, int]:
    """A pipe, out of the way of the numbers that a command is given."""
    import fcntl

    low = os.pipe()
    try:
        out, into = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, SAFE_FD) for end in low)
    finally:
        for end in low:
            os.close(end)
    return out, into


def sweep(prefix: str) -> int:
    """At the start of a worker: the end of all that its earlier lives have left. See
    `sweeping.sweep`."""
    isolation.kill_groups(prefix)
    killed = sweeping.sweep(prefix)
    kill_strays()
    isolation.kill_groups(prefix, shim.GROUP_PATIENCE_MS)
    return killed


def not_covered() -> list[str]:
    """What a task can do here that nobody ends, a sentence each."""
    if os.name != "posix":
        return ["Commands cannot be run as tasks on this system; Python handlers can."]
    if not shim.LINUX:
        return [
            "A process that a task puts into a session of its own (a daemon) outlives the task.",
            "What a worker and its shims leave behind when both were killed is not found here.",
        ]
    if not os.path.exists("/proc/self/environ"):
        return ["/proc is not to be read: of a task only its process group is ended."]
    return []
