"""A receiver is greeted before anything is sent to it under a new writer: it then takes nothing
more from an older one, and tells what it has accepted. What this store does not know of that (it
was restored, or its standby was promoted before all had reached it) is imported, not sent again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from fencepost.deliveries.event import Voice
from fencepost.deliveries.places import Greeting, Sender
from fencepost.model import Result, Writer
from fencepost.receiver.chain import START, next_head
from fencepost.receiver.wire import MAX_ACCEPTED, MAX_LINEAGE, canonical

PAGES = 10_000
"""So many answers of a receiver are read at most; more of them say that something is wrong."""


class Place(NamedTuple):
    """How far an ordered stream has come: the number of its last delivery, and the head (hex)."""

    sequence: int
    head: str


BEGINNING = Place(0, START.hex())


class Met(NamedTuple):
    """What came of a greeting. `stop`: why nothing may be sent there; else `wait`: it gave no
    answer, and why; else all is well: its position, where the stream stands, and what it has that
    is not known here."""

    stop: str = ""
    wait: str = ""
    wait_seconds: float | None = None
    position: int = 0
    place: Place = BEGINNING
    unknown: tuple[Mapping[str, Any], ...] = ()


def hello(
    voice: Voice, lineage: Sequence[Writer | Voice], after: int, place: Place | None, **also: Any
) -> bytes:
    """The bytes of a hello: who writes now, all who wrote before, what is known of the receiver.
    `also`: `ask_only`, `adopt`, another `limit` (docs/receivers.md)."""
    writers = [[writer.epoch, writer.incarnation] for writer in lineage[-MAX_LINEAGE:]]
    return canonical({
        "hello": 1, "stream": voice.stream, "epoch": voice.epoch,
        "incarnation": voice.incarnation, "lineage": writers, "after": after,
        "limit": MAX_ACCEPTED, "sequence": None if place is None else place.sequence,
        "head": None if place is None else place.head, **also,
    })  # fmt: skip


def meet(
    sender: Sender, voice: Voice, lineage: Sequence[Writer], after: int, place: Place | None,
    known: Callable[[Mapping[str, Any]], bool], seconds: float,
) -> Met:  # fmt: skip
    """Greet until all that it has accepted after this position has been told. `place` is where the
    stream of an ordered destination stands here. `known`: whether this store knows the effect."""
    unknown: list[Mapping[str, Any]] = []
    at, asked = place, after
    for _ in range(PAGES):
        answer = sender.greet(hello(voice, lineage, after, place), seconds)
        said = answer.said
        if said is None or answer.status != 200 or said.get("status") != "ok":
            return _not_met(answer)
        accepted = said.get("accepted")
        position, more = said.get("position"), said.get("more") is True
        if type(position) is not int or not isinstance(accepted, list):
            return Met(wait="the receiver's answer to a hello cannot be read")
        if gone := forgotten(said, asked):
            return Met(stop=gone)
        for receipt in accepted:
            if at is not None:
                at = followed(at, receipt)
            if not known(receipt):
                unknown.append(receipt)
            after = max(after, int(receipt["position"]))
        if not more:
            return _met(said, position, at, unknown)
        if not accepted:
            break
    return Met(wait="the receiver's answers to a hello do not end")


def _not_met(answer: Greeting) -> Met:
    said = answer.said or {}
    code = said.get("code")
    if code in ("old_epoch", "fork"):
        holder = f"epoch {said.get('epoch')}, incarnation {said.get('incarnation')}"
        return Met(stop=f"{code}: the receiver is held by another writer ({holder})")
    return Met(wait=answer.told, wait_seconds=answer.wait_seconds)


def _met(
    said: Mapping[str, Any], position: int, at: Place | None, unknown: list[Mapping[str, Any]]
) -> Met:
    if at is not None and (said.get("sequence"), said.get("head")) != tuple(at):
        return Met(
            stop=f"gap: the receiver is at {said.get('sequence')} of the stream, this store at "
            f"{at.sequence}, and the one does not lead to the other: one of them was restored"
        )
    return Met(position=position, place=at or BEGINNING, unknown=tuple(unknown))


def forgotten(said: Mapping[str, Any], after: int) -> str:
    """Why a writer that knows of what is up to `after` cannot learn of all that came after it: the
    receiver has dropped receipts of it. Nothing if it can."""
    gone = said.get("forgotten")
    if type(gone) is not int or gone <= after:
        return ""
    return (
        f"forgotten: up to position {after} its effects are known here, and it has dropped its "
        f"receipts up to {gone}: what it did between them cannot be told any more"
    )


def followed(at: Place, receipt: Mapping[str, Any]) -> Place:
    """The place after this effect, if it is the next of an ordered stream; else the same."""
    sequence = receipt.get("sequence")
    if sequence != at.sequence + 1:
        return at
    digest = bytes.fromhex(receipt["data_sha256"])
    head = next_head(bytes.fromhex(at.head), sequence, receipt["operation"], digest)
    return Place(sequence, head.hex())


def knows(results: Callable[[str], Any], receipt: Mapping[str, Any]) -> bool:
    """Whether a result that a receiver has accepted is in this store. Of other outcomes nothing can
    be imported: True. The receipt says enough, whether or not the receiver has kept the event.
    Raises NotFound where the task is not here."""
    return receipt["type"] != "result" or recorded(results(task_of(receipt)), receipt)


def task_of(receipt: Mapping[str, Any]) -> str:
    """The task whose outcome was accepted."""
    return str(receipt["subject"]).rpartition("/")[2]


def spoken(receipt: Mapping[str, Any], voice: Voice) -> bool:
    """Whether an effect was delivered by this very writer, or by one who is it in every word."""
    return (receipt.get("epoch"), receipt.get("incarnation")) == (voice.epoch, voice.incarnation)


def recorded(found: Iterable[Result], told: Mapping[str, Any]) -> bool:
    """Whether the result that a receipt tells of is among these."""
    return any(
        each.revision == told["revision"] and each.result_sha256 in (None, told["result_sha256"])
        for each in found
    )


def receipt_text(receipt: Mapping[str, Any]) -> str:
    """A receipt as it was given, without the event that was told beside it: its bytes are
    canonical."""
    return canonical({name: value for name, value in receipt.items() if name != "event"}).decode()


def shown(receipts: Sequence[Mapping[str, Any]]) -> str:
    """Operations, for people: the first few."""
    names = [json.dumps(str(each.get("operation")))[1:-1] for each in receipts[:3]]
    return ", ".join(names) + (" …" if len(receipts) > len(names) else "")
