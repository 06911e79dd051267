"""A store, a service over it, and a client of that service, all by one clock that stands still."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import fencepost
from fencepost import tokens
from fencepost.clock import FakeClock
from fencepost.issues import LeaseLost
from fencepost.remote import RemoteHandle
from helpers.lab import START
from helpers.stand import QUEUE, SCOPE, Stand
from helpers.stub import Stub, serving

TOKEN = tokens.make(random.Random(4).randbytes)


class Pair:
    """`fp` is the client's handle, `here` the same store's own."""

    def __init__(self, stand: Stand, stub: Stub, **options: Any) -> None:
        self.stand, self.here, self.stub = stand, stand.fp, stub
        self.clock = stand.clock
        self.slept: list[float] = []
        self.options = options
        self.opened: list[RemoteHandle] = []
        self.fp = self.open()

    def open(self, **options: Any) -> RemoteHandle:
        """A client of the service; its pauses move the clock."""
        settings = {
            "scope": SCOPE, "token": TOKEN, "clock": self.clock, "sleep": self.sleep,
            "jitter": lambda: 1.0, **self.options, **options,
        }  # fmt: skip
        made: RemoteHandle = fencepost.open(self.stub.url, **settings)
        self.opened.append(made)
        return made

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.clock.advance(seconds)

    def entries(self) -> int:
        """How many entries the journal has."""
        return len(list(self.here.entries()))


@contextmanager
def pair(**options: Any) -> Iterator[Pair]:
    """Closed at the end. `max_skew_seconds` is off unless given, so that no look at the clock
    stands between the requests."""
    options.setdefault("max_skew_seconds", None)
    with Stand() as stand, serving(stand.fp) as stub:
        made = Pair(stand, stub, **options)
        try:
            yield made
        finally:
            for each in made.opened:
                each.close()


def fake() -> FakeClock:
    """A clock that stands at the lab's beginning."""
    return FakeClock(START)


def live(stand: Stand) -> None:
    """A life with something of everything that can be read."""
    fp, clock = stand.fp, stand.clock
    fp.queue_set(QUEUE, destinations=["outbox"], keep_refused=5)
    fp.queue_set("next", retain_seconds=60)
    fp.set_policy(2)
    fp.enqueue_many(QUEUE, [{"payload": {"n": n, "é": [1.5, None]}, "key": f"k/{n}%"}
                            for n in range(6)])  # fmt: skip
    one, two, three, four = fp.claim(QUEUE, worker_id="w", limit=4)
    one.submit({"draft": 1})
    one.complete({"a": "é"}, followups=[{"queue": "next", "payload": 1}])
    two.fail("no luck: \x07", then="block")
    three.complete()
    clock.advance(61)
    with suppress(LeaseLost):
        four.complete("too late")
    fp.as_caller("rita", "human", SCOPE).review(one.task_id, 1, "rejected")
    fp.enqueue(QUEUE, "later", due_at="2030-01-01T00:00:00Z", key="..")
    fp.erase(fp.enqueue(QUEUE, "gone").task_id)
    fp.cancel(fp.enqueue("next", None).task_id, reason="not needed")
    fp.seal()
    clock.advance(61)
    assert fp.purge("next").task_ids
    fp.claim("next", worker_id="w2", limit=9)
    fp.seal()
