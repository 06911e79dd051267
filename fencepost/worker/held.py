"""A task in the worker's hand: how long its lease holds by the steady clock, whether it is lost.

All times are microseconds of the handle's steady clock, which runs on in suspend.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from fencepost.clock import SECOND
from fencepost.commands import Renew
from fencepost.handle.lease import Lease, Moment
from fencepost.log import Log

LONGEST_GRACE = 5 * SECOND
STOPPING = "stopping"

_log = Log("fencepost.worker")


class Pace(NamedTuple):
    """What a lease of some length leaves time for. It is renewed every `beat`; by `grace + margin`
    before its end whoever works on it is told, and by `margin` before it he has ended."""

    beat: int
    margin: int
    grace: int


def pace(length: int) -> Pace:
    """At least a second of margin, or a tenth of a long lease; two thirds of any are for beats."""
    margin = min(max(SECOND, length // 10), length // 3)
    return Pace(length // 3, margin, min(LONGEST_GRACE, length // 6))


class Held:
    """One lease. The beat writes its times, whoever works on it reads them."""

    def __init__(self, lease: Lease, moment: Moment, steady: Callable[[], int]) -> None:
        grant = lease.grant
        self.lease = lease
        self.name = f"{grant.task_id}:{grant.fence}"
        self.binding = grant.task_id, grant.worker_id, grant.fence
        self.claim = ""  # the key of the claim that won it
        self.length = grant.lease_expires_at - grant.granted_at
        self.wish = max(1, self.length // SECOND)  # seconds that the next renewal asks for
        self.pace = pace(self.length)
        self.lost = threading.Event()
        self.why = ""
        self.refused = self.settling = False
        self.beat_at: int | None = moment.first + self.pace.beat
        self.sent_at = moment.first
        self.pending: tuple[Any] | None = None
        self._first, self._granted = moment.first, grant.granted_at
        self._steady = steady
        self._listeners: list[Callable[[Held], None]] = []
        self._lock = threading.Lock()
        self.ends = self._end(moment.first, self.length, grant.lease_expires_at)
        if moment.told is not None:
            told = moment.last + grant.lease_expires_at - moment.told
            self.ends = min(self.ends, told)

    @property
    def tell_at(self) -> int:
        """When whoever works on it has to be told that the lease will be over."""
        return self.ends - self.pace.margin - self.pace.grace

    @property
    def over(self) -> bool:
        """The lease is lost. While the worker is stopping it is not, though the work shall end."""
        return self.lost.is_set() and self.why != STOPPING

    def remaining(self) -> float:
        """Seconds until whoever works on it must have ended; 0.0 once it is lost."""
        if self.over:
            return 0.0
        return max(0, self.ends - self.pace.margin - self._steady()) / SECOND

    def renewal(self) -> Renew:
        """The command of the next beat, with the latest progress mark if it has not been told."""
        mark = None if self.pending is None else self.pending[0]
        return Renew(*self.binding, lease_seconds=self.wish, progress=mark)

    def renewed(self, sent: int, seconds: int, expires_at: int) -> None:
        """A renewal for so many seconds that was first sent then has been answered. A late answer
        never takes back what a later one has given."""
        self.ends = max(self.ends, self._end(sent, seconds * SECOND, expires_at))
        self.sent_at = max(self.sent_at, sent)
        self._tell()

    def shorten(self) -> None:
        """Longer than the setting allows now, or the hold is used up: an earlier renewal, whose
        answer was lost, may have reached its limit. No lease is lost by that."""
        self.wish //= 2
        self.pace = pace(self.wish * SECOND or self.length)

    def _end(self, sent: int, length: int, expires_at: int) -> int:
        """Its length counts from the sending. The store may have given less than was asked for
        (`max_hold_seconds`): what it gave in all counts from the claim's sending."""
        return min(sent + length, self._first + expires_at - self._granted)

    def lose(self, why: str, *, refused: bool = False) -> None:
        """Tell whoever works on it that it is over. `refused`: the store has said so, and nothing
        can be recorded any more."""
        with self._lock:
            self.refused = self.refused or refused
            if self.why and (self.why != STOPPING or why == STOPPING):
                return
            self.why = why
            self.lost.set()
        self._tell()

    def listen(self, listener: Callable[[Held], None]) -> None:
        """Call this when the lease is renewed or lost; at once if it is lost already. It must be
        quick, and may be called by any thread."""
        with self._lock:
            self._listeners.append(listener)
        if self.lost.is_set():
            listener(self)

    def _tell(self) -> None:
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            try:
                listener(self)
            except Exception:  # noqa: BLE001  # one that fails must not keep it from the others
                _log.exception("telling the work on task %s failed", self.lease.task_id)
