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
BACK_SECONDS = 60.0  # so long one that failed is waited for by what comes after it
NOWHERE = ("", 0)


class Line:
    """Who waits behind whom for one subject: the lowest revision first, then who came first.
    Whoever is first has begun, or is about to. One that comes again later is waited for as well,
    for `BACK_SECONDS`, by at most `most` at a time."""

    def __init__(self, most: int = 0) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._waiting: dict[str, list[tuple[int, int, str, threading.Event]]] = {}
        self._first: dict[str, str] = {}  # by subject, who is on its way
        self._where: dict[str, tuple[str, int]] = {}
        self._owed: dict[str, _Owed] = {}  # by subject, who comes again; the oldest first
        self._count = 0

    def join(self, name: str, subject: str, revision: int, now: float = 0.0) -> None:
        """Take a place, in the order of the claims."""
        with self._lock:
            self._where[name] = subject, revision
            behind = self._behind(subject, name, revision, now) and self._idle() < self._most
            if subject not in self._first and not behind:
                self._first[subject] = name
                return
            self._count += 1
            line = self._waiting.setdefault(subject, [])
            line.append((revision, self._count, name, threading.Event()))
            line.sort()

    def ahead(self, name: str) -> threading.Event | None:
        """What is set once this one is first; None where it is, or stands in no line."""
        with self._lock:
            line = self._waiting.get(self._where.get(name, NOWHERE)[0], ())
            return next((event for _, _, other, event in line if other == name), None)

    def stands_still(self, name: str, now: float) -> bool:
        """Whether this one waits for one that comes again. After so long it does no more."""
        with self._lock:
            subject = self._where.get(name, NOWHERE)[0]
            if subject not in self._first:
                self._next(subject, now)
            return subject not in self._first

    def leave(self, name: str, now: float = 0.0, *, again: bool = False) -> None:
        """Its delivery has ended, or will not begin; `again`: it comes once more."""
        with self._lock:
            subject, revision = self._where.pop(name, NOWHERE)
            if not subject:
                return
            if self._first.get(subject) != name:
                line = self._waiting.get(subject, [])
                line[:] = [each for each in line if each[2] != name]
                if not line:
                    self._waiting.pop(subject, None)
                return
            del self._first[subject]
            self._remember(subject, name, revision, now, again=again)
            self._next(subject, now)

    def _remember(self, subject: str, name: str, revision: int, now: float, *, again: bool) -> None:
        while self._owed and next(iter(self._owed.values())).until <= now:
            del self._owed[next(iter(self._owed))]
        known = self._owed.get(subject)
        own = known is None or known.task == _task(name)
        if own:
            self._owed.pop(subject, None)
        if again and (own or known is None or revision < known.revision):
            self._owed.pop(subject, None)
            self._owed[subject] = _Owed(revision, _task(name), now + BACK_SECONDS)

    def _next(self, subject: str, now: float) -> None:
        """Whoever is the next begins, if it need not wait for one that comes again."""
        line = self._waiting.get(subject)
        if not line:
            return
        revision, _, name, event = line[0]
        if self._behind(subject, name, revision, now) and self._idle() <= self._most:
            return
        line.pop(0)
        self._first[subject] = name
        event.set()
        if not line:
            del self._waiting[subject]

    def _behind(self, subject: str, name: str, revision: int, now: float) -> bool:
        owed = self._owed.get(subject)
        if owed is None or owed.until <= now or owed.task == _task(name):
            return False
        return owed.revision <= revision

    def _idle(self) -> int:
        """How many wait for one that is not here."""
        return sum(len(line) for each, line in self._waiting.items() if each not in self._first)


class _Owed(NamedTuple):
    """One that comes again: its revision, its task, and until when it is waited for."""

    revision: int
    task: str
    until: float


def _task(name: str) -> str:
    return name.partition(":")[0]


class Admission:
    """One destination's: what may be under way, how fast, in which order."""

    def __init__(
        self, breaker: Breaker, rate: Rate | None, steady: Callable[[], int], jobs: int = 1
    ) -> None:
        self.breaker = breaker
        self._rate = rate
        self._steady = steady
        self._line = Line(jobs // 2)  # the others go on to have room
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
            if not self._enter(held):
                continue
            try:
                about = about_of(held.lease.grant.payload)
            except NoEvent:
                continue
            self._abouts[held.name] = about
            subject = f"{about['queue']}/{about['task_id']}"
            self._line.join(held.name, subject, about["revision"], now)

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
            if held.lost.is_set() or self._closed.is_set():
                return False
            if self._line.stands_still(held.name, self.now()):
                self._give_back(held, "none", None)  # whoever is waited for needs it
        if held.name not in self._tickets and not self._enter(held):
            return False
        if self._rate is not None and held.lost.wait(self._rate.take(self.now())):
            return False
        return not (held.lost.is_set() or self._closed.is_set())

    def end(self, held: Held, flow: Flow, wait: float | None, *, again: bool = False) -> None:
        """It has been sent, or will not be; `again`: it is not the last of it. A second time says
        nothing."""
        self._line.leave(held.name, self.now(), again=again)
        self._abouts.pop(held.name, None)
        self._give_back(held, flow, wait)

    def _enter(self, held: Held) -> bool:
        ticket = None if self._closed.is_set() else self.breaker.enter(self.now())
        if ticket is not None:
            self._tickets[held.name] = ticket
        return ticket is not None

    def _give_back(self, held: Held, flow: Flow, wait: float | None) -> None:
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
                self.admission.end(each, "none", None, again=True)

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
