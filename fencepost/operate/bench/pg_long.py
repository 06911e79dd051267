"""Phases on PostgreSQL beside the rates: how soon a task is begun, what a snapshot held open does,
what a long past does, and what the journal costs single commands on a slow disk."""

from __future__ import annotations

from contextlib import nullcontext
from time import perf_counter

from fencepost.commands import Claim, Complete, Enqueue, NewTask
from fencepost.handle import Handle
from fencepost.operate.bench import child
from fencepost.operate.bench.journal import no_entries
from fencepost.operate.bench.lab import (
    BATCH,
    QUEUE,
    WORKER,
    CheckFailed,
    Figures,
    Lab,
    Measuring,
    NotHere,
    accepted,
    drain_batch,
    fill,
    payload,
    result,
)
from fencepost.operate.bench.pg_place import SQL, Server, connect, own, run, server_of
from fencepost.operate.bench.pg_plain import check, check_journal
from fencepost.operate.bench.processes import begin, tasks_seen
from fencepost.operate.bench.slow import compiled

PARTS = 5


def latency(lab: Lab) -> Measuring:
    """Another process has the task in its hand: one that polls `changed()`, one that waits."""
    server = server_of(lab)
    while True:
        figures: Figures = {}
        for work, prefix in (("starts", ""), ("waits", "wait_")):
            with server.store() as (url, handle):
                found = tasks_seen(handle, url, work, lab.sizes.latencies)
                check_journal(url)
            figures.update({f"{prefix}{name}": value for name, value in found.items()})
        yield figures


def held(lab: Lab) -> Measuring:
    """A drain while another session keeps the snapshot that it took before: no vacuum can take
    away what the drain leaves dead."""
    server, tasks = server_of(lab), lab.sizes.pg_held
    while True:
        with server.store() as (url, handle):
            fill(handle, tasks)
            handle.seal()
            server.settle(url)
            holder = connect(url)
            try:
                for name in ("hold_snapshot", "look"):
                    run(holder, SQL[name], {})
                (found,) = begin([child.start("pg_drain", [url, WORKER, PARTS])])
            finally:
                holder.close()
            check(server, url, tasks, told=found["done"])
        moments = found["moments"]
        if len(moments) != PARTS + 1:
            raise CheckFailed(f"{len(moments) - 1} of {PARTS} parts were told")
        part = tasks / PARTS
        yield {
            "first": part / (moments[1] - moments[0]),
            "last": part / (moments[-1] - moments[-2]),
        }


def growth(lab: Lab) -> Measuring:
    """The same work in two stores by turns, one of which has a long past."""
    server = server_of(lab)
    with server.store() as (few_url, few), server.store() as (many_url, many):
        for handle in (few, many):
            fill(handle, BATCH)
            drain_batch(handle)
            handle.seal()
        multiply(server, many_url, lab.sizes.pg_done)
        while True:
            for url in (few_url, many_url):
                server.settle(url)
            seconds = {"few": 0.0, "many": 0.0}
            for _ in range(lab.sizes.grown_batches):
                for name, handle in (("few", few), ("many", many)):
                    began = perf_counter()
                    fill(handle, BATCH)
                    done = drain_batch(handle)
                    seconds[name] += perf_counter() - began
                    if done != BATCH:
                        raise CheckFailed(f"{done} of {BATCH} tasks were claimed")
            number = lab.sizes.grown_batches * BATCH
            yield {name: number / taken for name, taken in seconds.items()}


def multiply(server: Server, url: str, number: int) -> None:
    """Make a done task into many, straight in the tables; their tree is not real."""
    with server.connected(url) as execute:
        ((task, entry, done),) = execute("last")
        first = max(task, entry) + 1_000_000
        values = {"first": first, "last": first + number - 1, "task": done}
        for name in ("many_tasks", "many_payloads", "many_results", "many_entries"):
            execute(name, **values)
        execute("count_up", last=first + number)


def slow(lab: Lab) -> Measuring:
    """Single commands one after another, with entries and without, on a server of our own whose
    every fsync takes so much longer. Simulated."""
    library = compiled(lab.folder)
    settings = {
        "LD_PRELOAD": str(library), "SLOWSYNC_US": str(round(lab.slow_ms * 1_000)),
    }  # fmt: skip
    lives = lab.sizes.pg_lives
    with own(lab, "pg-slow", settings) as server:
        while True:
            found = {}
            for name in ("with", "without"):
                with server.store() as (url, handle):
                    with no_entries() if name == "without" else nullcontext():
                        _lives(handle, 5)
                        began = perf_counter()
                        _lives(handle, lives)
                        found[name] = lives / (perf_counter() - began)
                    if name == "with":
                        check(server, url, lives + 5)
            if found["with"] > 1_000 / lab.slow_ms / 2:
                raise NotHere(f"the delay is not felt: {found['with']:,.0f} lives/s")
            yield {**found, "share": 1 - found["with"] / found["without"]}


def _lives(handle: Handle, number: int) -> None:
    for n in range(number):
        _one(handle, Enqueue(QUEUE, (NewTask(payload(n)),)))
        (grant,) = _one(handle, Claim(WORKER, (QUEUE,))).grants
        _one(handle, Complete(
            task_id=grant.task_id, worker_id=WORKER, fence=grant.fence, result=result(n),
        ))  # fmt: skip


def _one(handle: Handle, command: Enqueue | Claim | Complete):  # type: ignore[no-untyped-def]
    (outcome,) = handle.execute([command])
    return accepted(outcome)
