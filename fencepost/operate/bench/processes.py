"""Phases processes, latency and memory: what only several processes show."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path
from statistics import quantiles
from time import monotonic, sleep
from typing import Any

from fencepost.handle import Handle
from fencepost.operate.bench import checks, child
from fencepost.operate.bench.lab import (
    QUEUE,
    CheckFailed,
    Figures,
    Lab,
    Measuring,
    fill,
    new_store,
)


def processes(lab: Lab) -> Measuring:
    """One process, then many, on a file: rates, fairness, waits for a turn."""
    number, seconds = lab.sizes.processes, lab.sizes.process_seconds
    while True:
        folder = lab.fresh("processes")
        alone = _together(folder / "one.db", 1, seconds)
        crowd = _together(folder / "eight.db", number, seconds)
        served = [found["done"] for found in crowd]
        waits = sorted(wait for found in crowd for wait in found["waits"])
        shutil.rmtree(folder)
        yield {
            "one": alone[0]["done"] / seconds,
            "eight": sum(served) / seconds,
            "fair": min(served) / max(served),
            "wait_p50": percentile(waits, 50),
            "wait_p99": percentile(waits, 99),
            "wait_max": waits[-1],
        }


def _together(path: Path, number: int, seconds: float) -> list[dict[str, Any]]:
    """So many processes on one store, begun at one moment."""
    new_store(path).close()
    running = [child.start("turns", [str(path), f"worker-{n}", seconds]) for n in range(number)]
    found = begin(running)
    checks.check_all(path, sum(one["done"] for one in found))
    return found


def begin(running: list[subprocess.Popen[str]]) -> list[dict[str, Any]]:
    """Wait until all are ready, start them at once, collect the answers; leave none behind."""
    try:
        for process in running:
            _await_ready(process)
        for process in running:
            _tell(process)
        return [child.answer(process) for process in running]
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
                process.communicate()


def _await_ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    if process.stdout.readline() != "ready\n":
        child.answer(process)
        raise CheckFailed("a process of the benchmark did not start")


def _tell(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def percentile(ordered: list[float], percent: int) -> float:
    """The percentile of a list, interpolated; the value itself where there is one only."""
    if len(ordered) < 2:
        return ordered[0]
    return quantiles(ordered, n=100, method="inclusive")[percent - 1]


def latency(lab: Lab) -> Measuring:
    """A task is enqueued here and another process, which polls, has it in its hand."""
    while True:
        path = lab.fresh("latency") / "store.db"
        with new_store(path) as handle:
            figures = tasks_seen(handle, path, "starts", lab.sizes.latencies)
        checks.check_journal(path)
        shutil.rmtree(path.parent)
        yield figures


def tasks_seen(handle: Handle, place: Path | str, work: str, number: int) -> Figures:
    """Milliseconds until the other process, which does `work`, has in its hand what is enqueued
    here, one after another."""
    gaps = random.Random(7)  # noqa: S311 - spreads the sends, keeps no secret
    waiting = child.start(work, [str(place), number])
    try:
        _await_ready(waiting)
        _tell(waiting)
        for _ in range(number):
            sleep(gaps.uniform(0.005, 0.025))
            handle.enqueue(QUEUE, {"at": monotonic()})
        found: list[float] = child.answer(waiting)["milliseconds"]
    finally:
        if waiting.poll() is None:
            waiting.kill()
            waiting.communicate()
    if len(found) != number:
        raise CheckFailed(f"{len(found)} of {number} tasks were started")
    found.sort()
    return {"p50": percentile(found, 50), "p99": percentile(found, 99)}


def memory(lab: Lab) -> Measuring:
    """Measured once a run: a fresh process drains a long queue."""
    tasks = lab.sizes.memory_tasks
    path = lab.fresh("memory") / "store.db"
    with new_store(path) as handle:
        fill(handle, tasks)
    found = child.run("drain", [str(path)])
    (checks.check_all if lab.sizes.memory_verify else checks.check)(path, tasks, told=found["done"])
    shutil.rmtree(path.parent)
    figures: Figures = {"peak": found["peak"], "rate": found["rate"]}
    yield figures
