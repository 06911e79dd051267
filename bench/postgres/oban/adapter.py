"""oban (Python 3.12) with a queue limit of 100 and uvloop. A completion is fenced by the time of
its attempt; it is carried out at the next look for jobs."""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from adapting import CALLERS, Handled, bulk_rate, main, rate_of, run_until_told

LIMIT = 100


def about() -> dict[str, Any]:
    import oban
    import uvloop

    assert oban and uvloop
    return {
        "version": version("oban"), "setting": "queue limit 100, uvloop",
        "durability": "commit, at the next look for jobs",
        "fenced": "by a timestamp", "receipt": False, "scale": 0.5,
        "pending": "select exists (select 1 from oban_jobs "
        "where state in ('available', 'executing', 'scheduled', 'retryable'))",
    }  # fmt: skip


async def do(what: str, url: str, tasks: int) -> dict[str, Any]:
    import asyncio

    from oban import Oban, worker
    from oban.schema import install

    handled = Handled()

    @worker(queue="q")
    class Work:
        async def process(self, job: Any) -> None:
            handled()

    pool = await Oban.create_pool(dsn=url, min_size=2, max_size=CALLERS)
    try:
        if what == "setup":
            await install(pool)
            return {}
        if what == "worker":
            await Oban(pool=pool, queues={"q": LIMIT}).start()
            await run_until_told(asyncio.Event().wait(), handled)
        queue = Oban(pool=pool, leadership=False)
        if what == "bulk":
            return {"rate": await bulk_rate(
                tasks, lambda n: queue.enqueue_many(*[Work.new({"n": 0}) for _ in range(n)])
            )}  # fmt: skip
        return {"rate": await rate_of(
            tasks, lambda _: queue.enqueue(Work.new({"n": 0})), CALLERS
        )}  # fmt: skip
    finally:
        await pool.close()


def run(work: Any) -> Any:
    import uvloop

    return uvloop.run(work)


if __name__ == "__main__":
    sys.exit(main(about, do, run))
