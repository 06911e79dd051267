"""procrastinate with psycopg, concurrency 10, `delete_jobs="always"`: the quickest of its settings
here. A job is ended by its id in whatever worker's hand it is."""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from adapting import CALLERS, Handled, bulk_rate, main, rate_of, run_until_told

CONCURRENCY = 10


def about() -> dict[str, Any]:
    import procrastinate

    assert procrastinate
    return {
        "version": version("procrastinate"),
        "setting": "psycopg, concurrency 10, delete_jobs=always", "durability": "commit",
        "fenced": False, "receipt": False, "scale": 0.2,
        "pending": "select exists (select 1 from procrastinate_jobs "
        "where status in ('todo', 'doing'))",
    }  # fmt: skip


async def do(what: str, url: str, tasks: int) -> dict[str, Any]:
    import procrastinate

    app = procrastinate.App(
        connector=procrastinate.PsycopgConnector(conninfo=url, min_size=4, max_size=CALLERS)
    )
    handled = Handled()

    @app.task(queue="q", name="work")
    async def work(n: int = 0) -> None:
        handled()

    async with app.open_async():
        if what == "setup":
            await app.schema_manager.apply_schema_async()
        elif what == "bulk":
            rate = await bulk_rate(tasks, lambda n: work.batch_defer_async(*[{"n": 0}] * n))
            return {"rate": rate}
        elif what == "single":
            return {"rate": await rate_of(tasks, lambda _: work.defer_async(n=0), CALLERS)}
        elif what == "worker":
            await run_until_told(
                app.run_worker_async(
                    queues=["q"], concurrency=CONCURRENCY, delete_jobs="always",
                    fetch_job_polling_interval=5, install_signal_handlers=False,
                ),
                handled,
            )  # fmt: skip
    return {}


if __name__ == "__main__":
    sys.exit(main(about, do))
