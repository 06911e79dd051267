"""huey's SqliteHuey: one consumer thread, results off, SQLite's own settings (WAL, FULL).

A row is deleted when it is taken, so there is no acknowledgement: a killed worker loses its task.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from time import sleep
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from adapting import Handled, main


def about() -> dict[str, Any]:
    import huey

    return {
        "version": huey.__version__,
        "durability": "fsync at dequeue; no acknowledgement (at most once)",
        "fenced": False,
        "receipt": False,
    }


def drain(folder: Path, tasks: int, payload: dict[str, Any]) -> dict[str, Any]:
    from huey import SqliteHuey

    logging.disable(logging.CRITICAL)
    queue = SqliteHuey(filename=str(folder / "huey.db"), results=False, timeout=30)
    handled = Handled()
    task = queue.task(name="work")(handled)
    for n in range(tasks):
        task({**payload, "n": n})
    consumer = queue.create_consumer(
        workers=1, periodic=False, initial_delay=0.01, backoff=1.15, max_delay=0.1,
        worker_type="thread", check_worker_health=False,
    )  # fmt: skip
    consumer.start()
    while len(handled.numbers) < tasks or len(queue):
        sleep(0.01)
    answer = handled.answer(tasks, len(queue))
    consumer.stop(graceful=True)
    return answer


if __name__ == "__main__":
    sys.exit(main(about, drain))
