"""A store with a destination, and a dispatcher that is run to an end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fencepost
from fencepost.clock import SECOND
from fencepost.commands import Complete
from fencepost.deliveries.dispatcher import Dispatcher
from fencepost.worker.options import Options
from helpers.receivers import SECRET


class Depot:
    """A store whose results on `pages` oblige `out`. `patience`: seconds for what has an end."""

    patience = 30

    def __init__(self, fp: Any, folder: Path) -> None:
        self.fp, self.folder = fp, folder

    def destination(
        self, address: str, class_: str = "fenced", *, queue: str = "out",
        secret: str | None = SECRET, **options: Any,
    ) -> None:  # fmt: skip
        """Set it, for addresses of this machine too."""
        options = {"allow_private": True, "timeout_seconds": 5, **options}
        self.fp.destination_set(queue, address, class_=class_, options=options)
        known = [one.secret for one in self.fp.destination(queue).secrets]
        if secret is not None and secret not in known:
            self.fp.destination_secret(queue, secret)

    def results(self, *values: Any, queue: str = "pages", out: str = "out") -> list[str]:
        """A task for each, completed with it. Their ids."""
        self.fp.queue_set(queue, destinations=[out])
        made = []
        for value in values:
            task_id = self.fp.enqueue(queue, {"of": value}).task_id
            (lease,) = self.fp.claim(queue, worker_id="w")
            lease.complete(value)
            made.append(task_id)
        return made

    def many(self, number: int, queue: str = "pages", out: str = "out") -> None:
        """So many results, fast."""
        self.fp.queue_set(queue, destinations=[out])
        self.fp.enqueue_many(queue, [{"payload": n} for n in range(number)])
        while leases := list(self.fp.claim(queue, worker_id="w", limit=100)):
            self.fp.execute(
                [Complete(each.task_id, "w", each.fence, result=each.payload) for each in leases]
            )

    def dispatcher(self, *queues: str, jitter: Any = lambda: 0.0, **options: Any) -> Dispatcher:
        """One that ends when nothing is due."""
        given = {"exit_when_empty": True, "wait_seconds": 1, **options}
        return Dispatcher(
            self.fp, Options(queues, "dispatcher", **given), folder=self.folder / "memory",
            jitter=jitter, look_seconds=0.02,
        )  # fmt: skip

    def deliver(self, *queues: str, **options: Any) -> Dispatcher:
        """Run one to its end, which must come within half a minute."""
        made = self.dispatcher(*queues, **{"max_seconds": self.patience, **options})
        made.run()
        return made

    @contextmanager
    def delivering(self) -> Iterator[Dispatcher]:
        """One that lives for as long as the block."""
        made = self.dispatcher(exit_when_empty=False)
        running = threading.Thread(target=made.run)
        running.start()
        try:
            yield made
        finally:
            made.stop()
            running.join(30)

    def obligations(self, queue: str = "out") -> list[Any]:
        """The tasks on the destination, in their order."""
        return [self.fp.task(each.task_id) for each in self.fp.tasks(queue)]

    def evidence(self, task_id: str) -> Any:
        """The result of an obligation."""
        return [each.value for each in self.fp.results(task_id)][-1]

    def skip(self, seconds: float) -> None:
        """Let time pass: only on a store whose clock is `JumpClock`."""
        self.fp.clock.ahead += int(seconds * SECOND)


class JumpClock(fencepost.clock.SystemClock):
    """The system's clock, and what was skipped."""

    ahead = 0

    def wall(self) -> int:
        return super().wall() + self.ahead

    def steady(self) -> int:
        return super().steady() + self.ahead


@contextmanager
def depot(folder: Path, **options: Any) -> Iterator[Depot]:
    """A fresh one, on a file."""
    given = {"create": True, "clock": JumpClock(), **options}
    with fencepost.open(folder / "store.db", **given) as fp:
        yield Depot(fp, folder)
