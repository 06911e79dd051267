"""One batch: load → machine → save → commit, and what is done when one of them fails."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from itertools import chain

from fencepost.clock import Clock, StoreTime
from fencepost.issues import FencepostError, GuardTripped, OutcomeUnknown, Unavailable
from fencepost.log import Log
from fencepost.machine.batch import Batch, Verdict
from fencepost.machine.drawing import Draw
from fencepost.machine.fold import decide, fold, grant, live_leases, replay
from fencepost.machine.needs import Sent
from fencepost.machine.rows import Changes, Loaded
from fencepost.model import Outcome, StoreState
from fencepost.record import dataclass, replace
from fencepost.rules.retry import due
from fencepost.storage.port import Conflict, Folding, Store, Transaction
from fencepost.storage.steps import Steps, beside

log = Log("fencepost.engine")
TRIES = 10


@dataclass(slots=True)
class Done:
    """What a batch came to: an outcome each, and what the writer has to know beyond."""

    outcomes: list[Outcome]
    entries: int = 0
    erased: bool = False
    ready: frozenset[tuple[str, str]] = frozenset()
    """Queues, by (scope, queue), on which tasks have become ready."""


class Spoilt(Exception):
    """A batch met an error that perhaps one command of it brought about: no room for its result."""


class Transactor:
    """Runs batches against a store, one at a time, by the store's time."""

    def __init__(self, clock: Clock, draw: Draw) -> None:
        self.clock = clock
        self.draw = draw
        self.time = StoreTime(clock)
        self._floor: int | None = None

    def time_of(self, store: StoreState, wall: int | None = None) -> tuple[int, int]:
        """(the store's time, the wall clock): of this machine, or as the database tells it. A
        raised floor forgets a mark that was lowered."""
        if self._floor is not None and store.floor != self._floor:
            self.time.reset()
        self._floor = store.floor
        wall = self.clock.wall() if wall is None else wall
        return self.time.now(store.mark, wall), wall

    def run(self, transaction: Transaction, sent: Sequence[Sent]) -> Done:
        """One transaction for all, run again where another came in between. Whatever is raised
        before the commit has changed nothing."""
        try:
            return again(lambda: self._run(transaction, sent))
        except Conflict as conflict:
            if len(sent) > 1:
                raise Spoilt(str(conflict)) from conflict
            raise busy(conflict) from conflict

    def _run(self, transaction: Transaction, sent: Sequence[Sent]) -> Done:
        transaction.begin()
        try:
            done, changed = self.fold(transaction, sent)
        except BaseException as error:
            transaction.rollback()
            if isinstance(error, Unavailable) and len(sent) > 1 and transaction.usable():
                raise Spoilt from error
            raise
        if changed:
            transaction.commit()
        else:
            transaction.rollback()
        return done

    def fold(self, transaction: Transaction, sent: Sequence[Sent]) -> tuple[Done, bool]:
        """Load, decide and save inside an open transaction. Tells whether anything was written."""
        return transaction.run(self.steps(transaction, sent))

    def steps(self, transaction: Folding, sent: Sequence[Sent]) -> Steps[tuple[Done, bool]]:
        """The same for whoever drives them: on a connection that blocks or on one that does not."""
        loaded = yield from transaction.load(sent, self.time_of, self.draw)
        verdicts, changes = fold(sent, loaded)
        changed = not changes.is_empty() and not transaction.read_only
        after = loaded
        if changes.end_leases and changes.store is not None:
            # the clock was set back: which leases live is judged by the time that holds now
            after = replace(loaded, now=changes.store.mark, store=changes.store)
        asked = answers(transaction, verdicts, after)
        if not changed:
            outcomes = yield from asked
        elif changes.erases() or not any(verdict.claimed for verdict in verdicts):
            yield from transaction.save(changes, loaded)
            outcomes = yield from asked
        else:
            _, outcomes = yield from beside(transaction.save(changes, loaded), asked)
        if not changed and any(map(tells_again, outcomes)):
            changed = yield from transaction.confirm()
        ready = made_ready(changes, loaded.now)
        return Done(outcomes, len(changes.entries), changes.erases(), ready), changed

    def one_by_one(self, transaction: Transaction, sent: Sequence[Sent]) -> Done:
        """The same commands, each in its own transaction: only the culprit fails."""
        all_done = Done([])
        for command in sent:
            try:
                done = self.run(transaction, [command])
            except OutcomeUnknown:
                raise
            except Exception as error:
                log.exception("%s was undone", command[1].command.verb)
                done = Done([failed(error)])
            all_done.outcomes += done.outcomes
            all_done.entries += done.entries
            all_done.erased = all_done.erased or done.erased
            all_done.ready |= done.ready
        return all_done

    def settle(self, store: Store, transaction: Transaction, sent: Sequence[Sent]) -> Done:
        """Run the batch; undo it and go one by one if a command spoils it; after an error from
        COMMIT reopen and answer from the receipts."""
        try:
            try:
                return self.run(transaction, sent)
            except (
                Spoilt, GuardTripped, sqlite3.IntegrityError, AssertionError, LookupError,
                ValueError,
            ):  # fmt: skip
                if len(sent) > 1:
                    log.warning("a batch of %d commands was undone; going one by one", len(sent))
                return self.one_by_one(transaction, sent)
        except OutcomeUnknown as error:
            return self.recover(store, sent, error)

    def recover(self, store: Store, sent: Sequence[Sent], error: OutcomeUnknown) -> Done:
        """An error from COMMIT means unknown, not "no": the receipts tell, once reopened."""
        log.error("the outcome of a commit is unknown: %s", error)
        try:
            store.reopen()
            with store.transaction() as transaction:
                return again(lambda: self._look(transaction, sent, error))
        except (FencepostError, Conflict):
            return Done([unknown(command, error) for command in sent])

    def _look(
        self, transaction: Transaction, sent: Sequence[Sent], error: OutcomeUnknown
    ) -> Done:
        def steps() -> Steps[tuple[Done, bool]]:
            loaded = yield from transaction.load(sent, self.time_of, self.draw)
            found = [self._found(loaded, command, error) for command in sent]
            outcomes = yield from answers(transaction, found, loaded)
            again = any(map(tells_again, outcomes)) and (yield from transaction.confirm())
            return Done(outcomes), again

        transaction.begin()
        try:
            done, written = transaction.run(steps())
            if written:
                transaction.commit()
            return done
        finally:
            transaction.rollback()

    def _found(self, loaded: Loaded, command: Sent, error: OutcomeUnknown) -> Verdict:
        caller, request = command
        batch = Batch(replace(loaded, read_only=True))
        task_id = getattr(request.command, "task_id", None)
        task = None if task_id is None else loaded.tasks.get(task_id)
        known = replay(batch, caller, request, task)
        if known is not None:
            # rule 1 goes first here as everywhere: decide() judges authority, then replays
            return decide(batch, caller, request)
        verb, by_bytes = request.command.verb, request.command.self_keyed
        if request.key is None and (not by_bytes or verb == "renew"):
            return Verdict(unknown(command, error))
        return Verdict(failed(Unavailable(f"{error}: nothing was done, try again")))


def again(attempt: Callable[[], Done]) -> Done:
    """What is tried anew where another transaction came in between. Raises the last Conflict."""
    for _ in range(TRIES - 1):
        try:
            return attempt()
        except Conflict:
            pass
    return attempt()


def made_ready(changes: Changes, now: int) -> frozenset[tuple[str, str]]:
    """The queues of the tasks that these changes leave ready and due."""
    tasks = chain(changes.inserted.values(), changes.updated.values())
    return frozenset((t.scope, t.queue) for t in tasks if t.state == "ready" and due(t, now))


def tells_again(outcome: Outcome) -> bool:
    """Whether it tells of a receipt that is stored already."""
    return outcome.replayed or "receipt" in outcome.facts


def busy(error: BaseException | None) -> Unavailable:
    """It has come in between each time."""
    return Unavailable(f"others change the same rows again and again ({error}); try again")


def answers(
    transaction: Folding, verdicts: Sequence[Verdict], loaded: Loaded
) -> Steps[list[Outcome]]:
    """The outcomes; a claim's with the leases that still live, and what is in them, read now."""
    if not any(verdict.claimed for verdict in verdicts):
        return [verdict.outcome for verdict in verdicts]
    batch = Batch(loaded)
    live = [live_leases(verdict, loaded, batch) for verdict in verdicts]
    inside = yield from transaction.contents([row.task_id for rows in live for row in rows])
    return [
        verdict.outcome._replace(
            grants=tuple(grant(row, *inside.get(row.task_id, (None, None))) for row in rows)
        )
        if rows
        else verdict.outcome
        for verdict, rows in zip(verdicts, live, strict=True)
    ]


def failed(error: Exception) -> Outcome:
    """An error as the outcome of the one command that met it."""
    if isinstance(error, FencepostError):
        return Outcome("failed", (error.code,), str(error))
    tripped = f"{type(error).__name__}: {error}; the change was undone. This is a bug"
    return Outcome("failed", (GuardTripped.code,), tripped)


def unknown(command: Sent, error: OutcomeUnknown) -> Outcome:
    """Nobody can tell: the key is what to ask again with."""
    request = command[1]
    key = request.key or (request.sha256.hex() if request.command.self_keyed else None)
    return Outcome("failed", (OutcomeUnknown.code,), str(error), facts={"key": key})
