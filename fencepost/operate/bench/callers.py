"""Phase callers: 64 callers of single commands, each going enqueue → claim 1 → complete.

`batched`: one thread gathers the callers' single commands and sends them as one `execute`, as a
server does. `threads`: 64 plain threads, whose commands the writer gathers. Both against the
naive queue in one thread, whose every command is a commit.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from fencepost.commands import Claim, Command, Complete, Enqueue, NewTask
from fencepost.handle import Handle
from fencepost.model import Outcome
from fencepost.operate.bench import checks
from fencepost.operate.bench.lab import (
    DESTINATION,
    QUEUE,
    CheckFailed,
    Figures,
    Lab,
    Measuring,
    accepted,
    new_store,
    payload,
    result,
)
from fencepost.operate.bench.plain import Naive

Life = Generator[Command, Outcome, None]


def callers(lab: Lab) -> Measuring:
    """See the rows of goals.py."""
    sizes = lab.sizes
    while True:
        folder = lab.fresh("callers")
        yield measure(
            folder, sizes.callers, sizes.naive_lives, sizes.batched_lives, sizes.thread_lives
        )
        shutil.rmtree(folder)


def measure(folder: Path, number: int, naive: int, batched: int, threads: int) -> Figures:
    """Lives a second of all three; the last two are counted for each of `number` callers."""
    return {
        "naive": _naive(folder / "naive.db", naive),
        "batched": _timed(folder / "batched.db", number, batched, in_batches),
        "threads": _timed(folder / "threads.db", number, threads, in_threads),
    }


def life(worker: str, lives: int) -> Life:
    """One caller: yields its next command and is sent the outcome."""
    for n in range(lives):
        accepted((yield Enqueue(QUEUE, (NewTask(payload(n)),))))
        grants = accepted((yield Claim(worker, (QUEUE,)))).grants
        if len(grants) != 1:
            raise CheckFailed(f"a claim found {len(grants)} tasks where one was ready")
        grant = grants[0]
        accepted((yield Complete(
            task_id=grant.task_id, worker_id=worker, fence=grant.fence, result=result(n)
        )))  # fmt: skip


def _timed(
    path: Path, number: int, lives: int, drive: Callable[[Handle, list[Life]], None]
) -> float:
    with new_store(path) as handle:
        crew = [life(f"worker-{n}", lives) for n in range(number)]
        began = perf_counter()
        drive(handle, crew)
        taken = perf_counter() - began
    checks.check_all(path, number * lives)
    return number * lives / taken


def in_batches(handle: Handle, crew: list[Life]) -> None:
    """All waiting commands in one `execute`. The callers start a step apart, so that a batch
    holds all three verbs, as it does when callers come on their own."""
    late = [crew[1::3], crew[2::3]]
    waiting = [(caller, next(caller)) for caller in crew[0::3]]
    while waiting:
        outcomes = handle.execute([command for _, command in waiting])
        waiting = [
            (caller, following)
            for (caller, _), outcome in zip(waiting, outcomes, strict=True)
            if (following := _step(caller, outcome)) is not None
        ]
        if late:
            waiting += [(caller, next(caller)) for caller in late.pop(0)]


def _step(caller: Life, outcome: Outcome) -> Command | None:
    try:
        return caller.send(outcome)
    except StopIteration:
        return None


def in_threads(handle: Handle, crew: list[Life]) -> None:
    """A thread for each caller, one command a call."""

    def run(caller: Life) -> None:
        command: Any = next(caller)
        while command is not None:
            (outcome,) = handle.execute([command])
            command = _step(caller, outcome)

    at_once([partial(run, caller) for caller in crew])


def at_once(works: list[Callable[[], None]]) -> None:
    """A thread each; the first error is raised."""
    failed: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised again by the caller
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def _naive(path: Path, lives: int) -> float:
    with new_store(path) as handle:
        handle.queue_set(DESTINATION, paused=False)  # so that it is there
    queue = Naive(path)
    try:
        began = perf_counter()
        for n in range(lives):
            queue.enqueue(payload(n))
            claimed = queue.claim("worker")
            if claimed is None:
                raise CheckFailed("the naive queue lost a task")
            queue.complete(claimed[0], "worker", claimed[1], result(n))
        taken = perf_counter() - began
    finally:
        queue.close()
    checks.check(path, lives)
    return lives / taken
