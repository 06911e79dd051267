"""Time, chance, and what is told of a run. Everything random comes from the one seed."""

from __future__ import annotations

import hashlib
import random
from collections import Counter, deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from fencepost.clock import FakeClock
from helpers.lab import START

SECOND = 1_000_000
MINUTE, HOUR = 60 * SECOND, 3_600 * SECOND
EVENTS_SHOWN = 30
FURTHEST = 3 * HOUR  # from the true time that the wall clock may come


class Broken(AssertionError):
    """A law was broken: the seed, the step, the last events and how to see it again."""


class Violation(BaseException):
    """The same where it was seen, inside the product's own code, which must not catch it."""


def must(holds: Any, law: str) -> None:
    """Raise Violation unless it holds."""
    if not holds:
        raise Violation(law)


class World:
    """A heap of what will happen, in virtual microseconds. `calm`: no more faults."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.clock = FakeClock(START)
        self.t = 0
        self.steps = 0
        self.calm = False
        self.counts: Counter[str] = Counter()
        self.recent: deque[str] = deque(maxlen=EVENTS_SHOWN)
        self._trace = hashlib.sha256()
        self._heap: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._order = 0

    def at(self, delay: float, what: Callable[..., None], *given: Any) -> None:
        """Let something happen after so many microseconds."""
        self._order += 1
        heappush(self._heap, (self.t + int(delay), self._order, what, given))

    def live(self, until: int, over: Callable[[], bool] = lambda: False) -> None:
        """Let things happen up to this time, or until it is over."""
        while self._heap and self._heap[0][0] <= until and not over():
            when, _, what, given = heappop(self._heap)
            self.clock.advance((when - self.t) / SECOND)
            self.t = when
            self.steps += 1
            what(*given)

    def jump(self, microseconds: int) -> None:
        """The wall clock is set, within three hours of the truth."""
        ahead = self.clock.wall() - START - self.t
        if abs(ahead + microseconds) > FURTHEST:
            microseconds = -microseconds
        self.clock.jump_wall(microseconds / SECOND)
        self.count("jumps", f"the wall clock jumps by {microseconds / SECOND:+.6f} s")

    def note(self, what: str) -> None:
        """One event: it enters the trace, and is shown if a law breaks soon after."""
        line = f"{self.t / SECOND:.6f} {what}"
        self._trace.update(line.encode())
        self._trace.update(b"\n")
        self.recent.append(line)

    def count(self, name: str, what: str = "") -> None:
        """Count an event, and note it."""
        self.counts[name] += 1
        self.note(what or name)

    def likely(self, part: float) -> bool:
        """True in so many of all cases."""
        return self.chance.random() < part

    def between(self, low: float, high: float) -> int:
        """A time in microseconds; given in seconds."""
        return int(self.chance.uniform(low, high) * SECOND)

    def trace(self) -> str:
        """The digest of all events so far, in hex."""
        return self._trace.hexdigest()
