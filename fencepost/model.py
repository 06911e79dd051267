"""The nouns: what rules decide about, what storage keeps and what callers hold.

Times are integer microseconds UTC inside; RFC 3339 with six digits and `Z` wherever a value
becomes JSON. Digests are raw bytes inside, lowercase hex in JSON. All nouns but TaskRow are frozen;
those that are made once a command are named tuples, which cost a third of a frozen dataclass.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from fencepost.clock import to_rfc3339
from fencepost.lineage import Writer as Writer  # noqa: PLC0414  a noun like those below
from fencepost.outward import Destination as Destination  # noqa: PLC0414  one of the nouns
from fencepost.record import dataclass, field, fields

State = Literal["ready", "leased", "done", "dead", "blocked", "cancelled"]
STATES: tuple[State, ...] = ("ready", "leased", "done", "dead", "blocked", "cancelled")
Kind = Literal["operator", "producer", "worker", "human", "dispatcher", "auditor"]
KINDS: tuple[Kind, ...] = ("operator", "producer", "worker", "human", "dispatcher", "auditor")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a command, as the face that took it has recognised him. Not part of its bytes.

    An `operator` (whoever can open the file) may act for any worker; a `worker` only for the
    `worker_id` that equals its `actor`. Only a `human` reviews. Whoever has shown a token is made
    by `Token.caller`; `queues` (None: all) are then the only ones that there are for him, and
    without `every_scope` he reaches this one scope and nothing that concerns the whole store.
    """

    scope: str
    kind: Kind = "operator"
    actor: str = "local"
    token: str | None = None
    queues: frozenset[str] | None = None
    every_scope: bool = True


EVERY_SCOPE = "*"


@dataclass(frozen=True, slots=True)
class Token:
    """What a store knows of a token beside its digest: who it makes of whoever shows it.

    `scope` is the one in which it was made, or `*` (EVERY_SCOPE). It ends at `expires_at`, and
    with the commit that has set `revoked_at`.
    """

    token_id: str
    scope: str
    kind: Kind
    actor: str
    queues: frozenset[str] | None
    created_at: int
    expires_at: int | None
    revoked_at: int | None

    def caller(self, scope: str) -> Caller | None:
        """Who sends with this token in `scope`; None if it is of another one."""
        if self.scope not in (EVERY_SCOPE, scope):
            return None
        everywhere = self.scope == EVERY_SCOPE
        return Caller(scope, self.kind, self.actor, self.token_id, self.queues, everywhere)

    def to_json(self) -> dict[str, Any]:
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        for name in ("created_at", "expires_at", "revoked_at"):
            values[name] = None if values[name] is None else to_rfc3339(values[name])
        return {**values, "queues": None if self.queues is None else sorted(self.queues)}


@dataclass(slots=True, eq=False)
class TaskRow:
    """A task as the rules see it and as the store keeps it, without its payload and results.

    The one mutable noun: the machine changes it while it folds a batch. After a lease the last
    worker, fence and end stay, so that every rule can still be told. `guard` is (fence,
    revision) as the first command of the batch that changed the row *presented* them; the
    write repeats it in SQL. `content` is the salted commitment to payload and key.
    """

    id: int
    task_id: str
    scope: str
    queue: str
    key: str | None
    state: State
    priority: int
    due_at: int
    attempt: int
    max_attempts: int
    round: int
    revision: int
    fence: int
    epoch: int
    policy_version: int
    worker_id: str | None
    granted_at: int
    lease_expires_at: int
    created_at: int
    changed_at: int
    content: bytes
    created_entry: int
    entry: int
    parent: int | None
    reason: bytes | None
    erased: int
    guard: tuple[int, int | None] | None = None


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """How a queue treats its tasks. Seconds and bytes are integers; see docs/settings.md."""

    lease_seconds: int = 60
    max_lease_seconds: int = 900
    max_hold_seconds: int = 86_400
    max_attempts: int = 5
    backoff_seconds: int = 1
    max_backoff_seconds: int = 3_600
    on_lapse: Literal["retry", "reconcile"] = "retry"
    max_followups: int = 2
    max_payload_bytes: int = 1_048_576
    max_result_bytes: int = 1_048_576
    result_storage: Literal["content", "digest"] = "content"
    retain_seconds: int | None = None
    keep_refused: int = 0
    paused: bool = False
    destinations: tuple[str, ...] = ()
    outcomes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        outcomes = {name: list(some) for name, some in self.outcomes.items()}
        return {**values, "destinations": list(self.destinations), "outcomes": outcomes}


@dataclass(frozen=True, slots=True)
class Scope:
    """A boundary of isolation: its policy version, whether it is revoked, its retention."""

    scope: str
    policy_version: int = 0
    revoked: bool = False
    retain_seconds: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}


@dataclass(frozen=True, slots=True)
class StoreState:
    """The one row that says whose store this is, and its counters.

    `mark` is the highest time ever committed. `last_*` are the numbers used last. `floor` is
    the lowest epoch whose leases still count.
    """

    writer_id: str
    epoch: int
    floor: int
    last_fence: int
    last_task: int
    last_entry: int
    mark: int


class Receipt(NamedTuple):
    """The journal entry of a command, and the opening of its commitments.

    `body` is the entry's bytes, the same for the first answer and every replay. `number` is
    its place in the journal, from 1. `salt`, `request_sha256` and `result_sha256` (32 bytes
    each; the last is None where no result was handed in) open what `body` only commits to.
    """

    number: int
    body: bytes
    salt: bytes
    request_sha256: bytes
    result_sha256: bytes | None

    @property
    def entry(self) -> dict[str, Any]:
        """The entry, parsed."""
        parsed: dict[str, Any] = json.loads(self.body)
        return parsed

    @property
    def task_ids(self) -> tuple[str, ...]:
        return tuple(item["task_id"] for item in self.entry.get("tasks", ()))

    @property
    def about(self) -> tuple[str, ...]:
        """The tasks that the command is about, without those that its result brought about."""
        return tuple(
            item["task_id"] for item in self.entry.get("tasks", ()) if "role" not in item
        )

    @property
    def task_id(self) -> str:
        """The first task that the command is about; empty if it touched none."""
        ids = self.task_ids
        return ids[0] if ids else ""

    @property
    def revision(self) -> int:
        """Revision of the first task after the command; 0 if it touched none."""
        tasks = self.entry.get("tasks")
        return int(tasks[0]["revision"]) if tasks else 0

    def to_json(self) -> dict[str, Any]:
        opening = {"salt": self.salt.hex(), "request_sha256": self.request_sha256.hex()}
        if self.result_sha256 is not None:
            opening["result_sha256"] = self.result_sha256.hex()
        return {"number": self.number, "entry": self.body.decode(), "opening": opening}


class Grant(NamedTuple):
    """What a claim gives for one task: the lease `[granted_at, lease_expires_at)` and its fence.

    `payload` is canonical JSON, or None where it has been erased or purged. `progress`, canonical
    JSON too, is what an attempt of this round has left last; None if none has.
    """

    task_id: str
    queue: str
    key: str | None
    worker_id: str
    fence: int
    revision: int
    attempt: int
    max_attempts: int
    epoch: int
    policy_version: int
    granted_at: int
    lease_expires_at: int
    payload: bytes | None
    progress: bytes | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "task_id": self.task_id,
            "queue": self.queue,
            "key": self.key,
            "worker_id": self.worker_id,
            "fencing_token": self.fence,
            "revision": self.revision,
            "attempt": self.attempt,
            "max_attempts": self.max_attempts,
            "epoch": self.epoch,
            "policy_version": self.policy_version,
            "granted_at": to_rfc3339(self.granted_at),
            "lease_expires_at": to_rfc3339(self.lease_expires_at),
            "payload": None if self.payload is None else json.loads(self.payload),
            "progress": None if self.progress is None else json.loads(self.progress),
        }


class Outcome(NamedTuple):
    """The answer to one command.

    `status` is `accepted` (committed now, or replayed), `failed` (refused, nothing changed),
    `blocked` (refused until somebody acts) or, inside a caller's own transaction, `pending`.
    `issues` are codes, the leading one first. `task_ids` names the tasks that the command is
    about. `facts` tells what the rules compared with (the current fence, the earlier receipt).
    """

    status: Literal["accepted", "failed", "blocked", "pending"]
    issues: tuple[str, ...] = ()
    message: str = ""
    receipt: Receipt | None = None
    task_ids: tuple[str, ...] = ()
    grants: tuple[Grant, ...] = ()
    replayed: bool = False
    facts: Mapping[str, Any] = MappingProxyType({})

    @property
    def accepted(self) -> bool:
        return self.status == "accepted"

    def to_json(self) -> dict[str, Any]:
        return {
            "status": self.status,
            "issues": list(self.issues),
            "message": self.message,
            "receipt": None if self.receipt is None else self.receipt.to_json(),
            "task_ids": list(self.task_ids),
            "leases": [grant.to_json() for grant in self.grants],
            "replayed": self.replayed,
            "facts": {
                name: to_rfc3339(value) if name in TIMES else value
                for name, value in self.facts.items()
            },
        }


@dataclass(frozen=True, slots=True)
class Task:
    """A task as it is read: its row, and where asked for its content: the payload, and what the
    attempts of this round have left last of progress and log."""

    task_id: str
    scope: str
    queue: str
    key: str | None
    state: State
    priority: int
    due_at: int
    attempt: int
    max_attempts: int
    round: int
    revision: int
    fence: int
    epoch: int
    policy_version: int
    worker_id: str | None
    granted_at: int
    lease_expires_at: int
    created_at: int
    changed_at: int
    parent: str | None
    reason: str | None
    erased: bool
    payload: Any = None
    progress: Any = None
    log: str | None = None

    def to_json(self) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for spec in fields(self):
            value = getattr(self, spec.name)
            if spec.name in TIMES:
                never = self.fence == 0 and spec.name in OF_A_LEASE
                value = None if never else to_rfc3339(value)
            values["fencing_token" if spec.name == "fence" else spec.name] = value
        return values


OF_A_LEASE = frozenset({"granted_at", "lease_expires_at"})
TIMES = frozenset({"due_at", "created_at", "changed_at"}) | OF_A_LEASE


@dataclass(frozen=True, slots=True)
class Result:
    """One accepted result: revision `revision` of its task, and the commitment to a human.

    `value` is None where the queue keeps digests only or the content is gone (`kept` is False);
    `result_sha256` (hex) is None after erasure.
    """

    task_id: str
    revision: int
    round: int
    result_sha256: str | None
    kept: bool
    value: Any
    commitment: Literal["open", "accepted", "rejected"]
    entry: int

    def to_json(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}


@dataclass(frozen=True, slots=True)
class RefusedResult:
    """A late result that was refused and kept aside (`keep_refused`): content, not truth."""

    task_id: str
    worker_id: str
    fence: int
    refused_at: int
    issues: tuple[str, ...]
    result_sha256: str
    value: Any

    def to_json(self) -> dict[str, Any]:
        return {
            "task_id": self.task_id,
            "worker_id": self.worker_id,
            "fencing_token": self.fence,
            "refused_at": to_rfc3339(self.refused_at),
            "issues": list(self.issues),
            "result_sha256": self.result_sha256,
            "value": self.value,
        }
