"""What a receiver answers: receipts, refusals, what it has accepted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import clock
from .rules import Refusal, Stream
from .wire import CODES, PROBLEM_TYPE, RECEIPT_TYPE, REPLAYED, Event, Writer, canonical


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer: its status, its headers by lower-case name, its body."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Accepted:
    """An effect that is there: the receipt as it was answered, the event's data unless dropped."""

    receipt: bytes
    event: bytes | None


def receipt(name: str, event: Event, stream: Stream, now: int) -> bytes:
    """The bytes that say that the effect is there. `stream` is as it is with the effect in it.

    They are enough to record in a store that has lost the result that there was one, should the
    event's data have been dropped.
    """
    return canonical(
        {
            "status": "accepted",
            "receiver": name,
            "stream": event.stream,
            "operation": event.operation,
            "id": event.id,
            "type": event.kind,
            "subject": event.subject,
            "data_sha256": event.data_sha256.hex(),
            "result_sha256": event.result_sha256,
            "final": event.final,
            "at": event.time,
            "epoch": event.writer_epoch,
            "incarnation": event.incarnation,
            "result_epoch": event.epoch,
            "fence": event.fence,
            "revision": event.revision,
            "sequence": event.sequence,
            "position": stream.position,
            "accepted_at": clock.text(now),
        }
    )


def accepted(body: bytes, replayed: bool) -> Answer:
    """A receipt. Of a replay only the header says that it is one."""
    headers = {"content-type": RECEIPT_TYPE}
    return Answer(200, body, {**headers, REPLAYED: "true"} if replayed else headers)


def refused(refusal: Refusal) -> Answer:
    """A refusal by the rules."""
    return problem(refusal.code, more=refusal.more)


def problem(
    code: str, detail: str = "", more: Mapping[str, Any] | None = None, wait: int | None = None
) -> Answer:
    """A refusal. `detail` says what is wrong with this request, `wait` when to come again."""
    status, title = CODES[code]
    members = {**(more or {}), "code": code, "status": status, "title": title}
    if detail:
        members["detail"] = detail
    headers = {"content-type": PROBLEM_TYPE}
    if code == "method_not_allowed":
        headers["allow"] = "POST"
    if wait is not None:
        headers["retry-after"] = str(wait)
    return Answer(status, canonical(members), headers)


def greeted(
    name: str,
    stream: Stream | None,
    was: Writer | None,
    found: Sequence[Accepted],
    more: bool,
    would: str | None = None,
) -> Answer:
    """The answer to a hello: who holds the stream now, how far it is, what was accepted.

    `would` is there when the writer only asked: the code that a hello would meet, or null.
    """
    members: dict[str, Any] = {
        "status": "ok",
        "receiver": name,
        "epoch": stream and stream.writer.epoch,
        "incarnation": stream and stream.writer.incarnation,
        "was": was and {"epoch": was.epoch, "incarnation": was.incarnation},
        "sequence": stream.sequence if stream else 0,
        "head": (stream or Stream(Writer(0, ""))).head.hex(),
        "position": stream.position if stream else 0,
        "forgotten": stream.forgotten if stream else 0,
        "more": more,
    }
    if would is not None:
        members["would"] = would or None
    listed = b",".join(b'%s,"event":%s}' % (a.receipt[:-1], a.event or b"null") for a in found)
    body = b'{"accepted":[%s],%s' % (listed, canonical(members)[1:])
    return Answer(200, body, {"content-type": RECEIPT_TYPE})
