"""Filling an outbox: claims that are written down before they are sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Protocol

from fencepost.commands import Claim, Command, Request
from fencepost.fields import MAX_CLAIM
from fencepost.handle.verbs import random_key
from fencepost.issues import ISSUES, LeaseTooLong, NotFound, error_for
from fencepost.model import Outcome, QueueSettings, Receipt, Result, Scope, Task
from fencepost.offline.file import File
from fencepost.offline.notes import Notes

FIRST_CLAIM = 8
FEW_BYTES, MANY_BYTES = 256 * 1024, 2 * 1024 * 1024  # of payloads in one answer


class StoreHandle(Protocol):
    """What an outbox asks of a store: both handles have it."""

    def execute(self, commands: Sequence[Command | Request]) -> list[Outcome]: ...
    def task(self, task_id: str) -> Task: ...
    def queue(self, queue: str) -> QueueSettings: ...
    def scope(self) -> Scope: ...
    def now(self) -> int: ...
    def receipt(self, key: str, *, actor: str | None = None) -> Receipt: ...
    def results(self, task_id: str) -> Iterator[Result]: ...


def check_lease(queue: str, lease_seconds: int, settings: QueueSettings) -> None:
    """Raises LeaseTooLong that names the setting. The store itself would only shorten a lease that
    is longer than `max_hold_seconds`, and the laptop would learn it days later."""
    for setting in ("max_lease_seconds", "max_hold_seconds"):
        limit = getattr(settings, setting)
        if lease_seconds > limit:
            raise _too_long(queue, lease_seconds, setting, f"is {limit}")


def _too_long(queue: str, lease_seconds: int, setting: str, why: str) -> LeaseTooLong:
    message = (
        f"a lease of {lease_seconds} s is too long for queue {queue}, whose {setting} {why}: ask "
        f"for less, or let an operator run: fencepost queue-set {queue} "
        f"max_lease_seconds={lease_seconds} max_hold_seconds={lease_seconds}"
    )
    return LeaseTooLong(Outcome("failed", ("lease_too_long",), message))


class Taking:
    """One take: claims of a few tasks each, so that payloads never fill the memory."""

    def __init__(self, file: File, notes: Notes, fp: StoreHandle) -> None:
        self.file, self.notes, self.fp = file, notes, fp
        self._settings: dict[str, QueueSettings] = {}

    def take(self, queue: str, limit: int, lease_seconds: int) -> list[str]:
        """Up to `limit` tasks, with those of an earlier take whose answer was lost."""
        with suppress(NotFound):  # a queue comes into being with its first task
            check_lease(queue, lease_seconds, self.fp.queue(queue))
        found: list[str] = []
        for number, key, body, taking in self.file.rows("open_claims"):
            if taking is None:
                found += self._send(number, Request.read(body, key))[0]
        size = FIRST_CLAIM
        while len(found) < limit:
            asked = min(size, limit - len(found))
            command = Claim(self.file.worker_id, (queue,), None, asked, lease_seconds)
            request = Request.of(command, random_key())
            assert request.key is not None
            number = self.notes.claim_written(request.key, request.body, None)
            new, length, granted = self._send(number, request)
            found += new
            if granted < asked:
                break
            size = min(size * 2, MAX_CLAIM) if length < FEW_BYTES else size
            size = max(size // 2, 1) if length > MANY_BYTES else size
        return found

    def _send(
        self, number: int, request: Request, word: str = "take"
    ) -> tuple[list[str], int, int]:
        """The tasks that a claim brought, the bytes of their payloads, and how many were given."""
        (outcome,) = self.fp.execute([request])
        if not outcome.accepted:
            error = error_for(outcome)
            if isinstance(error, LeaseTooLong) and isinstance(request.command, Claim):
                queue, seconds = (request.command.queues or ("",))[0], request.command.lease_seconds
                error = _too_long(queue, seconds or 0, "max_lease_seconds", "is less")
            if is_verdict(outcome):
                self.notes.claim_ended(number, "void")
            raise error
        queues = {grant.queue: self._queue(grant.queue) for grant in outcome.grants}
        settings = next(iter(queues.values()), None)  # a claim is of one queue, or of one task
        new = self.notes.claim_answered(number, outcome, word, settings)
        length = sum(len(grant.payload or b"") for grant in outcome.grants)
        return new, length, len(outcome.grants)

    def _queue(self, queue: str) -> QueueSettings:
        if queue not in self._settings:
            self._settings[queue] = self.fp.queue(queue)
        return self._settings[queue]

    def hear_again(self) -> None:
        """At a sync: the leases of claims whose answer was lost, if they ever reached the store.
        One that did not is given up: nobody wants new tasks now, and what has to be claimed again
        is found out anew."""
        for number, key, body, taking in self.file.rows("open_claims"):
            try:
                self.fp.receipt(key, actor=self.file.worker_id)
            except NotFound:
                self.notes.claim_ended(number, "void")
                continue
            self._send(number, Request.read(body, key), "take" if taking is None else "claim")


def is_verdict(outcome: Outcome) -> bool:
    """Whether the same bytes, sent again as they are, would hardly fare better: a rule has said no.
    What only says that nobody could answer is none."""
    issue = ISSUES.get(outcome.issues[0])
    return issue is not None and issue.rule > 1 and not issue.retry
