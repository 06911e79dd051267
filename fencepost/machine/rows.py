"""The rows that the machine is given (`Loaded`) and those that it leaves (`Changes`)."""

from __future__ import annotations

import json
from typing import Any

from fencepost.machine.drawing import Draw, Drawn
from fencepost.model import QueueSettings, Receipt, Scope, StoreState, TaskRow, Token
from fencepost.outward import Destination
from fencepost.record import dataclass, field


@dataclass(slots=True)
class QueueRow:
    """A queue: its row id, its settings, and whether it is the destination of obligations."""

    id: int
    scope: str
    queue: str
    settings: QueueSettings
    is_destination: bool = False

    def to_json(self) -> dict[str, Any]:
        own = {"queue": self.queue, "is_destination": self.is_destination}
        return {**own, "settings": self.settings.to_json()}


@dataclass(slots=True)
class Stored:
    """An entry as the store keeps it; the opening is None once it has been erased.

    `key` is the lookup of a caller's key, `task` the row id of the one task that the command
    targets (its receipt is found by digest); both are set on what is new or found by key.
    """

    number: int
    body: bytes | None
    salt: bytes | None
    request_sha256: bytes | None
    result_sha256: bytes | None
    key: str | None = None
    task: int | None = None

    def receipt(self) -> Receipt | None:
        if self.body is None or self.salt is None or self.request_sha256 is None:
            return None
        return Receipt(self.number, self.body, self.salt, self.request_sha256, self.result_sha256)

    def tasks(self, *verbs: str) -> list[str]:
        """The tasks that it names, if it is the entry of one of these verbs."""
        body = self.body or b""
        if not any(f'"verb":"{verb}"'.encode() in body for verb in verbs):
            return []
        return [item["task_id"] for item in json.loads(body)["tasks"]]


@dataclass(slots=True)
class Loaded:
    """The rows that `needs` asked for, read after the locks were taken."""

    now: int
    store: StoreState
    draw: Draw
    read_only: bool = False
    wall: int = 0
    drawn: Drawn | None = None
    scopes: dict[str, Scope] = field(default_factory=dict)
    tokens: dict[str, Token] = field(default_factory=dict)
    digests_of_tokens: dict[bytes, str] = field(default_factory=dict)
    destinations: dict[tuple[str, str], Destination] = field(default_factory=dict)
    queues: dict[tuple[str, str], QueueRow] = field(default_factory=dict)
    last_queue: int = 0
    tasks: dict[str, TaskRow] = field(default_factory=dict)
    receipts: dict[str, Stored] = field(default_factory=dict)
    digests: dict[tuple[int, bytes], Stored] = field(default_factory=dict)
    tombstones: set[str] = field(default_factory=set)
    keyed: dict[tuple[str, str, str], str] = field(default_factory=dict)
    salts: dict[int, bytes] = field(default_factory=dict)
    results: dict[tuple[int, int, bytes], int] = field(default_factory=dict)
    commitments: dict[tuple[int, int], str] = field(default_factory=dict)
    accepted: dict[tuple[int, int], bytes | None] = field(default_factory=dict)
    pool: dict[tuple[str, str], list[tuple[int, int, str]]] = field(default_factory=dict)
    lapsed: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    purgeable: list[str] = field(default_factory=list)
    children: dict[int, list[str]] = field(default_factory=dict)


@dataclass(slots=True)
class NewResult:
    """A result to be written; `body` is None where the queue keeps digests only."""

    task: int
    revision: int
    round: int
    sha256: bytes
    entry: int
    body: bytes | None


@dataclass(frozen=True, slots=True)
class Kept:
    """A refused late result to be put aside, and how many its queue keeps."""

    task: int
    worker_id: str
    fence: int
    at: int
    issues: str
    sha256: bytes
    body: bytes
    limit: int


@dataclass(slots=True)
class Changes:
    """All that a batch writes. Rows written twice stand here once, in their last form.

    `named` are (task, entry) of entries that name a task without changing it, `tokens` new ones
    with their digests, `revoked` (when, token id). `remarks` are progress and log by task, None
    where what is there stays; of the tasks in `unremarked` what was there goes before.
    `destinations` stand beside the position at which each must still be; None: it is new.
    """

    scopes: dict[str, Scope] = field(default_factory=dict)
    tokens: list[tuple[Token, bytes]] = field(default_factory=list)
    revoked: list[tuple[int, str]] = field(default_factory=list)
    queues: dict[tuple[str, str], QueueRow] = field(default_factory=dict)
    destinations: dict[tuple[str, str], tuple[int | None, Destination]] = field(
        default_factory=dict
    )
    inserted: dict[str, TaskRow] = field(default_factory=dict)
    payloads: list[tuple[int, bytes, bytes]] = field(default_factory=list)
    updated: dict[str, TaskRow] = field(default_factory=dict)
    remarks: dict[int, tuple[bytes | None, bytes | None]] = field(default_factory=dict)
    unremarked: set[int] = field(default_factory=set)
    results: list[NewResult] = field(default_factory=list)
    reviews: list[tuple[str, int, int]] = field(default_factory=list)
    entries: list[Stored] = field(default_factory=list)
    named: list[tuple[int, int]] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)
    erased: list[TaskRow] = field(default_factory=list)
    purged: list[TaskRow] = field(default_factory=list)
    end_leases: bool = False
    store: StoreState | None = None

    def is_empty(self) -> bool:
        """Nothing is to be written: a refusal or an empty claim leaves no trace at all."""
        written = (self.inserted, self.updated, self.entries, self.scopes, self.queues, self.kept)
        return not any(written)

    def erases(self) -> bool:
        """Content goes, and no byte of it may stay in any file."""
        return bool(self.erased or self.purged)
