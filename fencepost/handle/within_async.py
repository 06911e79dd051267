"""`async with fp.within_async(connection) as tx:` the verbs inside an asynchronous application's
own transaction. No verb is written here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from fencepost.commands import Command, Request
from fencepost.engine.within_async import WithinAsync
from fencepost.handle.asking import Asking, awaiting
from fencepost.handle.verbs import Verbs, request_of
from fencepost.model import Caller, Outcome

T = TypeVar("T")


class _Awaited(Verbs):
    """The verbs, whose answers are awaited: what they give is a coroutine."""

    def __init__(self, within: WithinAsync, caller: Caller) -> None:
        self._within = within
        self._caller = caller

    async def execute(  # type: ignore[override]
        self, commands: Sequence[Command | Request]
    ) -> list[Outcome]:
        return await self._within.execute([(self._caller, request_of(c)) for c in commands])

    async def drive(self, steps: Asking[T]) -> T:  # type: ignore[override]
        return await awaiting(steps)


class AsyncTransaction:
    """The handle's verbs, each to be awaited, and so are those of a lease: `await tx.enqueue(…)`,
    `await lease.complete(…)`. What they answer is pending until the block has ended."""

    def __init__(self, within: WithinAsync, caller: Caller) -> None:
        self._within = within
        self._verbs = _Awaited(within, caller)

    async def __aenter__(self) -> Self:
        await self._within.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._within.__aexit__(kind, error, trace)

    def lease(self, task_id: str, *, worker_id: str, fence: int) -> Any:
        """The lease that was claimed elsewhere, as `Handle.lease`: nothing is awaited for it."""
        return self._verbs.lease(task_id, worker_id=worker_id, fence=fence)

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        if name.startswith("_") or not hasattr(Verbs, name):
            raise AttributeError(f"{type(self).__name__} has no verb {name}")
        verb: Callable[..., Awaitable[Any]] = getattr(self._verbs, name)
        return verb

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(name for name in dir(Verbs) if name[0] != "_")})
