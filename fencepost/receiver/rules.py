"""Whether an effect may be: one pure function for an event, one for a hello.

Both are asked within the transaction that then brings the effect about, over rows that no other
transaction changes meanwhile. Streams know nothing of one another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .chain import START, next_head
from .wire import Event, Hello, Writer


@dataclass(frozen=True, slots=True)
class Stream:
    """What is remembered of a stream as a whole.

    `sequence` and `head` are of its ordered deliveries, `position` counts all effects. `heard` is
    how far the writer has said that it knows of them. Up to `emptied` the data of the events were
    dropped, up to `forgotten` the receipts too; `floor` is the latest time of an event among those.
    """

    writer: Writer
    sequence: int = 0
    head: bytes = START
    position: int = 0
    heard: int = 0
    forgotten: int = 0
    emptied: int = 0
    floor: str = ""


@dataclass(frozen=True, slots=True)
class Known:
    """An effect that is there: the digest of its data, and the receipt that was given for it."""

    data_sha256: bytes
    receipt: bytes


@dataclass(frozen=True, slots=True)
class Newest:
    """The latest effect of a task, among those of one kind."""

    order: tuple[int, int, int, int]
    operation: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why not, and what the sender needs to know to go on."""

    code: str
    more: Mapping[str, Any] = field(default_factory=dict)


def judge_event(
    event: Event, known: Known | None, stream: Stream | None, newest: Newest | None
) -> Refusal | None:
    """None if the effect may be. A known effect has its receipt, which is the caller's to give.

    An effect that is there is told first, to whoever asks with the same data: it cannot be undone
    by refusing it. Results are compared, never the leases under which they are delivered.
    """
    if known is not None and known.data_sha256 != event.data_sha256:
        return Refusal("effect_conflict", {"known_data_sha256": known.data_sha256.hex()})
    if known is not None:
        return None
    if stream is None:
        return Refusal("hello_needed", holder(None))
    if event.writer_epoch < stream.writer.epoch:
        return Refusal("old_epoch", holder(stream))
    if event.writer_epoch == stream.writer.epoch and event.incarnation != stream.writer.incarnation:
        return Refusal("fork", holder(stream))
    if event.writer_epoch > stream.writer.epoch:
        return Refusal("hello_needed", holder(stream))
    if not follows(event, stream):
        return Refusal("gap", holder(stream))
    if newest is not None and event.order <= newest.order:
        return Refusal("stale_result", {"newest": newest_told(newest)})
    # What was dropped is at most this late. A task of which more is known was seen to the end.
    if newest is None and event.time <= stream.floor:
        return Refusal("forgotten", {"forgotten": stream.forgotten, "floor": stream.floor})
    return None


def follows(event: Event, stream: Stream) -> bool:
    """Whether it is what comes next. A stream that was ordered once takes nothing beside that."""
    if event.sequence is None:
        return stream.sequence == 0
    return event.sequence == stream.sequence + 1 and event.previous == stream.head


def after_event(event: Event, stream: Stream) -> Stream:
    """The stream with this effect in it."""
    if event.sequence is None:
        return replace(stream, position=stream.position + 1)
    return replace(
        stream,
        position=stream.position + 1,
        sequence=event.sequence,
        head=next_head(stream.head, event.sequence, event.operation, event.data_sha256),
    )


def judge_hello(hello: Hello, stream: Stream | None, may_adopt: bool) -> Refusal | None:
    """None if this writer may hold the stream from now on.

    A later writer may if its lineage holds the one that is here: so it has all that this one had
    when it began. Of two copies that began at the same place only the first to come can say so.
    `adopt` is a human's word in place of the lineage, and names the writer that he saw here: should
    another have come between, nothing is changed.
    """
    if hello.adopt is not None and not may_adopt:
        return Refusal("adopt_forbidden")
    if stream is None:
        return None if hello.adopt is None else Refusal("moved", holder(None))
    if hello.writer == stream.writer:
        return Refusal("fork", holder(stream)) if _parted(hello, stream) else None
    if hello.writer.epoch < stream.writer.epoch:
        return Refusal("old_epoch", holder(stream))
    if hello.adopt is not None:
        return None if hello.adopt == stream.writer else Refusal("moved", holder(stream))
    if stream.writer not in hello.lineage or _parted(hello, stream):
        return Refusal("fork", holder(stream))
    return None


def _parted(hello: Hello, stream: Stream) -> bool:
    """As many ordered deliveries on both sides, but not the same ones."""
    if hello.sequence is None or hello.head is None:
        return False
    return hello.sequence == stream.sequence and hello.head != stream.head


def after_hello(hello: Hello, stream: Stream | None) -> Stream:
    """The stream in this writer's hands. What it knows may be less than what the last one knew."""
    if stream is None:
        return Stream(hello.writer)
    return replace(stream, writer=hello.writer, heard=min(hello.after, stream.position))


def holder(stream: Stream | None) -> dict[str, Any]:
    """Who holds the stream and how far it has come: what a refused writer has to know."""
    if stream is None:
        return {"epoch": None, "incarnation": None, "sequence": 0, "head": START.hex()}
    return {
        "epoch": stream.writer.epoch,
        "incarnation": stream.writer.incarnation,
        "sequence": stream.sequence,
        "head": stream.head.hex(),
    }


def newest_told(newest: Newest) -> dict[str, Any]:
    """The later effect, as it is told."""
    epoch, fence, revision, _ = newest.order
    return {
        "epoch": epoch, "fence": fence, "revision": revision, "operation": newest.operation,
    }  # fmt: skip
