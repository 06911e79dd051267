"""Work without a network: tasks come from an offline outbox, and what becomes of them goes there.

Two things stand in a store's place, and the runtime knows of neither: `OutboxClaims` gives tasks
out, `OutboxStore` takes the commands that mark and end them. What must not be forgotten stands in
the outbox, so there is no other memory.

No lease ends here. This machine's clock cannot tell when one has, and a result that comes late is
no harm: the sync claims its task again, or finds that others were quicker.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence

from fencepost import fields
from fencepost.clock import SECOND
from fencepost.commands import Command, Complete, Fail, Release, Renew, Request
from fencepost.handle.lease import Lease, Moment
from fencepost.handle.verbs import Verbs
from fencepost.issues import FencepostError, InvalidRequest, Refused
from fencepost.log import Log
from fencepost.model import Grant, Outcome, QueueSettings, Receipt
from fencepost.offline import Kept, Outbox
from fencepost.worker.claims import FIRST_PAUSE, LONGEST_PAUSE, Desk
from fencepost.worker.held import Held
from fencepost.worker.memory import Memory
from fencepost.worker.options import Options
from fencepost.worker.runtime import Performer, Runtime
from fencepost.worker.worker import identity_of

LOOK = 1.0  # seconds: a take on the side may bring more
LONGEST = fields.MAX_SECONDS * SECOND

_log = Log("fencepost.worker")


class OutboxStore(Verbs):
    """An outbox, as a runtime and a lease ask a store."""

    def __init__(self, box: Outbox) -> None:
        self.box = box
        self.address = box.path
        self.scope_name = box.scope

    def execute(self, commands: Sequence[Command | Request]) -> list[Outcome]:
        """Keep what these say, in order. Raises what keeps them from being written: all of them
        may then be sent again, and what was kept is recognised."""
        return [self._one(c.command if isinstance(c, Request) else c) for c in commands]

    def _one(self, command: Command) -> Outcome:
        try:
            self._keep(command)
        except Refused as refused:
            return refused.outcome
        except InvalidRequest as error:
            return Outcome("failed", ("invalid_request",), str(error))
        return Outcome("accepted", facts={"lease_expires_at": 0})

    def _keep(self, command: Command) -> None:
        match command:
            case Renew():
                if command.progress is not None:
                    self.box.working.mark(command.task_id, command.progress)
            case Complete():
                self.box.record(
                    command.task_id, command.result, followups=command.followups, log=command.log
                )
            case Fail():
                self.box.verdict(
                    command.task_id, command.then, reason=command.reason,
                    retry_seconds=command.retry_seconds, progress=command.progress,
                    log=command.log,
                )  # fmt: skip
            case Release():
                self.box.verdict(
                    command.task_id, "release", progress=command.progress, log=command.log
                )
            case _:
                raise InvalidRequest(f"{command.verb}: not without a network")

    def receipt_of(self, command: Command, key: str | None) -> Receipt:
        """Raises InvalidRequest: only a store gives receipts."""
        raise InvalidRequest(
            f"{command.verb}: a worker without a network has no receipt to give; return the result "
            "or keep rows with offline.Outbox.record(..., close=False)"
        )

    def queue(self, queue: str) -> QueueSettings:
        """What a worker has to know of a queue, as it was when its tasks were taken."""
        return QueueSettings(on_lapse=self.box.working.on_lapse(queue))  # type: ignore[arg-type]


class OutboxClaims:
    """Gives the tasks of an outbox out, each once in a run, in the order of taking."""

    def __init__(
        self, store: OutboxStore, options: Options, memory: Memory, desk: Desk,
        jitter: Callable[[], float] = random.random,
    ) -> None:  # fmt: skip
        self._store, self._options, self._desk = store, options, desk
        self._working = store.box.working
        self._jitter = jitter
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="fencepost-claim", daemon=True)
        self._place = self._tries = 0
        self._woken = self.stopped = False

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Give no more out."""
        self.stopped = True
        self.changed()

    def ended(self, seconds: float) -> bool:
        """Whether the thread has ended, after this time at the latest."""
        if self._thread.ident is not None:
            self._thread.join(max(0.0, seconds))
        return not self._thread.is_alive()

    def changed(self) -> None:
        """A slot may be free."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def hurry(self) -> None:
        """All is done, as far as is known: look whether there is more."""
        self.changed()

    def _run(self) -> None:
        try:
            while not self.stopped:
                self._turn()
        except Exception as error:  # noqa: BLE001  # as of any claims: it must say so and end
            self._desk.fatal(error)
        self._desk.no_more_claims()

    def _turn(self) -> None:
        try:
            while not self.stopped and self._desk.room() > 0 and self._give():
                pass
            self._tries = 0
            self._desk.trouble(None)
        except FencepostError as error:
            if error.code != "store_unavailable" and error.code != "outcome_unknown":
                raise
            _log.warning("nothing can be begun (%s): %s", error.code, error)
            self._desk.trouble(error.code)
            pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(self._tries, 10))
            self._tries += 1
            self._rest(pause * (0.5 + self._jitter() / 2), lambda: self.stopped)
            return
        if self._desk.room() > 0 and self._desk.in_hand() == 0:
            self._desk.found_nothing()
        self._rest(LOOK, lambda: self._woken or self.stopped)

    def _rest(self, seconds: float, over: Callable[[], bool]) -> None:
        with self._changed:
            self._changed.wait_for(over, seconds)
            self._woken = False

    def _give(self) -> bool:
        """Begin on the next task, or settle it. False if there is none."""
        kept = self._working.next(self._place, self._options.queues)
        if kept is None:
            return False
        spent = kept.tries >= tries_of(kept)
        if kept.state == "open" and kept.tries and (spent or kept.on_lapse == "reconcile"):
            # An earlier life began it and died: as for a lease that has lapsed.
            self._desk.left_over(self._grant(kept), fresh=False)
        elif not spent and self._working.begin(kept):
            self._desk.take([self._held(kept)])
        self._place = kept.id
        return True

    def _held(self, kept: Kept) -> Held:
        now = self._store.steady()
        moment = Moment(now, now)
        held = Held(Lease(self._store, self._grant(kept), moment), moment, self._store.steady)
        held.ends = held.beat_at = now + LONGEST
        return held

    def _grant(self, kept: Kept) -> Grant:
        """The lease as it was taken; the mark is the last one that was made here."""
        return Grant(
            kept.task_id, kept.queue, kept.key, self._store.box.worker_id, kept.fence,
            kept.base_revision, kept.attempt, kept.max_attempts, kept.epoch, kept.policy_version,
            kept.granted_at, kept.lease_expires_at, kept.content, kept.progress,
        )  # fmt: skip


def runtime_of(store: OutboxStore, performer: Performer, options: Options) -> Runtime:
    """One run of a worker on an outbox. Whoever runs it holds `Outbox.alone`."""
    memory = Memory(None, identity_of(store, options.worker_id))
    return Runtime(store, performer, options, memory, claims=OutboxClaims)


def tries_of(kept: Kept) -> int:
    """How often a task may be begun on here: as often as it may be claimed, counting this lease."""
    return max(1, kept.max_attempts - kept.attempt + 1)


def queues_of(box: Outbox, wished: Sequence[str]) -> tuple[str, ...]:
    """The queues of which tasks are wanted. Raises InvalidRequest for one that has none there."""
    there = box.working.queues()
    for queue in wished:
        if queue not in there:
            raise InvalidRequest(f"work: {box.path} has no task of queue {queue}")
    return tuple(wished)
