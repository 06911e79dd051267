"""What a PostgreSQL does in a way of its own while a batch is loaded and saved, as steps: the same
on the store's own connection and on an application's, blocking or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fencepost.clock import Clock
from fencepost.machine.batch import Changes, Loaded
from fencepost.machine.drawing import Draw, Drawn
from fencepost.machine.needs import ALONE, Sent, numbers_needed
from fencepost.model import StoreState
from fencepost.storage import loading, saving
from fencepost.storage.loading import TimeOf
from fencepost.storage.port import AnotherServer
from fencepost.storage.steps import Ask, Steps, one


class PostgresBacking:
    """Keeps `storage/port.py`'s Folding, and `storage/loading.py`'s Backing."""

    read_only = False

    def __init__(self, where: str, clock: Clock | None, secret: bytes | None = None) -> None:
        self.where = where
        self.clock = clock  # a test's; without one the server's clock is the store's
        # The transaction id of what was loaded last: after a lost commit the server is asked of it.
        self.xid = ""
        self._secret = secret

    def load(self, sent: Sequence[Sent], time_of: TimeOf, draw: Draw) -> Steps[Loaded]:
        if self._secret is None:
            self._secret = (yield from loading.secret())[0][-1]
        if any(request.command.verb in ALONE for _, request in sent):
            yield one("hold_alone")
        return (yield from loading.load(sent, time_of, draw, self))

    def save(self, changes: Changes, loaded: Loaded) -> Steps[None]:
        if changes.erases():
            yield one("forgetter")
        yield from saving.save(changes, loaded, self.bury)

    def contents(self, task_ids: Sequence[str]) -> Steps[dict[str, tuple[bytes, bytes | None]]]:
        return (yield from loading.contents(task_ids))

    def confirm(self) -> Steps[bool]:
        ((written,),) = yield one("confirm")
        return bool(written)

    def row(self, sent: Sequence[Sent]) -> Ask:
        """Beside others, unless all of it is held already: a command changes what they go by."""
        return one("store_shared")

    def state(self, row: tuple[Any, ...]) -> StoreState:
        *columns, known = row
        if not known:
            raise AnotherServer(f"{self.where}: another server writes")
        return StoreState(*columns)

    def moment(self, store: StoreState, time_of: TimeOf) -> Steps[tuple[int, int]]:
        """By the server's clock, which all who write have in common; a test injects its own."""
        if self.clock is not None:
            return time_of(store, None)
        ((wall,),) = yield one("clock")
        return time_of(store, wall)

    def numbers(self, loaded: Loaded, sent: Sequence[Sent]) -> Steps[None]:
        fences, tasks, entries = numbers_needed(sent, loaded)
        asked = {"fences": fences, "tasks": tasks, "entries": entries}
        ((self.xid, *drawn),) = yield one("numbers", **asked)
        loaded.drawn = Drawn(*([*reversed(numbers)] for numbers in drawn))

    def bury(self, lookup: str) -> bytes:
        """The lookup of an erased key, under this store's secret."""
        assert self._secret is not None
        return loading.buried(self._secret, lookup)
