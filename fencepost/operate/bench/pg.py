"""Phases on PostgreSQL: the same work through the product's public face, by a naive queue and by
peers, on one server with fsync and synchronous_commit on."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

from fencepost.handle import Handle
from fencepost.operate.bench import child, pg_peers
from fencepost.operate.bench.callers import Life, at_once, in_batches, in_threads, life
from fencepost.operate.bench.lab import (
    DESTINATION,
    QUEUE,
    Figures,
    Lab,
    Measuring,
    NotHere,
    fill,
    payload,
)
from fencepost.operate.bench.pg_place import Server, server_of
from fencepost.operate.bench.pg_plain import beside, check, check_journal
from fencepost.operate.bench.processes import begin

CALLERS = 16
NAIVE_CONNECTIONS = 8


def postgres(lab: Lab) -> Measuring:
    """See the rows of goals.py."""
    server = server_of(lab)
    while True:
        figures: Figures = {}
        _naive(lab, server, figures)
        _drains(lab, server, figures)
        figures["single"] = _singles(server, lab.sizes.pg_singles)
        for name, lives, drive in (
            ("batched", lab.sizes.batched_lives, in_batches),
            ("threads", lab.sizes.thread_lives, in_threads),
        ):
            figures[name] = _lives(server, lab.sizes.callers, lives, drive)
        _peers(lab, server, figures)
        yield figures


def _naive(lab: Lab, server: Server, figures: Figures) -> None:
    """On one connection, on eight, and whole lives on sixteen."""
    number = lab.sizes.naive
    for name, connections in (("naive1", 1), ("naive8", NAIVE_CONNECTIONS)):
        each = number // connections or 1
        with server.store() as (url, handle):
            fill(handle, each * connections)
            handle.queue_set(DESTINATION, paused=False)  # so that it is there
            server.settle(url)
            began = perf_counter()
            beside(url, connections, lambda queue, each=each: queue.drain(each))  # type: ignore[misc]
            figures[name] = each * connections / (perf_counter() - began)
            check(server, url, each * connections)
    each = number // CALLERS or 1
    with server.store() as (url, handle):
        handle.queue_set(DESTINATION, paused=False)
        began = perf_counter()
        beside(url, CALLERS, lambda queue: queue.lives(each))
        figures["naive_lives"] = each * CALLERS / (perf_counter() - began)
        check(server, url, each * CALLERS)


def _drains(lab: Lab, server: Server, figures: Figures) -> None:
    tasks = lab.sizes.tasks
    for processes in (1, 2):
        with server.store() as (url, handle):
            began = perf_counter()
            fill(handle, tasks)
            figures.setdefault("bulk", tasks / (perf_counter() - began))
            handle.seal()
            server.settle(url)
            found = drained(url, processes)
            figures[f"drain{processes}"] = tasks / (
                max(one["ended"] for one in found) - min(one["began"] for one in found)
            )
            check(server, url, tasks, told=sum(one["done"] for one in found))
            check_journal(url)


def drained(url: str, processes: int) -> list[dict[str, Any]]:
    """So many worker processes, begun at one moment, until nothing is ready."""
    return begin([child.start("pg_drain", [url, f"worker-{n}"]) for n in range(processes)])


def _singles(server: Server, number: int) -> float:
    """Single enqueues by sixteen threads of one process."""
    each = number // CALLERS
    with server.store() as (url, handle):
        def work() -> None:
            for n in range(each):
                handle.enqueue(QUEUE, payload(n))

        began = perf_counter()
        at_once([work] * CALLERS)
        taken = perf_counter() - began
        check(server, url, 0, left=each * CALLERS)
        return each * CALLERS / taken


def _lives(
    server: Server, number: int, lives: int, drive: Callable[[Handle, list[Life]], None]
) -> float:
    with server.store() as (url, handle):
        crew = [life(f"worker-{n}", lives) for n in range(number)]
        began = perf_counter()
        drive(handle, crew)
        taken = perf_counter() - began
        check(server, url, number * lives)
    return number * lives / taken


def _peers(lab: Lab, server: Server, figures: Figures) -> None:
    for name in pg_peers.known():
        if name not in lab.peers:
            _is_missing(lab, name, "left out with --peers")
            continue
        try:
            figures.update(
                pg_peers.measure(name, server, lab.sizes.tasks, lab.sizes.pg_singles)
            )
        except NotHere as why:
            _is_missing(lab, name, str(why))


def _is_missing(lab: Lab, name: str, why: str) -> None:
    for figure in ("bulk", "single", "drain1", "drain2"):
        lab.missing["postgres", f"{name}_{figure}"] = why
