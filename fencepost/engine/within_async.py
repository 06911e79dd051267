"""The caller's own transaction on an asynchronous connection. Loaded when somebody has one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar

from fencepost.engine.transact import Transactor
from fencepost.engine.within import Block
from fencepost.issues import Unavailable
from fencepost.machine.needs import Sent
from fencepost.model import Outcome
from fencepost.storage.port import AnotherServer, Store
from fencepost.storage.steps import Steps

T = TypeVar("T")


class WithinAsync:
    """`Within` (within.py) on an asynchronous connection. What may wait for the store's own
    connection is done in a thread, so that the loop never waits for it."""

    def __init__(
        self, store: Store, transactor: Transactor, connection: Any, seconds: float
    ) -> None:
        self._store = store
        self._lent = store.borrow_async(connection)
        self._block = Block(transactor, self._lent, seconds)
        self._one = asyncio.Lock()

    async def __aenter__(self) -> Self:
        with self._store.turn():
            try:
                await self._run(self._block.begin)
            except BaseException:
                await self._undo()
                raise
        return self

    async def execute(self, sent: Sequence[Sent]) -> list[Outcome]:
        """Decide and write the commands now, after those of other tasks that were asked before."""
        async with self._one:
            return await self._run(lambda: self._block.execute(sent))

    async def _run(self, steps: Callable[[], Steps[T]]) -> T:
        try:
            return await self._lent.run(steps())
        except AnotherServer:
            await asyncio.to_thread(self._store.recognise)
            return await self._lent.run(steps())

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._block.elsewhere:
            return
        async with self._one:
            try:
                if kind is None:
                    await self._lent.run(self._block.release())
                    await self._lent.commit()
            finally:
                await self._undo()

    async def _undo(self) -> None:
        with suppress(Unavailable):  # a connection that is lost has done nothing
            await self._lent.run(self._block.rollback())
