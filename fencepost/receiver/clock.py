"""Where the kit asks for the time, and how it writes it."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from functools import lru_cache

SECOND = 1_000_000
_START = datetime(1970, 1, 1, tzinfo=UTC)


def wall() -> int:
    """Microseconds UTC since 1970."""
    return time.time_ns() // 1_000


def steady() -> float:
    """Seconds since some moment; it never goes back."""
    return time.monotonic()


def text(moment: int) -> str:
    """RFC 3339 in UTC with six digits and `Z`."""
    seconds, rest = divmod(moment, SECOND)
    return f"{_whole(seconds)}.{rest:06d}Z"


@lru_cache(maxsize=4)  # strftime is slow, and a second is long
def _whole(seconds: int) -> str:
    return (_START + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
