"""Threads at work at one PostgreSQL server, until it fails them."""

from __future__ import annotations

import threading

import fencepost
from fencepost.issues import OutcomeUnknown, Unavailable
from helpers.lab import SCOPE
from helpers.pg_side import until
from helpers.postgres import Server

THREADS = 4


class Load:
    """Threads that enqueue, claim and complete at one server until it fails them; what was
    acknowledged is kept by key."""

    def __init__(self, server: Server, name: str) -> None:
        self.name = name
        self.handle = fencepost.open(server.url(), scope=SCOPE)
        self.acknowledged: dict[str, bytes] = {}
        self.tokens: set[tuple[int, int]] = set()
        self.unknown = 0
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(n,)) for n in range(THREADS)]

    def begin(self, least: int = 40) -> None:
        """Returns when so much is acknowledged."""
        for thread in self._threads:
            thread.start()
        until(lambda: len(self.acknowledged) >= least or not self._alive(), "acknowledged writes")
        assert self._alive(), "the load has ended by itself"

    def more(self, count: int) -> None:
        """Returns when so much more is acknowledged."""
        goal = len(self.acknowledged) + count
        until(lambda: len(self.acknowledged) >= goal, "more acknowledged writes")

    def end_of_answers(self) -> None:
        """Returns when everybody has been failed."""
        until(lambda: not self._alive(), "the end of answers")

    def end(self) -> None:
        """Returns when nobody works any more. The handle stays open."""
        self._stop.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(90)
        assert not self._alive()

    def _alive(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    def _work(self, number: int) -> None:
        count = 0
        worker = f"{self.name}-{number}"
        while not self._stop.is_set():
            count += 1
            key = f"{worker}-{count}"
            try:
                receipt = self.handle.enqueue(worker, count, idempotency_key=key)
                self.acknowledged[f"{SCOPE} local {key}"] = receipt.body
                for lease in self.handle.claim(worker, worker_id=worker):
                    self.tokens.add((lease.grant.epoch, lease.fence))
                    done = lease.complete({"n": count}, key=key)
                    self.acknowledged[f"{SCOPE} {worker} {key}"] = done.body
            except OutcomeUnknown:
                self.unknown += 1
                return
            except Unavailable:
                return
