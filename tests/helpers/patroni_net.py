"""Three hosts and a fourth between them on this machine: network namespaces with a bridge. A cable
can be cut, a host killed. Needs root, `ip` and the right to make namespaces; where one of them is
missing it says so and raises, and what was to be seen there is not run.

No host outlives its maker: a keeper process ends all that runs in them and takes them away as soon
as the pipe from us to it is closed, whatever has closed it.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fencepost.worker.strays import forget, spawning
from helpers.tools import installed

NODES = (1, 2, 3)
HUB = 0
CLONE_NEWNET = 0x40000000

# Ends by number, again and again until nobody is left, since who is ended may just have started
# another; then takes away the hosts and the folder.
KEEPER = """
import os, shutil, subprocess, sys, time
folder, *names = sys.argv[1:]
sys.stdin.read()
for name in names:
    for _ in range(500):
        told = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True).stdout
        if not (numbers := told.split()):
            break
        for number in numbers:
            try:
                os.kill(int(number), 9)
            except ProcessLookupError:
                pass
        time.sleep(0.02)
    subprocess.run(["ip", "netns", "del", name], capture_output=True)
shutil.rmtree(folder, ignore_errors=True)
"""


class NotRun(RuntimeError):
    """This machine cannot do it: nothing was shown, neither good nor bad."""


def address(node: int) -> str:
    """Where a node is, as seen from all others."""
    return f"10.88.0.{node or 254}"


class Net:
    """The hosts: 1, 2 and 3, and HUB, to which their cables go."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="fencepost-patroni-"))
        self.names = [f"fp-{node or 'hub'}-{os.getpid()}" for node in (HUB, *NODES)]
        with spawning() as known:  # a worker that a test runs in this process kills strangers
            self._keeper = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", KEEPER, str(self.folder), *self.names[::-1]],
                stdin=subprocess.PIPE, start_new_session=True,
            )  # fmt: skip
            known.add(self._keeper.pid)

    def make(self) -> None:
        """The hosts and their cables. NotRun where that may not be done."""
        hub = self.names[HUB]
        for name in self.names:
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
        _ip("-n", hub, "link", "add", "br0", "type", "bridge")
        _ip("-n", hub, "addr", "add", f"{address(HUB)}/24", "dev", "br0")
        _ip("-n", hub, "link", "set", "br0", "up")
        for node in NODES:
            name = self.names[node]
            _ip("link", "add", f"v{node}", "netns", hub, "type", "veth",
                "peer", "name", "eth0", "netns", name)  # fmt: skip
            _ip("-n", hub, "link", "set", f"v{node}", "master", "br0", "up")
            _ip("-n", name, "addr", "add", f"{address(node)}/24", "dev", "eth0")
            _ip("-n", name, "link", "set", "eth0", "up")

    def cut(self, node: int) -> None:
        """Its cable is out: nothing gets there or comes back, and nobody is told."""
        _ip("-n", self.names[HUB], "link", "set", f"v{node}", "down")

    def heal(self, node: int) -> None:
        _ip("-n", self.names[HUB], "link", "set", f"v{node}", "up")

    @contextmanager
    def inside(self, node: int) -> Iterator[None]:
        """This thread is on that host; so is whatever thread or process it begins meanwhile, for
        good."""
        with open("/proc/thread-self/ns/net", "rb") as before:
            with open(f"/run/netns/{self.names[node]}", "rb") as there:
                _enter(there.fileno())
            try:
                yield
            finally:
                _enter(before.fileno())

    def pids(self, node: int) -> list[int]:
        """Who runs on that host: started by us, or by whom we have started."""
        told = _ip("netns", "pids", self.names[node])
        return [pid for word in told.split() if (pid := int(word)) != os.getpid()]

    def kill(self, node: int) -> None:
        """All on that host are killed at once, as when its power fails."""
        for _ in range(500):
            pids = self.pids(node)
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if not pids:
                return
            threading.Event().wait(0.02)
        raise AssertionError(f"node {node} does not end")

    def close(self) -> None:
        """Returns when nothing is left of it."""
        assert self._keeper.stdin is not None
        self._keeper.stdin.close()
        self._keeper.wait(60)
        forget(self._keeper.pid)


def missing() -> list[str]:
    """What it would need and has not."""
    rights = [] if sys.platform == "linux" and os.geteuid() == 0 else ["root on Linux"]
    return rights + [name for name in ("ip",) if installed(name) is None]


@contextmanager
def three_hosts() -> Iterator[Net]:
    """The hosts, taken away in the end."""
    if what := missing():
        raise NotRun(f"NOT RUN: three hosts need {', '.join(what)}")
    net = Net()
    try:
        net.make()
        yield net
    finally:
        net.close()
        shutil.rmtree(net.folder, ignore_errors=True)


def _enter(descriptor: int) -> None:
    if _libc().setns(descriptor, CLONE_NEWNET):
        number = ctypes.get_errno()
        raise NotRun(f"NOT RUN: a thread may not go to another host: {os.strerror(number)}")


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotRun(f"NOT RUN: ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout
