"""Every refusal and failure that Fencepost can answer with: one table, one tree of exceptions.

The codes are the contract. Python exceptions, HTTP statuses and CLI exit codes are read off
`ISSUES` and stand nowhere else. The order of the table is the order in which codes lead an
outcome's `issues`: the first one that applies is told first.

    FencepostError
    ├── InvalidRequest          the command is malformed; nothing was looked at
    ├── Refused                 a rule said no; nothing has changed. `.outcome` holds all of it
    │   ├── Forbidden NotFound ScopeRevoked …      who may do what, where
    │   ├── KeyReused ReceiptErased                the idempotency key is taken, or erased
    │   ├── QueuePaused TooLarge LeaseTooLong …    limits and settings
    │   └── LeaseLost           this worker no longer holds the task: stop working on it
    │       ├── StaleEpoch StalePolicy TaskDone TaskCancelled NotLeased …
    │       └── WrongWorker UnknownFence StaleFence LeaseExpired
    ├── Unavailable             the store could not be used; nothing was done, try again
    │   └── RateLimited ClockSkew                  over HTTP: asked too much; a clock is wrong
    ├── OutcomeUnknown          the commit may or may not have happened: ask again, same bytes
    ├── SchemaMismatch          the store's schema is not this program's
    ├── JournalBroken           what is stored is not what the journal says
    └── GuardTripped            the rules said yes and the SQL guard said no: a bug, undone
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from fencepost.record import dataclass

if TYPE_CHECKING:
    from fencepost.model import Outcome


class FencepostError(Exception):
    """Whatever Fencepost raises. `code` is stable and stands in `ISSUES`."""

    code: ClassVar[str] = "internal"


class InvalidRequest(FencepostError):
    """The request is malformed. The message names what was wrong and what to do."""

    code = "invalid_request"


class Unavailable(FencepostError):
    """The store could not be used. Nothing was done; the same call may be made again."""

    code = "store_unavailable"


class RateLimited(Unavailable):
    """The service has been asked too much lately. Nothing was done; wait, then ask again."""

    code = "rate_limited"


class ClockSkew(Unavailable):
    """This machine's clock is too far from the service's to claim work. Nothing was done."""

    code = "clock_skew"


class OutcomeUnknown(FencepostError):
    """The store failed while committing: the command may have taken effect or not.

    Send the same bytes with the same `key` again: the answer is the receipt if it was
    committed, and a fresh verdict if it was not.
    """

    code = "outcome_unknown"

    def __init__(self, message: str, key: str | None = None) -> None:
        super().__init__(message)
        self.key = key


class SchemaMismatch(FencepostError):
    """The store was written by another version. The message says which way to go."""

    code = "schema_mismatch"


class JournalBroken(FencepostError):
    """The journal, its tree or the rows disagree. The message names the first place."""

    code = "journal_broken"


class GuardTripped(FencepostError):
    """A rule allowed a change that the SQL guard refused. Always a bug; it was undone."""

    code = "guard_tripped"


class Refused(FencepostError):
    """A rule refused the command and nothing has changed. `outcome` tells all issues."""

    code = "refused"

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.message)
        self.outcome = outcome
        self.issues = outcome.issues


class Unauthenticated(Refused):
    code = "unauthenticated"


class Forbidden(Refused):
    code = "forbidden"


class NotFound(Refused):
    code = "not_found"


class ScopeRevoked(Refused):
    code = "scope_revoked"


class EntryTooLarge(Refused):
    code = "entry_too_large"


class KeyReused(Refused):
    code = "idempotency_key_reused"


class ReceiptErased(Refused):
    code = "receipt_erased"


class StoreReadOnly(Refused):
    code = "store_read_only"


class QueuePaused(Refused):
    code = "queue_paused"


class PayloadTooLarge(Refused):
    code = "payload_too_large"


class TooManyFollowups(Refused):
    code = "too_many_followups"


class LeaseTooLong(Refused):
    code = "lease_too_long"


class KeyConflict(Refused):
    code = "key_conflict"


class LeaseLost(Refused):
    """The caller does not hold the task any more. Whatever it still does cannot be recorded."""

    code = "lease_lost"


class StaleEpoch(LeaseLost):
    code = "stale_epoch"


class StalePolicy(LeaseLost):
    code = "stale_policy"


class TaskCancelled(LeaseLost):
    code = "task_cancelled"


class TaskDone(LeaseLost):
    code = "task_done"


class TaskDead(LeaseLost):
    code = "task_dead"


class TaskBlocked(LeaseLost):
    code = "task_blocked"


class NotLeased(LeaseLost):
    code = "not_leased"


class TaskReady(Refused):
    code = "task_ready"


class TaskLeased(Refused):
    code = "task_leased"


class CommitmentClosed(Refused):
    code = "commitment_closed"


class WrongWorker(LeaseLost):
    code = "wrong_worker"


class UnknownFence(LeaseLost):
    code = "unknown_fence"


class StaleFence(LeaseLost):
    code = "stale_fence"


class LeaseExpired(LeaseLost):
    code = "lease_expired"


class DuplicateResult(Refused):
    code = "duplicate_result"


class ResultConflict(Refused):
    code = "result_conflict"


class StaleRevision(Refused):
    code = "stale_revision"


class StaleSequence(Refused):
    code = "stale_sequence"


@dataclass(frozen=True, slots=True)
class Issue:
    """One row of the table: what a code means and how each face shows it.

    `rule` is the step of the order of checks (1 to 12; 0 for failures that no rule decides).
    `status` is the outcome's status, `http` an HTTP status code, `exit` the CLI's exit code.
    `retry` tells whether sending the same command again can ever help.
    """

    rule: int
    status: str
    http: int
    exit: int
    retry: bool
    raises: type[FencepostError]
    meaning: str
    advice: str


ISSUES: dict[str, Issue] = {
    "unauthenticated": Issue(
        1, "failed", 401, 3, False, Unauthenticated,
        "nobody has been recognised as the sender", "send a valid token",
    ),
    "forbidden": Issue(
        1, "failed", 403, 3, False, Forbidden,
        "this caller may not send this command", "use a caller that may, or another worker_id",
    ),
    "not_found": Issue(
        1, "failed", 404, 4, False, NotFound,
        "no such thing in this scope", "check the id and the scope",
    ),
    "scope_revoked": Issue(
        1, "blocked", 403, 3, True, ScopeRevoked,
        "the scope has been revoked", "ask the operator of the store",
    ),
    "invalid_request": Issue(
        2, "failed", 400, 2, False, InvalidRequest,
        "the command is malformed", "mend the command; the message names what was wrong",
    ),
    "entry_too_large": Issue(
        2, "failed", 413, 2, False, EntryTooLarge,
        "the command touches more than one journal entry can name", "split the command",
    ),
    "idempotency_key_reused": Issue(
        3, "failed", 422, 3, False, KeyReused,
        "the key belongs to another command", "use a new key for a new command",
    ),
    "receipt_erased": Issue(
        3, "failed", 410, 3, False, ReceiptErased,
        "the command was carried out once and has been erased since", "do not send it again",
    ),
    "store_read_only": Issue(
        4, "blocked", 503, 6, True, StoreReadOnly,
        "the store cannot be written", "make the file and its folder writable",
    ),
    "queue_paused": Issue(
        4, "blocked", 503, 3, True, QueuePaused,
        "the queue is paused", "wait, or unpause it with queue.set",
    ),
    "payload_too_large": Issue(
        4, "failed", 413, 3, False, PayloadTooLarge,
        "the payload or result is longer than the queue allows",
        "store a reference instead, or raise max_payload_bytes or max_result_bytes",
    ),
    "too_many_followups": Issue(
        4, "failed", 422, 3, False, TooManyFollowups,
        "more follow-ups than the queue allows", "send fewer, or raise max_followups",
    ),
    "lease_too_long": Issue(
        4, "failed", 422, 3, False, LeaseTooLong,
        "the lease would exceed max_lease_seconds or max_hold_seconds",
        "ask for a shorter lease, or raise the queue's setting",
    ),
    "key_conflict": Issue(
        4, "failed", 409, 3, False, KeyConflict,
        "a task of this key exists with another payload", "use another key",
    ),
    "stale_epoch": Issue(
        5, "failed", 409, 3, False, StaleEpoch,
        "the lease was given in an epoch that no longer counts", "claim again",
    ),
    "stale_policy": Issue(
        6, "failed", 409, 3, False, StalePolicy,
        "the scope's policy has changed since the claim", "claim again under the new policy",
    ),
    "task_cancelled": Issue(
        7, "failed", 409, 3, False, TaskCancelled, "the task was cancelled", "stop working on it",
    ),
    "task_done": Issue(
        7, "failed", 409, 3, False, TaskDone,
        "the task is already done", "stop; the named receipt is the one that counts",
    ),
    "task_dead": Issue(
        7, "failed", 409, 3, False, TaskDead,
        "the task has run out of attempts or was given up", "requeue it if it should run again",
    ),
    "task_blocked": Issue(
        7, "failed", 409, 3, False, TaskBlocked,
        "the task waits for a person or a reconciler", "resolve it",
    ),
    "not_leased": Issue(
        7, "failed", 409, 3, False, NotLeased, "the task is not leased", "claim it first",
    ),
    "task_ready": Issue(
        7, "failed", 409, 3, False, TaskReady,
        "the task is waiting to be claimed", "nothing has to be done",
    ),
    "task_leased": Issue(
        7, "failed", 409, 3, True, TaskLeased,
        "the task is leased", "wait for its worker, or cancel it",
    ),
    "commitment_closed": Issue(
        7, "failed", 409, 3, False, CommitmentClosed,
        "this revision has been reviewed", "a new result opens a new commitment",
    ),
    "wrong_worker": Issue(
        8, "failed", 409, 3, False, WrongWorker,
        "another worker holds or held the lease", "stop working on the task",
    ),
    "unknown_fence": Issue(
        9, "failed", 409, 3, False, UnknownFence,
        "the fence is above the task's own: forged, or the store was rolled back",
        "stop, and tell the operator",
    ),
    "stale_fence": Issue(
        9, "failed", 409, 3, False, StaleFence,
        "the task has been claimed again since", "stop working on the task",
    ),
    "lease_expired": Issue(
        10, "failed", 409, 3, False, LeaseExpired,
        "the lease has ended", "claim the task again",
    ),
    "duplicate_result": Issue(
        11, "failed", 409, 3, False, DuplicateResult,
        "this result is already recorded in this round", "keep the named receipt",
    ),
    "result_conflict": Issue(
        11, "failed", 409, 3, False, ResultConflict,
        "another result is recorded as this revision",
        "two writers have each accepted one: a person has to decide which counts",
    ),
    "stale_revision": Issue(
        12, "failed", 409, 3, False, StaleRevision,
        "the task's revision is not the expected one", "read the task again and decide anew",
    ),
    "stale_sequence": Issue(
        12, "failed", 409, 3, False, StaleSequence,
        "the destination is not at the expected position", "read it again and decide anew",
    ),
    "store_unavailable": Issue(
        0, "failed", 503, 6, True, Unavailable,
        "the store could not be used; nothing was done", "try again",
    ),
    "rate_limited": Issue(
        0, "failed", 429, 6, True, RateLimited,
        "the service has been asked too much lately; nothing was done", "wait, then ask again",
    ),
    "clock_skew": Issue(
        0, "failed", 503, 6, True, ClockSkew,
        "this machine's clock is too far from the service's to claim work; nothing was done",
        "set the clock, or allow more with max_skew_seconds",
    ),
    "outcome_unknown": Issue(
        0, "failed", 503, 6, True, OutcomeUnknown,
        "the commit may or may not have happened", "send the same bytes with the same key again",
    ),
    "schema_mismatch": Issue(
        0, "failed", 500, 5, False, SchemaMismatch,
        "the store has another schema version", "migrate the store, or use a newer program",
    ),
    "journal_broken": Issue(
        0, "failed", 500, 7, False, JournalBroken,
        "the store is not what its journal says", "stop, keep the file, compare with a backup",
    ),
    "internal": Issue(
        0, "failed", 500, 70, False, FencepostError,
        "the program met a fault of its own", "report it, with what its log says of it",
    ),
    "guard_tripped": Issue(
        0, "failed", 500, 70, False, GuardTripped,
        "a rule and its SQL guard disagree", "report it; the change was undone",
    ),
}

ORDER: dict[str, int] = {code: place for place, code in enumerate(ISSUES)}


def in_order(codes: Iterable[str]) -> tuple[str, ...]:
    """The codes once each, the leading one first."""
    return tuple(sorted(set(codes), key=ORDER.__getitem__))


def status_of(code: str) -> str:
    """`failed` or `blocked`: the outcome's status when this code leads it."""
    return ISSUES[code].status


def error_for(outcome: Outcome) -> FencepostError:
    """The exception that a single call raises for a refused outcome."""
    issue = ISSUES.get(outcome.issues[0])
    if issue is None:  # of a later version, told by a service
        return Refused(outcome)
    if issubclass(issue.raises, Refused):
        return issue.raises(outcome)
    return issue.raises(outcome.message)
