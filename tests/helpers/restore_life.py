"""A restore in a process of its own, that is killed at one of its steps.

    python -m helpers.restore_life POINT BACKUP TARGET ERASURES [OPTION…]

It dies right after what it does to the disk, to the store or to receivers, of which each is
whole or is not; point 0 is never. It prints how many there were.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from fencepost.deliveries.http import HttpSender
from fencepost.operate import restore
from fencepost.operate.restoring import copying, erasures, progress, steps
from fencepost.operate.restoring.steps import Wishes
from fencepost.storage.sqlite.store import SqliteStore
from fencepost.storage.sqlite.transaction import SqliteTransaction

ROOT = Path(__file__).resolve().parents[2]
STEPS = (
    (progress.Progress, "keep"), (progress.Progress, "end"), (copying, "checked"),
    (copying, "_fold"), (copying, "write"), (steps, "write"), (restore, "write"),
    (HttpSender, "greet"), (SqliteStore, "begin_writer"), (SqliteTransaction, "commit"),
)  # fmt: skip


class Life:
    """Counts steps, and ends this process at one of them."""

    def __init__(self, point: int) -> None:
        self.point, self.steps = point, 0

    def step(self) -> None:
        self.steps += 1
        if self.steps == self.point:
            os.kill(os.getpid(), signal.SIGKILL)

    def plant(self) -> None:
        for owner, name in STEPS:
            setattr(owner, name, self.after(getattr(owner, name)))
        copying.os = Replacing(self.after(os.replace))  # type: ignore[attr-defined]

    def after(self, call: Any) -> Any:
        def stepped(*given: Any, **named: Any) -> Any:
            answer = call(*given, **named)
            self.step()
            return answer

        return stepped


class Replacing:
    """The module `os` with another `replace`."""

    def __init__(self, replace: Any) -> None:
        self.replace = replace

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


def main(point: str, backup: str, target: str, gone: str, *more: str) -> None:
    life = Life(int(point))
    again = erasures.read(Path(gone).read_text().splitlines())
    life.plant()
    found = restore.restore(backup, target, Wishes(erasures=again, take_over="take-over" in more))
    assert found.complete, found.receipt
    print(life.steps)


def lived(point: int, *given: object) -> tuple[int, str, str]:
    """Run it: its exit code (or -signal), and what it has said."""
    command = [sys.executable, "-m", "helpers.restore_life", str(point), *map(str, given)]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    ran = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "PYTHONPATH": paths},
    )  # fmt: skip
    return ran.returncode, ran.stdout, ran.stderr


if __name__ == "__main__":
    main(*sys.argv[1:])
