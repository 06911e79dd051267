"""`fencepost serve` as a process of its own, as its users start it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, Self

import fencepost
from helpers.shell import command, environment
from helpers.web import Asking


class Service(Asking):
    """A process that serves `folder/work.db`, or `store`, which is made if it is not there.

    `with Service(folder, "--dev") as web: web.post(…)`. It is killed at the end if it lives still.
    """

    def __init__(
        self, folder: Path, *flags: str, log: Path | None = None, store: str | None = None,
        **variables: str,
    ) -> None:  # fmt: skip
        self.path = store or folder / "work.db"
        if not (isinstance(self.path, Path) and self.path.exists()):
            fencepost.open(self.path, create=True).close()
        self.stderr = log or folder / "serve.err"
        words = command("--store", self.path, "--json", "serve", "--port", "0", *flags)
        with self.stderr.open("w", encoding="utf-8") as sink:
            self.child = subprocess.Popen(
                words, cwd=folder, env=environment(**variables), text=True,
                stdout=subprocess.PIPE, stderr=sink,
            )  # fmt: skip

    def __enter__(self) -> Self:
        assert self.child.stdout is not None
        line = self.child.stdout.readline()  # ends where the process does
        assert line, f"the service did not start:\n{self.said()}"
        told = json.loads(line)
        self.url, self.port = told["url"], told["port"]
        return self

    def __exit__(self, *_: object) -> None:
        self.child.kill()
        self.child.communicate()

    def said(self) -> str:
        """What it has written to standard error."""
        return self.stderr.read_text(encoding="utf-8")

    def lines(self) -> list[dict[str, Any]]:
        """The lines of its log."""
        return [json.loads(line) for line in self.said().splitlines() if line.startswith("{")]

    def ended(self, *signals: int, seconds: float = 30) -> tuple[int, float]:
        """(exit code, seconds that it took) once it has been sent these signals."""
        began = time.monotonic()
        for number in signals or (signal.SIGTERM,):
            os.kill(self.child.pid, number)
        return self.child.wait(seconds), time.monotonic() - began

    def token(self, kind: str, actor: str = "", **more: Any) -> str:
        """A token of this kind, made beside the service."""
        with fencepost.open(self.path) as fp:
            return str(fp.token_create(actor or kind, kind, **more)[1])  # type: ignore[arg-type]


def planted(folder: Path, program: str) -> dict[str, str]:
    """Variables under which every Python begins with this program: a bug planted in a process."""
    (folder / "sitecustomize.py").write_text(program, encoding="utf-8")
    return {"PYTHONPATH": os.pathsep.join([str(folder), environment()["PYTHONPATH"]])}
