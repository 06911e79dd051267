"""Where the ready tasks of a queue begin, while old rows lie before them.

A claim reads the index of the hot path from its beginning. While somebody holds an old snapshot
open no vacuum can take away what was claimed before, and every claim steps over all of it. So once
that takes long, claims begin at the first task that was found last: of one rank, that is, for what
has a higher priority is always looked at. They look from the beginning again where they find less
than they want, and after a while: whatever was committed late, or was given back by another
process, is found by then. Who gives tasks back himself forgets the mark at once.

It is the same with leases that have ended and with tasks that have come due, which are looked for
by their time: what is granted or delayed from now on ends later than where the last look has begun
to find, so the next begins there. Only where the clock was set back all begins anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fencepost.clock import SECOND, SystemClock
from fencepost.storage.looking import EVER

LONG = 5_000
"""Microseconds. A look that takes longer has stepped over much, or the machine is busy."""
SHARE, LONGEST = 20, 5 * SECOND
"""Looking from the beginning takes a twentieth of the time, but is done every five seconds."""


class LowWater:
    """What one connection knows of the queues that it claims from."""

    def __init__(self, clock: SystemClock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._marks: dict[int, tuple[int, int, int]] = {}  # queue: rank, id, until
        self._since: dict[int, tuple[int, int, int]] = {}  # queue: lapsed, due, until
        self._floor: int | None = None
        self._began = 0

    def under(self, floor: int) -> bool:
        """The store's floor. True for another one: a clock may have been set back, and leases end
        anew."""
        changed = floor != self._floor
        if changed:
            self._floor = floor
            self._marks.clear()
            self._since.clear()
        return changed

    def since(self, queue_id: int) -> tuple[int, int]:
        """From when on ended leases and due tasks are to be looked for. A look begins now."""
        self._began = self._clock.steady()
        lapsed, due, until = self._since.get(queue_id, (EVER, EVER, 0))
        return (lapsed, due) if self._began < until else (EVER, EVER)

    def looked(self, queue_id: int, lapsed: int, due: int) -> None:
        """The time of the first that the look has found of each, or until when it has looked."""
        *_, until = self._since.get(queue_id, (EVER, EVER, 0))
        if self._began < until:
            self._since[queue_id] = lapsed, due, until
            return
        now = self._clock.steady()
        taken = now - self._began
        if taken < LONG:
            self._since.pop(queue_id, None)
        else:
            self._since[queue_id] = lapsed, due, now + min(SHARE * taken, LONGEST)

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


def first_end(rows: Sequence[tuple[Any, ...]], now: int) -> int:
    """When the first of these leases has ended; `now` where there is none."""
    return int(rows[0][16]) if rows else now


def first_due(rows: Sequence[tuple[Any, ...]], now: int) -> int:
    """When the first of these tasks has come due; `now` where there is none."""
    return min((row[0] for row in rows), default=now)


def first_of(rows: Sequence[tuple[Any, ...]]) -> tuple[int, int] | None:
    """(rank, id) of the first of these tasks (see saving.ready_place)."""
    return (-rows[0][5], rows[0][0]) if rows else None
