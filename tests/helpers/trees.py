"""Hostile process trees, held so that none outlives its test.

Whether a tree is gone is told by a pipe of which every process of it holds the end that writes:
it closes with the last of them, so nothing is missed and nobody has to wait and hope.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fencepost.worker import containment, shim, sweeping, tree
from helpers.children import TESTS

HOSTILE = str(Path(__file__).with_name("hostile.py"))
LIFE = 45.0  # seconds after which a hostile process ends by itself
PATIENCE = 30.0
ENVIRONMENT = {"PATH": os.environ.get("PATH", os.defpath)}


def hostile(mode: str) -> list[str]:
    """The command."""
    return [sys.executable, "-I", "-S", HOSTILE, mode, str(LIFE)]


def other_shim(change: str) -> str:
    """The program of a shim in which something is different: a line of Python that knows `shim`."""
    return f"import sys; sys.path.append(sys.argv.pop(1)); import shim; {change}; shim.main()"


def bent_shim(old: str, new: str) -> str:
    """The program of a shim with one piece of its source changed."""
    source = Path(shim.__file__).read_text(encoding="utf-8")
    assert source.count(old) == 1, f"{old!r} stands {source.count(old)} times in shim.py"
    return f"import sys; del sys.argv[1]; exec({source.replace(old, new)!r})"


def words(mode: str) -> int:
    """How many lines it says before it does what it is there for."""
    return 1 + 3 * ("daemons" in mode) + ("hydra" in mode)


def carriers(prefix: str) -> list[int]:
    """Who carries a cookie that begins so, and is no zombie. Written apart from what it judges."""
    found = []
    wanted = f"FENCEPOST_LEASE={prefix}".encode()
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdigit() and int(name) != os.getpid():
                texts = Path(f"/proc/{name}/environ").read_bytes().split(b"\0")
                if any(text.startswith(wanted) for text in texts):
                    found.append(int(name))
    return found


def becomes(pid: int, states: str) -> None:
    """Wait until a process is in one of these states of /proc (T: stopped, none: gone)."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            state = ""
        if state in states.split(",") or time.monotonic() > end:
            assert state in states.split(","), f"{pid} is {state!r} and not {states!r}"
            return
        os.sched_yield()


class Witness:
    """A pipe that closes with the last process which holds it; what they say comes out of it."""

    def __init__(self) -> None:
        self.out, self.into = os.pipe()
        self.said = b""

    def let_go(self) -> None:
        """Our own end that writes."""
        if self.into >= 0:
            os.close(self.into)
            self.into = -1

    def _read(self, seconds: float) -> bool:
        """Something came, or the end. False if neither did."""
        poll = select.poll()
        poll.register(self.out, select.POLLIN)
        if not poll.poll(max(seconds, 0) * 1_000):
            return False
        data = os.read(self.out, 65_536)
        self.said += data
        self.ended = not data
        return True

    def hears(self, lines: int, seconds: float = PATIENCE) -> None:
        """So many lines have been said. AssertionError if they are not in time."""
        self.let_go()
        end = time.monotonic() + seconds
        while self.said.count(b"\n") < lines:
            assert self._read(end - time.monotonic()), f"only {self.said!r} was said"
            assert not self.ended or self.said.count(b"\n") >= lines, f"it ended: {self.said!r}"

    def gone(self, seconds: float = PATIENCE) -> bool:
        """The last of them has ended, within so long."""
        self.let_go()
        end = time.monotonic() + seconds
        while self._read(end - time.monotonic()):
            if self.ended:
                return True
        return False


class Field:
    """One test's trees, workers and cookies."""

    def __init__(self) -> None:
        self.prefix = f"t{os.getpid()}-{secrets.token_hex(4)}."
        self.witnesses: list[Witness] = []
        self.trees: list[tree.Tree] = []
        self.workers: list[subprocess.Popen[str]] = []

    def witness(self) -> Witness:
        """A new one."""
        self.witnesses.append(Witness())
        return self.witnesses[-1]

    def start(self, argv: list[str], witness: Witness, name: str = "a", **more: Any) -> tree.Tree:
        """Under containment in this process, with a deadline that is far off."""
        options = {"seconds": 60.0, "grace": 0.3, **more}
        limits = options.pop("limits", containment.NO_LIMITS)
        fds = options.pop("fds", None) or containment.Fds(NULL, witness.into, witness.into)
        environment = options.pop("environment", ENVIRONMENT)
        held = containment.start(argv, environment, fds, limits, self.prefix + name, **options)
        self.trees.append(held)
        return held

    def hostile(self, mode: str, **more: Any) -> tuple[tree.Tree, Witness]:
        """A hostile tree in full swing."""
        witness = self.witness()
        held = self.start(hostile(mode), witness, **more)
        witness.hears(words(mode))
        return held, witness

    def worker(
        self, mode: str, *, python: str = sys.executable, user: str | None = None, **more: Any
    ) -> tuple[subprocess.Popen[str], int, Witness]:
        """A worker in a process of its own with such a tree, and its shim's number. See `work`."""
        witness = self.witness()
        told = json.dumps({"mode": mode, "cookie": f"{self.prefix}a", "fd": witness.into, **more})
        process = subprocess.Popen(
            [python, "-c", "from helpers.trees import work; work()", told], text=True, user=user,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS.parent), str(TESTS)])},
            pass_fds=[witness.into],
        )  # fmt: skip
        self.workers.append(process)
        assert process.stdout is not None
        shim = int(process.stdout.readline())
        witness.hears(words(mode))
        return process, shim, witness

    def left(self) -> int:
        """How many processes carry a cookie of this test."""
        return len(carriers(self.prefix))

    def clear(self) -> None:
        """The watchdog: whatever the test has shown, nothing of it lives on."""
        for process in self.workers:
            process.kill()
            process.communicate()
        for held in self.trees:
            held.kill(0)
            with contextlib.suppress(ProcessLookupError):
                os.kill(held.pid, signal.SIGCONT)
        end = time.monotonic() + PATIENCE
        while (found := carriers(self.prefix)) and time.monotonic() < end:
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for held in self.trees:
            held.finish(PATIENCE)
            if held.alive():  # one that was told of as resisting: it has no process any more
                becomes(held.pid, ",Z")
            assert not held.alive()
        for witness in self.witnesses:
            witness.gone(LIFE + PATIENCE)
            os.close(witness.out)
        assert not carriers(self.prefix), "the test has left processes behind"


NULL = os.open(os.devnull, os.O_RDWR)


@contextlib.contextmanager
def field() -> Iterator[Field]:
    """A field that is cleared at the end."""
    made = Field()
    try:
        yield made
    finally:
        made.clear()


def work() -> None:
    """The worker of `Field.worker`. Lines on its standard input are what it is to do then."""
    told = json.loads(sys.argv[1])
    signal.signal(signal.SIGTERM, lambda *_: None)
    signal.signal(signal.SIGINT, lambda *_: None)
    containment.SHIM = told.get("shim", containment.SHIM)
    if told.get("own"):
        assert containment.own_process()
    if told.get("no_scan"):
        sweeping.sweep = lambda *_, **__: 0
    if told.get("keeps_lifelines"):
        tree.Tree._forked = lambda _: None
    fds = containment.Fds(NULL, told["fd"], told["fd"])
    other = containment.start(
        ["sleep", str(LIFE)], ENVIRONMENT, containment.Fds(NULL, NULL, NULL),
        containment.NO_LIMITS, told["cookie"] + ".other", seconds=LIFE,
    )  # fmt: skip
    held = containment.start(
        hostile(told["mode"]), ENVIRONMENT, fds, containment.NO_LIMITS, told["cookie"],
        seconds=told.get("seconds", LIFE), grace=0.3,
    )  # fmt: skip
    os.close(told["fd"])
    if told.get("fork") and os.fork() == 0:
        time.sleep(LIFE)  # ended by the test, by its number
        os._exit(0)
    print(held.pid, flush=True)
    for line in sys.stdin:
        match line.strip():
            case "finish":
                gone = held.finish(PATIENCE)
                print(json.dumps([gone, held.ended and held.ended.why, other.alive()]), flush=True)
            case "alive":
                print(json.dumps([held.alive(), other.alive()]), flush=True)


def churn(prefix: str) -> list[Any]:
    """A worker that owns its process: tasks come and go while shims of hydras are killed. How the
    tasks ended, and the children that are left."""
    assert containment.own_process()
    ends: list[Any] = []

    def tasks(name: str) -> None:
        for number in range(10):
            fds, cookie = containment.Fds(NULL, NULL, NULL), f"{prefix}{name}{number}"
            held = containment.start(
                ["true"], ENVIRONMENT, fds, containment.NO_LIMITS, cookie, seconds=LIFE
            )
            ended = held.wait(PATIENCE)
            ends.append([held.finish(PATIENCE), ended and ended.why, ended and ended.code])

    threads = [threading.Thread(target=tasks, args=(name,)) for name in "xyz"]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        witness = Witness()
        fds = containment.Fds(NULL, witness.into, witness.into)
        held = containment.start(
            hostile("deaf+daemons+hydra"), ENVIRONMENT, fds, containment.NO_LIMITS, f"{prefix}h",
            seconds=LIFE,
        )  # fmt: skip
        witness.hears(words("daemons+hydra"))
        os.kill(held.pid, signal.SIGKILL)
        ends.append([held.finish(PATIENCE) and witness.gone(), "exit", 0])
        os.close(witness.out)
    return [ends, shim.children(os.getpid())]


def ask(worker: subprocess.Popen[str], line: str) -> Any:
    """Have a worker do something, and what it answers."""
    assert worker.stdin is not None and worker.stdout is not None
    worker.stdin.write(line + "\n")
    worker.stdin.flush()
    return json.loads(worker.stdout.readline())
