"""The works that child.py can do: what a process of its own does for a phase."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from time import monotonic, perf_counter, process_time, sleep
from typing import Any

from fencepost.handle import Handle
from fencepost.operate.bench import callers, load, machine
from fencepost.operate.bench.lab import (
    BATCH,
    QUEUE,
    completion,
    drain_batch,
    fill,
    finish,
    reopen,
)

TURN_BATCH = 10
POLL_SECONDS = 0.0005
GLANCE_SECONDS = 0.01


def _callers(folder: str, *numbers: int) -> dict[str, Any]:
    """The phase callers, under whatever was loaded before this process."""
    place = Path(folder)
    rate = machine.syncs_per_second(place)
    return {"fdatasync": rate, **callers.measure(place, *numbers)}


def _ready(handle: Handle) -> float:
    """Say that we are ready; wait until told to begin. Returns the time."""
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    return monotonic()


def _turns(path: str, worker: str, seconds: float) -> dict[str, Any]:
    """Enqueue 10, claim 10, complete 10, over and over; the waits for the turn in ms."""
    waits: list[float] = []
    with reopen(path) as handle:
        _watch(handle, waits)
        until = _ready(handle) + seconds
        done = 0
        while monotonic() < until:
            fill(handle, TURN_BATCH)
            leases = handle.claim(QUEUE, worker_id=worker, limit=TURN_BATCH)
            outcomes = handle.execute([completion(lease) for lease in leases])
            done += sum(outcome.accepted for outcome in outcomes)
    return {"done": done, "waits": [wait * 1e3 for wait in waits]}


def _watch(handle: Handle, waits: list[float]) -> None:
    """Note the seconds that each turn was waited for, as the turn itself tells them."""
    turn: Any = handle._store._turn  # type: ignore[attr-defined]
    acquire = turn.acquire

    def noted(timeout: float | None = None) -> float:
        waited: float = acquire(timeout)
        waits.append(waited)
        return waited

    turn.acquire = noted


def _starts(path: str, expected: int) -> dict[str, Any]:
    """Poll for changes and claim; milliseconds from the call of enqueue to the lease in hand.

    The time in the payload is the system's monotonic clock, which all processes share.
    """
    found: list[float] = []
    with reopen(path) as handle:
        last = handle.changed()
        _ready(handle)
        quiet_since = monotonic()
        while len(found) < expected and monotonic() - quiet_since < 10:
            now = handle.changed()
            if now == last:
                sleep(POLL_SECONDS)
                continue
            last = now
            for lease in handle.claim(QUEUE, worker_id="waiting", limit=BATCH):
                quiet_since = monotonic()
                found.append((quiet_since - lease.payload["at"]) * 1e3)
    return {"milliseconds": found}


def _drain(path: str) -> dict[str, Any]:
    """Drain the queue; the peak of this process's memory."""
    with reopen(path) as handle:
        done, began = 0, perf_counter()
        while number := drain_batch(handle):
            done += number
        taken = perf_counter() - began
    return {"done": done, "rate": done / taken, "peak": machine.peak_mb()}


def _waits(path: str, expected: int) -> dict[str, Any]:
    """As `_starts`, by claims that wait for a task to be there."""
    found: list[float] = []
    with reopen(path) as handle:
        _ready(handle)
        while len(found) < expected:
            leases = handle.claim(QUEUE, worker_id="waiting", limit=BATCH, wait_seconds=10)
            now = monotonic()
            if not leases:
                break
            found += [(now - lease.payload["at"]) * 1e3 for lease in leases]
    return {"milliseconds": found}


def _pg_drain(url: str, worker: str, parts: int = 1) -> dict[str, Any]:
    """Drain the queue, beside others perhaps: when that began and ended on the clock that all
    processes share, and the moments by which each of `parts` equal parts was done."""
    with reopen(url) as handle:
        left = handle.stats()["queues"][-1]["tasks"] if parts > 1 else 0
        began = _ready(handle)
        done, moments = 0, [began]
        while leases := handle.claim(QUEUE, worker_id=worker, limit=BATCH):
            finish(handle, leases)
            done += len(leases)
            if parts > 1 and done * parts >= left * len(moments):
                moments.append(monotonic())
        ended = monotonic()
    return {"done": done, "began": began, "ended": ended, "moments": moments}


def _deliver(folder: str, expected: int) -> dict[str, Any]:
    """Deliver until so many have arrived: their rate, from the first look at the destinations to
    the end of the last settlement, and the processor's time for each (microseconds)."""
    from fencepost.deliveries.dispatcher import Dispatcher
    from fencepost.worker.options import Options

    with reopen(f"{folder}/store.db") as handle:
        dispatcher = Dispatcher(handle, Options((), "dispatcher"), folder=Path(folder) / "memory")
        began, spent = perf_counter(), process_time()
        thread = Thread(target=dispatcher.run)
        thread.start()
        while dispatcher.counts.get("complete", 0) < expected and thread.is_alive():
            sleep(GLANCE_SECONDS)
        taken, spent = perf_counter() - began, process_time() - spent
        done = dispatcher.counts.get("complete", 0)
        dispatcher.stop()
        thread.join()
    return {"rate": done / taken, "cpu": spent / max(done, 1) * 1e6}


WORKS: dict[str, Callable[..., dict[str, Any]]] = {
    "callers": _callers,
    "turns": _turns,
    "starts": _starts,
    "drain": _drain,
    "http": load.http,
    "waits": _waits,
    "deliver": _deliver,
    "pg_drain": _pg_drain,
}
