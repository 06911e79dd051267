"""The caller's own transaction: our rows commit and roll back with the application's."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from fencepost.engine.transact import Transactor
from fencepost.issues import InvalidRequest, Unavailable
from fencepost.machine.needs import Sent
from fencepost.model import Outcome
from fencepost.storage.port import Store, Transaction

SECONDS = 5.0


class Within:
    """Takes the turn, begins on the application's connection, and ends with the `with` block.

    Outcomes inside are `pending` until the commit. An exception in the block rolls everything
    back, ours and the application's, and so does a command that broke off, even if the block
    goes on after it. A block that holds the turn for longer than `seconds` is
    rolled back at its end, since everybody else waits meanwhile.
    """

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
        self._transaction: Transaction | None = None
        self._began = 0
        self._erased = False
        self._spoiled: BaseException | None = None
        self._pid = os.getpid()

    def __enter__(self) -> Self:
        self._store.not_inside()
        transaction = self._store.borrow(self._connection)
        with ExitStack() as stack:
            stack.enter_context(self._store.turn(self._wait_seconds))
            transaction.begin()
            self._stack = stack.pop_all()
        self._transaction = transaction
        self._began = self._transactor.clock.steady()
        return self

    def execute(self, sent: Sequence[Sent]) -> list[Outcome]:
        """Decide and write the commands now; they commit with the block."""
        transaction = self._open()
        self._check_time()
        try:
            done, _ = self._transactor.fold(transaction, sent)
        except BaseException as error:
            self._spoiled = error  # part of it may be written
            raise
        self._erased = self._erased or done.erased
        return [
            outcome._replace(status="pending") if outcome.accepted else outcome
            for outcome in done.outcomes
        ]

    def _open(self) -> Transaction:
        if self._transaction is None:
            raise InvalidRequest("within: the block has ended; open a new one")
        if self._spoiled is not None:
            raise Unavailable("within: a command broke off; the block is rolled back")
        if not self._transaction.going():
            raise InvalidRequest(
                "within: the transaction was ended inside the block; leave that to the block"
            )
        return self._transaction

    def _check_time(self) -> None:
        held = (self._transactor.clock.steady() - self._began) / 1e6
        if held > self._seconds:
            raise Unavailable(
                f"within: the block has held the turn for {held:.1f} s, {self._seconds:g} s are "
                "allowed; it is rolled back. Do the slow work before it"
            )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if os.getpid() != self._pid:
            return  # a forked child: the transaction is its parent's
        with self._stack:
            transaction = self._transaction
            assert transaction is not None
            try:
                if kind is None:
                    self._open()
                    self._check_time()
                    transaction.commit()
                    self._store.tidy(erased=self._erased)
            finally:
                self._transaction = None
                transaction.rollback()
