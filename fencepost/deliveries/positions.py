"""Up to which position all that a receiver has accepted is known here."""

from __future__ import annotations

import threading

MOST_AHEAD = 100_000  # beyond a gap: what is not remembered is asked for with the gap


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

    @property
    def gap(self) -> int | None:
        """The position before the first that is missing, where later ones are known."""
        return self._heard if self._ahead else None

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
