"""From the loop to the engine and back. The loop never touches SQLite: commands join the writer's
group commit, reads run in a thread."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TypeVar

from fencepost.engine import Call
from fencepost.handle import Handle
from fencepost.issues import FencepostError, Unavailable
from fencepost.machine.needs import Sent
from fencepost.model import Outcome

T = TypeVar("T")
READERS = 8
BIG_BODY = 1024 * 1024
Future = asyncio.Future[list[Outcome]]


class Bridge:
    """One loop's way into one store. Made inside the loop."""

    def __init__(self, fp: Handle, wait_seconds: float) -> None:
        self.fp = fp
        self.wait_seconds = wait_seconds
        self._loop = asyncio.get_running_loop()
        self._readers = ThreadPoolExecutor(READERS, "fencepost-reader")
        self._answered: deque[tuple[Future, Call]] = deque()
        self._woken = False
        self._parsing = asyncio.Lock()
        self._pending: dict[Future, Call] = {}

    async def send(self, sent: Sequence[Sent]) -> list[Outcome]:
        """One outcome a command. Raises Unavailable where the turn to write does not come."""
        future: Future = self._loop.create_future()
        call = self._pending[future] = self.fp.hand_in(sent, partial(self._tell, future))
        try:
            done, _ = await asyncio.wait((future,), timeout=self.wait_seconds)
            if not done:
                if call.give_up():
                    raise Unavailable(
                        f"the turn to write did not come within {self.wait_seconds:g} s; nothing "
                        "was done, try again"
                    )
                await asyncio.wait((future,))
            return future.result()
        finally:
            del self._pending[future]
            if future.cancel():  # whoever asked has been ended: what has not begun is not done
                call.give_up()

    def give_up(self) -> None:
        """Whoever waits for the turn to write waits no longer: the service is stopping."""
        for future, call in self._pending.items():
            if not future.done() and call.give_up():
                future.set_exception(
                    Unavailable("the service is stopping; nothing was done, try again")
                )

    async def read(self, look: Callable[[], T]) -> T:
        """What `look` finds in the store, or makes of something long, in a thread."""
        return await self._loop.run_in_executor(self._readers, look)

    async def parse(self, look: Callable[[], T], size: int) -> T:
        """The same for a body of `size` bytes. Of the big ones one after the other: in memory it
        may be thirty times as much, and threads would share the one interpreter anyway."""
        if size <= BIG_BODY:
            return await self.read(look)
        async with self._parsing:
            return await self.read(look)

    def _tell(self, future: Future, call: Call) -> None:
        """In the writer's thread, once a call. A turn answers many: the loop is woken once."""
        self._answered.append((future, call))
        if not self._woken:
            self._woken = True
            with suppress(RuntimeError):  # the loop has ended, and with it whoever waited
                self._loop.call_soon_threadsafe(self._settle)

    def _settle(self) -> None:
        self._woken = False  # before looking: what comes from now on wakes again
        while self._answered:
            future, call = self._answered.popleft()
            if future.done():
                continue  # nobody waits any more; what was done stands
            if call.error is None:
                future.set_result(call.wait())
            elif isinstance(call.error, FencepostError):
                future.set_exception(call.error)
            else:
                future.set_exception(Unavailable("the store met an error; it is in the log"))
