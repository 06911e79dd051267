"""Which deliveries begin, and when: between the claims of a destination and its work.

Nothing is claimed that cannot be sent: while a destination is held, its obligations stay where they
are, and cost nobody anything. What is claimed is given a ticket at once, in the order in which it
came; deliveries about one task are sent one after another.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from fencepost.clock import SECOND
from fencepost.deliveries.breaker import Breaker, Rate
from fencepost.deliveries.event import NoEvent, about_of
from fencepost.deliveries.judging import Flow
from fencepost.model import Grant
from fencepost.worker.claims import Desk
from fencepost.worker.held import Held

GLANCE_SECONDS = 1.0


class Line:
    """Who waits behind whom for one subject: the lowest revision first, then who came first.
    Whoever is first has begun, or is about to."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str, list[tuple[int, int, str, threading.Event]]] = {}
        self._first: dict[str, str] = {}  # by subject, who is on its way
        self._where: dict[str, str] = {}
        self._count = 0

    def join(self, name: str, subject: str, revision: int) -> None:
        """Take a place, in the order of the claims."""
        with self._lock:
            self._where[name] = subject
            if subject not in self._first:
                self._first[subject] = name
                return
            self._count += 1
            line = self._waiting.setdefault(subject, [])
            line.append((revision, self._count, name, threading.Event()))
            line.sort()

    def ahead(self, name: str) -> threading.Event | None:
        """What is set once this one is first; None where it is, or stands in no line."""
        with self._lock:
            line = self._waiting.get(self._where.get(name, ""), ())
            return next((event for _, _, other, event in line if other == name), None)

    def leave(self, name: str) -> None:
        """Its delivery has ended, or will not begin."""
        with self._lock:
            subject = self._where.pop(name, None)
            if subject is None:
                return
            line = self._waiting.get(subject, [])
            if self._first[subject] != name:
                line[:] = [each for each in line if each[2] != name]
            elif line:
                _, _, self._first[subject], event = line.pop(0)
                event.set()
            else:
                del self._first[subject]
            if not line:
                self._waiting.pop(subject, None)


class Admission:
    """One destination's: what may be under way, how fast, in which order."""

    def __init__(self, breaker: Breaker, rate: Rate | None, steady: Callable[[], int]) -> None:
        self.breaker = breaker
        self._rate = rate
        self._steady = steady
        self._line = Line()
        self._tickets: dict[str, int] = {}
        self._abouts: dict[str, dict[str, Any]] = {}
        self._closed = threading.Event()

    def close(self) -> None:
        """Nothing more begins."""
        self._closed.set()

    def now(self) -> float:
        return self._steady() / SECOND

    def room(self, free: int) -> int:
        """How many of the free slots may be filled."""
        return 0 if self._closed.is_set() else min(free, self.breaker.room(self.now()))

    def arrived(self, claimed: list[Held]) -> None:
        """These were claimed, in this order."""
        now = self.now()
        for held in claimed:
            ticket = None if self._closed.is_set() else self.breaker.enter(now)
            if ticket is None:
                continue
            self._tickets[held.name] = ticket
            try:
                about = about_of(held.lease.grant.payload)
            except NoEvent:
                continue
            self._abouts[held.name] = about
            self._line.join(held.name, f"{about['queue']}/{about['task_id']}", about["revision"])

    def about(self, held: Held) -> dict[str, Any] | None:
        """What it says, where it was read as it arrived."""
        return self._abouts.get(held.name)

    def at_once(self, held: Held) -> bool:
        """Whether `begin` waits for nothing."""
        return self._rate is None and self._line.ahead(held.name) is None

    def begin(self, held: Held) -> bool:
        """Wait until it may be sent. False where it may not: now, or before its lease is lost."""
        if held.name not in self._tickets:
            return False
        ahead = self._line.ahead(held.name)
        while ahead is not None and not ahead.wait(GLANCE_SECONDS):
            if held.lost.is_set():
                return False
        if self._rate is not None and held.lost.wait(self._rate.take(self.now())):
            return False
        return not (held.lost.is_set() or self._closed.is_set())

    def end(self, held: Held, flow: Flow, wait: float | None) -> None:
        """It has been sent, or will not be. A second time says nothing."""
        self._line.leave(held.name)
        self._abouts.pop(held.name, None)
        ticket = self._tickets.pop(held.name, None)
        if ticket is not None:
            self.breaker.leave(ticket, flow, self.now(), wait)


class Gate(NamedTuple):
    """The desk of a runtime, behind an admission (`worker.claims.Desk`)."""

    desk: Desk
    admission: Admission
    ordered: bool = False

    def room(self) -> int:
        if self.ordered and self.desk.in_hand():
            return 0  # what is being given back is the next again: nothing overtakes it
        return self.admission.room(self.desk.room())

    def in_hand(self) -> int:
        return self.desk.in_hand()

    def judge(self) -> None:
        self.desk.judge()

    def take(self, held: list[Held]) -> None:
        self.admission.arrived(held)
        self.desk.take(held)
        for each in held:
            if each.settling:  # it came too late and is given back: nobody will perform it
                self.admission.end(each, "none", None)

    def found_nothing(self) -> None:
        self.desk.found_nothing()

    def no_more_claims(self) -> None:
        self.desk.no_more_claims()

    def trouble(self, code: str | None) -> None:
        self.desk.trouble(code)

    def fatal(self, error: Exception) -> None:
        self.desk.fatal(error)

    def left_over(self, grant: Grant, *, fresh: bool) -> None:
        self.desk.left_over(grant, fresh=fresh)
