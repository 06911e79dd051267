"""`with fp.within(connection) as tx:` the verbs inside an application's own transaction."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from fencepost.commands import Command, Request
from fencepost.engine import Within
from fencepost.handle.verbs import Verbs, request_of
from fencepost.model import Caller, Outcome


class Transaction(Verbs):
    """The same verbs as the handle's. What they answer is pending until the block has ended."""

    def __init__(self, within: Within, caller: Caller) -> None:
        self._within = within
        self._caller = caller

    def __enter__(self) -> Self:
        self._within.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._within.__exit__(kind, error, trace)

    def execute(self, commands: Sequence[Command | Request]) -> list[Outcome]:
        return self._within.execute([(self._caller, request_of(c)) for c in commands])
