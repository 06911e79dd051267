"""Phase growth: the same work in a store of few and of many done tasks, and claims that have
100,000 tasks of a higher priority before them which are due later."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from fencepost.commands import NewTask
from fencepost.handle import Handle
from fencepost.operate.bench import checks
from fencepost.operate.bench.checks import Before
from fencepost.operate.bench.lab import (
    BATCH,
    QUEUE,
    WORKER,
    CheckFailed,
    Figures,
    Lab,
    Measuring,
    drain_batch,
    fill,
    new_store,
    payload,
    reopen,
)
from fencepost.storage.sqlite.connect import connect, use_wal
from fencepost.storage.sqltext import statements

SQL = statements("fencepost.operate.bench", "growth.sql")
HURRY = ("journal_mode = off", "synchronous = off", "cache_size = -262144")
FAR = datetime(2100, 1, 1, tzinfo=UTC)


def growth(lab: Lab) -> Measuring:
    """The stores are made once a run; each repetition goes to and fro between them."""
    folder, sizes = lab.fresh("growth"), lab.sizes
    with ExitStack() as stack:
        few = Grown(folder / "few.db", sizes.few_done, stack)
        many = Grown(folder / "many.db", sizes.many_done, stack)
        alone = _future(folder / "alone.db", 0, stack)
        behind = _future(folder / "behind.db", sizes.future, stack)
        while True:
            figures: Figures = {}
            for name, batch, number in (
                ("batch", BATCH, sizes.grown_batches), ("single", 1, sizes.grown_singles),
            ):  # fmt: skip
                seconds = _by_turns(few, many, batch, number)
                for grown, taken in zip(("few", "many"), seconds, strict=True):
                    figures[f"{grown}_{name}"] = batch / taken
            figures["claim_alone"], figures["claim_future"] = _claims(
                alone, behind, sizes.future_claims
            )
            yield figures


class Grown:
    """A store of so many done tasks, open, with the number of what was done since."""

    def __init__(self, path: Path, done: int, stack: ExitStack) -> None:
        with new_store(path) as handle:
            fill(handle, BATCH)
            drain_batch(handle)
        multiply(path, done)
        self.path, self.before, self.done = path, checks.before(path), 0
        self.handle = stack.enter_context(reopen(path))

    def work(self, batch: int) -> float:
        """Drain one batch, enqueued before. Returns the seconds."""
        began = perf_counter()
        self.done += drain_batch(self.handle, batch)
        return perf_counter() - began

    def check(self) -> None:
        """All that was done since the store was made is there once."""
        checks.check(self.path, self.done, since=self.before)


def _by_turns(few: Grown, many: Grown, batch: int, number: int) -> tuple[float, float]:
    """Median seconds of a batch in either store, batch by batch, so that what disturbs the
    machine meets both."""
    for grown in (few, many):
        fill(grown.handle, batch * number)
    taken = [(few.work(batch), many.work(batch)) for _ in range(number)]
    for grown in (few, many):
        grown.check()
    return median(pair[0] for pair in taken), median(pair[1] for pair in taken)


def multiply(path: Path, done: int) -> None:
    """Bring the store to so many done tasks. Nobody else may have it open."""
    connection = connect(path, writable=True)
    try:
        for setting in HURRY:
            connection.execute(f"pragma {setting}").fetchall()
        _multiply(connection, done)
        connection.execute("pragma synchronous = full")
        use_wal(connection)
    finally:
        connection.close()


def _multiply(connection: Any, done: int) -> None:
    ((task, entry),) = connection.execute(SQL["template"]).fetchall()
    numbers = Before(task, entry)
    # what follows must be free in both tables: the batch before it left its tasks and entries
    first = max(task + BATCH, entry) + 1
    values = {"first": first, "last": first + done - 1, "task": numbers.task, "entry": entry}
    connection.execute(SQL["begin"])
    for name in ("many_tasks", "many_payloads", "many_results", "many_entries", "many_nodes"):
        wanted = {key: values[key] for key in values if f":{key}" in SQL[name]}
        connection.execute(SQL[name], wanted)
    for level, position in _frontier(values["last"]):
        connection.execute(SQL["one_node"], {"level": level, "position": position})
    connection.execute(SQL["count_up"], {"last": values["last"]})
    connection.execute(SQL["commit"])


def _frontier(size: int) -> list[tuple[int, int]]:
    """The perfect subtrees of a tree of so many leaves: what sealing reads to go on."""
    places, done = [], 0
    for level in reversed(range(size.bit_length())):
        if size >> level & 1:
            places.append((level, done >> level))
            done += 1 << level
    return places


def _future(path: Path, future: int, stack: ExitStack) -> Handle:
    handle = stack.enter_context(new_store(path))
    later = (NewTask(payload(n), priority=9, due_at=FAR) for n in range(future))
    handle.enqueue_many(QUEUE, later)
    return handle


def _claims(alone: Handle, behind: Handle, number: int) -> tuple[float, float]:
    """Median microseconds of a claim of one task in both stores, by turns."""
    taken: tuple[list[float], list[float]] = ([], [])
    for handle in (alone, behind):
        fill(handle, number)
    for _ in range(number):
        for handle, found in zip((alone, behind), taken, strict=True):
            began = perf_counter()
            leases = handle.claim(QUEUE, worker_id=WORKER)
            found.append((perf_counter() - began) * 1e6)
            if len(leases) != 1:
                raise CheckFailed(f"a claim found {len(leases)} tasks where one was ready")
    return median(taken[0]), median(taken[1])
