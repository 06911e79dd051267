"""From which number on the sealer looks for entries.

It takes those that wait in the order of their numbers, from the first. While somebody holds an old
snapshot open no vacuum takes away what was sealed before, and each look would step over all of it.
So looks begin behind what can have no entry any more: numbers that were drawn before some moment,
once every transaction that ran at that moment has ended and what it has left is sealed. A number
below that is never given again, so no late commit is passed over.
"""

from __future__ import annotations


class Settled:
    """What one connection knows of it; a new one begins from the first number."""

    def __init__(self) -> None:
        self.since = 0
        self._ended = 0
        self._next: tuple[int, int] | None = None

    def looking(self, last: int, oldest: int, next_one: int) -> None:
        """Before a look: the number that was drawn last, and after that was asked, which
        transaction is the oldest that runs, and which would be the next to begin."""
        if self._next is None or oldest >= self._next[1]:
            self._ended = self._ended if self._next is None else self._next[0]
            self._next = last, next_one

    def sealed(self, last: int | None) -> None:
        """After its commit: all that the look could see is sealed up to this number; None: all."""
        end = self._ended if last is None else min(last, self._ended)
        self.since = max(self.since, end + 1)
