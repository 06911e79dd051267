"""Runs other PostgreSQL queues through their adapters in `bench/postgres/`, on the same server.

How an adapter is called stands in `bench/postgres/adapting.py`. A drain runs from the first
handler's start until the peer's own tables have nothing pending; a peer that buffers what it
acknowledges gains nothing by it.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from fencepost.operate.bench.lab import CheckFailed, NotHere
from fencepost.operate.bench.pg_place import Server
from fencepost.operate.children import environment

FOLDER = Path(__file__).resolve().parents[3] / "bench" / "postgres"
NOT_IMPORTABLE = 3
TIMEOUT_SECONDS = 300
LOOK_SECONDS = 0.02


def known() -> list[str]:
    """The peers that have an adapter here; an installed package brings none."""
    return sorted(path.parent.name for path in FOLDER.glob("*/adapter.*"))


def about(name: str) -> dict[str, Any]:
    """Version, guarantees and how it is driven. NotHere if it cannot be loaded."""
    return _call(name, "about")


def measure(name: str, server: Server, tasks: int, singles: int) -> dict[str, float]:
    """Rates of bulk enqueue, of single enqueues by 16 callers, and of drains by one and by two
    worker processes; a peer may do fewer tasks than are given (`scale` in what it says)."""
    told = about(name)
    tasks = max(int(tasks * told["scale"]), 1)
    with server.database() as url:
        _call(name, "setup", url)
        found = {f"{name}_bulk": _call(name, "bulk", url, tasks)["rate"]}
        for processes in (1, 2):
            if processes == 2:
                _call(name, "bulk", url, tasks)
            server.settle(url)
            rate = _drain(name, told, server, url, tasks, processes)
            found[f"{name}_drain{processes}"] = rate
        found[f"{name}_single"] = _call(name, "single", url, singles)["rate"]
    return found


def _drain(
    name: str, told: dict[str, Any], server: Server, url: str, tasks: int, processes: int
) -> float:
    workers = [_start(name, "worker", url) for _ in range(processes)]
    try:
        with server.asking(url) as ask:
            until = monotonic() + TIMEOUT_SECONDS
            while ask(told["pending"])[0][0]:
                if monotonic() > until:
                    raise NotHere(f"it had not done {tasks} tasks after {TIMEOUT_SECONDS} s")
                if all(worker.poll() is not None for worker in workers):
                    raise NotHere(f"its workers ended: {workers[0].communicate()[1][-300:]}")
                sleep(LOOK_SECONDS)
            ended = monotonic()
        reports = [_ended(worker) for worker in workers]
    finally:
        for worker in workers:
            if worker.poll() is None:
                worker.kill()
            worker.communicate()
    handled = sum(report["handled"] for report in reports)
    if handled != tasks:
        raise CheckFailed(f"{name} handled {handled} of {tasks} tasks")
    first: float = min(report["first"] for report in reports if report["handled"])
    return tasks / (ended - first)


def _ended(worker: subprocess.Popen[str]) -> dict[str, Any]:
    """Its count and the moment of its first task, on the clock that all processes share."""
    worker.send_signal(signal.SIGTERM)
    out, err = worker.communicate(timeout=30)
    lines = [line for line in out.splitlines() if line.startswith("{")]
    if not lines:
        raise NotHere(f"a worker told nothing at its end: {err.strip()[-300:]}")
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def _command(name: str, *arguments: object) -> list[str]:
    (adapter,) = (FOLDER / name).glob("adapter.*")
    runner = sys.executable if adapter.suffix == ".py" else shutil.which("node")
    if runner is None:
        raise NotHere("there is no node to run it")
    return [runner, str(adapter), *map(str, arguments)]


def _start(name: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        _command(name, *arguments), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, env=environment(),
    )  # fmt: skip


def _call(name: str, *arguments: object) -> dict[str, Any]:
    process = _start(name, *arguments)
    try:
        out, err = process.communicate(timeout=TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise NotHere(f"no answer within {TIMEOUT_SECONDS} s") from None
    if process.returncode:
        lines = err.strip().splitlines() or ["no message"]
        if process.returncode == NOT_IMPORTABLE:
            raise NotHere(lines[0])
        raise NotHere(f"its adapter ended with {process.returncode}: {lines[-1]}")
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found
