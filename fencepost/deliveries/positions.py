"""Up to which position all that a receiver has accepted is known here."""

from __future__ import annotations

import threading

MOST_AHEAD = 100_000  # what another dispatcher delivers is never heard of: the gap stays


class Positions:
    """The effects of one stream as they are heard of, in any order. May be shared by threads."""

    def __init__(self, heard: int) -> None:
        self._lock = threading.Lock()
        self._ahead: set[int] = set()
        self._heard = heard

    @property
    def heard(self) -> int:
        """The highest position below which none is missing."""
        return self._heard

    def add(self, position: object) -> None:
        """The effect at this position is known."""
        if type(position) is not int:
            return
        with self._lock:
            if position > self._heard and len(self._ahead) < MOST_AHEAD:
                self._ahead.add(position)
            while self._heard + 1 in self._ahead:
                self._heard += 1
                self._ahead.remove(self._heard)
