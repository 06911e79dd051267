"""The conformance kit as tests run it: a target put through cases, with all that was exchanged."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fencepost.conformance.adapters import Stdio
from fencepost.conformance.fault_injection_tests import CASES
from fencepost.conformance.targets import reach
from fencepost.conformance.verification import Run

KIT = Path(__file__).resolve().parents[2] / "fencepost" / "conformance"
EXAMPLE = KIT / "stdio_example.py"
BY_NAME = {case.name: case for case in CASES}


@contextmanager
def stores_in_memory() -> Iterator[None]:
    """Targets put their stores into memory where the machine has such a folder: what a disk does
    is not what the cases ask, and a run of all of them syncs some thousand times."""
    memory = Path("/dev/shm")  # noqa: S108  # targets make folders of their own in it
    before, kept = os.environ.get("TMPDIR"), tempfile.tempdir
    if os.access(memory, os.W_OK):
        os.environ["TMPDIR"], tempfile.tempdir = str(memory), None
    yield
    os.environ.pop("TMPDIR", None)
    if before is not None:
        os.environ["TMPDIR"] = before
    tempfile.tempdir = kept


class Listening:
    """An adapter that passes everything on and keeps what was asked and answered."""

    def __init__(self, adapter: Any) -> None:
        self.adapter = adapter
        self.heard: list[tuple[str, tuple[Any, ...], dict[str, Any], Any]] = []

    def __getattr__(self, op: str) -> Any:
        honest = getattr(self.adapter, op)

        def asked(*args: Any, **names: Any) -> Any:
            answer = honest(*args, **names)
            self.heard.append((op, args, names, answer))
            return answer

        return asked


def judged(adapter: Any, names: list[str] | None = None, seed: int = 1, told: Any = None) -> Run:
    """A run of these cases (default: all), with its adapter closed at the end."""
    run = Run(CASES, seed)
    try:
        run(adapter, names or list(BY_NAME), told or (lambda verdict: None))
    finally:
        adapter.close()
    return run


def target(name: str, seconds: float = 20, seed: int = 1) -> Any:
    """The adapter of a target as the command line names it."""
    return reach(name, seconds, seed)


def program(path: Path, text: str, *, seconds: float = 5) -> Stdio:
    """A target that is this Python program."""
    path.write_text(text, encoding="utf-8")
    return Stdio([sys.executable, "-S", str(path)], seconds)


def verdict(run: Run, name: str) -> dict[str, Any]:
    """What was found of one case."""
    (found,) = (found for found in run.verdicts if found["case"] == name)
    return found
