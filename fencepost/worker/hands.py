"""Threads that work: as many as there are tasks at once, begun when they are needed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

from fencepost.worker.held import Held


class Hands:
    """Daemon threads: one that does not hear that its lease is lost keeps no process alive."""

    def __init__(self, work: Callable[[Held], None]) -> None:
        self._work = work
        self._jobs: SimpleQueue[Held | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._free = 0
        self._threads = 0

    def give(self, held: Held) -> None:
        """Work on this as soon as a thread is free, which is now."""
        with self._lock:
            more = self._free == 0
            if more:
                self._threads += 1
            else:
                self._free -= 1
        self._jobs.put(held)
        if more:
            threading.Thread(target=self._run, name="fencepost-work", daemon=True).start()

    def end(self) -> None:
        """The threads end as they become free."""
        for _ in range(self._threads):
            self._jobs.put(None)

    def _run(self) -> None:
        while (held := self._jobs.get()) is not None:
            self._work(held)
            with self._lock:
                self._free += 1
