"""Phase deliveries: a dispatcher in a process of its own, a receiver of the kit in another, and
what obligations cost the worker whose results bring them about.

The receiver is fenced, on the same disk, with one transaction for what comes at the same time. The
other destination, where there is one, refuses every connection and has as much owed to it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

from fencepost.operate.bench import checks, child
from fencepost.operate.bench.lab import (
    DESTINATION,
    QUEUE,
    CheckFailed,
    Figures,
    Lab,
    Measuring,
    drain_batch,
    fill,
    new_store,
    reopen,
)
from fencepost.operate.children import environment

DOWN = "down"
CONCURRENCY = 256
STOP_SECONDS = 10
NOBODY = "http://127.0.0.1:9/"  # the discard port, where nobody listens


def deliveries(lab: Lab) -> Measuring:
    """See the rows of goals.py."""
    while True:
        figures: Figures = {}
        for name, owed in (("without", []), ("with", [DESTINATION])):
            figures[name] = _completion(lab, owed)
        figures["share"] = figures["with"] / figures["without"] - 1
        for name, down in (("rate", False), ("beside", True)):
            found = _delivered(lab, down=down)
            figures[name] = found["rate"]
            if not down:
                figures["cpu"] = found["cpu"]
        yield figures


def _completion(lab: Lab, owed: list[str]) -> float:
    """Microseconds of a task that is claimed and completed in batches of 100."""
    folder = lab.fresh("owed")
    with new_store(folder / "store.db") as handle:
        handle.queue_set(QUEUE, destinations=owed)
        fill(handle, lab.sizes.deliveries)
        began = perf_counter()
        done = 0
        while number := drain_batch(handle):
            done += number
        taken = perf_counter() - began
    if done != lab.sizes.deliveries:
        raise CheckFailed(f"{done} of {lab.sizes.deliveries} tasks were completed")
    shutil.rmtree(folder)
    return taken / done * 1e6


def _delivered(lab: Lab, *, down: bool) -> dict[str, float]:
    folder = lab.fresh("deliveries")
    number = lab.sizes.deliveries
    with _receiver(folder) as (port, secret), new_store(folder / "store.db") as handle:
        options = {"allow_private": True, "concurrency": CONCURRENCY}
        address = f"http://127.0.0.1:{port}/"
        handle.destination_set(DESTINATION, address, class_="fenced", options=options)
        handle.destination_secret(DESTINATION, secret)
        if down:
            handle.destination_set(DOWN, NOBODY, class_="idempotent", options=options)
            handle.queue_set(QUEUE, destinations=[DESTINATION, DOWN])
        fill(handle, number)
        while drain_batch(handle):
            pass
        found = child.run("deliver", [str(folder), number])
    _check(folder, number)
    shutil.rmtree(folder)
    return found


@contextmanager
def _receiver(folder: Path) -> Iterator[tuple[int, str]]:
    """A receiver of the kit in a process of its own: its port, and its secret."""
    from fencepost.receiver.signing import new_secret

    secret = folder / "secret"
    secret.write_text(new_secret() + "\n", encoding="ascii")
    secret.chmod(0o600)
    command = [
        sys.executable, "-m", "fencepost.receiver", "--store", str(folder / "receiver.db"),
        "--secret-file", str(secret), "--port", "0", "--quiet",
    ]  # fmt: skip
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env=environment(),
    )  # fmt: skip
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if "listening" not in line:
            raise CheckFailed("the receiver did not start")
        yield int(line.rstrip().rpartition(":")[2]), secret.read_text(encoding="ascii").strip()
    finally:
        process.terminate()
        try:
            process.communicate(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def _check(folder: Path, number: int) -> None:
    """What the receiver has is what was accepted, each once."""
    command = [sys.executable, "-m", "fencepost.receiver", "accepted", "--store",
               str(folder / "receiver.db")]  # fmt: skip
    told = subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment()
    ).stdout.splitlines()
    with reopen(folder / "store.db") as handle:
        done = sum(1 for _ in handle.tasks(DESTINATION, state="done"))
    if len(set(told)) != number or done != number:
        raise CheckFailed(f"{len(set(told))} effects and {done} settled of {number} obligations")
    checks.check_journal(folder / "store.db")
