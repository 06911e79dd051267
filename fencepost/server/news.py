"""Who waits for something to happen in the store, and how they are told.

What this process commits is told at once; what others commit, what comes due and which leases
lapse is seen by one look at the store every 50 ms, and only while somebody waits. A hint of another
process brings the next look forward.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial

from fencepost.issues import FencepostError
from fencepost.model import Outcome
from fencepost.server.bridge import Bridge
from fencepost.storage import reading

LOOK_SECONDS = 0.05
LOOKS_A_KEY = 10  # for an answer that another process has given to a claim that waits here
Place = tuple[str, str]


class Waiter:
    """One claim that found nothing yet."""

    __slots__ = ("asked", "places", "woken")

    def __init__(
        self, places: Sequence[Place], asked: str | None, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.places, self.asked = places, asked
        self.woken: asyncio.Future[bool] = loop.create_future()

    def wake(self, *, for_a_task: bool) -> bool:
        """False where it was woken before, or waits no longer."""
        if self.woken.done():
            return False
        self.woken.set_result(for_a_task)
        return True


class News:
    """Waiting claims by queue, first come first served, and those who follow the journal."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[Place, deque[Waiter]] = {}
        self._by_key: dict[str, Waiter] = {}
        self._followers: set[asyncio.Event] = set()
        self._looking: asyncio.Task[None] | None = None
        self._version = -1
        self._stopped = False
        self._hint = asyncio.Event()

    # -- waiting

    async def task_for(self, places: Sequence[Place], asked: str | None, seconds: float) -> bool:
        """Until there may be a task on one of these (scope, queue): True. False where this very
        claim (`asked_of`) is answered or asked for again, or nobody waits any more."""
        waiter = Waiter(places, asked, self._loop)
        for place in places:
            self._waiting.setdefault(place, deque()).append(waiter)
        if asked is not None:
            self._by_key[asked] = waiter
        try:
            await self._until(waiter.woken, seconds)
            return not waiter.woken.cancelled() and waiter.woken.result()
        finally:
            waiter.woken.cancel()
            for place in places:
                self._leave(place, waiter)
            if asked is not None and self._by_key.get(asked) is waiter:
                del self._by_key[asked]

    def _leave(self, place: Place, waiter: Waiter) -> None:
        line = self._waiting.get(place)
        if line is not None:
            with suppress(ValueError):
                line.remove(waiter)
            if not line:
                del self._waiting[place]

    async def entry(self, seen: asyncio.Event, seconds: float) -> None:
        """Until something is committed after `seen` was cleared, or the time is over."""
        self._followers.add(seen)
        try:
            await self._until(asyncio.ensure_future(seen.wait()), seconds)
        finally:
            self._followers.discard(seen)

    async def _until(self, told: asyncio.Future[bool], seconds: float) -> None:
        if self._stopped:
            told.cancel()
            return
        if self._looking is None or self._looking.done():
            self._looking = self._loop.create_task(self._look())
        try:
            await asyncio.wait((told,), timeout=seconds)
        finally:
            told.cancel()

    # -- telling

    def committed(self, scope: str, outcomes: Iterable[Outcome]) -> None:
        """What this process has just committed: whoever waits for it hears of it now."""
        for follower in self._followers:
            follower.set()
        if not self._waiting:
            return
        for outcome in outcomes:
            if outcome.receipt is not None and not outcome.replayed:
                self._freed(scope, outcome.receipt.entry)

    def _freed(self, scope: str, entry: dict[str, object]) -> None:
        items = entry.get("tasks")
        for item in items if isinstance(items, list) else ():
            if item.get("state") == "ready":
                self.wake((scope, item.get("queue") or str(entry.get("queue", ""))), 1)

    def asked(self, asked: str | None) -> None:
        """This claim was asked for again, or answered: whoever waits with it hears the same."""
        if asked is not None and (waiter := self._by_key.get(asked)):
            waiter.wake(for_a_task=False)

    def wake(self, place: Place, count: int) -> None:
        """The first `count` in the line of this queue may try."""
        line = self._waiting.get(place)
        while line and count > 0:
            count -= line.popleft().wake(for_a_task=not self._stopped)

    def stop(self) -> None:
        """Nobody waits any more."""
        self._stopped = True
        for place in list(self._waiting):
            self.wake(place, len(self._waiting[place]))
        for follower in self._followers:
            follower.set()

    async def _look(self) -> None:
        with self._bridge.fp.hinted(self._hinted):
            await self._look_again_and_again()

    def _hinted(self, place: Place) -> None:
        """In another thread: a queue is told to have tasks."""
        if place in self._waiting:
            with suppress(RuntimeError):  # the loop has ended, and with it whoever waited
                self._loop.call_soon_threadsafe(self._hint.set)

    async def _look_again_and_again(self) -> None:
        looks = 0
        while (self._waiting or self._followers) and not self._stopped:
            looks += 1
            places = {place: len(line) for place, line in self._waiting.items() if line}
            keys = [] if looks % LOOKS_A_KEY else list(self._by_key)
            with suppress(FencepostError):  # the next request meets the same error and tells it
                changed, ready = await self._bridge.read(partial(self._seen, places))
                if changed:
                    for follower in self._followers:
                        follower.set()
                for place, count in ready.items():
                    self.wake(place, count)
                for asked in await self._bridge.read(partial(self._answered, keys)) if keys else ():
                    self.asked(asked)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._hint.wait(), LOOK_SECONDS)
            self._hint.clear()

    def _answered(self, keys: Iterable[str]) -> list[str]:
        """In a thread: which of these have left their receipt, perhaps through another process."""
        fp = self._bridge.fp
        return [asked for asked in keys if fp.read(reading.receipt(asked))]

    def _seen(self, places: dict[Place, int]) -> tuple[bool, dict[Place, int]]:
        """In a thread: whether anything was committed, and how many tasks wait on each queue."""
        fp = self._bridge.fp
        version = fp.changed()
        changed, self._version = version != self._version, version
        now = fp.now()
        found = {
            place: fp.read(reading.claimable(*place, now, count)) for place, count in places.items()
        }
        return changed, {place: count for place, count in found.items() if count}
