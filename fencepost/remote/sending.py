"""Sends without waiting: a few daemon threads that take the calls in their order."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TypeVar

from fencepost.issues import Unavailable

T = TypeVar("T")
Job = Callable[[], None]
THREADS = 8


class Sending:
    """Threads that begin with the first call. They are daemons: a program that ends does not wait
    for them, so close the handle, or wait for the futures. A forked child has threads of its own.
    """

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._closed = False

    def send(self, call: Callable[[], T]) -> Future[T]:
        """The future of a call. Raises Unavailable once closed."""
        if self._pid != os.getpid():
            self._begin()
        if self._closed:
            raise Unavailable("the handle is closed")
        future: Future[T] = Future()

        def job() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(call())
            except BaseException as error:  # noqa: BLE001  # it is the future's to tell
                future.set_exception(error)

        self._jobs.put(job)
        if len(self._threads) < THREADS:
            thread = threading.Thread(target=self._work, name="fencepost-remote", daemon=True)
            self._threads.append(thread)
            thread.start()
        return future

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()

    def close(self) -> None:
        """Finish what was sent. Each call ends by its own deadline."""
        self._closed = True
        if self._pid == os.getpid():
            for _ in self._threads:
                self._jobs.put(None)
            for thread in self._threads:
                thread.join()
