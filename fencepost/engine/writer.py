"""The one thread of a process that writes: it takes what is waiting, commits it as one, and
answers. While the disk syncs, the next batch gathers; nobody polls and nobody waits longer."""

from __future__ import annotations

import os
import threading
from queue import Empty, SimpleQueue

from fencepost.clock import SECOND, Clock
from fencepost.engine.call import Call
from fencepost.engine.transact import Done, Transactor
from fencepost.issues import FencepostError, Unavailable
from fencepost.log import Log
from fencepost.machine.drawing import Draw
from fencepost.storage.port import Store

log = Log("fencepost.engine")

SEAL_AT_ONCE = 400
SEAL_AFTER = 256
SEAL_BACKLOG = 50_000
IDLE_SECONDS = 0.05


class Writer:
    """Group commit over one store. `send` may be called by any thread."""

    def __init__(self, store: Store, clock: Clock, draw: Draw) -> None:
        self.store = store
        self.transactor = Transactor(clock, draw)
        self._queue: SimpleQueue[Call | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._closed = False
        self._unsealed = 0
        self._untidy = False
        # Microseconds that one unit of work took lately: a turn is bounded by time.
        self._pace = 100.0
        self._company = 0  # calls that may come together: just answered, or come meanwhile
        self._taken = 0

    def send(self, call: Call) -> Call:
        """Hand a call in; it is answered with one outcome a command, or fails with Unavailable."""
        if os.getpid() != self._pid:
            raise Unavailable("this handle was opened before a fork; open the store again")
        with self._lock:
            if self._closed:
                raise Unavailable("the handle is closed; open the store again")
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="fencepost-writer", daemon=True
                )
                self._thread.start()
            self._queue.put(call)
        return call

    def close(self, seconds: float | None = None) -> bool:
        """Commit what is waiting, seal a long backlog, end the thread. May be called twice.

        False if the thread has not ended after `seconds`: it waits for a turn, and ends after it.
        """
        if os.getpid() != self._pid:
            return True  # without the lock, which a thread of the parent may have held at the fork
        with self._lock:
            thread = self._thread
            already, self._closed = self._closed, True
        if thread is None:
            return True
        if not already:
            self._queue.put(None)
        thread.join(seconds)
        return not thread.is_alive()

    def _run(self) -> None:
        while True:
            more = self._unsealed or self._untidy
            try:
                first = self._queue.get(timeout=IDLE_SECONDS if more else None)
            except Empty:
                self._seal()
                continue
            if first is None:
                if self._unsealed >= SEAL_AFTER:
                    self._seal_all()
                return
            self._serve(first)
            if self._unsealed > SEAL_BACKLOG:
                self._seal()

    def _serve(self, first: Call) -> None:
        """One turn: what gathered while we waited for it goes in, as much as 10 ms can take."""
        batch: list[Call] = []
        try:
            with self.store.turn():
                batch = [call for call in self._gather(first) if call.begin()]
                if batch:
                    self._commit(batch)
                    self._company = len(batch) + self._queue.qsize()
        except FencepostError as error:
            _fail(batch or [first], error)
        except BaseException as error:
            log.exception("the writer met an error of its own")  # those answered do not see it
            _fail(batch or [first], error)
            if not isinstance(error, Exception):
                raise

    def _commit(self, batch: list[Call]) -> None:
        sent = [command for call in batch for command in call.sent]
        clock = self.transactor.clock
        if any(request.command.verb == "purge" for _, request in sent):
            self._seal_for_purge()
        began = clock.steady()
        with self.store.transaction() as transaction:
            done = self.transactor.settle(self.store, transaction, sent)
        self._taken = clock.steady() - began
        self._learn(self._taken, sum(call.units for call in batch))
        self._unsealed += done.entries
        if done.ready:
            self.store.tell(done.ready)
        # An erasure is answered when no byte is left; otherwise nobody waits for a checkpoint.
        if not done.erased:
            _answer(batch, done)
        try:
            self._untidy = self.store.tidy(erased=done.erased)
        finally:
            if done.erased:
                _answer(batch, done)

    def _seal_for_purge(self) -> None:
        """The bytes of an entry may go only when its leaf hash is in the tree."""
        while not self.store.read_only and self._unsealed_after_a_slice():
            pass

    def _unsealed_after_a_slice(self) -> int:
        more = self.store.seal(self.transactor.clock.wall(), SEAL_AT_ONCE)
        self._unsealed = max(1, self._unsealed - SEAL_AT_ONCE) if more else 0
        return self._unsealed

    def _gather(self, first: Call) -> list[Call]:
        batch = [first]
        room = self.store.turn_microseconds / self._pace - first.units
        clock = self.transactor.clock
        # whoever was answered just now may be back in a moment; never long beside what a turn takes
        until = clock.steady() + min(self.store.company_microseconds, self._taken // 4)
        while room > 0:
            left = until - clock.steady() if len(batch) < self._company else 0
            try:
                call = self._queue.get(left > 0, max(left, 0) / SECOND)
            except Empty:
                break
            if call is None:
                self._queue.put(None)
                break
            batch.append(call)
            room -= call.units
        return batch

    def _learn(self, microseconds: int, units: int) -> None:
        taken = min(max(microseconds / max(units, 1), 5.0), 1_000.0)
        self._pace += (taken - self._pace) / 8

    def _seal(self) -> None:
        """A slice of the journal into the tree and of what is to be tidied, in an own turn."""
        try:
            with self.store.turn():
                self._unsealed_after_a_slice()
                if self._untidy:
                    self._untidy = self.store.tidy(erased=False)
        except FencepostError:
            # the next command meets the same error and tells it
            self._unsealed, self._untidy = 0, False

    def _seal_all(self) -> None:
        while self._unsealed:
            self._seal()


def _answer(batch: list[Call], done: Done) -> None:
    place = 0
    for call in batch:
        call.answer(done.outcomes[place : place + len(call.sent)])
        place += len(call.sent)


def _fail(batch: list[Call], error: BaseException) -> None:
    for call in batch:
        if not call.answered:
            call.begin()
            call.fail(error)
