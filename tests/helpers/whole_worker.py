"""A whole `fencepost.Worker` on a store on disk, run until its queue is empty."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fencepost
from fencepost.handle import Handle
from fencepost.worker import Work
from helpers.stand import QUEUE

SECONDS = 20.0


@contextmanager
def store(folder: Path) -> Iterator[Handle]:
    """A store whose failed tasks are tried again at once."""
    with fencepost.open(folder / "work.db", create=True) as fp:
        fp.queue_set(QUEUE, backoff_seconds=0)
        yield fp


def worker(fp: Any, handler: Callable[[Work], Any], **options: Any) -> fencepost.Worker:
    """One that ends when the queue is empty, and after 20 s in any case."""
    settings = {"worker_id": "w", "exit_when_empty": True, "max_seconds": SECONDS, **options}
    return fencepost.Worker(fp, QUEUE, handler, **settings)


def run(fp: Any, handler: Callable[[Work], Any], **options: Any) -> tuple[str, dict[str, int]]:
    """(how it ended, what was settled)."""
    made = worker(fp, handler, **options)
    return made.run(), made.counts


def fill(fp: Handle, number: int) -> list[fencepost.Receipt]:
    return fp.enqueue_many(QUEUE, ({"payload": n} for n in range(number)))


def results(fp: Handle) -> list[Any]:
    return sorted(r.value for t in fp.tasks(QUEUE) for r in fp.results(t.task_id))


def states(fp: Handle) -> list[str]:
    return sorted(task.state for task in fp.tasks(QUEUE))
