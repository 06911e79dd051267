"""The bytes of a delivery: an obligation, as a CloudEvents 1.0 event in structured JSON (RFC 8785).

Pure. For one writer the bytes are the same at every try, so they are made of what never changes:
the obligation's payload, its id, who writes. Of an ordered destination the place in its stream is
in them as well.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, NamedTuple

from fencepost import fields
from fencepost.issues import InvalidRequest
from fencepost.receiver.wire import (
    SOURCE,
    TYPES,
    outcome_operation,
    result_operation,
    sequence_text,
)

PREFIX = "msg_"
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)


class Voice(NamedTuple):
    """Who sends now: the writer of the store, its epoch and incarnation, and the stream
    `<writer_id>/<scope>/<destination>`."""

    stream: str
    epoch: int
    incarnation: str


class Turn(NamedTuple):
    """The place of a delivery in an ordered stream: its number, and the head before it (hex)."""

    sequence: int
    previous: str


class Event(NamedTuple):
    """One delivery. `data` is canonical JSON: the obligation's payload as it was recorded. `epoch`,
    `fence` and `revision` are of the *result*, not of the lease under which it is delivered."""

    id: str
    stream: str
    operation: str
    subject: str
    epoch: int
    fence: int
    revision: int
    data: bytes
    data_sha256: bytes
    turn: Turn | None
    body: bytes


def _time(value: Any, what: str) -> None:
    if type(value) is not str or TIME.fullmatch(value) is None:
        raise InvalidRequest(f"{what}: this is no time")


def _outcome(value: Any, what: str) -> None:
    if type(value) is not str or value not in TYPES:
        raise InvalidRequest(f"{what}: there is no such outcome")


# What is written into events, names of files and environments as it stands: of ids, names and
# numbers none needs an escape, and none leads anywhere.
MEMBERS: dict[str, fields.Check] = {
    "at": _time, "queue": fields.name, "task_id": fields.task_id, "outcome": _outcome,
    "epoch": fields.count, "fencing_token": fields.count, "revision": fields.count,
}  # fmt: skip


class NoEvent(Exception):
    """The payload is no obligation: nothing can be said of it to a receiver."""


def event_of(
    task_id: str, payload: bytes | None, voice: Voice, turn: Turn | None = None,
    about: dict[str, Any] | None = None,
) -> Event:  # fmt: skip
    """The event of an obligation; `about` is what it says, where that has been read. Raises NoEvent
    for a task that was erased, or that nobody's result has brought about."""
    about = about_of(payload) if about is None else about
    assert payload is not None
    operation = operation_of(about)
    subject = f"{about['queue']}/{about['task_id']}"
    event_id = PREFIX + task_id
    # Canonical by hand: the members are sorted, and of ids, names and numbers none needs an escape.
    ordered = ("", "") if turn is None else (
        f'"fpprevious":"{turn.previous}",', f'"sequence":"{sequence_text(turn.sequence)}",'
    )  # fmt: skip
    before = (
        f',"datacontenttype":"application/json","fpepoch":"{about["epoch"]}",'
        f'"fpfence":"{about["fencing_token"]}","fpincarnation":"{voice.incarnation}",'
        f'"fpoperation":"{operation}",{ordered[0]}"fprevision":"{about["revision"]}",'
        f'"fpwriterepoch":"{voice.epoch}","id":"{event_id}",{ordered[1]}'
        f'"source":"{SOURCE}{voice.stream}","specversion":"1.0","subject":"{subject}",'
        f'"time":"{about["at"]}","type":"{TYPES[about["outcome"]]}"}}'
    )
    return Event(
        event_id, voice.stream, operation, subject,
        about["epoch"], about["fencing_token"], about["revision"], payload,
        hashlib.sha256(payload).digest(), turn,
        b"".join((b'{"data":', payload, before.encode())),
    )  # fmt: skip


def operation_of(about: dict[str, Any]) -> str:
    """The effect's name."""
    if about["outcome"] == "result":
        return result_operation(about["task_id"], about["revision"])
    return outcome_operation(
        about["task_id"], about["round"], about["fencing_token"], about["outcome"]
    )


def about_of(payload: bytes | None) -> dict[str, Any]:
    """What an obligation says. Raises NoEvent."""
    if payload is None:
        raise NoEvent("its content has been erased")
    about = json.loads(payload)
    if not isinstance(about, dict) or any(name not in about for name in MEMBERS):
        raise NoEvent("its payload is no obligation: an obligation comes with a result")
    checks = MEMBERS if about["outcome"] == "result" else {**MEMBERS, "round": fields.count}
    for name, check in checks.items():
        try:
            check(about.get(name), name)
        except InvalidRequest:  # whose text shows what it was given
            raise NoEvent(f"its payload is no obligation: {name} is none") from None
    return about
