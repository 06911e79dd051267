"""The caller's own transaction: our rows commit and roll back with the application's.

`Block` is what such a transaction may do, as steps; `Within` drives them on a blocking connection,
and within_async.py on an asynchronous one. Neither knows a rule.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Any, Self, TypeVar

from fencepost.engine.transact import TRIES, Transactor, busy
from fencepost.issues import InvalidRequest, Unavailable
from fencepost.machine.needs import Sent
from fencepost.model import Outcome
from fencepost.storage.port import AnotherServer, Borrowed, Lent, Store
from fencepost.storage.steps import Steps

T = TypeVar("T")
SECONDS = 5.0


class Block:
    """One block. Outcomes inside are `pending` until the commit. An exception in the block rolls
    everything back, ours and the application's, and so does a command that broke off, even if the
    block goes on after it. One that has lasted longer than `seconds` is rolled back at its end,
    since others wait meanwhile for the turn, or for the rows that it holds.
    """

    def __init__(self, transactor: Transactor, lent: Lent, seconds: float) -> None:
        self._transactor = transactor
        self._lent = lent
        self._seconds = seconds
        self._began: int | None = None
        self._spoiled: BaseException | None = None
        self._pid = os.getpid()
        self._over = False
        self.erased = False

    @property
    def elsewhere(self) -> bool:
        """In a forked child: the transaction is its parent's."""
        return os.getpid() != self._pid

    def begin(self) -> Steps[None]:
        yield from self._lent.begin()
        self._began = self._transactor.clock.steady()

    def execute(self, sent: Sequence[Sent]) -> Steps[list[Outcome]]:
        """Decide and write the commands now; they commit with the block. Where another
        transaction came in between, they are undone and decided again."""
        told: BaseException | None = None
        for _ in range(TRIES):
            left = self._check()
            yield from self._lent.mark(left)
            try:
                done, _ = yield from self._transactor.steps(self._lent, sent)
                yield from self._lent.unmark()
            except AnotherServer:
                yield from self._lent.back()
                raise
            except BaseException as error:
                if not self._lent.again(error):
                    self._spoiled = error  # part of it may be written
                    raise
                told = error
                yield from self._lent.back()
            else:
                self.erased = self.erased or done.erased
                return [
                    outcome._replace(status="pending") if outcome.accepted else outcome
                    for outcome in done.outcomes
                ]
        self._spoiled = told
        raise busy(told) from told

    def release(self) -> Steps[None]:
        """At the end of a block that went well, before the commit."""
        self._check()
        yield from self._lent.release()

    def rollback(self) -> Steps[None]:
        """At the end of every block. After the commit it does nothing."""
        self._over = True
        yield from self._lent.rollback()

    def _check(self) -> float:
        """Whether anything may still be done, and for how many seconds."""
        if self._over or self._began is None:
            raise InvalidRequest("within: the block has ended; open a new one")
        if self._spoiled is not None:
            raise Unavailable("within: a command broke off; the block is rolled back")
        self._lent.check_going()
        held = (self._transactor.clock.steady() - self._began) / 1e6
        if held > self._seconds:
            raise Unavailable(
                f"within: the block has held the turn for {held:.1f} s, {self._seconds:g} s are "
                "allowed; it is rolled back. Do the slow work before it"
            )
        return self._seconds - held


class Within:
    """Takes the turn, begins on the application's connection, and ends with the `with` block."""

    def __init__(
        self, store: Store, transactor: Transactor, connection: Any, seconds: float = SECONDS,
        wait_seconds: float | None = None,
    ) -> None:  # fmt: skip
        self._store = store
        self._wait_seconds = wait_seconds
        self._transactor = transactor
        self._connection = connection
        self._seconds = seconds
        self._stack = ExitStack()
        self._lent: Borrowed | None = None
        self._block: Block | None = None

    def __enter__(self) -> Self:
        self._store.not_inside()
        self._lent = self._store.borrow(self._connection)
        block = Block(self._transactor, self._lent, self._seconds)
        with ExitStack() as stack:
            stack.enter_context(self._store.turn(self._wait_seconds))
            try:
                self._run(block.begin)
            except BaseException:
                self._undo(block)
                raise
            self._stack = stack.pop_all()
        self._block = block
        return self

    def execute(self, sent: Sequence[Sent]) -> list[Outcome]:
        """Decide and write the commands now; they commit with the block."""
        block = opened(self._block)
        return self._run(lambda: block.execute(sent))

    def _run(self, steps: Callable[[], Steps[T]]) -> T:
        assert self._lent is not None
        try:
            return self._lent.run(steps())
        except AnotherServer:
            self._store.recognise()
            return self._lent.run(steps())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        block, lent = self._block, self._lent
        assert block is not None
        assert lent is not None
        if block.elsewhere:
            return
        with self._stack:
            try:
                if kind is None:
                    lent.run(block.release())
                    lent.commit()
                    self._store.tidy(erased=block.erased)
            finally:
                self._undo(block)

    def _undo(self, block: Block) -> None:
        assert self._lent is not None
        with suppress(Unavailable):  # a connection that is lost has done nothing
            self._lent.run(block.rollback())


def opened(block: Block | None) -> Block:
    """A block that has begun."""
    if block is None:
        raise InvalidRequest("within: the block has ended; open a new one")
    return block
