"""pgqueuer with asyncpg, batch_size=100, durable tables: the quickest of its settings here.

A row is deleted by its id when done, whoever holds it; what is done is gathered in the worker and
flushed in batches.
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from adapting import CALLERS, Handled, bulk_rate, main, rate_of, run_until_told


def about() -> dict[str, Any]:
    import asyncpg
    import pgqueuer
    import uvloop

    assert asyncpg and pgqueuer and uvloop
    return {
        "version": version("pgqueuer"), "setting": "asyncpg, uvloop, batch_size=100",
        "durability": "commit; gathered in the worker and flushed in batches",
        "fenced": False, "receipt": False, "scale": 1.0,
        "pending": "select exists (select 1 from pgqueuer)",
    }  # fmt: skip


async def do(what: str, url: str, tasks: int) -> dict[str, Any]:
    import asyncpg
    from pgqueuer.db import AsyncpgDriver
    from pgqueuer.qm import QueueManager
    from pgqueuer.queries import Queries

    async def queries() -> Any:
        return Queries(AsyncpgDriver(await asyncpg.connect(url)))

    if what == "setup":
        await (await queries()).install()
    elif what == "bulk":
        mine = await queries()
        return {"rate": await bulk_rate(
            tasks, lambda n: mine.enqueue(["work"] * n, [b"0"] * n, [0] * n)
        )}  # fmt: skip
    elif what == "single":
        all_ = [await queries() for _ in range(CALLERS)]
        return {"rate": await rate_of(
            tasks, lambda number: all_[number].enqueue("work", b"0", 0), CALLERS
        )}  # fmt: skip
    elif what == "worker":
        handled = Handled()
        manager = QueueManager(await queries())

        @manager.entrypoint("work")
        async def work(job: Any) -> None:
            handled()

        await run_until_told(manager.run(batch_size=100), handled)
    return {}


def run(work: Any) -> Any:
    import uvloop

    return uvloop.run(work)


if __name__ == "__main__":

    sys.exit(main(about, do, run))
