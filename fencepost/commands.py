"""The verbs: one frozen type a command, its strict reading, and the bytes that are hashed.

A command is a JSON object that names everything it binds. Its bytes are that object itself:
the raw slice that a client sent, or, from Python and CLI, its RFC 8785 form. The idempotency
key travels beside the bytes (`Request`), and so does the caller. A field that is left out is
not in the bytes; a JSON null is refused, except as a payload, a result or a setting.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar, Literal, NamedTuple

from fencepost import canonical, destinations, fields
from fencepost.canonical import Json
from fencepost.issues import InvalidRequest
from fencepost.model import KINDS, Kind
from fencepost.outward import CLASSES, Class
from fencepost.parts import NOTHING, Part, any_json, build, content, parts, wire


class NewTask(Part):
    """A task to be enqueued. `key` names it once per queue; `due_at` delays its first claim."""

    payload: Json = content()
    key: str | None = wire(fields.key, fields.plain, default=None)
    priority: int | None = wire(fields.priority, fields.number, default=None)
    due_at: str | datetime | None = wire(fields.instant, fields.plain, default=None)
    max_attempts: int | None = wire(fields.attempts, fields.number, default=None)


class Followup(NewTask):
    """A task that a completion enqueues in its own transaction, on `queue`."""

    queue: str = wire(fields.name, fields.plain, default="")


class Command(Part):
    """One requested change. `verb` is its name everywhere. What is `self_keyed` names so much that
    its own bytes are its key, where the caller gives none."""

    verb: ClassVar[str] = ""
    self_keyed: ClassVar[bool] = False

    def result_digest(self) -> bytes | None:
        """The digest of what is handed in as a result, if anything is."""
        result = self.members.get("result") or self.members.get("evidence")
        return None if result is None else canonical.sha256(result)


class Enqueue(Command):
    """Put 1 to 250 tasks on a queue, which comes into being with its first task."""

    verb: ClassVar[str] = "enqueue"
    queue: str = wire(fields.name, fields.plain)
    tasks: tuple[NewTask, ...] = wire(
        parts(NewTask, 1, fields.MAX_TASKS_PER_COMMAND), fields.listed(Part.encoded_object)
    )


class Claim(Command):
    """Take up to `limit` tasks from `queues`, or the one task `task_id`."""

    verb: ClassVar[str] = "claim"
    worker_id: str = wire(fields.name, fields.plain)
    queues: tuple[str, ...] | None = wire(
        fields.distinct(fields.some(fields.name, 1, fields.MAX_QUEUES_PER_CLAIM)),
        fields.listed(fields.plain),
        default=None,
    )
    task_id: str | None = wire(fields.task_id, fields.plain, default=None)
    limit: int = wire(fields.integer(1, fields.MAX_CLAIM), fields.number, default=1)
    lease_seconds: int | None = wire(fields.seconds, fields.number, default=None)

    def agree(self) -> None:
        if (self.queues is None) == (self.task_id is None):
            raise InvalidRequest("claim: give either queues or task_id")


class LeaseCommand(Command):
    """What every command of a worker on a lease binds: task, worker and fence."""

    self_keyed: ClassVar[bool] = True
    task_id: str = wire(fields.task_id, fields.plain)
    worker_id: str = wire(fields.name, fields.plain)
    fence: int = wire(fields.fence, fields.number, "fencing_token")
    epoch: int | None = wire(fields.epoch, fields.number, default=None)
    policy_version: int | None = wire(fields.count, fields.number, default=None)


class Renew(LeaseCommand):
    """Extend the lease to now + `lease_seconds`. Keeps the fence, leaves no entry.

    `progress` is given to whoever claims the task next, should this attempt not end it; `log` is
    for people. Both are content and erasable; each replaces the one before.
    """

    verb: ClassVar[str] = "renew"
    lease_seconds: int | None = wire(fields.seconds, fields.number, default=None)
    progress: Any = wire(fields.progress, canonical.dumps, default=None)
    log: str | None = wire(fields.log, canonical.dumps, default=None)


class Submit(LeaseCommand):
    """Hand in a result and keep the lease."""

    verb: ClassVar[str] = "submit"
    result: Any = content(default=NOTHING)
    expected_revision: int | None = wire(fields.count, fields.number, default=None)
    log: str | None = wire(fields.log, canonical.dumps, default=None)

    def agree(self) -> None:
        if self.result is NOTHING:
            raise InvalidRequest("submit: result is missing")


class Complete(LeaseCommand):
    """End the task, with a result or without one, and enqueue its follow-ups."""

    verb: ClassVar[str] = "complete"
    result: Any = content(default=NOTHING)
    expected_revision: int | None = wire(fields.count, fields.number, default=None)
    followups: tuple[Followup, ...] = wire(
        parts(Followup, 0, fields.MAX_TASKS_PER_COMMAND),
        fields.listed(Part.encoded_object),
        default=(),
    )
    log: str | None = wire(fields.log, canonical.dumps, default=None)


class Fail(LeaseCommand):
    """Report that the work failed: `retry` after a back-off, `give_up`, or `block` for a person.

    `retry_seconds` replaces the queue's back-off. `reason`, `progress` and `log` are content and
    erasable.
    """

    verb: ClassVar[str] = "fail"
    then: Literal["retry", "give_up", "block"] = wire(
        fields.one_of("retry", "give_up", "block"), fields.plain, default="retry"
    )
    reason: str | None = wire(fields.reason, canonical.dumps, default=None)
    retry_seconds: int | None = wire(fields.delay, fields.number, default=None)
    progress: Any = wire(fields.progress, canonical.dumps, default=None)
    log: str | None = wire(fields.log, canonical.dumps, default=None)


class Release(LeaseCommand):
    """Give the task back: the attempt is returned, the fence is not."""

    verb: ClassVar[str] = "release"
    progress: Any = wire(fields.progress, canonical.dumps, default=None)
    log: str | None = wire(fields.log, canonical.dumps, default=None)


class TaskCommand(Command):
    """What commands on a task from outside a lease bind: the task and, if given, its fence."""

    task_id: str = wire(fields.task_id, fields.plain)
    fence: int | None = wire(fields.count, fields.number, "fencing_token", default=None)
    reason: str | None = wire(fields.reason, canonical.dumps, default=None)


class Cancel(TaskCommand):
    """End a ready, leased or blocked task without a result."""

    verb: ClassVar[str] = "cancel"


class Requeue(TaskCommand):
    """Start a new round of a dead, done or cancelled task. Earlier results stay."""

    verb: ClassVar[str] = "requeue"


class Resolve(TaskCommand):
    """Settle a blocked task: `done` with `evidence`, `retry`, or `give_up`."""

    verb: ClassVar[str] = "resolve"
    to: Literal["done", "retry", "give_up"] = wire(
        fields.one_of("done", "retry", "give_up"), fields.plain, default="retry"
    )
    evidence: Any = content(default=NOTHING)

    def agree(self) -> None:
        if (self.to == "done") == (self.evidence is NOTHING):
            raise InvalidRequest("resolve: evidence belongs to `done`, and only to it")


class Review(Command):
    """A human's word on one revision. `requeue` starts a new round at once after `rejected`."""

    verb: ClassVar[str] = "review"
    task_id: str = wire(fields.task_id, fields.plain)
    revision: int = wire(fields.fence, fields.number)
    verdict: Literal["accepted", "rejected"] = wire(
        fields.one_of("accepted", "rejected"), fields.plain
    )
    requeue: bool = wire(fields.flag, fields.boolean, default=False)

    def agree(self) -> None:
        if self.requeue and self.verdict == "accepted":
            raise InvalidRequest("review: requeue belongs to `rejected`")


class Import(Command):
    """Record a result that a receiver has accepted from another writer of this store, so that
    nobody works on it again.

    `fence` and `epoch` are those under which it was accepted, `at` is when; `final` says that it
    ended its task. Of a result that is not known any more there is `result_sha256` alone.
    `evidence`, what the receiver says, is bound by the entry and not kept.
    """

    verb: ClassVar[str] = "import"
    self_keyed: ClassVar[bool] = True
    task_id: str = wire(fields.task_id, fields.plain)
    revision: int = wire(fields.fence, fields.number)
    epoch: int = wire(fields.epoch, fields.number)
    fence: int = wire(fields.fence, fields.number, "fencing_token")
    final: bool = wire(fields.flag, fields.boolean)
    evidence: Json = content()
    result: Any = content(default=NOTHING)
    result_sha256: str | None = wire(fields.sha256, fields.plain, default=None)
    at: str | datetime | None = wire(fields.instant, fields.plain, default=None)

    def agree(self) -> None:
        if (self.result is NOTHING) == (self.result_sha256 is None):
            raise InvalidRequest("import: give either result or, where it is lost, result_sha256")

    def result_digest(self) -> bytes:
        result = self.members.get("result")
        if result is not None:
            return canonical.sha256(result)
        return bytes.fromhex(self.result_sha256 or "")


class Sweep(Command):
    """Settle up to `limit` lapsed leases of one queue or of the whole scope."""

    verb: ClassVar[str] = "sweep"
    queue: str | None = wire(fields.name, fields.plain, default=None)
    limit: int = wire(
        fields.integer(1, fields.MAX_SWEEP), fields.number, default=100
    )


class Erase(TaskCommand):
    """Remove payload, results, key, reason and openings of a task; a tombstone stays."""

    verb: ClassVar[str] = "erase"


class Purge(Sweep):
    """Remove up to `limit` ended tasks that are older than their retention allows."""

    verb: ClassVar[str] = "purge"


class QueueSet(Command):
    """Change settings of a queue, which comes into being if it is not there."""

    verb: ClassVar[str] = "queue.set"
    queue: str = wire(fields.name, fields.plain)
    settings: dict[str, Any] = wire(fields.settings, canonical.dumps)


class SetPolicy(Command):
    """Raise the scope's policy version, or set its retention (null: for ever)."""

    verb: ClassVar[str] = "scope.set_policy"
    policy_version: int | None = wire(fields.count, fields.number, default=None)
    retain_seconds: Any = wire(fields.optional(fields.delay), any_json, default=NOTHING)

    def agree(self) -> None:
        if self.policy_version is None and self.retain_seconds is NOTHING:
            raise InvalidRequest("scope.set_policy: give policy_version or retain_seconds")


class Revoke(Command):
    """Revoke the scope (or lift it with `revoked` false): it learns and changes nothing."""

    verb: ClassVar[str] = "scope.revoke"
    revoked: bool = wire(fields.flag, fields.boolean, default=True)


class ClockReset(Command):
    """Lower the store's time mark to the wall clock; every lease ends."""

    verb: ClassVar[str] = "clock.reset"


class TokenCreate(Command):
    """Let in whoever shows the token of this digest: as `actor` of `kind`, in this scope (or with
    `every_scope` in each), on `queues` alone if they are given, until `expires_at` if there is
    one. Whoever made the token keeps its text."""

    verb: ClassVar[str] = "token.create"
    token_sha256: str = wire(fields.sha256, fields.plain)
    kind: Kind = wire(fields.one_of(*KINDS), fields.plain)
    actor: str = wire(fields.name, fields.plain)
    queues: tuple[str, ...] | None = wire(
        fields.distinct(fields.some(fields.name, 1, fields.MAX_QUEUES_PER_CLAIM)),
        fields.listed(fields.plain),
        default=None,
    )
    expires_at: str | datetime | None = wire(fields.instant, fields.plain, default=None)
    every_scope: bool = wire(fields.flag, fields.boolean, default=False)

    def agree(self) -> None:
        if self.every_scope and self.queues is not None:
            raise InvalidRequest("token.create: queues belong to one scope, not to every_scope")


class TokenRevoke(Command):
    """End a token. It counts from this very commit, for commands that are on their way too."""

    verb: ClassVar[str] = "token.revoke"
    token_id: str = wire(fields.token_id, fields.plain)


class DestinationSet(Command):
    """Say where the obligations on `queue` are delivered to, and what stands there.

    What is left out stays. `options` changes those that it names (null: the default again);
    `stopped` says why nothing is to be delivered, null has it go on.
    """

    verb: ClassVar[str] = "destination.set"
    queue: str = wire(fields.name, fields.plain)
    address: str | None = wire(destinations.address, canonical.dumps, default=None)
    class_: Class | None = wire(fields.one_of(*CLASSES), fields.plain, "class", default=None)
    options: dict[str, Any] | None = wire(destinations.options, canonical.dumps, default=None)
    stopped: Any = wire(fields.optional(destinations.stopped), any_json, default=NOTHING)

    def agree(self) -> None:
        if len(self.members) == len(("verb", "queue")):
            raise InvalidRequest("destination.set: give address, class, options or stopped")

    def __repr__(self) -> str:
        """For tracebacks: an address may hold a password."""
        return f"DestinationSet({self.queue!r}: {', '.join(sorted(self.members))})"


class DestinationSecret(Command):
    """Sign with `secret` from now on, and for `keep_seconds` more with those before it."""

    verb: ClassVar[str] = "destination.secret"
    queue: str = wire(fields.name, fields.plain)
    secret: str = wire(destinations.secret, canonical.dumps)
    keep_seconds: int = wire(fields.delay, fields.number, default=destinations.KEEP_SECONDS)

    def __repr__(self) -> str:
        """For tracebacks: without the secret."""
        return f"DestinationSecret({self.queue!r}, keep_seconds={self.keep_seconds})"


class DestinationAdvance(Command):
    """Move on what is known of a receiver, if it is still at `expected_sequence`: the position that
    was delivered last with its `head`, the receiver's own position, the writer it was told of."""

    verb: ClassVar[str] = "destination.advance"
    queue: str = wire(fields.name, fields.plain)
    expected_sequence: int = wire(fields.count, fields.number)
    sequence: int = wire(fields.count, fields.number)
    head: str | None = wire(fields.sha256, fields.plain, default=None)
    heard: int | None = wire(fields.count, fields.number, default=None)
    announced: str | None = wire(fields.task_id, fields.plain, default=None)


COMMANDS: dict[str, type[Command]] = {
    kind.verb: kind
    for kind in (
        Enqueue, Claim, Renew, Submit, Complete, Fail, Release, Cancel, Requeue, Resolve, Review,
        Import, Sweep, Erase, Purge, QueueSet, SetPolicy, Revoke, ClockReset,
        TokenCreate, TokenRevoke, DestinationSet, DestinationSecret, DestinationAdvance,
    )
}  # fmt: skip


class Request(NamedTuple):
    """A command as it is sent: its bytes, their digest, and the key that travels beside them.

    Without a key of the caller's, the key of a lease command or an import is the digest of its own
    bytes (`key` is None here and the receipt is found by digest). A request is made once and may be
    sent any number of times: the bytes do not change between tries.

    `waits` says of a claim that whoever sent it waits for a task: where there is none it leaves
    nothing, and its key stays free to be asked again. It is no part of the bytes.
    """

    command: Command
    body: bytes
    key: str | None
    sha256: bytes
    result_sha256: bytes | None
    waits: bool = False

    @classmethod
    def of(cls, command: Command, key: str | None = None) -> Request:
        """The request for a command built in Python."""
        return cls._sealed(command, command.encoded_object(), key)

    @classmethod
    def read(cls, body: bytes, key: str | None = None) -> Request:
        """The request for raw bytes, read strictly. Raises InvalidRequest."""
        given = canonical.loads(body, max_bytes=fields.MAX_BODY_BYTES, what="command")
        if type(given) is not dict:
            raise InvalidRequest("command: give an object")
        verb = given.pop("verb", None)
        kind = COMMANDS.get(verb) if type(verb) is str else None
        if kind is None:
            raise InvalidRequest(f"command: verb must be one of {', '.join(COMMANDS)}")
        return cls._sealed(build(kind, given, kind.verb), body, key)

    @classmethod
    def _sealed(cls, command: Command, body: bytes, key: str | None) -> Request:
        if len(body) > fields.MAX_BODY_BYTES:
            raise InvalidRequest(f"command is larger than {fields.MAX_BODY_BYTES} bytes")
        digest = canonical.sha256(body)
        if key is not None:
            fields.key(key, "idempotency_key")
            if command.self_keyed and key == digest.hex():
                key = None
        return cls(command, body, key, digest, command.result_digest())
