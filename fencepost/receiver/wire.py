"""The values that a sender and a receiver exchange, and every code with which one is refused."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

EVENT_TYPE = "application/cloudevents+json"
HELLO_TYPE = "application/vnd.fencepost.hello+json"
RECEIPT_TYPE = "application/json"
PROBLEM_TYPE = "application/problem+json"
REPLAYED = "idempotent-replayed"
"""A header of an answer that was given before; its bytes are the same."""

SOURCE = "/fencepost/"
"""What a CloudEvents `source` has before the stream's name."""

KINDS = {
    "dev.fencepost.result.accepted.v1": "result",
    "dev.fencepost.task.done.v1": "done",
    "dev.fencepost.task.dead.v1": "dead",
    "dev.fencepost.task.cancelled.v1": "cancelled",
    "dev.fencepost.task.blocked.v1": "blocked",
}
"""CloudEvents type → what has come about."""
TYPES = {kind: name for name, kind in KINDS.items()}

SEQUENCE_DIGITS = 15  # CloudEvents compares sequences as text
MAX_BODY_BYTES = 2 * 1024 * 1024
MAX_LINEAGE = 1_000
MAX_ACCEPTED = 1_000

CODES: dict[str, tuple[int, str]] = {
    "malformed": (400, "the body is not what the protocol says"),
    "bad_signature": (401, "not signed by whoever has the secret, or not now"),
    "adopt_forbidden": (403, "nobody may take a stream over here, or not with this secret"),
    "stream_refused": (403, "this stream may not come here"),
    "method_not_allowed": (405, "deliveries are posted"),
    "effect_conflict": (409, "this operation has an effect here, made of other data"),
    "old_epoch": (409, "a writer of a later epoch has taken the stream over"),
    "fork": (409, "another copy of the store holds the stream"),
    "hello_needed": (409, "this writer has not announced itself here"),
    "moved": (409, "the writer that was to be replaced no longer holds the stream"),
    "gap": (409, "the sequence, or the head before it, is not what comes next here"),
    "stale_result": (409, "a later result of this task has its effect here"),
    "forgotten": (409, "older than what is remembered here: whether it was done is not known"),
    "too_large": (413, "the body is longer than is taken here"),
    "unsupported_media_type": (415, "neither an event nor a hello"),
    "rejected": (422, "the effect will never be possible"),
    "effect_failed": (500, "the effect failed and was undone: try again"),
    "unavailable": (503, "not now: try again"),
}
"""Code → (HTTP status, what it says). The codes are the contract."""


@dataclass(frozen=True, slots=True)
class Event:
    """What is delivered. `data` is as it was sent, byte for byte.

    `writer_epoch` and `incarnation` are of the writer that sends; `epoch`, `fence` and `revision`
    of the lease under which the result was accepted. A late first result and a lease's second one
    are told apart by these, never by when they come. `round` is 0 for a result; `result_sha256`
    and `final`, whether it ended its task, are what the data say of it, None where they do not.
    """

    id: str
    stream: str
    kind: str
    subject: str
    time: str
    sequence: int | None
    previous: bytes | None
    writer_epoch: int
    incarnation: str
    epoch: int
    fence: int
    revision: int
    round: int
    operation: str
    data: bytes
    data_sha256: bytes
    result_sha256: str | None
    final: bool | None

    @property
    def queue(self) -> str:
        """The queue of the task that it is about."""
        return self.subject.rpartition("/")[0]

    @property
    def task_id(self) -> str:
        """The task that it is about."""
        return self.subject.rpartition("/")[2]

    @property
    def order(self) -> tuple[int, int, int, int]:
        """Later ones of a task and kind are larger: they are compared member by member."""
        return (self.epoch, self.fence, self.revision, self.round)

    def value(self) -> Any:
        """The data, read."""
        return json.loads(self.data)


@dataclass(frozen=True, slots=True)
class Writer:
    """One writer of a store: copies of the store that begin the same epoch differ in the other."""

    epoch: int
    incarnation: str


@dataclass(frozen=True, slots=True)
class Hello:
    """A writer announces itself, or (`ask_only`) asks what is there.

    `after` is the position up to which it knows what was accepted here; `sequence` and `head` are
    how far its own chain goes (None where the destination is not ordered).
    """

    stream: str
    writer: Writer
    lineage: tuple[Writer, ...]
    after: int
    limit: int
    sequence: int | None
    head: bytes | None
    adopt: Writer | None
    ask_only: bool


def stream_name(writer_id: str, scope: str, queue: str) -> str:
    """What a receiver keeps its state by: the store's lasting name, the scope, the destination."""
    return f"{writer_id}/{scope}/{queue}"


def sequence_text(sequence: int) -> str:
    """A sequence as CloudEvents wants it: text whose order is the numbers' order."""
    return f"{sequence:0{SEQUENCE_DIGITS}d}"


def result_operation(task_id: str, revision: int) -> str:
    """The name of a result's effect."""
    return f"{task_id}:{revision}"


def outcome_operation(task_id: str, round: int, fence: int, outcome: str) -> str:
    """The name of another outcome's effect. A round of a task has each but once, under one lease:
    a task that was blocked and sent back may be blocked again under the next."""
    return f"{task_id}:{round}:{fence}:{outcome}"


_ENCODER = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True
)


def canonical(value: Any) -> bytes:
    """JSON in one way only: members in order, no spaces. For ASCII names it is RFC 8785."""
    return _ENCODER.encode(value).encode()
