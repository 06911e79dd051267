"""Asks for work: one claim at a time, never for more than there are free slots, each with a key
that is remembered before it is sent. Before the first, what an earlier life of the worker has left
is settled.

A claim that waits in vain leaves nothing at the store, and is asked for again under its key until
it has brought something: so of all its sendings, whatever becomes of them on the way, one at most
takes tasks, and this worker hears which. Before the worker ends, it is made once without waiting:
from then on no sending of it can take any.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, Protocol

from fencepost.commands import Claim, Request
from fencepost.handle.lease import Lease, Moment
from fencepost.handle.verbs import Verbs, random_key
from fencepost.issues import FencepostError
from fencepost.log import Log
from fencepost.model import Grant, Outcome
from fencepost.worker.beat import AUTHORITY
from fencepost.worker.held import Held
from fencepost.worker.memory import Memory
from fencepost.worker.options import Options
from fencepost.worker.settle import not_now

LINGER = 0.003  # seconds: short against a commit and its sync, which a claim costs
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0
HURRY_PAUSE = 1.0  # seconds: what was hurried before it began to wait has to be hurried again

_log = Log("fencepost.worker")


class Desk(Protocol):
    """Who takes what a claim brings: the runtime."""

    def room(self) -> int: ...
    def in_hand(self) -> int: ...
    def judge(self) -> None: ...
    def take(self, held: list[Held]) -> None: ...
    def found_nothing(self) -> None: ...
    def no_more_claims(self) -> None: ...
    def trouble(self, code: str | None) -> None: ...
    def fatal(self, error: Exception) -> None: ...
    def left_over(self, grant: Grant, *, fresh: bool) -> None: ...


class Claiming(Protocol):
    """Where tasks come from: a store (`Claims`), or an outbox (`outbox.py`). Hands each to the desk
    that it was made for, never more than there are free slots."""

    stopped: bool

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def ended(self, seconds: float) -> bool: ...
    def changed(self) -> None: ...
    def hurry(self) -> None: ...


class Open(NamedTuple):
    """A claim that has not brought anything yet, and the steady time before which it had taken
    nothing: its first sending, or the last that was answered with nothing."""

    request: Request
    since: int


class Claims:
    """The one thread that claims. `changed` wakes it when a slot is free, `stop` ends it."""

    def __init__(
        self, fp: Verbs, options: Options, memory: Memory, desk: Desk,
        jitter: Callable[[], float] = random.random,
    ) -> None:  # fmt: skip
        self._fp, self._options, self._memory, self._desk = fp, options, memory, desk
        self._jitter = jitter
        self._changed = threading.Condition()
        self._open: Open | None = None
        self._waiting: Request | None = None
        self._hurried: Request | None = None
        self._thread = threading.Thread(target=self._run, name="fencepost-claim", daemon=True)
        self._tries = 0
        self._there = self._wanting = self.stopped = False

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Claim no more. A claim that is waiting at the store is answered now."""
        with self._changed:
            self.stopped = True
            self._changed.notify_all()
        self.hurry()

    def ended(self, seconds: float) -> bool:
        """Whether no claim is under way any more, after this time at the latest."""
        if self._thread.ident is not None:
            self._thread.join(max(0.0, seconds))
        return not self._thread.is_alive()

    def changed(self) -> None:
        """A slot may be free."""
        if not self._wanting:
            return
        with self._changed:
            self._changed.notify_all()

    def hurry(self) -> None:
        """Ask for the claim that waits once more, without waiting: it is answered now, to both."""
        waiting = self._waiting
        if waiting is None or waiting is self._hurried:
            return
        self._hurried = waiting
        threading.Thread(
            target=self._hurry, args=(waiting,), name="fencepost-hurry", daemon=True
        ).start()

    def _hurry(self, waiting: Request) -> None:
        while self._waiting is waiting:
            with suppress(Exception):  # the one that waits hears the same
                self._fp.claimed(waiting, 0)
            with self._changed:
                self._changed.wait_for(lambda: self._waiting is not waiting, HURRY_PAUSE)

    def _claimed(self, request: Request, seconds: int) -> tuple[Outcome, Moment]:
        if not seconds:
            return self._fp.claimed(request, 0)
        self._waiting, self._hurried = request, None
        if self.stopped:
            self.hurry()
        try:
            return self._fp.claimed(request, seconds)
        finally:
            with self._changed:
                self._waiting = None
                self._changed.notify_all()

    # -- the thread

    def _run(self) -> None:
        try:
            self._recover()
            while (room := self._room()) > 0:
                self._claim(room)
            self._close()
        except Exception as error:  # noqa: BLE001  # a worker that cannot claim must say so and end
            self._desk.fatal(error)
        self._desk.no_more_claims()

    def _room(self) -> int:
        """How many tasks can be taken on; 0 when no more are wanted."""
        with self._changed:
            self._wanting = True  # before the look: whoever frees a slot looks the other way round
            while not self.stopped and self._desk.room() <= 0:
                self._changed.wait(1.0)
            if self._desk.room() * 2 < self._options.concurrency:
                self._changed.wait_for(lambda: self.stopped, LINGER)  # more may become free
            self._wanting = False
            return 0 if self.stopped else self._desk.room()

    def _claim(self, room: int) -> None:
        if self._open is None and not self._begin(room):
            return
        assert self._open is not None
        options = self._options
        at_once = self._desk.in_hand() == 0 and options.exit_when_empty
        found = self._answer(self._open, 0 if at_once else None)
        nothing = found is None or not (self._taken(*found) or found[0].replayed)
        if at_once and nothing:
            self._desk.found_nothing()

    def _begin(self, room: int) -> bool:
        """A claim with a key of its own. False where it could not be written down."""
        options = self._options
        command = Claim(
            options.worker_id, options.queues, limit=min(room, 100),
            lease_seconds=options.lease_seconds,
        )  # fmt: skip
        request = Request.of(command, random_key())
        if not self._remembered(request):
            return False
        self._open = Open(request, self._fp.steady())
        return True

    def _taken(self, outcome: Outcome, moment: Moment) -> bool:
        """What the open claim has come to: it goes on where it has left nothing at the store."""
        assert self._open is not None
        request = self._open.request
        if outcome.receipt is None:
            self._open = Open(request, moment.first)
            return False
        self._open = None
        if outcome.grants:
            self._desk.take([self._held(grant, moment, request) for grant in outcome.grants])
            return True
        self._memory.claimed([request.key or ""])
        return False

    def _close(self) -> None:
        """From here on no sending of the open claim takes anything: none that is under way still,
        and none that the network has kept. One that never had an answer is left to the next life.
        """
        with suppress(FencepostError):  # refused: nothing was taken
            if self._open is not None and (found := self._answer(self._open, 0)) is not None:
                self._taken(*found)

    def _held(self, grant: Grant, moment: Moment, request: Request) -> Held:
        held = Held(Lease(self._fp, grant, moment), moment, self._fp.steady)
        held.claim = request.key or ""
        return held

    def _remembered(self, request: Request) -> bool:
        try:
            self._memory.claiming(request)
        except OSError as error:
            _log.warning("nothing is claimed while this cannot be written down here: %s", error)
            self._pause()
            return False
        return True

    def _answer(self, asked: Open, wait: int | None) -> tuple[Outcome, Moment] | None:
        """The answer to this very claim, asked for until it comes. None if it was refused, or the
        worker is stopping and the store cannot be reached. A store that has not answered yet, or
        not lately, is not asked to wait: so it is soon known whether it is there."""
        request = asked.request
        while True:
            self._desk.judge()
            waits = wait is None and not self.stopped and self._there
            try:
                found = self._claimed(request, self._options.wait_seconds if waits else 0)
            except FencepostError as error:
                if error.code == "queue_paused":
                    self._desk.trouble(None)
                    self._pause()
                    return None
                if not (not_now(error.code) or error.code in AUTHORITY):
                    raise
                _log.warning("no claim can be made (%s): %s", error.code, error)
                self._there = False
                self._desk.trouble(error.code)
                if self.stopped:
                    return None
                self._pause()
            else:
                self._tries, self._there = 0, True
                self._desk.trouble(None)
                outcome, moment = found
                if outcome.replayed:  # another sending has won it: at the earliest then
                    moment = moment._replace(first=min(moment.first, asked.since))
                return outcome, moment

    def _pause(self) -> None:
        """Back off, shortened by chance; a stop ends it."""
        longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(self._tries, 10))
        self._tries += 1
        seconds = longest * (0.5 + self._jitter() / 2)
        with self._changed:
            self._changed.wait_for(lambda: self.stopped, seconds)

    # -- an earlier life

    def _recover(self) -> None:
        """The claims of an earlier life are asked for again, and give what still lives of their
        leases. What that life had settled is not among them, or is being sent again."""
        settling = set(self._memory.settling)
        for key, kept in list(self._memory.claims.items()):
            try:
                found = self._answer(Open(kept.request(), self._fp.steady()), 0)
            except FencepostError as error:
                _log.warning("an earlier claim is answered no more: %s", error)
                self._memory.claimed([key])
                continue
            if found is None:
                continue
            for grant in found[0].grants:
                if f"{grant.task_id}:{grant.fence}" not in settling:
                    self._desk.left_over(grant, fresh=not found[0].replayed)
            self._memory.claimed([key])
