"""Phase journal: what the journal costs a completion.

`share` compares batches of completions as they are with the same where no entry is made, in two
stores by turns: what is left out then is all of it, digests, bytes, row, index and log. An entry
is the receipt too, so the comparison is with a queue that keeps no receipt at all. The parts of
it are timed around the functions that do them. Only this module changes what it measures.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any
from unittest.mock import patch

from fencepost.clock import SystemClock
from fencepost.handle import Handle
from fencepost.journal import entry
from fencepost.machine.batch import Batch
from fencepost.model import Receipt
from fencepost.operate.bench import checks
from fencepost.operate.bench.lab import (
    BATCH,
    QUEUE,
    WORKER,
    Figures,
    Lab,
    Measuring,
    NotHere,
    fill,
    finish,
    new_store,
)
from fencepost.storage.sqlite import driver

SEAL_AT_ONCE = 400
NO_RECEIPT = Receipt(0, b"{}", b"", b"", None)


def journal(lab: Lab) -> Measuring:
    """See the rows of goals.py."""
    while True:
        folder = lab.fresh("journal")
        yield _measure(folder, lab.sizes.journal_batches)
        shutil.rmtree(folder)


def _measure(folder: Path, batches: int) -> Figures:
    path, tasks = folder / "with.db", batches * BATCH
    with new_store(path) as kept, new_store(folder / "without.db") as bare:
        for handle in (kept, bare):
            fill(handle, 2 * tasks if handle is kept else tasks)
        pairs = []
        for _ in range(batches):
            completing = _completions(kept)
            with no_entries():
                pairs.append((completing, _completions(bare)))
        building, writing, timed = _parts(kept, batches)
        sealed, taken = _seal(kept)
    full, lean = (median(side) / BATCH for side in zip(*pairs, strict=True))
    checks.check_all(path, 2 * tasks)
    return {
        "with": full * 1e6,
        "without": lean * 1e6,
        "share": 1 - lean / full,
        "building": building / timed,
        "writing": writing / timed,
        "sealing": sealed / taken,
        "sealing_share": taken / sealed / full,
    }


def _completions(handle: Handle) -> float:
    """Seconds of a batch of 100 completions; its claim stays outside."""
    leases = handle.claim(QUEUE, worker_id=WORKER, limit=BATCH)
    began = perf_counter()
    finish(handle, leases)
    return perf_counter() - began


@contextmanager
def no_entries() -> Iterator[None]:
    """A product without a journal: the entry is neither built nor written."""

    def record(batch: Batch, *_: Any, **__: Any) -> Receipt:
        return NO_RECEIPT

    with patch.object(Batch, "record", record), patch.object(entry, "item", lambda *_: ""):
        yield


def _parts(handle: Handle, batches: int) -> tuple[float, float, float]:
    """Seconds of building entries, of inserting them, and of all the completions."""
    building, writing = Stopwatch(), Stopwatch()
    inserting = _inserts(driver._answer, writing)
    taken = 0.0
    for _ in range(batches):
        leases = handle.claim(QUEUE, worker_id=WORKER, limit=BATCH)
        with (
            patch.object(Batch, "record", building.around(Batch.record)),
            patch.object(entry, "item", building.around(entry.item)),
            patch.object(driver, "_answer", inserting),
        ):
            began = perf_counter()
            finish(handle, leases)
            taken += perf_counter() - began
    if not (building.calls and writing.calls):
        raise NotHere("the functions that make and write entries have moved")
    return building.seconds, writing.seconds, taken


class Stopwatch:
    """Adds up the seconds inside a function."""

    def __init__(self) -> None:
        self.seconds, self.calls = 0.0, 0

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, timed."""

        def timed(*given: Any, **named: Any) -> Any:
            began = perf_counter()
            try:
                return function(*given, **named)
            finally:
                self.seconds += perf_counter() - began
                self.calls += 1

        return timed


def _inserts(answer: Callable[..., Any], watch: Stopwatch) -> Callable[..., Any]:
    """The driver's step, timed where it inserts entries."""
    timed = watch.around(answer)

    def asked(connection: Any, ask: Any) -> Any:
        inserts = getattr(ask, "name", "") == "insert_entry"  # several together come one by one
        return (timed if inserts else answer)(connection, ask)

    return asked


def _seal(handle: Handle) -> tuple[int, float]:
    """Seal all that is waiting. Returns the number of entries and the seconds."""
    store: Any = handle._store
    now = SystemClock().wall()
    number: int = handle.about()["unsealed"]
    with store.turn():
        began = perf_counter()
        while store.seal(now, SEAL_AT_ONCE):
            pass
        return number, perf_counter() - began
