"""Receivers of a store that became another writer: asked, told, and what they have accepted
recorded here, before anything is delivered and before anybody works on it again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fencepost.clock import SECOND
from fencepost.commands import DestinationAdvance
from fencepost.deliveries import hello
from fencepost.deliveries.event import Voice
from fencepost.deliveries.importing import command_of
from fencepost.deliveries.places import Place as Where
from fencepost.deliveries.places import sender_of
from fencepost.deliveries.run import place_of
from fencepost.handle import Handle
from fencepost.issues import FencepostError, InvalidRequest, NotFound
from fencepost.lineage import STOPS
from fencepost.model import Writer
from fencepost.outward import Destination
from fencepost.receiver.wire import stream_name

ISOLATION = {
    True: "the receiver refuses every older writer of the stream",
    False: "none: what stands there keeps no writer, and takes what an older one sends",
}
NOT_FENCED = "it keeps no writer, and cannot say what it has accepted"
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
    """Talks with the receiver of one destination. Close it when done."""

    def __init__(self, peer: Peer, writer_id: str, adopt_secret: str | None = None) -> None:
        """`adopt_secret` signs the taking over, where the receiver wants it. Raises
        InvalidRequest where nothing can be sent to such a place."""
        self.peer, self.writer_id = peer, writer_id
        self._now = lambda: peer.fp.wall() / SECOND
        self._where = place_of(peer.destination, peer.fp.wall())
        self._sender = sender_of(self._where, self._now)
        self._adopt_secret = adopt_secret
        self._seconds = float(peer.destination.options["timeout_seconds"])

    @property
    def greets(self) -> bool:
        """Whether it keeps writers apart."""
        return self._sender.greets

    def close(self) -> None:
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
        voice, lineage = self._voice()
        body = hello.hello(voice, lineage, self.peer.destination.heard, None, ask_only=True)
        answer = self._sender.greet(body, self._seconds)
        if answer.status == 200 and answer.said is not None:
            return answer.said
        return answer.told or "no answer that could be understood"

    def replace(self, holder: Mapping[str, Any]) -> str:
        """Take the stream over from this writer, although this store does not follow it; should
        another hold it by now, nothing is changed. Why not, or nothing."""
        voice, lineage = self._voice()
        secrets = self._where.secrets if self._adopt_secret is None else (self._adopt_secret,)
        sender = sender_of(Where(*self._where[:3], secrets), self._now)
        try:
            heard = self.peer.destination.heard
            answer = sender.greet(
                hello.hello(voice, lineage, heard, None, adopt=dict(holder)), self._seconds
            )
        finally:
            sender.close()
        return "" if answer.status == 200 and answer.said is not None else answer.told

    def announce(self) -> hello.Met:
        """Say who writes now, and hear what is not known here."""
        voice, lineage = self._voice()
        fp, known = self.peer.fp, self.peer.destination
        return hello.meet(
            self._sender, voice, lineage, known.heard, self._place(),
            lambda receipt: hello.knows(fp.results, receipt), self._seconds,
        )

    def moved_on(self, met: hello.Met) -> None:
        """The store knows that the receiver was told, and how far its effects are known. Raises
        what the store refuses."""
        known, voice = self.peer.destination, self._voice()[0]
        place = met.place if known.options["ordered"] else self._place() or hello.BEGINNING
        sequence = place.sequence if known.options["ordered"] else known.sequence
        head = place.head if known.options["ordered"] and sequence else known.head
        command = DestinationAdvance(
            known.queue, known.sequence, sequence, head, met.position, voice.incarnation
        )
        self.peer.fp.outcome_of(command, None)


def taken_over(talk: Talk, *, take_over: bool) -> dict[str, Any]:
    """Tell one receiver, and import what it has accepted. Returns what the receipt says of it:
    `answered` only if nothing of it is open. Never raises for what the other side does."""
    peer = talk.peer
    told = {**described(peer), "isolation": ISOLATION[talk.greets], "answered": False}
    if not talk.greets:
        return {**told, "why": NOT_FENCED}
    said = talk.ask()
    if isinstance(said, str):
        return {**told, "why": f"not reached: {said}"}
    told["receiver"] = str(said.get("receiver"))
    told["held_by"] = {name: said.get(name) for name in ("epoch", "incarnation")}
    replaced = said.get("would") is not None
    if replaced:
        if not take_over:
            why = "it is held by a writer that this one does not follow; to replace it: --take-over"
            return {**told, "why": f"{said['would']}: {why}"}
        if why := talk.replace(told["held_by"]):
            return {**told, "why": f"not taken over: {why}"}
    met = talk.announce()
    if met.stop or met.wait:
        return {**told, "why": met.stop or f"not reached: {met.wait}"}
    told |= {"taken_over": replaced, "position": met.position}
    told |= imports(peer.fp, met.unknown)
    told["answered"] = not told["refused"]
    if told["answered"]:
        talk.moved_on(met)
    else:
        told["why"] = "effects that it has accepted contradict what this store knows"
    return told


def described(peer: Peer) -> dict[str, Any]:
    """Which destination, without a secret."""
    one = peer.destination
    return {"destination": peer.name, "class": one.class_, "kind": one.kind,
            "stopped_before": None if one.stopped in STOPS else one.stopped}  # fmt: skip


def imports(fp: Handle, receipts: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Record what was accepted and is not known here. `imported` names operations; `foreign` those
    whose task is not in this store (it was made after the backup); `refused` those that contradict
    it, with the code."""
    told: dict[str, list[Any]] = {"imported": [], "foreign": [], "refused": []}
    for start in range(0, len(receipts), _AT_ONCE):
        some = [each for each in receipts[start : start + _AT_ONCE] if _here(fp, each, told)]
        commands = []
        for receipt in some:
            try:
                commands.append(command_of(receipt))
            except (InvalidRequest, KeyError, TypeError) as error:
                told["refused"].append([_name(receipt), f"unreadable: {type(error).__name__}"])
        outcomes = fp.execute(commands)
        for command, outcome in zip(commands, outcomes, strict=True):
            name = f"{command.task_id}:{command.revision}"
            if outcome.accepted or outcome.issues[0] == "receipt_erased":
                told["imported"].append(name)
            else:
                told["refused"].append([name, outcome.issues[0]])
    return told


def _here(fp: Handle, receipt: Mapping[str, Any], told: dict[str, list[Any]]) -> bool:
    event = receipt.get("event")
    try:
        if isinstance(event, dict) and isinstance(event.get("task_id"), str):
            fp.task(event["task_id"])
    except NotFound:
        told["foreign"].append(_name(receipt))
        return False
    except FencepostError:  # what it holds was erased here
        told["imported"].append(_name(receipt))
        return False
    return True


def _name(receipt: Mapping[str, Any]) -> str:
    return json.dumps(str(receipt.get("operation")))[1:-1]


def epochs(talks: Sequence[Talk], tell: Callable[[str, int, int], None]) -> int:
    """The highest epoch that any receiver has heard of; 0 where none answers."""
    highest = 0
    for done, talk in enumerate(talks, 1):
        if talk.greets:
            said = talk.ask()
            epoch = said.get("epoch") if isinstance(said, Mapping) else None
            highest = max(highest, epoch if type(epoch) is int else 0)
        tell("receivers asked", done, len(talks))
    return highest
