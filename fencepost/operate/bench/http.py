"""Phase http: the service on one core, its callers on another.

The empty request is authenticated and reads one row (`GET /v1/{scope}`). The clock of a rate runs
over 32 connections; the batches are one worker's, which claims 100 and completes 100, as the
embedded drain beside it does.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter

from fencepost.operate.bench import checks, child, load
from fencepost.operate.bench.lab import (
    BATCH,
    QUEUE,
    WORKER,
    CheckFailed,
    Lab,
    Measuring,
    NotHere,
    drain_batch,
    fill,
    new_store,
    reopen,
)
from fencepost.operate.bench.processes import percentile
from fencepost.operate.children import environment

STOP_SECONDS = 10
KIB_TO_MB = 1_024 / 1e6


def http(lab: Lab) -> Measuring:
    """See the rows of goals.py."""
    for needed in ("starlette", "uvicorn", "httptools"):
        if find_spec(needed) is None:
            raise NotHere(f"{needed} is not installed: pip install 'fencepost[server]'")
    while True:
        folder = lab.fresh("http")
        token = _store(folder, lab.sizes.http_tasks)
        shutil.copyfile(folder / "store.db", folder / "embedded.db")
        figures = {"embedded": _embedded(folder / "embedded.db")}
        with _service(folder) as (port, process):
            load.settle()
            numbers = [lab.sizes.http_tasks, lab.sizes.latencies]
            figures["idle"] = _rss_mb(process)
            found = child.run("http", [port, token, str(folder), numbers])
        _check(folder, lab.sizes.http_tasks)
        waits = sorted(found.pop("waits"))
        yield {**figures, **found, "wake_p50": percentile(waits, 50),
               "wake_p99": percentile(waits, 99)}  # fmt: skip
        shutil.rmtree(folder)


def _store(folder: Path, tasks: int) -> str:
    """A store with as many leases as tasks that are still ready; returns an operator's token."""
    with new_store(folder / "store.db") as handle:
        fill(handle, tasks * 2)
        leases = []
        for _ in range(-(-tasks // BATCH)):
            claimed = handle.claim(QUEUE, worker_id=WORKER, limit=BATCH)
            leases += [lease.grant.to_json() for lease in claimed]
        _, token = handle.token_create("bench", "operator")
    (folder / "leases.json").write_text(json.dumps(leases[:tasks]), encoding="utf-8")
    return token


def _embedded(path: Path) -> float:
    """The same drain without a network between, in this process."""
    done, began = 0, perf_counter()
    with reopen(path) as handle:
        while number := drain_batch(handle):
            done += number
        return done / (perf_counter() - began)


@contextmanager
def _service(folder: Path) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """`fencepost serve` on a free port and one core."""
    program = (
        "import sys; from fencepost.operate.bench.load import pin; pin(0); "
        "from fencepost.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", program, "--store", str(folder / "store.db"), "--json",
               "serve", "--port", "0"]  # fmt: skip
    with (folder / "log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment()
        )
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise CheckFailed("the service did not start; its last words are in its log")
            yield json.loads(line)["port"], process
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()


def _rss_mb(process: subprocess.Popen[str]) -> float:
    """Memory that the process holds, in MB of 10^6 bytes; a figure of Linux."""
    status = Path(f"/proc/{process.pid}/status")
    if os.name != "posix" or not status.exists():
        raise NotHere("this system does not tell the memory of another process")
    lines = status.read_text(encoding="ascii").splitlines()
    (rss,) = (line.split()[1] for line in lines if line.startswith("VmRSS:"))
    return int(rss) * KIB_TO_MB


def _check(folder: Path, tasks: int) -> None:
    with reopen(folder / "store.db") as handle:
        done = sum(1 for _ in handle.tasks(QUEUE, state="done"))
    if done < tasks * 2:
        raise CheckFailed(f"{done} of {tasks * 2} tasks are done")
    checks.check_journal(folder / "store.db")
