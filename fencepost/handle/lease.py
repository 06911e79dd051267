"""A lease in a worker's hand: submit, complete, fail, renew, release."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from fencepost.clock import SECOND
from fencepost.commands import (
    Complete,
    Fail,
    Followup,
    LeaseCommand,
    Release,
    Renew,
    Submit,
)
from fencepost.fields import MAX_LOG_BYTES, MAX_REASON_BYTES
from fencepost.handle.asking import Asking, answered, asks
from fencepost.model import Grant, Receipt
from fencepost.parts import NOTHING

if TYPE_CHECKING:
    from fencepost.handle.verbs import Verbs

T = TypeVar("T")


class Moment(NamedTuple):
    """When, by this machine's steady clock (microseconds), an answer was asked for.

    `first`: when the request was first sent, so that what it brought about came later. `last`:
    when the try was sent that was answered; `told` is the store's time as it answered (microseconds
    UTC), which may be behind and is None where it is not known.
    """

    first: int
    last: int
    told: int | None = None


class Lease:
    """The right to one task, `[granted_at, lease_expires_at)` by the store's clock.

    Every method may be called again with the same arguments: a command whose answer was lost
    is recognised by its bytes and answered with the same receipt. When the lease is lost they
    raise a subclass of LeaseLost: stop working, nothing more can be recorded.
    """

    def __init__(self, verbs: Verbs, grant: Grant, moment: Moment | None = None) -> None:
        self._verbs = verbs
        self._claimed = moment
        self._ends = self._end(moment, grant.lease_expires_at, grant.granted_at)
        self.grant = grant
        self.task_id = grant.task_id
        self.queue = grant.queue
        self.key = grant.key
        self.worker_id = grant.worker_id
        self.fence = grant.fence
        self.revision = grant.revision
        self.attempt = grant.attempt
        self.lease_expires_at = grant.lease_expires_at

    def __repr__(self) -> str:
        return f"Lease(task_id={self.task_id!r}, fence={self.fence}, worker={self.worker_id!r})"

    @property
    def payload(self) -> Any:
        """The task's payload; None too where it has been erased."""
        return None if self.grant.payload is None else json.loads(self.grant.payload)

    @property
    def progress(self) -> Any:
        """What an earlier attempt of this round has left, as the claim found it; None: nothing."""
        return None if self.grant.progress is None else json.loads(self.grant.progress)

    def remaining(self) -> float:
        """Seconds that are left of the lease, at the least; 0.0 when it is over.

        Counted from the moment the request that won or renewed it was first sent, on a clock
        that runs on in suspend, so that neither a slow answer nor a wrong wall clock adds to it.
        0.0 too for a lease that was claimed elsewhere, until it is renewed.
        """
        return max(0, self._ends - self._verbs.steady()) / SECOND

    def _end(self, moment: Moment | None, expires_at: int, granted_at: int) -> int:
        """The steady time up to which the lease holds at the least. Its length by the store's
        clock counts from the claim's sending, and what was left of it as the store answered from
        the sending of that very try. The shorter holds."""
        ends = []
        if self._claimed is not None and granted_at:
            ends.append(self._claimed.first + expires_at - granted_at)
        if moment is not None and moment.told is not None:
            ends.append(moment.last + expires_at - moment.told)
        return min(ends, default=0)

    def _binding(self) -> dict[str, Any]:
        return {"task_id": self.task_id, "worker_id": self.worker_id, "fence": self.fence}

    def drive(self, steps: Asking[T]) -> T:
        """Carry a verb to its end, as the handle does."""
        return self._verbs.drive(steps)

    def _send(self, command: LeaseCommand, key: str | None) -> Receipt:
        return self._verbs.receipt_of(command, key)

    def submit(
        self, result: Any, *, expected_revision: int | None = None, log: str | None = None,
        key: str | None = None,
    ) -> Receipt:  # fmt: skip
        """Hand in a result and keep the lease. DuplicateResult if this round has it already."""
        command = Submit(
            **self._binding(), result=result, expected_revision=expected_revision,
            log=tidy_log(log),
        )  # fmt: skip
        return self._send(command, key)

    def complete(
        self,
        result: Any = NOTHING,
        *,
        expected_revision: int | None = None,
        followups: Iterable[Followup | dict[str, Any]] = (),
        log: str | None = None,
        key: str | None = None,
    ) -> Receipt:
        """End the task, with a result or none, and enqueue its follow-ups in one transaction."""
        command = Complete(
            **self._binding(), result=result, expected_revision=expected_revision,
            followups=tuple(followups),  # type: ignore[arg-type]  # checked by the command
            log=tidy_log(log),
        )  # fmt: skip
        return self._send(command, key)

    def fail(
        self, reason: str | None = None, *, then: str = "retry",
        retry_seconds: int | None = None, progress: Any = None, log: str | None = None,
        key: str | None = None,
    ) -> Receipt:  # fmt: skip
        """Report a failure: `retry` (after the queue's back-off, or `retry_seconds`),
        `give_up` or `block`. `progress` is for the next attempt. The reason and the log are cut
        to what is kept, so that they never stand in the way of ending the attempt."""
        command = Fail(
            **self._binding(), then=then,  # type: ignore[arg-type]  # checked by the command
            reason=None if reason is None else tidy_reason(reason), retry_seconds=retry_seconds,
            progress=progress, log=tidy_log(log),
        )  # fmt: skip
        return self._send(command, key)

    def release(
        self, *, progress: Any = None, log: str | None = None, key: str | None = None
    ) -> Receipt:
        """Give the task back, with what the next attempt should know; this one is not counted."""
        command = Release(**self._binding(), progress=progress, log=tidy_log(log))
        return self._send(command, key)

    @asks
    def renew(
        self, lease_seconds: int | None = None, *, progress: Any = None, log: str | None = None
    ) -> Asking[int]:
        """Extend the lease; returns its new end (microseconds UTC). Keeps the fence.

        `progress` (JSON of at most 65,536 bytes) is what the next attempt is given, should this
        one not end the task; `log` is for people. Each replaces what was left before; None leaves
        it.
        """
        command = Renew(
            **self._binding(), lease_seconds=lease_seconds, progress=progress, log=tidy_log(log)
        )
        outcome, moment = yield from answered(self._verbs.timed_outcome_of(command, None))
        self.lease_expires_at = int(outcome.facts["lease_expires_at"])
        self._ends = self._end(moment, self.lease_expires_at, self.grant.granted_at)
        return self.lease_expires_at


def tidy_reason(text: str) -> str:
    """The text as it can be kept: lone surrogates replaced, cut to 4,096 bytes of UTF-8."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= MAX_REASON_BYTES:
        return raw.decode()
    return raw[: MAX_REASON_BYTES - 3].decode("utf-8", "ignore") + "…"


def tidy_log(text: str | None) -> str | None:
    """The same for a log, of which the last 16,384 bytes of UTF-8 are kept."""
    raw = (text or "").encode("utf-8", "replace")
    if len(raw) > MAX_LOG_BYTES:
        raw = "…".encode() + raw[3 - MAX_LOG_BYTES :]
    return None if text is None else raw.decode("utf-8", "ignore")
