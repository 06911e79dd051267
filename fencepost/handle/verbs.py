"""The verbs as methods: each makes one command, sends it, and raises what refused it."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, TypeVar

from fencepost import destinations, fields, tokens
from fencepost.clock import SystemClock
from fencepost.commands import (
    Cancel,
    Claim,
    ClockReset,
    Command,
    DestinationAdvance,
    DestinationSecret,
    DestinationSet,
    Enqueue,
    Erase,
    Import,
    NewTask,
    Purge,
    QueueSet,
    Request,
    Requeue,
    Resolve,
    Review,
    Revoke,
    SetPolicy,
    Sweep,
    TokenCreate,
    TokenRevoke,
)
from fencepost.handle.asking import Asking, answered, asks, at_once
from fencepost.handle.lease import Lease, Moment
from fencepost.issues import InvalidRequest, OutcomeUnknown, error_for
from fencepost.model import Grant, Kind, Outcome, Receipt
from fencepost.outward import Class
from fencepost.parts import NOTHING

COMMANDS_AT_ONCE = 4
T = TypeVar("T")


class Verbs(ABC):
    """What can be asked of a store, on a handle of its own or inside a caller's transaction.

    A refusal raises a subclass of Refused; `execute` alone gives refusals as values. Commands
    without a lease get a random key unless one is given; a claim gets one only when asked. A
    lease command and an import need none: their own bytes are their key.
    """

    @abstractmethod
    def execute(self, commands: Sequence[Command | Request]) -> list[Outcome]:
        """Send commands as one batch; one outcome each, refusals as values."""

    def drive(self, steps: Asking[T]) -> T:
        """Carry a verb to its end (handle/asking.py)."""
        return at_once(steps)

    @asks
    def outcome_of(self, command: Command, key: str | None) -> Asking[Outcome]:
        """The outcome of one command. Raises Refused, Unavailable, OutcomeUnknown, GuardTripped."""
        (outcome,) = yield self.execute([request_of(command, key)])
        return accepted(outcome)

    @asks
    def timed_outcome_of(
        self, command: Command, key: str | None
    ) -> Asking[tuple[Outcome, Moment]]:
        """The same, and when it was asked for."""
        begun = self.steady()
        moment = Moment(begun, begun, self.wall())
        return (yield from answered(self.outcome_of(command, key))), moment

    def steady(self) -> int:
        """The clock by which leases are counted here (microseconds)."""
        return SystemClock().steady()

    def wall(self) -> int:
        """The time (microseconds UTC) below which the store's is not."""
        return SystemClock().wall()

    @asks
    def receipt_of(self, command: Command, key: str | None) -> Asking[Receipt]:
        """The receipt of one command that always leaves one."""
        (outcome,) = yield self.execute([request_of(command, key)])
        receipt: Receipt | None = accepted(outcome).receipt
        assert receipt is not None, f"{command.verb} left no receipt"
        return receipt

    # -- tasks

    def enqueue(
        self,
        queue: str,
        payload: Any,
        *,
        key: str | None = None,
        priority: int | None = None,
        due_at: str | datetime | None = None,
        max_attempts: int | None = None,
        idempotency_key: str | None = None,
    ) -> Receipt:
        """Put one task on a queue; `receipt.task_id` is its id.

        `key` names the task once per queue: the same payload gives the task that is there,
        another raises KeyConflict.
        """
        new = NewTask(payload, key, priority, due_at, max_attempts)
        return self.receipt_of(Enqueue(queue, (new,)), idempotency_key)

    @asks
    def enqueue_many(
        self, queue: str, tasks: Iterable[NewTask | dict[str, Any]]
    ) -> Asking[list[Receipt]]:
        """Put any number of tasks on a queue, 250 a command; one receipt a command.

        Raises at the first command that is refused; those before it stand. With task keys the
        whole may be sent again. A receipt names its 250 tasks in 50 KB: send millions in slices.
        """
        receipts = []
        source = iter(tasks)
        while chunk := list(islice(source, fields.MAX_TASKS_PER_COMMAND * COMMANDS_AT_ONCE)):
            commands = [
                Enqueue(queue, tuple(chunk[place : place + fields.MAX_TASKS_PER_COMMAND]))  # type: ignore[arg-type]
                for place in range(0, len(chunk), fields.MAX_TASKS_PER_COMMAND)
            ]
            for outcome in (yield from answered(self.execute(commands))):
                receipt = accepted(outcome).receipt
                assert receipt is not None, "an enqueue left no receipt"
                receipts.append(receipt)
        return receipts

    @asks
    def claim(
        self,
        queues: str | Iterable[str] | None = None,
        *,
        worker_id: str,
        task_id: str | None = None,
        limit: int = 1,
        lease_seconds: int | None = None,
        idempotency_key: str | None = None,
        wait_seconds: int = 0,
    ) -> Asking[list[Lease]]:
        """Take up to `limit` tasks, of higher priority and then older first; maybe none.

        With a key, a claim whose answer was lost is replayed with those leases that still live.
        `wait_seconds` (0 to 60) waits so long for a task to be there. Raises ClockSkew, over HTTP,
        where this machine's clock is too wrong to claim with.
        """
        names = (queues,) if isinstance(queues, str) else queues
        command = Claim(
            worker_id, None if names is None else tuple(names), task_id, limit, lease_seconds
        )
        check_wait(wait_seconds)
        request = request_of(command, idempotency_key)
        outcome, moment = yield from answered(self.claimed(request, wait_seconds))
        return [Lease(self, grant, moment) for grant in outcome.grants]

    @asks
    def claimed(self, request: Request, wait_seconds: int) -> Asking[tuple[Outcome, Moment]]:
        """The outcome of a claim, made when there is a task or the time is over, and when it was
        asked for."""
        if wait_seconds:
            raise InvalidRequest("wait_seconds: a transaction that waits would hold up all others")
        begun = self.steady()
        moment = Moment(begun, begun, self.wall())
        (outcome,) = yield from answered(self.execute([request]))
        return accepted(outcome), moment

    def lease(self, task_id: str, *, worker_id: str, fence: int) -> Lease:
        """The lease that was claimed elsewhere, by what it binds. Nothing is asked of the store."""
        grant = Grant(task_id, "", None, worker_id, fence, 0, 0, 0, 0, 0, 0, 0, None)
        return Lease(self, grant)

    def cancel(
        self, task_id: str, *, fence: int | None = None, reason: str | None = None,
        idempotency_key: str | None = None,
    ) -> Receipt:  # fmt: skip
        """End a task that has not ended. Its worker, if any, learns it at the next renew."""
        return self.receipt_of(Cancel(task_id, fence, reason), idempotency_key)

    def requeue(
        self, task_id: str, *, fence: int | None = None, reason: str | None = None,
        idempotency_key: str | None = None,
    ) -> Receipt:  # fmt: skip
        """A new round of an ended task."""
        return self.receipt_of(Requeue(task_id, fence, reason), idempotency_key)

    def resolve(
        self, task_id: str, to: str, *, evidence: Any = NOTHING, fence: int | None = None,
        reason: str | None = None, idempotency_key: str | None = None,
    ) -> Receipt:  # fmt: skip
        """Settle a blocked task: `done` with evidence, `retry` or `give_up`."""
        command = Resolve(task_id, fence, reason, to, evidence)  # type: ignore[arg-type]
        return self.receipt_of(command, idempotency_key)

    def review(
        self, task_id: str, revision: int, verdict: str, *, requeue: bool = False,
        idempotency_key: str | None = None,
    ) -> Receipt:  # fmt: skip
        """A human's word on one revision: `accepted` or `rejected`. Only a human's handle may."""
        command = Review(task_id, revision, verdict, requeue)  # type: ignore[arg-type]
        return self.receipt_of(command, idempotency_key)

    def import_accepted(
        self, task_id: str, revision: int, *, epoch: int, fence: int, final: bool, evidence: Any,
        result: Any = NOTHING, result_sha256: str | None = None,
        at: str | datetime | None = None, idempotency_key: str | None = None,
    ) -> Outcome:  # fmt: skip
        """Record a result that a receiver has accepted and this store, restored, does not know.

        Only an operator's handle may. `facts["known"]` says that the revision is there already with
        this very result; then nothing has changed and there is no receipt. Raises ResultConflict
        where it is there with another, StaleRevision where one before it is missing.
        """
        command = Import(
            task_id, revision, epoch, fence, final, evidence, result, result_sha256, at
        )
        return self.outcome_of(command, idempotency_key)

    # -- care of the store

    def sweep(self, queue: str | None = None, *, limit: int = 100) -> Outcome:
        """Settle lapsed leases. Claims do it on their way; nothing depends on this.

        The outcome names the tasks; it has no receipt where there was nothing to settle.
        """
        return self.outcome_of(Sweep(queue, limit), None)

    @asks
    def erase(self, task_id: str, *, reason: str | None = None) -> Asking[Receipt]:
        """Remove content, keys and openings of a task and its obligations; a tombstone stays."""
        while True:
            erase = Erase(task_id, None, reason)
            outcome = yield from answered(self.outcome_of(erase, None))
            if not outcome.facts.get("remaining"):
                assert outcome.receipt is not None
                return outcome.receipt

    def purge(self, queue: str | None = None, *, limit: int = 100) -> Outcome:
        """Remove ended tasks whose retention is over.

        The outcome names them; it has no receipt where there was nothing to remove.
        """
        return self.outcome_of(Purge(queue, limit), None)

    def queue_set(self, queue: str, **settings: Any) -> Receipt:
        """Change settings of a queue (docs/settings.md)."""
        return self.receipt_of(QueueSet(queue, settings), None)

    def set_policy(
        self, policy_version: int | None = None, *, retain_seconds: Any = NOTHING
    ) -> Receipt:
        """Raise the scope's policy version, or set how long its ended tasks are kept (seconds;
        None: for ever)."""
        return self.receipt_of(SetPolicy(policy_version, retain_seconds), None)

    def revoke(self, *, revoked: bool = True) -> Receipt:
        """Revoke the scope, or lift the revocation."""
        return self.receipt_of(Revoke(revoked), None)

    def clock_reset(self) -> Receipt:
        """Lower the store's time to the wall clock. Every lease of the store ends."""
        return self.receipt_of(ClockReset(), None)

    # -- tokens

    @asks
    def token_create(
        self, actor: str, kind: Kind, *, queues: Iterable[str] | None = None,
        expires_at: str | datetime | None = None, every_scope: bool = False,
        idempotency_key: str | None = None,
    ) -> Asking[tuple[Receipt, str]]:  # fmt: skip
        """Let in whoever shows a new token, as `actor` of `kind`. Returns it beside the receipt.

        The text is made here and only its SHA-256 is sent: nobody can tell it a second time. Its
        id, by which it is revoked, is in the entry's note.
        """
        text = tokens.make()
        names = None if queues is None else tuple(queues)
        command = TokenCreate(
            tokens.digest(text).hex(), kind, actor, names, expires_at, every_scope
        )
        return (yield from answered(self.receipt_of(command, idempotency_key))), text

    def token_revoke(self, token_id: str) -> Receipt:
        """End a token, from this commit on."""
        return self.receipt_of(TokenRevoke(token_id), None)

    # -- destinations

    def destination_set(
        self, queue: str, address: str | None = None, *, class_: Class | None = None,
        options: dict[str, Any] | None = None, stopped: Any = NOTHING,
        idempotency_key: str | None = None,
    ) -> Receipt:  # fmt: skip
        """Say where the obligations on a queue go (docs/deliveries.md). What is left out stays;
        `stopped` says why nothing is to be delivered, None has it go on."""
        command = DestinationSet(queue, address, class_, options, stopped)
        return self.receipt_of(command, idempotency_key)

    @asks
    def destination_secret(
        self, queue: str, secret: str | None = None, *,
        keep_seconds: int = destinations.KEEP_SECONDS, idempotency_key: str | None = None,
    ) -> Asking[tuple[Receipt, str]]:  # fmt: skip
        """Sign what goes there with a new secret, or with the one that is given; with those before
        it for `keep_seconds` more. Returns it beside the receipt."""
        text = destinations.new_secret() if secret is None else secret
        command = DestinationSecret(queue, text, keep_seconds)
        return (yield from answered(self.receipt_of(command, idempotency_key))), text

    def destination_advance(
        self, queue: str, *, expected_sequence: int, sequence: int, head: str | None = None,
        heard: int | None = None, announced: str | None = None,
        idempotency_key: str | None = None,
    ) -> Receipt:  # fmt: skip
        """Move on what is known of a receiver. Raises StaleSequence where somebody else has."""
        command = DestinationAdvance(queue, expected_sequence, sequence, head, heard, announced)
        return self.receipt_of(command, idempotency_key)


# Without a key they leave nothing where they find nothing; a random one would leave an entry each.
MAY_FIND_NOTHING = frozenset({"claim", "sweep", "purge"})


def request_of(command: Command | Request, key: str | None = None) -> Request:
    """The command as it is sent, with a random key where one is due and none was given."""
    if isinstance(command, Request):
        return command
    if key is None and not command.self_keyed and command.verb not in MAY_FIND_NOTHING:
        key = random_key()
    return Request.of(command, key)


def random_key() -> str:
    """A new key; time-ordered, so that the index of keys grows at its end."""
    return f"{SystemClock().wall():015x}-{os.urandom(16).hex()}"


def accepted(outcome: Outcome) -> Outcome:
    """The outcome, or what refused it raised."""
    if outcome.issues:
        error = error_for(outcome)
        if isinstance(error, OutcomeUnknown):
            error.key = outcome.facts.get("key")
        raise error
    return outcome


def check_wait(wait_seconds: int) -> int:
    """How long a claim may wait. Raises InvalidRequest."""
    return int(fields.integer(0, fields.MAX_WAIT_SECONDS)(wait_seconds, "wait_seconds"))
