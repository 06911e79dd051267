"""The processes of the demo: started, ordered, listened to, killed, stopped and woken."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeAlias

ROOT = Path(__file__).resolve().parents[3]  # what has to be on sys.path to import this package
BOOT = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from fencepost.operate.demo.worker import main; main(sys.argv[1:])"
)
END_SECONDS = 10.0
STORE = "FENCEPOST_STORE"  # in the environment: a URL's password is no argument for all to see

Report: TypeAlias = "dict[str, Any] | None"


class Member:
    """One worker process. `worker_id` names it in the store too."""

    def __init__(self, crew: Crew, worker_id: str) -> None:
        self.worker_id = worker_id
        self.errors = crew.notes / f"{worker_id}.err"
        # -I: whatever lies in the working folder or the environment, the worker is this code.
        # A group of its own: the terminal's Ctrl-C goes to the demo alone, which then ends them.
        command = [sys.executable, "-I", "-c", BOOT, str(ROOT), str(crew.folder), worker_id]
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                process_group=0, env={**os.environ, STORE: crew.store},
            )  # fmt: skip
        self._listener = Thread(target=self._listen, args=(crew.reports,), daemon=True)
        self._listener.start()

    def _listen(self, reports: SimpleQueue[tuple[Member, Report]]) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith(b"\n"):  # a killed process may leave half a line
                reports.put((self, json.loads(line)))
        reports.put((self, None))

    def order(self, do: str, limit: int, lease_seconds: int) -> None:
        """Tell it to claim and what to do then. Its end, if it has ended, is reported."""
        line = json.dumps({"do": do, "limit": limit, "lease_seconds": lease_seconds})
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()

    def kill(self) -> bool:
        """SIGKILL. Tells whether that was what ended it."""
        self.process.kill()
        return self.process.wait() == -signal.SIGKILL

    def wait_until_stopped(self) -> bool:
        """Wait for the SIGSTOP that it has announced. False if it ended instead."""
        _, status = os.waitpid(self.process.pid, os.WUNTRACED)
        return os.WIFSTOPPED(status)

    def wake(self) -> None:
        """SIGCONT."""
        self.process.send_signal(signal.SIGCONT)

    def dismiss(self) -> bool:
        """Close its orders and wait for its end. Tells whether it ended well."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            return self.process.wait(END_SECONDS) == 0
        except subprocess.TimeoutExpired:
            return False

    def remove(self) -> None:
        """Make an end of it whatever it does, and close what is open."""
        self.process.kill()
        self.process.wait()
        self._listener.join()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):  # an order that was never read
                pipe.close()

    def last_words(self) -> str:
        """The end of what it wrote to stderr."""
        lines = self.errors.read_text("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"


class Crew:
    """All workers on one store; leaving the `with` block ends every one of them."""

    def __init__(self, store: str, folder: Path, notes: Path) -> None:
        self.store = store
        self.folder = folder
        self.notes = notes
        self.reports: SimpleQueue[tuple[Member, Report]] = SimpleQueue()
        self.members: list[Member] = []

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *raised: object) -> None:
        for member in self.members:
            member.remove()

    def hire(self) -> Member:
        """Start one more worker."""
        member = Member(self, f"worker-{len(self.members) + 1}")
        self.members.append(member)
        return member

    def next_report(self, seconds: float) -> tuple[Member, Report] | None:
        """The next report (None within it: the process has ended), or None if none came."""
        try:
            return self.reports.get(timeout=seconds)
        except Empty:
            return None
