"""Workers without a network in tests: `work --offline` as a process, and OfflineWorker."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any, Self

from fencepost.worker import OfflineWorker, sweeping
from fencepost.worker.memory import digest_of
from helpers.field import Field, Laptop
from helpers.shell import command, environment

SH = ("sh", "-c")
SAYS = 'read n; echo "$FENCEPOST_KEY" >> "$OUT/begun"; '
KILLS = "kill -9 $(cut -d ' ' -f 4 /proc/$PPID/stat); sleep 600"  # the shim's parent: the worker


def taken(field: Field, *keys: str, **options: Any) -> Laptop:
    """A laptop that has taken tasks of these keys along."""
    field.offer(*keys)
    lap = field.laptop()
    lap.take(**options)
    return lap


class Life:
    """A process of `work --offline` on a laptop's outbox. Killed at the end if it lives still."""

    def __init__(
        self, lap: Laptop, *argv: str, flags: tuple[object, ...] = (), **variables: str
    ) -> None:
        self.lap = lap
        self.path = lap.folder / "offline.db"
        words = command("--json", "work", "--offline", self.path, *flags, "--", *argv)
        self.child = subprocess.Popen(
            words, cwd=lap.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=environment(OUT=str(lap.folder), **variables), start_new_session=True,
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.child.poll() is None:
            self.child.kill()
        self.child.communicate()

    def signal(self, number: int) -> None:
        os.kill(self.child.pid, number)

    def ends(self, seconds: float = 40) -> tuple[int, Any]:
        """(exit code, what it told)."""
        out, err = self.child.communicate(timeout=seconds)
        return self.child.returncode, json.loads(out) if out.strip() else err.decode()

    def processes(self) -> list[int]:
        """Processes of its tasks that are alive, by the cookie that they carry."""
        identity = {"store": os.path.realpath(self.path), "scope": "default", "worker": "lap"}
        return sweeping.found(f"{digest_of(identity)}.")


def worked(lap: Laptop, handler: Any, **options: Any) -> tuple[str, dict[str, int]]:
    """(how it ended, what became of the tasks)."""
    worker = OfflineWorker(lap.box, handler, max_seconds=40, **options)
    return worker.run(), worker.counts
