"""A worker without a network, as a program has it."""

from __future__ import annotations

from collections.abc import Iterable

from fencepost.offline import Outbox
from fencepost.worker.handlers import Handler
from fencepost.worker.options import GRACE_SECONDS, Options
from fencepost.worker.outbox import OutboxStore, queues_of, runtime_of
from fencepost.worker.runtime import Ending
from fencepost.worker.worker import Worker, cookie_of, life_of, performer_of


class OfflineWorker(Worker):
    """Works on the tasks of an outbox (`fencepost.offline.open`) as `Worker` does on those of a
    store, until each has an end there. See docs/offline.md.

    `queues`: of these alone. A handler has no `work.submit` here. Raises InvalidRequest; `run` does
    where another worker works from this outbox.
    """

    def __init__(
        self,
        box: Outbox,
        handler: Handler,
        *,
        queues: str | Iterable[str] = (),
        concurrency: int = 1,
        grace: float = GRACE_SECONDS,
        max_tasks: int | None = None,
        max_seconds: float | None = None,
        processes: bool = False,
        task_seconds: float | None = None,
    ) -> None:
        wished = queues_of(box, (queues,) if isinstance(queues, str) else tuple(queues))
        options = Options(
            wished, box.worker_id, concurrency, None, grace, True, max_tasks, max_seconds
        ).checked(least_queues=0)
        store = OutboxStore(box)
        self._box = box
        cookie = cookie_of(store, box.worker_id, None)
        self._performer = performer_of(store, handler, cookie, processes, task_seconds)
        self._runtime = runtime_of(store, self._performer, options)

    def run(self) -> Ending:
        """Work until each task has an end here, `stop` is called or an option says so. `done`, or
        `left` where something could not be written down; the next run begins it anew."""
        with self._box.alone(), life_of(self._performer):
            return self._runtime.run()
