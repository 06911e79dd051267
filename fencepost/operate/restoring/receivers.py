"""Receivers of a store that became another writer: asked, told, and what they have accepted
recorded here, before anything is delivered and before anybody works on it again."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fencepost.clock import SECOND
from fencepost.commands import DestinationAdvance
from fencepost.deliveries import hello
from fencepost.deliveries.event import Voice
from fencepost.deliveries.importing import UNREADABLE, command_of
from fencepost.deliveries.places import Greeting, Sender, sender_of
from fencepost.deliveries.run import place_of
from fencepost.fields import MAX_EPOCH
from fencepost.handle import Handle
from fencepost.issues import FencepostError, InvalidRequest, NotFound
from fencepost.lineage import STOPS
from fencepost.model import Task, Writer
from fencepost.operate.backup import Told
from fencepost.outward import Destination
from fencepost.receiver.wire import stream_name

IN_FORCE = "the receiver refuses every older writer of the stream"
NOT_TOLD = "none yet: the receiver has not been told of the new writer"
NO_FENCE = "none: what stands there keeps no writer, and takes what an older one sends"
CONTRADICTED = "effects that it has accepted cannot be recorded here"
NOT_FENCED = "it keeps no writer, and cannot say what it has accepted"
GONE_BACK = (
    "gap: up to position {heard} its effects were known, and it is at {position}: it was restored "
    "itself, and what lies between is not there any more"
)
Keep = Callable[[], object]
_AT_ONCE = 100


class Peer(NamedTuple):
    """One destination, and the handle of its scope. `name` is SCOPE/QUEUE."""

    fp: Handle
    destination: Destination

    @property
    def name(self) -> str:
        return f"{self.fp.scope_name}/{self.destination.queue}"


def peers(fp: Handle) -> Iterator[Peer]:
    """Every destination of the store, by scope and name."""
    for scope in fp.scope_names():
        own = fp.as_caller(fp.caller.actor, scope=scope)
        if not own.scope().revoked:  # nothing is delivered there, and nobody there learns anything
            for destination in own.destinations():
                yield Peer(own, destination)


class Talk:
    """Talks with the receiver of one destination. Close it when done. `unusable` says why nothing
    can be sent to such a place, where that is so."""

    def __init__(self, peer: Peer, writer_id: str, adopt_secret: str | None = None) -> None:
        """`adopt_secret` signs the taking over, where the receiver wants it."""
        self.peer, self.writer_id = peer, writer_id
        self._now = lambda: peer.fp.wall() / SECOND
        self._where = place_of(peer.destination, peer.fp.wall())
        self._sender: Sender | None = None
        self.unusable = ""
        try:
            self._sender = sender_of(self._where, self._now)
        except (FencepostError, ValueError) as error:
            self.unusable = f"nothing can be sent there: {error}"
        self._adopt_secret = adopt_secret
        self._seconds = float(peer.destination.options["timeout_seconds"])

    @property
    def greets(self) -> bool:
        """Whether it keeps writers apart."""
        return self._sender is not None and self._sender.greets

    def close(self) -> None:
        if self._sender is not None:
            self._sender.close()

    def _voice(self) -> tuple[Voice, tuple[Writer, ...]]:
        lineage = self.peer.fp.writers()
        stream = stream_name(self.writer_id, self.peer.fp.scope_name, self.peer.destination.queue)
        return Voice(stream, lineage[-1].epoch, lineage[-1].incarnation), lineage

    def _place(self) -> hello.Place | None:
        known = self.peer.destination
        if not known.options["ordered"]:
            return None
        return hello.Place(known.sequence, known.head or hello.BEGINNING.head)

    def ask(self) -> Mapping[str, Any] | str:
        """What the receiver says of the stream, changing nothing; or why it gave no answer."""
        assert self._sender is not None
        voice, lineage = self._voice()
        body = hello.hello(voice, lineage, self.peer.destination.heard, None, ask_only=True)
        return _said(self._sender.greet(body, self._seconds))

    def replace(self, holder: Mapping[str, Any]) -> str:
        """Take the stream over from this writer, although this store does not follow it; should
        another hold it by now, nothing is changed. Why not, or nothing."""
        voice, lineage = self._voice()
        secrets = self._where.secrets if self._adopt_secret is None else (self._adopt_secret,)
        sender = sender_of(self._where._replace(secrets=secrets), self._now)
        try:
            heard = self.peer.destination.heard
            body = hello.hello(voice, lineage, heard, None, adopt=dict(holder))
            said = _said(sender.greet(body, self._seconds))
        finally:
            sender.close()
        return said if isinstance(said, str) else ""

    def announce(self) -> hello.Met:
        """Say who writes now, and hear what is not known here."""
        assert self._sender is not None
        voice, lineage = self._voice()
        fp, known = self.peer.fp, self.peer.destination
        try:
            return hello.meet(
                self._sender,
                voice,
                lineage,
                known.heard,
                self._place(),
                lambda receipt: _knows(fp, receipt),
                self._seconds,
            )
        except (InvalidRequest, KeyError, TypeError, ValueError) as error:
            return hello.Met(wait=f"what it says cannot be read ({type(error).__name__})")

    def moved_on(self, met: hello.Met) -> None:
        """The store knows that the receiver was told, and how far its effects are known. Raises
        what the store refuses."""
        known, voice = self.peer.destination, self._voice()[0]
        sequence, head = known.sequence, known.head
        if known.options["ordered"]:
            sequence = met.place.sequence
            head = met.place.head if sequence else known.head
        command = DestinationAdvance(
            known.queue, known.sequence, sequence, head, met.position, voice.incarnation
        )
        self.peer.fp.receipt_of(command, None)


def _said(answer: Greeting) -> Mapping[str, Any] | str:
    """What a receiver has said; or why there is no answer."""
    if answer.status == 200 and answer.said is not None:
        return answer.said
    return answer.told or "no answer that could be understood"


def taken_over(
    talk: Talk, notes: dict[str, Any], keep: Keep, *, take_over: bool, overridden: bool = False
) -> dict[str, Any]:
    """Tell one receiver, and import what it has accepted. Returns what the receipt says of it:
    `answered` only if nothing of it is open. Never raises for what the other side does.
    `overridden`: effects that cannot be recorded here are left to whoever has said so.

    `notes` is what is remembered of it over interruptions, and `keep` puts that on the disk: always
    before the step after which it could not be found out any more."""
    peer = talk.peer
    found: dict[str, Any] = {"refused": []}
    if talk.unusable:
        why = talk.unusable
    elif not talk.greets:
        why = NOT_FENCED
    else:
        why = _told(talk, notes, keep, found, take_over=take_over, overridden=overridden)
    told = {**described(peer), "imported": [], "without_data": [], "foreign": [], **notes, **found}
    told["answered"] = not why
    told["isolation"] = NOT_TOLD if talk.greets else NO_FENCE
    if why:
        told["why"] = why
    if not why or found.get("told"):
        told["isolation"] = IN_FORCE
    told.pop("told", None)
    return told


def _told(
    talk: Talk, notes: dict[str, Any], keep: Keep, found: dict[str, Any], *, take_over: bool,
    overridden: bool,
) -> str:  # fmt: skip
    """Why it is open still, or nothing."""
    said = talk.ask()
    if isinstance(said, str):
        return f"not reached: {said}"
    would, position = said.get("would"), said.get("position")
    heard = talk.peer.destination.heard
    holder = {name: said.get(name) for name in ("epoch", "incarnation")}
    if "held_by" not in notes or would is not None:
        notes |= {"receiver": str(said.get("receiver")), "held_by": holder, "taken_over": False}
        keep()
    if type(position) is not int or position < heard:
        return GONE_BACK.format(heard=heard, position=position)
    if gone := hello.forgotten(said, heard):
        return gone
    if would is not None:
        if not take_over:
            why = "it is held by a writer that this one does not follow; to replace it: --take-over"
            return f"{would}: {why}"
        notes["taken_over"] = True
        keep()
        if why := talk.replace(holder):
            notes["taken_over"] = False
            return f"not taken over: {why}"
    met = talk.announce()
    if met.stop or met.wait:
        return met.stop or f"not reached: {met.wait}"
    found |= {"told": True, "position": met.position}
    found["refused"] = imports(talk.peer.fp, met.unknown, notes, keep)
    if not found["refused"] or overridden:  # else the next dispatcher stops for the same
        talk.moved_on(met)
    return CONTRADICTED if found["refused"] else ""


def described(peer: Peer) -> dict[str, Any]:
    """Which destination, without a secret."""
    one = peer.destination
    return {"destination": peer.name, "class": one.class_, "kind": one.kind,
            "stopped_before": None if one.stopped in STOPS else one.stopped}  # fmt: skip


def imports(
    fp: Handle, receipts: Sequence[Mapping[str, Any]], notes: dict[str, Any], keep: Keep
) -> list[list[str]]:
    """Record what was accepted and is not known here: `imported` in the notes names operations,
    `without_data` those among them that are recorded as digests, `foreign` those whose task is not
    in this store (it was made after the backup). Returns those that contradict it, with the code.
    """
    here = [each for each in receipts if _task(fp, each) is not None]
    foreign = [_name(each) for each in receipts if _task(fp, each) is None]
    bare = [_name(each) for each in here if each["event"] is None]
    found = {"imported": [_name(each) for each in here], "without_data": bare, "foreign": foreign}
    notes |= {name: _joined(notes.get(name, []), more) for name, more in found.items()}
    keep()  # once it is recorded, nobody could tell that this run has done it
    refused: list[list[str]] = []
    for start in range(0, len(here), _AT_ONCE):
        commands = []
        for receipt in here[start : start + _AT_ONCE]:
            try:
                commands.append((_name(receipt), command_of(receipt)))
            except UNREADABLE as error:
                refused.append([_name(receipt), f"unreadable: {type(error).__name__}"])
        outcomes = fp.execute([command for _, command in commands])
        for (name, _), outcome in zip(commands, outcomes, strict=True):
            if not outcome.accepted:
                refused.append([name, outcome.issues[0]])
    if refused:
        not_in = {name for name, _ in refused}
        for kind in ("imported", "without_data"):
            notes[kind] = [name for name in notes[kind] if name not in not_in]
        keep()
    return refused


def _joined(some: Sequence[str], more: Sequence[str]) -> list[str]:
    """Both, in their order, each once."""
    return list(dict.fromkeys([*some, *more]))


def _task(fp: Handle, receipt: Mapping[str, Any]) -> Task | None:
    """The task whose outcome it is; None where this store has none. Raises InvalidRequest, KeyError
    or TypeError for what tells of no task."""
    try:
        return fp.task(hello.task_of(receipt))
    except NotFound:
        return None


def _knows(fp: Handle, receipt: Mapping[str, Any]) -> bool:
    """Whether nothing is to be said or recorded of an effect; what was erased here stays so."""
    task = _task(fp, receipt)
    return task is not None and (task.erased or hello.knows(fp.results, receipt))


def _name(receipt: Mapping[str, Any]) -> str:
    return json.dumps(str(receipt.get("operation")))[1:-1]


def epochs(talks: Sequence[Talk], ours: Collection[str], tell: Told) -> int:
    """The highest epoch of a writer that is not one of `ours` which any receiver has heard of; 0
    where none answers."""
    highest = 0
    for done, talk in enumerate(talks, 1):
        said = talk.ask() if talk.greets else ""
        if isinstance(said, Mapping) and said.get("incarnation") not in ours:
            epoch = said.get("epoch")
            if type(epoch) is int and epoch <= MAX_EPOCH:  # a writer of ours has no other
                highest = max(highest, epoch)
        tell("receivers asked", done, len(talks))
    return highest
