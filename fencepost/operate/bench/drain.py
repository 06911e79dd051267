"""Phase drain: limit, naive queue, product, floor and peers on the same tasks.

The unit of work: claim 100 at a time, complete each with result, receipt, journal entry and one
obligation. The clock runs from the first claim to the last acknowledged completion.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from time import perf_counter

from fencepost.operate.bench import checks, floor, peers
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
    payload,
    reopen,
    result,
)
from fencepost.operate.bench.plain import Naive, commits_per_second


def drain(lab: Lab) -> Measuring:
    """See the rows of goals.py."""
    while True:
        folder = lab.fresh("drain")
        figures = {"commits": commits_per_second(folder, lab.sizes.commits)}
        _enqueue(lab, folder / "before.db", figures)
        for copy in ("product.db", "floor.db", "naive.db"):
            shutil.copyfile(folder / "before.db", folder / copy)
        _product(lab, folder, figures)
        _floor(lab, folder, figures)
        _naive(lab, folder, figures)
        _peers(lab, folder, figures)
        shutil.rmtree(folder)
        yield figures


def _enqueue(lab: Lab, path: Path, figures: Figures) -> None:
    tasks = lab.sizes.tasks
    with new_store(path) as handle:
        began = perf_counter()
        fill(handle, tasks)
        figures["enqueue"] = tasks / (perf_counter() - began)
    checks.check(path, 0, left=tasks)


def _product(lab: Lab, folder: Path, figures: Figures) -> None:
    tasks, path = lab.sizes.tasks, folder / "product.db"
    completing = 0.0
    done = 0
    with reopen(path) as handle:
        began = perf_counter()
        while leases := handle.claim(QUEUE, worker_id=WORKER, limit=BATCH):
            claimed = perf_counter()
            finish(handle, leases)
            completing += perf_counter() - claimed
            done += len(leases)
        taken = perf_counter() - began
    sealed = perf_counter() - began  # closing seals what is left of a long backlog
    checks.check_all(path, tasks, told=done)
    figures.update(
        drain=tasks / taken, sealed=tasks / sealed, completions=tasks / completing
    )


def _floor(lab: Lab, folder: Path, figures: Figures) -> None:
    tasks, base = lab.sizes.tasks, checks.before(folder / "before.db")
    transactions = floor.written_since(folder / "product.db", base)
    claims, completions = floor.write_again(folder / "floor.db", transactions)
    checks.check(folder / "floor.db", tasks)
    figures.update(floor=tasks / completions, floor_both=tasks / (claims + completions))


def _naive(lab: Lab, folder: Path, figures: Figures) -> None:
    number, path = lab.sizes.naive, folder / "naive.db"
    queue = Naive(path)
    try:
        began = perf_counter()
        for n in range(number):
            claimed = queue.claim(WORKER)
            assert claimed is not None
            queue.complete(claimed[0], WORKER, claimed[1], result(n))
        taken = perf_counter() - began
    finally:
        queue.close()
    checks.check(path, number, left=lab.sizes.tasks - number)
    figures["naive"] = number / taken


def _peers(lab: Lab, folder: Path, figures: Figures) -> None:
    for name in peers.known():
        if name not in lab.peers:
            lab.missing.setdefault(("drain", name), "left out with --peers")
            continue
        try:
            place = folder / name
            place.mkdir()
            figures[name] = peers.run(name, place, lab.sizes.peer_tasks, payload(0))
        except NotHere as why:
            lab.missing["drain", name] = str(why)
