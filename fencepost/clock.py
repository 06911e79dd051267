"""The one place where time is asked, and the one way it is written.

An instant is an integer: microseconds UTC since 1970. Integers order rightly, add exactly and
mean the same in Python, SQL and JSON; text in RFC 3339 is made and read only at the edges. No
other module asks the system for the time, so that tests can do without the real one.
"""

from __future__ import annotations

import re
import sys
import threading
import time
from collections import deque
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Protocol

from fencepost.log import Log
from fencepost.record import dataclass

SECOND = 1_000_000
FORWARD_JUMP = 5 * SECOND
BEHIND_MARK = 1 * SECOND
REMEMBERED_JUMPS = 64

_log = Log("fencepost.clock")


class Clock(Protocol):
    """Where time comes from. Both methods may be called from any thread."""

    def wall(self) -> int:
        """Microseconds UTC since 1970, as the machine believes; it may jump either way."""

    def steady(self) -> int:
        """Microseconds since some fixed moment. Never goes back, and runs on in suspend:
        a lease must not last longer because the laptop was closed."""


class SystemClock:
    """The machine's clocks."""

    def wall(self) -> int:
        """Microseconds UTC since 1970."""
        return time.time_ns() // 1_000

    def steady(self) -> int:
        """Microseconds since the machine started or so, time in suspend included."""
        if sys.platform == "linux":
            return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000
        if sys.platform == "darwin":  # time.monotonic stops there while the machine sleeps
            return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1_000
        return time.monotonic_ns() // 1_000


class FakeClock:
    """A clock for tests that moves only when it is told to."""

    def __init__(self, start_us: int) -> None:
        self._wall = start_us
        self._steady = 0

    def wall(self) -> int:
        """Microseconds UTC since 1970."""
        return self._wall

    def steady(self) -> int:
        """Microseconds since this clock was made."""
        return self._steady

    def advance(self, seconds: float) -> None:
        """Let time pass: both clocks move. ValueError if `seconds` is negative."""
        if seconds < 0:
            raise ValueError(f"time does not pass backwards ({seconds} s): use jump_wall")
        self._wall += round(seconds * SECOND)
        self._steady += round(seconds * SECOND)

    def jump_wall(self, seconds: float) -> None:
        """Set the wall clock forward, or back with a negative number; steady stays."""
        self._wall += round(seconds * SECOND)


@dataclass(frozen=True, slots=True)
class ClockJump:
    """The wall clock jumped: `seconds` ahead of the steady clock, or, negative, to so far behind
    the store's time. `at` is the store's time then, in microseconds UTC."""

    seconds: float
    at: int


class StoreTime:
    """A store's time: the wall clock, save that it never runs backwards.

    The store keeps its highest committed time as a mark, and every process on it passes that
    mark in. Where the wall clock is behind, time goes on by the steady clock from the latest
    instant known: the mark, or this object's own last answer. A process that sees others push
    the mark past its own reckoning goes on from their mark, and never adds to it, so processes
    follow the one that is furthest and together run no faster than the steady clock. A process
    that answers only once (a CLI call) has nothing to reckon from: it answers the mark.

    One object serves all threads of a process. `jumps` holds the last 64 reports.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._wall = 0
        self._steady = 0
        self._last: int | None = None
        self._told_behind = False
        self.jumps: deque[ClockJump] = deque(maxlen=REMEMBERED_JUMPS)

    def now(self, mark: int, wall: int | None = None) -> int:
        """The store's time in microseconds UTC; never below `mark`, nor below an earlier answer.

        `mark` is the highest time the store has committed, read after its locks were taken;
        `wall` is what the database's clock says, where the store goes by that one.
        A jump of the wall clock (more than 5 s ahead of the steady clock, or more than 1 s
        behind the store) is logged and remembered, once each.
        """
        with self._lock:
            wall = self._clock.wall() if wall is None else wall
            steady = self._clock.steady()
            answer, shift = self._reckon(mark, wall, steady)
            jump = self._judge(shift, wall - answer, answer)
            self._wall, self._steady, self._last = wall, steady, answer
        if jump is not None:  # outside the lock: a log handler may well ask for the time
            _report(jump)
        return answer

    def reset(self) -> None:
        """Forget everything but `jumps`: the next answer is the wall clock's, or the mark.

        For the operator's clock.reset, which lowers the mark. Every process that learns of it
        must call this, or its own last answer would push the mark up again.
        """
        with self._lock:
            self._last = None
            self._told_behind = False

    def _reckon(self, mark: int, wall: int, steady: int) -> tuple[int, int]:
        """The time, and how far the wall clock has moved against the steady one since the
        last answer (0 at first)."""
        if self._last is None:
            return max(wall, mark), 0
        passed = steady - self._steady
        shift = (wall - self._wall) - passed
        if wall >= mark and wall >= self._last:
            return wall, shift
        return max(mark, self._last + passed), shift

    def _judge(self, shift: int, ahead: int, answer: int) -> ClockJump | None:
        """The jump to report, if any. To be behind is told once, and again if it gets worse."""
        found: ClockJump | None = None
        if shift > FORWARD_JUMP:
            found = ClockJump(shift / SECOND, answer)
        elif ahead < -BEHIND_MARK and (not self._told_behind or shift < -BEHIND_MARK):
            found = ClockJump(ahead / SECOND, answer)
            self._told_behind = True
        self._told_behind &= ahead < 0
        if found is not None:
            self.jumps.append(found)
        return found


def _report(jump: ClockJump) -> None:
    what = "is behind the store, whose time goes on by the steady clock until clock.reset"
    if jump.seconds > 0:
        what = "has jumped ahead; leases may have expired early"
    extra = {"code": "clock_jump"}
    _log.warning("clock_jump: the wall clock %s (%+.3f s)", what, jump.seconds, extra=extra)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAIVE_EPOCH = _EPOCH.replace(tzinfo=None)  # isoformat() of it has no offset
_EPOCH_DAY = _EPOCH.toordinal()
_MICROSECOND = timedelta(microseconds=1)
MIN_INSTANT = (datetime(1, 1, 1, tzinfo=UTC) - _EPOCH) // _MICROSECOND
MAX_INSTANT = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
MIN_SECOND, MAX_SECOND = MIN_INSTANT // SECOND, MAX_INSTANT // SECOND

_RFC3339 = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})"
    r"(?:\.([0-9]{1,9}))?(?:Z|([+-][0-9]{2}:[0-9]{2}))"
)


def to_rfc3339(us: int) -> str:
    """Microseconds UTC as text: always UTC, six digits and Z, so text sorts as time does.
    ValueError outside the years 0001 to 9999."""
    second, fraction = divmod(us, SECOND)
    return f"{_whole_second(second)}{fraction:06d}Z"


@lru_cache(maxsize=1024)
def _whole_second(second: int) -> str:
    """Text up to the point; most instants of a batch share a second."""
    if not MIN_SECOND <= second <= MAX_SECOND:
        raise ValueError(f"{second} s since 1970 is outside the years 0001 to 9999")
    return (_NAIVE_EPOCH + timedelta(0, second)).isoformat() + "."


def from_rfc3339(text: str) -> int:
    """Text in RFC 3339 as microseconds UTC, exactly, or ValueError that says why not.

    Strict: capital T and Z, a time zone always, 0 to 9 digits of a second of which those past
    the sixth must be zero (nothing is rounded), no leap second, years 0001 to 9999 in UTC.
    """
    found = _RFC3339.fullmatch(text)
    if found is None:
        raise ValueError(
            f"{text[:40]!r} is not a time in RFC 3339 with its time zone: write"
            " 2026-01-31T12:00:00.000000Z, or an offset such as +05:30 in place of the Z"
        )
    year, month, day, hour, minute, second = map(int, found.group(1, 2, 3, 4, 5, 6))
    try:
        days = date(year, month, day).toordinal() - _EPOCH_DAY
    except ValueError as error:
        raise ValueError(f"{text} is no date: {error}") from None
    if second == 60:
        raise ValueError(f"{text} is a leap second, which cannot be counted here: use :59 or :00")
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(f"{text} is no time of day: it ends at 23:59:59")
    digits = (found[7] or "").ljust(6, "0")
    if digits[6:].strip("0"):
        raise ValueError(f"{text} is finer than a microsecond: only six digits may differ from 0")
    east = _minutes_east(found[8], text) if found[8] else 0
    minutes = (days * 24 + hour) * 60 + minute - east
    us = (minutes * 60 + second) * SECOND + int(digits[:6])
    return _in_range(us, text)


def from_datetime(dt: datetime) -> int:
    """An aware datetime as microseconds UTC, exactly. ValueError if it is naive: which zone was
    meant cannot be guessed."""
    if dt.utcoffset() is None:
        raise ValueError(f"{dt.isoformat()} has no time zone: set tzinfo, e.g. datetime.UTC")
    return _in_range((dt - _EPOCH) // _MICROSECOND, dt.isoformat())


def _minutes_east(offset: str, text: str) -> int:
    hours, minutes = int(offset[1:3]), int(offset[4:])
    if hours > 23 or minutes > 59:
        raise ValueError(f"{text} has no possible offset: they end at 23:59")
    return (hours * 60 + minutes) * (-1 if offset[0] == "-" else 1)


def _in_range(us: int, text: str) -> int:
    if not MIN_INSTANT <= us <= MAX_INSTANT:
        raise ValueError(f"{text} is outside the years 0001 to 9999 in UTC")
    return us
