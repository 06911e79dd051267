"""When to send to a destination at all. Pure: the time is an argument (seconds, steady).

`Breaker`: closed while it answers; open after it could not be reached, asked for time, or was
silent again and again. After a pause one delivery is tried, and with each that arrives one more may
be under way, so that it is twice as many each time; so it begins, too. A day's outage costs a try a
minute, and what has gathered meanwhile is no stampede.
`Rate`: so many a second, evenly.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from fencepost.deliveries.judging import Flow

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0
LONGEST_ASKED = 3_600.0  # what a receiver may ask for, where no option says otherwise
SILENT = 5  # so many tries in a row that nobody answers are no chance


class Breaker:
    """One destination's. `concurrency` is what may be under way at once, `longest` the longest
    pause. May be shared by threads."""

    def __init__(
        self, concurrency: int, jitter: Callable[[], float], longest: float = LONGEST_ASKED
    ) -> None:
        self._most = concurrency
        self._jitter = jitter
        self._longest = longest  # seconds of a pause, whatever is asked for
        self._lock = threading.Lock()
        self._room = 1  # how many may be under way while it is closed
        self._open_until: float | None = None
        self._probing = False
        self._tries = 0
        self._under_way = 0
        self._silent = 0  # tries in a row that nobody answered
        self._generation = 0

    @property
    def open(self) -> bool:
        """Whether nothing but one probe may be sent."""
        return self._open_until is not None

    def room(self, now: float) -> int:
        """How many more may be sent now."""
        with self._lock:
            return self._free(now)

    def _free(self, now: float) -> int:
        if self._open_until is None:
            return max(0, self._room - self._under_way)
        return 0 if self._probing or now < self._open_until else 1

    def enter(self, now: float) -> int | None:
        """Begin one delivery: the ticket to give back, or None where none may begin now."""
        with self._lock:
            if not self._free(now):
                return None
            self._probing = self._open_until is not None
            self._under_way += 1
            return self._generation

    def leave(self, ticket: int, flow: Flow, now: float, wait: float | None = None) -> None:
        """It has ended. `on`: there was an answer. `hold`: it could not be reached, or asked for
        `wait` seconds. `keep`: nobody answered. `none`: nothing was sent. What began before it
        last opened or closed says nothing of how it is since, but for how long it asks to be left
        alone."""
        with self._lock:
            self._under_way -= 1
            if ticket != self._generation:
                if flow == "hold" and wait is not None and self._open_until is not None:
                    self._open_until = max(self._open_until, now + min(wait, self._longest))
                return
            probed, self._probing = self._probing, False
            if flow == "none":
                return
            self._silent = self._silent + 1 if flow == "keep" else 0
            if flow == "hold" or (flow == "keep" and (probed or self._silent >= SILENT)):
                self._trip(now, wait)
            elif flow == "on":
                self._answered()

    def _trip(self, now: float, wait: float | None) -> None:
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(self._tries, 16))
        pause = max(pause * (0.5 + self._jitter() / 2), wait or 0.0)
        self._open_until = now + min(pause, self._longest)
        self._tries += 1
        self._generation += 1

    def _answered(self) -> None:
        if self._open_until is not None:
            self._open_until = None
            self._generation += 1
            self._room = 1
        self._tries = 0
        self._room = min(self._most, self._room + 1)


class Rate:
    """At most `per_second` a second, spaced evenly. May be shared by threads."""

    def __init__(self, per_second: float) -> None:
        self._gap = 1.0 / per_second
        self._lock = threading.Lock()
        self._next = 0.0

    def take(self, now: float) -> float:
        """Take the next place in the line: the seconds to wait for it."""
        with self._lock:
            at = max(self._next, now)
            self._next = at + self._gap
            return at - now
