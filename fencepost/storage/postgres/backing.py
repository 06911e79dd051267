"""What a PostgreSQL does in a way of its own while a batch is loaded and saved, as steps: the same
on the store's own connection and on an application's, blocking or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from psycopg import errors

from fencepost.clock import Clock, SystemClock
from fencepost.issues import Unavailable
from fencepost.machine.drawing import Draw, Drawn
from fencepost.machine.needs import ALONE, Needs, Sent, numbers_needed
from fencepost.machine.rows import Changes, Loaded, QueueRow
from fencepost.model import StoreState, TaskRow
from fencepost.storage import loading, looking, saving
from fencepost.storage.loading import TimeOf
from fencepost.storage.port import AnotherServer
from fencepost.storage.postgres.lowwater import LowWater, first_due, first_end, first_of
from fencepost.storage.steps import Ask, Steps, one, together

LIKELY = 8


class PostgresBacking:
    """Keeps `storage/port.py`'s Folding, and `storage/loading.py`'s Backing."""

    read_only = False

    def __init__(self, where: str, clock: Clock | None, secret: bytes | None = None) -> None:
        self.where = where
        self.clock = clock  # a test's; without one the server's clock is the store's
        # The transaction id of what was loaded last: after a lost commit the server is asked of it.
        self.xid = ""
        self._secret = secret
        self._low = LowWater()
        self._mark: tuple[int, int] | None = None
        self._now = 0
        self._needed: dict[tuple[str, str], QueueRow] = {}  # those of the last batch last
        # (steady once it was told, the store's time, the wall clock)
        self._told: tuple[int, int, int] | None = None

    def load(self, sent: Sequence[Sent], time_of: TimeOf, draw: Draw) -> Steps[Loaded]:
        if self._secret is None:
            self._secret = (yield from loading.secret())[0][-1]
        alone = [verb for _, request in sent if (verb := request.command.verb) in ALONE]
        if alone:
            yield from self._alone(alone[0])
        return (yield from loading.load(sent, time_of, draw, self))

    def _alone(self, verb: str) -> Steps[None]:
        """Wait for whoever is there. Unavailable, naming them, where they do not end in time."""
        try:
            yield together([one("savepoint_alone"), one("hold_alone")])
        except errors.LockNotAvailable:
            yield one("back_to_alone")
            there = yield one("holders")
            named = ", ".join(
                f"backend {pid} ({name or 'no name'}, {state}, since {begun})"
                for pid, name, state, begun in there
            )
            raise Unavailable(
                f"{self.where}: {verb} waits for all transactions that have touched the store, "
                f"and these do not end: {named or 'gone by now'}; end them, try again"
            ) from None

    def save(self, changes: Changes, loaded: Loaded) -> Steps[None]:
        if changes.erases():
            yield one("forgetter")
        if any(task.state == "ready" for task in changes.updated.values()):  # given back
            self._low.forget()
        self._needed.update(changes.queues)
        yield from saving.save(changes, loaded, self.bury)

    def contents(self, task_ids: Sequence[str]) -> Steps[dict[str, tuple[bytes, bytes | None]]]:
        return (yield from loading.contents(task_ids))

    def confirm(self) -> Steps[bool]:
        ((written,),) = yield one("confirm")
        return bool(written)

    def row(self) -> Ask:
        """Beside others, unless all of it is held already: a command changes what they go by."""
        return one("store_shared")

    def state(self, row: tuple[Any, ...]) -> StoreState:
        *columns, known = row
        if not known:
            raise AnotherServer(f"{self.where}: another server writes")
        state = StoreState(*columns)
        if self._low.under(state.floor):
            self._told = None
        return state

    def likely(self, wanted: Needs) -> list[tuple[str, str]]:
        """Those of the last batches: one round trip less for each time that it is right."""
        return [place for place in self._needed if place[0] in wanted.scopes]

    def learn(self, loaded: Loaded) -> None:
        self._told = self._steady(), loaded.now, loaded.wall
        for place, queue in loaded.queues.items():
            self._needed.pop(place, None)
            self._needed[place] = queue
        while len(self._needed) > LIKELY:
            del self._needed[next(iter(self._needed))]

    def keys(self, wanted: Needs) -> list[Ask]:
        return [one("hold_keys", keys=sorted(wanted.looking))] if wanted.looking else []

    def before(self) -> tuple[Mapping[tuple[str, str], QueueRow], int] | None:
        if self._told is None:
            return None
        told, time, wall = self._told
        passed = self._steady() - told
        wall = wall + passed if self.clock is None else self.clock.wall()
        return self._needed, wall if wall >= time else time + passed

    def _steady(self) -> int:
        return (self.clock or SystemClock()).steady()

    def time(self) -> list[Ask]:
        """By the server's clock, which all who write have in common; a test injects its own."""
        return [one("clock")] if self.clock is None else []

    def draws(
        self, sent: Sequence[Sent], queues: Mapping[tuple[str, str], QueueRow],
        tasks: Mapping[str, TaskRow], more: int = 0,
    ) -> list[Ask]:
        fences, new, entries = numbers_needed(sent, queues, tasks, more)
        return [one("numbers", fences=fences, tasks=new, entries=entries)]

    def ready(self, queue_id: int, limit: int) -> list[Ask]:
        self._mark = self._low.mark(queue_id)
        if self._mark is None:
            return [one("ready_tasks", queue_id=queue_id, limit=limit)]
        rank, row_id = self._mark
        return [
            one("ready_tasks_above", queue_id=queue_id, rank=rank, limit=limit),
            one("ready_tasks_from", queue_id=queue_id, rank=rank, id=row_id, limit=limit),
        ]

    def over(self, queue_id: int, now: int, limit: int) -> list[Ask]:
        self._now = now
        lapsed, due = self._low.since(queue_id)
        return [looking.lapsed(queue_id, now, limit, lapsed), looking.due(queue_id, now, due)]

    def enough(self, queue_id: int, found: Sequence[Sequence[Any]], limit: int) -> bool:
        lapsed, due, *ready = found
        self._low.looked(queue_id, first_end(lapsed, self._now), first_due(due, self._now))
        marked = self._mark is not None
        self._low.found(queue_id, first_of(ready[-1]), marked)
        if not marked or sum(map(len, ready)) >= limit:
            return True
        self._low.forget(queue_id)
        return False

    def drawn(self, loaded: Loaded, answers: Sequence[Any]) -> None:
        for ((self.xid, *numbers),) in answers:
            before = loaded.drawn or Drawn([], [], [])
            # what is drawn later is higher, and is taken later
            loaded.drawn = Drawn(
                [*reversed(numbers[0]), *before.fences],
                [*reversed(numbers[1]), *before.tasks],
                [*reversed(numbers[2]), *before.entries],
            )

    def bury(self, lookup: str) -> bytes:
        """The lookup of an erased key, under this store's secret."""
        assert self._secret is not None
        return loading.buried(self._secret, lookup)
