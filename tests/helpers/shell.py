"""The command line in this very process: arguments in, exit code and both streams out."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fencepost.cli import main

ROOT = Path(__file__).resolve().parents[2]
VARIABLES = ("FENCEPOST_STORE", "FENCEPOST_SCOPE", "FENCEPOST_ACTOR", "NO_COLOR", "FORCE_COLOR")


@dataclass(frozen=True)
class Ran:
    """What one command line came to."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[Any]:
        """Every line of stdout, parsed: with --json there is nothing else."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def json(self) -> Any:
        """The one line of stdout, parsed."""
        (value,) = self.lines
        return value

    @property
    def issues(self) -> list[str]:
        """Issues of the one outcome on stdout."""
        return list(self.json["issues"])


class Shell:
    """Runs command lines in a folder of its own, where ./fencepost.db is the store."""

    def __init__(
        self, folder: Path, capsys: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch
    ) -> None:
        self.folder, self._capsys, self._patch = folder, capsys, patch
        patch.chdir(folder)
        for name in VARIABLES:
            patch.delenv(name, raising=False)

    def __call__(self, *argv: object, stdin: bytes = b"") -> Ran:
        self._patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        self._capsys.readouterr()
        code = main([str(word) for word in argv])
        told = self._capsys.readouterr()
        return Ran(code, told.out, told.err)

    def json(self, *argv: object, stdin: bytes = b"") -> Any:
        """Run with --json what must be accepted; the one object that it prints."""
        ran = self("--json", *argv, stdin=stdin)
        assert ran.code == 0, ran
        return ran.json

    def task(self, payload: str = '{"n":1}', queue: str = "q", *flags: object) -> str:
        """Enqueue a task; its id."""
        return str(self.json("enqueue", queue, payload, *flags)["task_ids"][0])

    def lease(self, queue: str = "q", worker: str = "w") -> tuple[str, ...]:
        """Enqueue and claim a task; the arguments that name its lease."""
        self.task("1", queue)
        (grant,) = self.json("claim", queue, "--worker", worker)["leases"]
        return grant["task_id"], "--worker", worker, "--fence", str(grant["fencing_token"])


def environment(**more: str) -> dict[str, str]:
    """This process's environment, with the checkout to import from and nothing of ours set."""
    kept = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    return {**kept, "PYTHONPATH": str(ROOT), **more}


def command(*argv: object) -> list[str]:
    """The words that start the program as a process of its own."""
    return [sys.executable, "-m", "fencepost", *(str(word) for word in argv)]


def run(folder: Path, *argv: object, stdin: bytes = b"", **variables: str) -> Ran:
    """The same as a process of its own."""
    done = subprocess.run(
        command(*argv), cwd=folder, input=stdin, capture_output=True, check=False,
        env=environment(**variables),
    )  # fmt: skip
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())
