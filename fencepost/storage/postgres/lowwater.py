"""Where the ready tasks of a queue begin, while old rows lie before them.

A claim reads the index of the hot path from its beginning. While somebody holds an old snapshot
open no vacuum can take away what was claimed before, and every claim steps over all of it. So once
that takes long, claims begin at the first task that was found last: of one rank, that is, for what
has a higher priority is always looked at. They look from the beginning again where they find less
than they want, and after a while: whatever was committed late, or was given back by another
process, is found by then. Who gives tasks back himself forgets the mark at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fencepost.clock import SECOND, SystemClock

LONG = 5_000
"""Microseconds. A look that takes longer has stepped over much, or the machine is busy."""
SHARE, LONGEST = 20, 5 * SECOND
"""Looking from the beginning takes a twentieth of the time, but is done every five seconds."""


class LowWater:
    """What one connection knows of the queues that it claims from."""

    def __init__(self, clock: SystemClock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._marks: dict[int, tuple[int, int, int]] = {}  # queue: rank, id, until
        self._began = 0

    def mark(self, queue_id: int) -> tuple[int, int] | None:
        """(rank, id) to begin from, or None: from the beginning. A look begins now."""
        self._began = self._clock.steady()
        rank, row_id, until = self._marks.get(queue_id, (0, 0, 0))
        return (rank, row_id) if self._began < until else None

    def found(self, queue_id: int, first: tuple[int, int] | None, marked: bool) -> None:
        """What the look that was begun last has found first, as (rank, id)."""
        if marked:
            rank, _, until = self._marks[queue_id]
            if first is not None and first[0] == rank:
                self._marks[queue_id] = (*first, until)
            return
        now = self._clock.steady()
        taken = now - self._began
        if first is None or taken < LONG:
            self._marks.pop(queue_id, None)
        else:
            self._marks[queue_id] = (*first, now + min(SHARE * taken, LONGEST))

    def forget(self, queue_id: int | None = None) -> None:
        """There may be tasks before the mark of this queue, or of any."""
        if queue_id is None:
            self._marks.clear()
        else:
            self._marks.pop(queue_id, None)


def first_of(rows: Sequence[tuple[Any, ...]]) -> tuple[int, int] | None:
    """(rank, id) of the first of these tasks (see saving.ready_place)."""
    return (-rows[0][5], rows[0][0]) if rows else None
