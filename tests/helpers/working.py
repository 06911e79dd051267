"""Workers in tests: a store by a clock that stands still, a way to it that fails when told to, and
what a worker would hold of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import fencepost
from fencepost.commands import Command, Request
from fencepost.handle import Handle, Lease
from fencepost.handle.verbs import random_key
from fencepost.issues import OutcomeUnknown, Unavailable
from fencepost.model import Outcome
from fencepost.worker.beat import Beat
from fencepost.worker.held import Held
from helpers.lab import QUEUE
from helpers.stand import Stand

WORKER = "w1"
Fault = Callable[["Way"], None]


class Way:
    """The way to a store. `faults` are met one a batch: each may raise, before or after it."""

    def __init__(self, fp: Handle, clock: Any) -> None:
        self.fp, self.clock = fp, clock
        self.before: list[Fault | None] = []
        self.after: list[Fault | None] = []
        self.sent: list[list[Command | Request]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.fp, name)

    def execute(self, commands: Sequence[Command | Request]) -> list[Outcome]:
        self.sent.append(list(commands))
        _meet(self, self.before)
        outcomes = self.fp.execute(commands)
        _meet(self, self.after)
        return outcomes

    @property
    def bodies(self) -> list[bytes]:
        """The bytes of all that was sent, in order."""
        return [each.body for batch in self.sent for each in batch if isinstance(each, Request)]


def _meet(way: Way, faults: list[Fault | None]) -> None:
    fault = faults.pop(0) if faults else None
    if fault is not None:
        fault(way)


def down(_: Way) -> None:
    """Nothing was done."""
    raise Unavailable("nobody listens")


def lost(_: Way) -> None:
    """The answer does not come."""
    raise OutcomeUnknown("no answer")


def slow(seconds: float) -> Fault:
    """It takes so long."""
    return lambda way: way.clock.advance(seconds)


class Desk:
    """One worker's beat over a store, with leases in hand; time moves when it is told to."""

    def __init__(self, stand: Stand) -> None:
        self.stand, self.clock = stand, stand.clock
        self.way = Way(stand.fp, stand.clock)
        self.beat = Beat(self.way, jitter=lambda: 0.0)

    def hold(self, lease_seconds: int = 60, **options: Any) -> Held:
        """A lease, claimed and held."""
        self.stand.fp.enqueue(QUEUE, {"n": 1}, **options)
        request = Request.of(
            fencepost.commands.Claim(WORKER, (QUEUE,), lease_seconds=lease_seconds), random_key()
        )
        outcome, moment = self.stand.fp.claimed(request, 0)
        (grant,) = outcome.grants
        held = Held(Lease(self.stand.fp, grant, moment), moment, self.clock.steady)
        self.beat.hold(held)
        return held

    def turn(self) -> list[Held]:
        """What the thread of the beat does each time: judge, then renew what is due."""
        self.beat.judge()
        leases = self.beat.due()
        if leases:
            self.beat.beat(leases)
        return leases

    def live(self, seconds: float, step: float = 0.5) -> None:
        """Let time pass, with turns of the beat as often as it asks for them."""
        end = self.clock.steady() + int(seconds * 1e6)
        while (now := self.clock.steady()) < end:
            self.turn()
            pause = min(max(self.beat.pause(), 10_000), int(step * 1e6), end - now)
            self.clock.advance(pause / 1e6)

    def expires(self, held: Held) -> int:
        """Microseconds that the lease has left, by the store."""
        task = self.stand.fp.task(held.lease.task_id)
        return task.lease_expires_at - self.clock.wall()


@contextmanager
def desk() -> Iterator[Desk]:
    with Stand() as stand:
        yield Desk(stand)


def comes_true(what: Callable[[], object], seconds: float = 20) -> None:
    """Wait for this, looking often. AssertionError if it does not come about."""
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "it has not come about"
        time.sleep(0.005)
