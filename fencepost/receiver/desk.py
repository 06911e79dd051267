"""One thread, one connection: deliveries that come at the same time share a transaction.

One commit a message would bound the rate by the disk. Each message has a savepoint, so that one
effect that fails takes no other with it. Whatever is wrong with a shared transaction as a whole, it
is undone and each message is carried out alone: only the culprit hears of it.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from . import answers, clock
from .keeping import Session
from .store import EffectBroke, Store, Unavailable

log = logging.getLogger("fencepost.receiver")

TRIES = 5
"""How often a message is tried at once when others are in the way."""
MOST, LONGEST_SECONDS = 128, 0.05
"""A transaction takes up no further message after as many, or after so long."""
WAITING = 10_000
"""As many may wait; more are told to come again."""


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be done in a transaction, and for which stream.

    `run` answers; it raises where the transaction as a whole is at fault.
    """

    stream: str
    run: Callable[[Session], Any]


class Desk:
    """Where jobs are handed in, from any thread. It opens the store when the first one comes."""

    def __init__(self, store: Store, name: str, now: Callable[[], int]) -> None:
        self._store, self._name, self._now = store, name, now
        self._waiting: deque[tuple[Job, Future[Any]]] = deque()
        self._condition = threading.Condition()
        self._thread: threading.Thread | None = None
        self._process = os.getpid()
        self._closed = False

    def submit(self, job: Job) -> Future[Any]:
        """Hand in a job. Its answer never comes before its effect is on the disk."""
        future: Future[Any] = Future()
        if self._thread is not None and os.getpid() != self._process:
            raise RuntimeError("a receiver that was used before a fork: make it after")
        with self._condition:
            if self._closed or len(self._waiting) >= WAITING:
                future.set_result(answers.problem("unavailable", wait=1))
                return future
            self._waiting.append((job, future))
            if self._thread is None:
                self._process = os.getpid()
                self._thread = threading.Thread(target=self._work, name="receiver", daemon=True)
                self._thread.start()
            self._condition.notify()
        return future

    def close(self) -> None:
        """Carry out what has been handed in, take nothing more, close the store."""
        with self._condition:
            self._closed = True
            self._condition.notify()
        if self._thread is not None:
            self._thread.join()
        else:
            self._store.close()

    def _work(self) -> None:
        while True:
            with self._condition:
                while not self._waiting and not self._closed:
                    self._condition.wait()
                taken = [self._waiting.popleft() for _ in range(min(MOST, len(self._waiting)))]
            if not taken:
                break
            found = self.carry_out([job for job, _ in taken])
            for (_, future), answer in zip(taken, found, strict=True):
                future.set_result(answer)
        self._store.close()

    def carry_out(self, jobs: Sequence[Job]) -> list[Any]:
        """Answers of these jobs, in their order, once everything is committed. By one thread."""
        done: list[Any] = []
        while len(done) < len(jobs):
            rest = jobs[len(done) :]
            try:
                done += self._together(rest)
            except Exception as error:  # noqa: BLE001 - each job then has its own answer
                self._store.rollback()
                log.debug("%d deliveries, one by one after: %s", len(rest), error)
                done += [self._alone(job) for job in rest]
        return done

    def _together(self, jobs: Sequence[Job]) -> list[Any]:
        """One transaction for as many of the jobs as fit in, at least one."""
        self._store.open()
        self._store.begin()
        session = Session(self._store, self._name, self._now)
        session.hold(sorted({job.stream for job in jobs}))
        until = clock.steady() + LONGEST_SECONDS
        done: list[Any] = []
        for job in jobs:
            done.append(job.run(session))
            if clock.steady() >= until:
                break
        session.save()
        self._store.commit()
        return done

    def _alone(self, job: Job) -> Any:
        """A job in a transaction of its own: again while others are in the way."""
        for tried in range(1, TRIES + 1):
            try:
                (answer,) = self._together([job])
                return answer
            except Exception as error:
                passing = self._passing(error)
                self._store.rollback()
                if isinstance(error, EffectBroke):
                    log.critical("%s: %s", job.stream, error, exc_info=error)
                elif not passing or tried == TRIES:
                    log.error("%s: not done: %s: %s", job.stream, type(error).__name__, error)
                if not passing:
                    break
        return answers.problem("unavailable", wait=1)

    def _passing(self, error: Exception) -> bool:
        try:
            return not isinstance(error, Unavailable) and self._store.passing(error)
        except Unavailable:
            return False
