"""One destination's stream: who writes it, whether the receiver was greeted, how far it has come.

The store's row is read when a dispatcher begins and whenever the receiver sees something else; it
is moved on by compare-and-set, so that of two dispatchers the later one starts anew from it.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from fencepost.commands import DestinationAdvance, DestinationSet
from fencepost.deliveries import hello
from fencepost.deliveries.confirming import Confirming
from fencepost.deliveries.event import PREFIX, Event, Turn, Voice
from fencepost.deliveries.hello import BEGINNING, Place
from fencepost.deliveries.importing import imported
from fencepost.deliveries.places import Sender
from fencepost.deliveries.positions import Positions
from fencepost.destinations import MAX_STOPPED
from fencepost.issues import FencepostError, Forbidden, NotFound
from fencepost.log import Log
from fencepost.model import Destination
from fencepost.receiver.chain import next_head
from fencepost.receiver.wire import stream_name

if TYPE_CHECKING:
    from fencepost.handle import Handle
    from fencepost.remote import RemoteHandle

    StoreHandle: TypeAlias = Handle | RemoteHandle

_log = Log("fencepost.deliveries")


class Stopped(Exception):
    """The destination has been stopped; the text says why."""


class NotMet(Exception):
    """Nothing was sent: the receiver gave no answer to a hello that could be understood, or the
    store does not know what went before. `wait_seconds`: when to come again, where that was said.
    """

    def __init__(self, told: str, wait_seconds: float | None = None) -> None:
        super().__init__(told)
        self.wait_seconds = wait_seconds


class Stream:
    """May be shared by the threads that deliver; only `meet` and `delivered` ask the store."""

    def __init__(
        self, fp: StoreHandle, destination: Destination, sender: Sender, worker_id: str
    ) -> None:
        self._fp, self._sender, self._worker_id = fp, sender, worker_id
        self.queue = destination.queue
        self.ordered = bool(destination.options["ordered"])
        self._lock = threading.Lock()
        self._writer_id = ""
        self._known: Destination | None = None
        self._owed: DestinationAdvance | None = None  # delivered, and not yet told to the store
        self.voice: Voice | None = None
        self.place = BEGINNING
        self.positions = Positions(destination.heard)
        self.meetings = 0
        self._sure = destination.heard  # as the store has it
        self._confirming = Confirming(sender, fp.steady, destination.heard)
        self._gap: int | None = None  # as it was at the last look
        self._missing = False  # it has not closed: others have delivered what we did not hear of

    def early(self, seconds: float) -> None:
        """Greet a receiver that does not know this writer before there is anything for it: so what
        it has that this store does not know is imported before anybody works on it again. Only an
        operator is told early who the writer is. Never raises."""
        try:
            known, now = self._fp.destination(self.queue), self._fp.writers()[-1]
            if not self._sender.greets or known.announced == now.incarnation:
                return
            self._writer_id = self._fp.about()["writer_id"]
            self.ready("", now.epoch, seconds)
        except Forbidden:  # a dispatcher hears it with its first claim
            return
        except (FencepostError, NotMet, Stopped) as error:
            _log.warning("%s: %s", self.queue, error)

    def ready(self, claim: str, epoch: int, seconds: float) -> Voice:
        """Who speaks, once the receiver knows it. `claim` is the key of a claim of ours, `epoch`
        that of its lease. Raises Stopped, NotMet, or what the store refuses."""
        voice = self.voice
        if voice is not None and epoch <= voice.epoch and not self._missing:
            self._confirming.now_and_then(voice, self._sure, seconds)
            return voice
        with self._lock:
            if self.voice is None or epoch > self.voice.epoch:
                self._meet(claim, seconds, again=False)
            elif self._missing:
                self._missing = False
                self._meet(claim, seconds, again=True)
            assert self.voice is not None
            return self.voice

    def again(self, claim: str, meetings: int, seconds: float) -> Voice:
        """Greet once more, unless somebody has since there were so many meetings: the receiver has
        refused what was sent. Raises as `ready` does."""
        with self._lock:
            if self.meetings == meetings:
                self._meet(claim, seconds, again=True)
            assert self.voice is not None
            return self.voice

    def _meet(self, claim: str, seconds: float, *, again: bool) -> None:
        lineage = self._fp.writers()
        now = lineage[-1]
        if not self._writer_id:
            self._writer_id = self._fp.receipt(claim, actor=self._worker_id).entry["writer"]
        stream = stream_name(self._writer_id, self._fp.scope_name, self.queue)
        voice = Voice(stream, now.epoch, now.incarnation)
        known = self._fp.destination(self.queue)
        place = Place(known.sequence, known.head or BEGINNING.head)
        if self._sender.greets and (again or known.announced != voice.incarnation):
            strange: list[Mapping[str, Any]] = []
            twins: list[Mapping[str, Any]] = []
            met = hello.meet(
                self._sender, voice, lineage, known.heard, place if self.ordered else None,
                lambda receipt: self._ours(receipt, voice, twins) and self._knows(receipt, strange),
                seconds,
            )  # fmt: skip
            if twins:
                self.stop(f"fork: a copy speaks as this very writer: {hello.shown(twins)}")
            if met.stop:
                self.stop(met.stop)
            if met.wait:
                raise NotMet(met.wait, met.wait_seconds)
            self._told(known, met, strange)
            self._import(met.unknown)
            place = met.place if self.ordered else place
            self._advance(known, place, heard=met.position, announced=voice.incarnation)
            self.positions, self._sure = Positions(met.position), met.position
            self._confirming.told(known.heard)
        else:
            self.positions = Positions(max(known.heard, self.positions.heard))
            self._sure = known.heard
        self.place, self.voice, self._known, self._owed = place, voice, known, None
        self.meetings += 1

    def _ours(
        self, receipt: Mapping[str, Any], voice: Voice, twins: list[Mapping[str, Any]]
    ) -> bool:
        """Whether what an ordered stream has under this writer's own name is owed here: at most the
        last is not yet known to be delivered, and so is not purged. Else there is another one who
        is this writer in every word: a disk was cloned, or put back."""
        if not (self.ordered and hello.spoken(receipt, voice)):
            return True
        try:
            self._fp.task(str(receipt["id"]).removeprefix(PREFIX))
        except NotFound:
            twins.append(receipt)
            return False
        return True

    def _knows(self, receipt: Mapping[str, Any], strange: list[Mapping[str, Any]]) -> bool:
        """Whether nothing has to be recorded of an effect; nothing can be of one whose task is not
        here: it was purged, or was lost with a writer."""
        try:
            return hello.knows(self._fp.results, receipt)
        except NotFound:
            strange.append(receipt)
            return True

    def _told(self, known: Destination, met: hello.Met, strange: list[Mapping[str, Any]]) -> None:
        """What nothing here can be done about is said."""
        if strange:
            _log.warning("%s has accepted %d results of tasks that are not in this store: %s",
                         self.queue, len(strange), hello.shown(strange))  # fmt: skip
        if met.position < known.heard:
            _log.error(
                "%s is at position %d, and its effects up to %d were known: it was put back, and "
                "has lost what lies between", self.queue, met.position, known.heard,
            )  # fmt: skip

    def _import(self, unknown: tuple[Mapping[str, Any], ...]) -> None:
        if not unknown:
            return
        told = hello.shown(unknown)
        bare = sum(receipt["event"] is None for receipt in unknown)
        _log.warning(
            "%s has accepted %d results that are not in this store (%s): they are imported%s",
            self.queue, len(unknown), told,
            f", {bare} of them as digests" if bare else "",
        )  # fmt: skip
        if refusal := imported(self._fp, unknown):
            self.stop(f"import_needed: {len(unknown)} results ({told}): {refusal}")

    # -- an ordered stream

    def turn(self) -> Turn | None:
        """What comes next; None where nothing is ordered. Raises Stopped or what the store
        refuses: what was delivered before must be known to it first."""
        if not self.ordered:
            return None
        if self._owed is not None:
            self._settle_owed()
        return Turn(self.place.sequence + 1, self.place.head)

    def delivered(self, event: Event, has: Mapping[str, Any]) -> None:
        """The effect is there; `has` is the receipt, empty where there is none that tells a
        position."""
        self.positions.add(has.get("position"))
        if event.turn is None:
            return
        sequence = has.get("sequence", event.turn.sequence)
        if sequence != event.turn.sequence:
            return  # it was there before: a position of the past
        previous = bytes.fromhex(self.place.head)
        head = next_head(previous, sequence, event.operation, event.data_sha256)
        self._owed = DestinationAdvance(
            self.queue, self.place.sequence, sequence, head.hex(), self.positions.heard
        )
        self.place = Place(sequence, head.hex())
        try:
            self._settle_owed()
        except FencepostError as error:
            _log.warning("%s: how far it has come is told later: %s", self.queue, error)

    def _settle_owed(self) -> None:
        assert self._owed is not None
        (outcome,) = self._fp.execute([self._owed])
        heard, self._owed = self._owed.heard, None
        if not outcome.accepted:  # another dispatcher has moved it on: start anew from the row
            _log.warning("%s: %s", self.queue, outcome.message)
            self.voice = None
            raise NotMet("another dispatcher delivers there too")
        self._sure = heard or self._sure

    def _advance(
        self, known: Destination, place: Place, *, heard: int, announced: str | None = None
    ) -> None:
        head = None if place.sequence == 0 else place.head
        command = DestinationAdvance(
            self.queue, known.sequence, place.sequence, head, heard, announced
        )
        (outcome,) = self._fp.execute([command])
        if not outcome.accepted:
            raise NotMet(f"the store did not move on: {outcome.message}")

    def save(self) -> None:
        """Tell the store up to where the receiver's effects are known, so that the next hello asks
        for no more. Never raises: it is asked again at the next. Where what is missing was missing
        at the last look too, the receiver is asked for it before the next delivery."""
        gap, self._gap = self._gap, self.positions.gap
        self._missing = gap is not None and gap == self._gap
        known, heard = self._known, self.positions.heard
        if known is None or heard <= self._sure or self.ordered:
            return
        try:
            self._advance(known, Place(known.sequence, known.head or BEGINNING.head), heard=heard)
            self._sure = heard
        except (FencepostError, NotMet) as error:
            _log.warning("%s: what was heard is told later: %s", self.queue, error)

    # -- the end of it

    def end(self, seconds: float) -> None:
        """No more is delivered: what others have delivered meanwhile is heard of, all of it told to
        the store, and that to the receiver where it is time; with no seconds for it nobody is
        asked. Never raises."""
        if seconds and self.positions.gap is not None and self.voice is not None:
            try:
                self.again("", self.meetings, seconds)
            except (FencepostError, NotMet, Stopped) as error:
                _log.warning("%s: what others have delivered is heard later: %s", self.queue, error)
        self.save()
        if self.voice is not None and seconds:
            self._confirming.now_and_then(self.voice, self._sure, seconds)

    def stop(self, why: str) -> None:
        """Nothing is delivered there until a person says so. Raises Stopped."""
        why = cut(why)
        _log.error("nothing is delivered to %s any more: %s", self.queue, why)
        outcome = self._fp.execute([DestinationSet(self.queue, stopped=why)])[0]
        if not outcome.accepted:
            _log.error("%s could not be stopped: %s", self.queue, outcome.message)
        raise Stopped(why)


def cut(why: str) -> str:
    """A reason as a destination can keep it: one short line, and nothing that a terminal takes for
    an order."""
    text = "".join(each if each.isprintable() else "?" for each in " ".join(why.split()))
    return text.encode("ascii", "replace").decode()[:MAX_STOPPED]
