"""The loop of a worker: claims, works, settles, and stops well. What the work is, it does not know.

Threads: one claims (`claims.py`), one settles (`settle.py`), one keeps time and up to four renew
(`beat.py`), one a task works (`hands.py`). The caller's own waits for the end, and hears signals.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from fencepost.clock import SECOND
from fencepost.commands import LeaseCommand, Request
from fencepost.handle.lease import Lease, Moment
from fencepost.issues import FencepostError, InvalidRequest
from fencepost.log import Log
from fencepost.model import Grant, Outcome
from fencepost.worker.beat import AUTHORITY, Beat, ends_a_lease
from fencepost.worker.claims import Claiming, Claims
from fencepost.worker.hands import Hands
from fencepost.worker.held import STOPPING, Held
from fencepost.worker.memory import Memory
from fencepost.worker.options import REFUSED_SECONDS, Options
from fencepost.worker.settle import Settler, Settling
from fencepost.worker.verdicts import Verdict, of_exception

if TYPE_CHECKING:
    from fencepost.handle import Handle
    from fencepost.remote import RemoteHandle
    from fencepost.worker.outbox import OutboxStore

    AnyHandle: TypeAlias = Handle | RemoteHandle | OutboxStore

Ending = Literal["done", "left", "refused", "unreachable", "aborted"]
LAST_SECONDS = 10.0  # for what has to be told to the store at the end
DIED = "the worker died while it worked on this task"

_log = Log("fencepost.worker")


class Performer(Protocol):
    """Does the work of one task, in a thread of its own."""

    def perform(self, held: Held, beat: Beat) -> Verdict | None:
        """What becomes of the task; None if nothing can be recorded. It has ended, with all that it
        started, soon after `held.lost` is set."""

    def abort(self) -> None:
        """End all work at once."""


class Runtime:
    """One run of one worker. `stop` and `abort` may be called by any thread and any signal."""

    def __init__(
        self, fp: AnyHandle, performer: Performer, options: Options, memory: Memory,
        jitter: Callable[[], float] = random.random, hands: type[Hands] = Hands,
        claims: Callable[..., Claiming] = Claims,
    ) -> None:  # fmt: skip
        self._fp, self._performer, self._options, self._memory = fp, performer, options, memory
        self.beat = Beat(fp, jitter)
        self.settler = Settler(fp, memory, self._settled, self._answered, jitter)
        self._claims = claims(fp, options, memory, self, jitter)
        self._hands = hands(self._work)
        self.counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._running: dict[str, Held] = {}
        self._held: dict[str, tuple[Held | None, str]] = {}  # in hand, and its verdict
        self._open: dict[str, set[str]] = {}  # leases of a claim that are not settled
        self._mail: SimpleQueue[str] = SimpleQueue()
        self._taken = 0
        self._stopping = False
        self._ending: Ending = "done"
        self._error: Exception | None = None
        self._trouble: tuple[bool, int] | None = None

    # -- from outside

    def stop(self) -> None:
        """Claim no more, let what is begun end within the grace, give back the rest."""
        self._mail.put("stop")

    def abort(self) -> None:
        """End at once: what is begun is ended, and its leases are left to the next start."""
        self._mail.put("abort")

    def run(self) -> Ending:
        """Work until asked to stop or there is a reason to. Raises what no claim can be made for
        (InvalidRequest, Refused)."""
        options = self._options
        begun = self._fp.steady()
        self.beat.start()
        self.settler.start()
        self._send_again()
        self._claims.start()
        try:
            over = None if options.max_seconds is None else begun + options.max_seconds * SECOND
            self._until(lambda: self._stopping, over)
            self._stop()
        except _Aborted:
            self._ending = "aborted"
            self._performer.abort()
        finally:
            self._claims.stop()
            self.beat.stop()
            self.settler.stop()
            self._hands.end()
        if self._error is not None:
            raise self._error
        return self._ending

    def _until(self, enough: Callable[[], bool], over: float | None = None) -> bool:
        """Wait for this or until that steady time. False if it did not come about."""
        while not enough():
            left = 1.0 if over is None else (over - self._fp.steady()) / SECOND
            if left <= 0:
                return False
            try:
                mail = self._mail.get(timeout=min(left, 1.0))
            except Empty:
                mail = ""
            if mail == "abort":
                raise _Aborted
            self._hear(mail)
        return True

    def _hear(self, mail: str) -> None:
        if mail in ("stop", "empty"):
            self._stopping = True
        self._judge_trouble()
        idle = self.in_hand() == 0
        if idle and self._options.max_tasks is not None and self._taken >= self._options.max_tasks:
            self._stopping = True
        if idle and self._options.exit_when_empty:
            self._claims.hurry()  # what came after it began to wait it has seen already

    def _judge_trouble(self) -> None:
        """End where no claim has been answered for too long."""
        trouble, options = self._trouble, self._options
        if trouble is None:
            return
        refused, since = trouble
        limit = options.give_up_seconds
        if refused:
            limit = REFUSED_SECONDS if limit is None else min(limit, REFUSED_SECONDS)
        if limit is not None and self._fp.steady() - since >= limit * SECOND:
            self._ending = "refused" if refused else "unreachable"
            self._stopping = True

    # -- stopping

    def _stop(self) -> None:
        steady, grace = self._fp.steady, int(self._options.grace * SECOND)
        until = steady() + grace
        self._claims.stop()
        self._until(lambda: not self._running, until)
        with self._lock:
            left = list(self._running.values())
        for held in left:
            held.lose(STOPPING)
        longest = max((held.pace.grace for held in left), default=0)
        if not self._until(lambda: not self._running, steady() + longest + SECOND):
            self._give_back()
        self.settler.hurry()
        answered = steady() + int(LAST_SECONDS * SECOND)
        told = self._until(lambda: self.settler.open == 0, answered)
        heard = answered if self._trouble is None else steady() + SECOND
        claimed = self._until(lambda: self._claims.ended(0), heard)
        told = told and self._until(lambda: self.settler.open == 0, answered)
        if self._ending == "done" and not (told and claimed):
            self._ending = "left"

    def _give_back(self) -> None:
        """Who does not hear works on; his task is given to others."""
        with self._lock:
            left, self._running = list(self._running.values()), {}
        for held in left:
            _log.warning("task %s did not end within the grace", held.lease.task_id)
            self._settle(held, Verdict("cut"))

    # -- the desk of the claims

    def in_hand(self) -> int:
        """Tasks that are worked on or not settled yet."""
        return len(self._running) + self.settler.open

    def room(self) -> int:
        """Free slots. What waits to be settled takes none until it is as much as works."""
        jobs = self._options.concurrency
        free = min(jobs - len(self._running), 2 * jobs - self.in_hand())
        most = self._options.max_tasks
        return free if most is None else min(free, most - self._taken)

    def judge(self) -> None:
        self.beat.judge()

    def take(self, held: list[Held]) -> None:
        """Begin to work on these. What came too late, or as the worker stops, is given back."""
        self._taken += len(held)
        now = self._fp.steady()
        with self._lock:
            self._open[held[0].claim] = {each.name for each in held}
            late = [each for each in held if self._claims.stopped or each.tell_at <= now]
            self._held.update((each.name, (each, "")) for each in held)
            self._running.update((each.name, each) for each in held if each not in late)
        self.beat.hold(*held)
        for each in held:
            if each in late:
                self._settle(each, Verdict("release"))
            else:
                self._hands.give(each)

    def found_nothing(self) -> None:
        self._mail.put("empty")

    def no_more_claims(self) -> None:
        self._mail.put("")

    def trouble(self, code: str | None) -> None:
        """Whether the store answered, and since when it did not or refused who asked."""
        if code is None:
            self._trouble = None
            return
        refused = code in AUTHORITY
        if self._trouble is None or self._trouble[0] != refused:
            self._trouble = refused, self._fp.steady()

    def fatal(self, error: Exception) -> None:
        self._error = error
        if not isinstance(error, FencepostError):
            _log.exception("the worker can claim no more")
        self._mail.put("stop")

    # -- one task

    def _work(self, held: Held) -> None:
        try:
            verdict = self._performer.perform(held, self.beat)
        except BaseException as error:  # noqa: BLE001  # it ends the task, never the thread
            verdict = of_exception(error)
        self._performed(held, verdict)

    def _performed(self, held: Held, verdict: Verdict | None) -> None:
        with self._lock:
            if self._running.pop(held.name, None) is None:
                return  # given back while it was worked on
        if held.refused or verdict is None or (held.over and verdict.what != "complete"):
            self._drop(held.name, "lost")
            self._ended_some()
        else:
            self._settle(held, verdict)
            self._claims.changed()

    def _settle(self, held: Held, verdict: Verdict) -> None:
        held.settling = True
        try:
            command = self._command(held, verdict)
        except Exception as error:  # noqa: BLE001  # else nobody would settle it, and it be renewed
            told = str(error) if isinstance(error, InvalidRequest) else type(error).__name__
            verdict = Verdict("retry", reason=f"what it came to cannot be sent: {told}")
            command = self._command(held, verdict)
        with self._lock:
            self._held[held.name] = held, verdict.what
        self.settler.add(held.name, Request.of(command))

    def _command(self, held: Held, verdict: Verdict) -> LeaseCommand:
        if verdict.what == "cut":
            verdict = self._cut(verdict, held.lease.queue, Verdict("release", log=verdict.log))
        return verdict.command(held)

    def _cut(self, verdict: Verdict, queue: str, otherwise: Verdict) -> Verdict:
        """What was cut short on a queue whose tasks may have had effects waits for a person, as it
        does where a lease lapses."""
        try:
            reconcile = self._fp.queue(queue).on_lapse == "reconcile"
        except FencepostError as error:
            _log.warning("the settings of queue %s cannot be read: %s", queue, error)
            return otherwise
        reason = otherwise.reason or "the worker was stopped while it worked on this task"
        return Verdict("block", reason=reason, log=verdict.log) if reconcile else otherwise

    def _settled(self, settling: Settling, outcome: Outcome) -> None:
        """The final answer for one lease, in the settler's thread."""
        held, what = self._held.get(settling.name, (None, "settled again"))
        if outcome.accepted:
            self._drop(settling.name, what)
            return
        code, told = outcome.issues[0], outcome.message
        _log.warning("task %s was not settled (%s): %s", settling.name, code, told)
        if held is not None and what == "complete" and not ends_a_lease(code):
            self._settle(held, Verdict("retry", reason=f"its result was refused: {code}: {told}"))
            return
        self._drop(settling.name, "lost" if ends_a_lease(code) else "refused")

    def _drop(self, name: str, what: str) -> None:
        """This lease needs nothing any more."""
        with self._lock:
            held, _ = self._held.pop(name, (None, ""))
            self.counts[what] += 1
            closed = held is not None and self._close(held)
        if held is not None:
            self.beat.let_go(held)
            if closed:
                self._memory.claimed([held.claim])

    def _answered(self, code: str | None) -> None:
        """The settler has had an answer, or (with a code) none."""
        self.trouble(code)
        self._ended_some()

    def _ended_some(self) -> None:
        """Slots are free, and perhaps all is done."""
        self._claims.changed()
        if self._stopping or self.in_hand() == 0:
            self._mail.put("")

    def _close(self, held: Held) -> bool:
        left = self._open.get(held.claim)
        if left is None:
            return False
        left.discard(held.name)
        if left:
            return False
        del self._open[held.claim]
        return True

    # -- an earlier life

    def _send_again(self) -> None:
        for name, kept in list(self._memory.settling.items()):
            try:
                self.settler.add(name, kept.request(), remembered=True)
            except FencepostError as error:
                _log.warning("what settles %s cannot be read and is forgotten: %s", name, error)
                self._memory.settled([name])

    def left_over(self, grant: Grant, *, fresh: bool) -> None:
        """A lease of an earlier life that still lives. What it worked on was an attempt: a task
        that kills its workers must run out of them. What it never heard of is given back."""
        now = self._fp.steady()
        held = Held(Lease(self._fp, grant), Moment(now, now), self._fp.steady)
        verdict = Verdict("release") if fresh else self.of_left_over(held)
        with self._lock:
            self._held[held.name] = held, ""
        self._settle(held, verdict)

    def of_left_over(self, held: Held) -> Verdict:
        """What becomes of a task that an earlier life has died on."""
        died = Verdict("retry", reason=DIED)
        return self._cut(died, held.lease.queue, died)


class _Aborted(Exception):
    """A second signal."""
