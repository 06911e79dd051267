"""One delivery: from a lease to its verdict. It decides nothing itself: when it may begin is for
`admission.py`, what an answer means for `answers.py`, what becomes of the obligation for
`judging.py`."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from typing import Any, NamedTuple, TypeAlias

from fencepost.clock import SECOND
from fencepost.deliveries import marks
from fencepost.deliveries.admission import Admission
from fencepost.deliveries.event import Event, NoEvent, event_of
from fencepost.deliveries.judging import UNCERTAIN, Judgement, judge
from fencepost.deliveries.meters import Meters
from fencepost.deliveries.places import Sender, Try
from fencepost.deliveries.stream import NotMet, Stopped, Stream
from fencepost.issues import FencepostError
from fencepost.log import Log
from fencepost.model import Destination
from fencepost.worker.beat import Beat
from fencepost.worker.held import Held
from fencepost.worker.verdicts import Verdict

_log = Log("fencepost.deliveries")
RELEASE = Verdict("release")


class Sending(NamedTuple):
    """What is to be sent now, and how long that may take."""

    event: Event
    seconds: float


Steps: TypeAlias = Generator[Sending, Try, Verdict]


class Delivering:
    """The work of a dispatcher on one destination (`worker.runtime.Performer`)."""

    def __init__(
        self, destination: Destination, sender: Sender, stream: Stream, admission: Admission,
        meters: Meters, steady: Callable[[], int], wall: Callable[[], int],
    ) -> None:  # fmt: skip
        self._sender, self._stream, self._admission = sender, stream, admission
        self._meters, self._steady, self._wall = meters, steady, wall
        self._queue, self._kind = destination.queue, destination.class_
        self._timeout = float(destination.options["timeout_seconds"])
        self._dedupe: int | None = None
        if self._kind == "idempotent":
            self._dedupe = destination.options["dedupe_seconds"]

    def perform(self, held: Held, beat: Beat) -> Verdict | None:
        return alone(self.steps(held), self._sender)

    def at_once(self, held: Held) -> bool:
        """Whether it is sent without waiting for anybody: the receiver is met, and nothing is
        before it."""
        voice = self._stream.voice
        met = voice is not None and held.lease.grant.epoch <= voice.epoch
        return met and self._admission.at_once(held)

    def steps(self, held: Held) -> Steps:
        """A delivery up to its verdict: it stands still while something is sent, and is told what
        that came to."""
        judged = Judgement(RELEASE, "none")
        try:
            if self._admission.begin(held):
                judged = yield from self._judged(held)
        finally:
            again = judged.verdict.what in ("retry", "release")
            self._admission.end(held, judged.flow, judged.wait_seconds, again=again)
        return judged.verdict

    def abort(self) -> None:
        """What is under way is cut off; what it came to is not known then."""
        self._sender.close()

    def of_left_over(self, held: Held) -> Verdict:
        """What becomes of a delivery in which an earlier dispatcher has died: it may have been
        sent. Where that is safe it is sent again, and no attempt is lost by it."""
        if self._kind == "unfenced":
            told = f"{UNCERTAIN}: the dispatcher died while it may have sent this"
            return Verdict("block", reason=told)
        since = self._uncertain_since(held)
        judged = Judgement(RELEASE)
        granted = held.lease.grant.granted_at
        return self._marked(held, judged, granted if since is None else since).verdict

    def _judged(self, held: Held) -> Generator[Sending, Try, Judgement]:
        since = self._uncertain_since(held)
        if self._dedupe is not None and marks.over(since, self._wall(), self._dedupe):
            reason = f"{UNCERTAIN}: the receiver may know the id no more (dedupe_seconds)"
            return self._marked(held, Judgement(Verdict("block", reason=reason), "none"), None)
        begun = self._wall()
        try:
            event, tried, judged = yield from self._tried(held)
            if tried.word == "delivered":
                self._stream.delivered(event, tried.has or {})
            elif judged.stop is not None:
                self._stream.stop(judged.stop)
        except Stopped:
            self._admission.close()
            return Judgement(RELEASE, "hold")
        except NoEvent as error:
            return Judgement(Verdict("give_up", reason=str(error)), "none")
        except (NotMet, FencepostError) as error:
            _log.warning("%s: %s", self._queue, error)
            self._meters.tried(self._queue, "not_met", 0.0)
            return Judgement(RELEASE, "hold", getattr(error, "wait_seconds", None))
        if tried.word != "delivered":
            _log.warning("%s: %s: %s", self._queue, tried.word, tried.told)
        if tried.word in ("unanswered", "taken") and since is None:
            since = begun
        return self._in_order(self._marked(held, judged, since))

    def _tried(self, held: Held) -> Generator[Sending, Try, tuple[Event, Try, Judgement]]:
        """One try; a second where the receiver has to be greeted first."""
        stream, grant = self._stream, held.lease.grant
        voice = stream.ready(held.claim, grant.epoch, self._seconds(held))
        for _ in range(2):
            meetings = stream.meetings
            about = self._admission.about(held)
            event = event_of(grant.task_id, grant.payload, voice, stream.turn(), about)
            begun = self._steady()
            tried = yield Sending(event, self._seconds(held))
            self._meters.tried(self._queue, tried.word, (self._steady() - begun) / SECOND)
            judged = judge(self._kind, tried)
            if not judged.greet:
                return event, tried, judged
            _log.warning("%s: %s: %s", self._queue, tried.word, tried.told)
            voice = stream.again(held.claim, meetings, self._seconds(held))
        raise NotMet(f"the receiver goes on to answer {tried.word}")

    def _seconds(self, held: Held) -> float:
        """How long a step may take: its lease holds for so long at the least."""
        return max(0.001, min(self._timeout, held.remaining()))

    def _uncertain_since(self, held: Held) -> int | None:
        if self._dedupe is None:
            return None
        lease = held.lease
        return marks.uncertain_since(lease.progress, lease.attempt, born(lease.task_id))

    def _marked(self, held: Held, judged: Judgement, since: int | None) -> Judgement:
        """Leave to the next attempt what it has to know of this one."""
        if self._dedupe is not None and judged.verdict.what in ("retry", "release", "block"):
            given_back = judged.verdict.what == "release"
            mark: Any = marks.mark(held.lease.attempt - given_back, since)
            held.pending = (mark,)
        return judged

    def _in_order(self, judged: Judgement) -> Judgement:
        """Of an ordered stream nothing overtakes what failed: it stays the first of its queue, and
        the stream waits instead."""
        if not (self._stream.ordered and judged.verdict.what == "retry"):
            return judged
        return judged._replace(verdict=judged.verdict._replace(retry_seconds=0), flow="hold")


def alone(
    steps: Steps, sender: Sender, sending: Sending | None = None, tried: Try | None = None
) -> Verdict:
    """A delivery by itself, to its end: from its beginning, from a sending at which it stands, or
    from what that came to."""
    with closing(steps):
        try:
            if tried is not None:
                sending = steps.send(tried)
            elif sending is None:
                sending = next(steps)
            while True:
                sending = steps.send(sender.send(*sending))
        except StopIteration as ended:
            verdict: Verdict = ended.value
            return verdict


def born(task_id: str) -> int:
    """When a task came to be (microseconds UTC): the milliseconds that its UUIDv7 begins with."""
    return int(task_id[:8] + task_id[9:13], 16) * 1_000
