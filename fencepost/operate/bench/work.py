"""Phase work: what a worker costs beyond its work.

A command that does nothing, one after another, against the same command run by itself; and a Python
handler that does nothing, 100 at once, against the engine's own drain of a copy of the store.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from time import perf_counter

from fencepost.handle import Handle
from fencepost.operate.bench import checks
from fencepost.operate.bench.lab import (
    BATCH,
    LEASE_SECONDS,
    QUEUE,
    WORKER,
    CheckFailed,
    Figures,
    Lab,
    Measuring,
    drain_batch,
    fill,
    new_store,
    reopen,
    result,
)
from fencepost.worker import Work, Worker
from fencepost.worker.command import Command, Commands
from fencepost.worker.memory import Memory
from fencepost.worker.options import Options
from fencepost.worker.runtime import Runtime

NOTHING = ("sh", "-c", "true")


def work(lab: Lab) -> Measuring:
    """See the rows of goals.py."""
    while True:
        folder = lab.fresh("work")
        yield {**_commands(lab, folder), **_handlers(lab, folder)}
        shutil.rmtree(folder)


def _commands(lab: Lab, folder: Path) -> Figures:
    number = lab.sizes.commands
    began = perf_counter()
    for _ in range(number):
        subprocess.run(NOTHING, check=True)
    bare = (perf_counter() - began) / number
    with new_store(folder / "commands.db") as handle:
        fill(handle, number)
        commands = Commands(Command(NOTHING), handle.scope_name, "bench")
        options = Options((QUEUE,), WORKER, exit_when_empty=True)
        memory = Memory(folder / "commands", {"worker": WORKER})
        began = perf_counter()
        runtime = Runtime(handle, commands, options, memory)
        runtime.run()
        taken = (perf_counter() - began) / number
        memory.close()
        commands.close()
    done = runtime.counts["complete"]
    if done != number:
        raise CheckFailed(f"{done} of {number} commands were completed")
    return {"bare": bare * 1e3, "command": taken * 1e3, "overhead": (taken - bare) * 1e3}


def _handlers(lab: Lab, folder: Path) -> Figures:
    tasks = lab.sizes.tasks
    with new_store(folder / "engine.db") as handle:
        fill(handle, tasks)
    shutil.copyfile(folder / "engine.db", folder / "worker.db")
    with reopen(folder / "engine.db") as handle:
        began = perf_counter()
        while drain_batch(handle):
            pass
        engine = tasks / (perf_counter() - began)
    with reopen(folder / "worker.db") as handle:
        worker = _worker(handle, folder / "state")
        began = perf_counter()
        worker.run()
        drained = tasks / (perf_counter() - began)
    checks.check_all(folder / "worker.db", tasks, told=worker.counts.get("complete", 0))
    return {"engine": engine, "handlers": drained}


def _worker(handle: Handle, state: Path) -> Worker:
    return Worker(
        handle, QUEUE, _nothing, worker_id=WORKER, concurrency=BATCH, exit_when_empty=True,
        lease_seconds=LEASE_SECONDS, state=state,
    )  # fmt: skip


def _nothing(work: Work) -> dict[str, object]:
    return result(work.payload["n"])
