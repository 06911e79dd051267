"""Clients of ours that live through a fail-over: who was not answered asks again, with the same
bytes, until it is."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import fencepost
from fencepost.clock import SECOND, SystemClock
from fencepost.handle import Handle, Lease
from fencepost.issues import OutcomeUnknown, Refused, Unavailable
from fencepost.model import Receipt
from helpers.lab import SCOPE
from helpers.patroni import wait

THREADS = 3
PACE_SECONDS = 0.01
_clock = SystemClock()


def seconds() -> float:
    """By a clock that only goes on."""
    return _clock.steady() / SECOND


class Told(NamedTuple):
    """A write that was acknowledged; `again` sends its bytes once more, by any handle."""

    body: bytes
    epoch: int
    at: float
    again: Callable[[Handle], Receipt]


class Load:
    """Threads that enqueue, claim and complete by one handle, from the host on which it was made.
    What was acknowledged is kept by key, and each token that was granted."""

    def __init__(self, url: str, name: str) -> None:
        self.name = name
        self.handle = fencepost.open(url, scope=SCOPE)
        self.told: dict[str, Told] = {}
        self.tokens: list[tuple[int, int]] = []
        self.answers: Counter[str] = Counter()  # other answers, by their code
        self.broken: list[BaseException] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._live, args=(n,)) for n in range(THREADS)]

    def begin(self, least: int = 40) -> None:
        """Returns when so much is acknowledged."""
        for thread in self._threads:
            thread.start()
        self.until(lambda: len(self.told) >= least, "acknowledged writes")

    def until(self, true: Callable[[], bool], what: str) -> None:
        wait(
            lambda: bool(self.broken) or true(), f"{what} ({self.name})", lambda: str(self.answers)
        )
        assert not self.broken, self.broken

    def count(self, true: Callable[[Told], bool]) -> int:
        """How many acknowledged writes are such."""
        return sum(true(told) for told in [*self.told.values()])

    def more(self, count: int, true: Callable[[Told], bool], what: str) -> None:
        """Returns when so many acknowledged writes are such."""
        self.until(lambda: self.count(true) >= count, what)

    def stop(self) -> None:
        """Nobody begins anything more."""
        self._stop.set()

    def end(self) -> None:
        """Returns when nobody works any more."""
        self.stop()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(120)
        assert not any(thread.is_alive() for thread in self._threads), "a call does not end"
        self.handle.close()
        assert not self.broken, self.broken

    def _live(self, number: int) -> None:
        try:
            self._work(f"{self.name}-{number}")
        except BaseException as error:  # noqa: BLE001  whatever it is, the event is told
            self.broken.append(error)

    def _work(self, worker: str) -> None:
        count = 0
        while not self._stop.is_set():
            count += 1
            key = f"{worker}-{count}"
            self._ask(f"{SCOPE} local {key}", _enqueue(worker, count, key))
            for lease in self._claimed(worker):
                self._ask(f"{SCOPE} {worker} {key}", _complete(lease, count, key))
            self._stop.wait(PACE_SECONDS)

    def _ask(self, lookup: str, send: Callable[[Handle], Receipt]) -> None:
        """Until it is answered: nobody asked has said yes or no before."""
        while not self._stop.is_set():
            try:
                body = send(self.handle).body
            except (OutcomeUnknown, Unavailable) as error:
                self.answers[error.code] += 1
                self._stop.wait(PACE_SECONDS)
                continue
            except Refused as error:
                self.answers[error.code] += 1
                return
            self.told[lookup] = Told(body, json.loads(body)["epoch"], seconds(), send)
            return

    def _claimed(self, worker: str) -> list[Lease]:
        try:
            leases = self.handle.claim(worker, worker_id=worker)
        except (OutcomeUnknown, Unavailable) as error:
            self.answers[error.code] += 1
            return []
        self.tokens += [(lease.grant.epoch, lease.fence) for lease in leases]
        return leases


def _enqueue(queue: str, payload: Any, key: str) -> Callable[[Handle], Receipt]:
    return lambda by: by.enqueue(queue, payload, idempotency_key=key)


def _complete(lease: Lease, count: int, key: str) -> Callable[[Handle], Receipt]:
    task_id, worker_id, fence = lease.task_id, lease.worker_id, lease.fence

    def send(by: Handle) -> Receipt:
        held = by.lease(task_id, worker_id=worker_id, fence=fence)
        return held.complete({"n": count}, key=key)

    return send
