"""`fencepost work` as a process that is stopped, killed and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any, Self

import fencepost
from fencepost.worker import sweeping
from fencepost.worker.memory import digest_of
from helpers.shell import command, environment

# A task whose work shows on the disk: one line when it begins, one when it ends.
SAYS = 'read n; echo "$FENCEPOST_TASK" >> "$OUT/begun"; '
ENDS = 'echo "$FENCEPOST_TASK" >> "$OUT/ended"; echo "{\\"n\\": $n}"'
# Ignores SIGTERM, and leaves two daemons of its own session that do too.
HOSTILE = (
    "import os,signal,sys,time\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "for _ in range(2):\n"
    "    if os.fork() == 0:\n"
    "        os.setsid()\n"
    "        if os.fork() == 0: time.sleep(600)\n"
    "        os._exit(0)\n"
    "open(os.environ['OUT'] + '/begun', 'a').write(os.environ['FENCEPOST_TASK'] + '\\n')\n"
    "time.sleep(600)\n"
)


class Life:
    """One process of a worker on `folder`. It is killed at the end if it lives still."""

    def __init__(
        self, folder: Path, *argv: str, worker: str = "w", flags: tuple[object, ...] = (),
        store: object = None, state: str = "", hangup: signal.Handlers = signal.SIG_DFL,
        **variables: str,
    ) -> None:  # fmt: skip
        self.folder, self.worker = folder, worker
        self.store = folder / "fencepost.db" if store is None else store
        self.state = folder / (state or f"state-{worker}")
        words = command(
            "--store", self.store, "--json", "work", "q", "--worker", worker, "--state",
            self.state, *flags, "--", *argv,
        )  # fmt: skip
        self.errors = (folder / f"{worker}.err").open("ab")
        before = signal.signal(signal.SIGHUP, hangup)  # the child begins with it, as from a shell
        self.child = subprocess.Popen(
            words, cwd=folder, env=environment(OUT=str(folder), **variables),
            stdout=subprocess.PIPE, stderr=self.errors, start_new_session=True,
        )  # fmt: skip
        signal.signal(signal.SIGHUP, before)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGCONT)
            self.child.kill()
        self.child.communicate()
        self.errors.close()

    def signal(self, number: int) -> None:
        os.kill(self.child.pid, number)

    def ends(self, seconds: float = 30) -> tuple[int, Any]:
        """(exit code, what it told)."""
        out, _ = self.child.communicate(timeout=seconds)
        return self.child.returncode, json.loads(out) if out.strip() else None

    def processes(self) -> list[int]:
        """Processes of its tasks that are alive, by the cookie that they carry."""
        store = os.path.realpath(self.store) if isinstance(self.store, Path) else str(self.store)
        identity = {"store": store, "scope": "default", "worker": self.worker,
                    "state": os.path.realpath(self.state)}  # fmt: skip
        return sweeping.found(f"{digest_of(identity)}.")


def lines(folder: Path, name: str) -> list[str]:
    """What the tasks have written so far."""
    file = folder / name
    return file.read_text().split() if file.exists() else []


def one_result_each(fp: fencepost.Handle, number: int) -> None:
    """Each of so many tasks is done, with the one result that is its own."""
    tasks = list(fp.tasks("q"))
    assert [task.state for task in tasks] == ["done"] * number, [t.state for t in tasks]
    for task in tasks:
        (result,) = fp.results(task.task_id)
        assert result.value == {"n": fp.task(task.task_id).payload}
    assert fp.verify().clean
