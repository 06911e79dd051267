"""Runs other queues through their adapters in `bench/peers/`, each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from fencepost.operate.bench.lab import CheckFailed, NotHere

FOLDER = Path(__file__).resolve().parents[3] / "bench" / "peers"
TIMEOUT_SECONDS = 300
NOT_IMPORTABLE = 3


def known() -> list[str]:
    """The peers that have an adapter here; an installed package brings none."""
    return sorted(path.parent.name for path in FOLDER.glob("*/adapter.py"))


def about(name: str) -> dict[str, Any]:
    """Version and guarantees, as the adapter tells them. NotHere if it cannot be imported."""
    return _call(name, "about")


def run(name: str, folder: Path, tasks: int, payload: dict[str, Any]) -> float:
    """Tasks a second that the peer drains. CheckFailed if it did not do each exactly once."""
    found = _call(name, "drain", str(folder), str(tasks), json.dumps(payload))
    if found["handled"] != tasks or found["distinct"] != tasks or found["pending"]:
        raise CheckFailed(f"{name} handled {found['handled']} of {tasks} tasks: {found}")
    return float(found["rate"])


def _call(name: str, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, str(FOLDER / name / "adapter.py"), *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise NotHere(f"no answer within {TIMEOUT_SECONDS} s") from None
    if done.returncode == NOT_IMPORTABLE:
        raise NotHere(done.stderr.strip() or "it cannot be imported")
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise NotHere(f"its adapter ended with {done.returncode}: {last}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
