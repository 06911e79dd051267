"""Asks for work: one claim at a time, never for more than there are free slots, each with a key
that is remembered before it is sent. Before the first, what an earlier life of the worker has left
is settled."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Protocol, TypeAlias

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

Heard: TypeAlias = tuple[Outcome, Moment] | Exception
LINGER = 0.003  # seconds: short against a commit and its sync, which a claim costs
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0

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


class Claims:
    """The one thread that claims. `changed` wakes it when a slot is free, `stop` ends it."""

    def __init__(
        self, fp: Verbs, options: Options, memory: Memory, desk: Desk,
        jitter: Callable[[], float] = random.random,
    ) -> None:  # fmt: skip
        self._fp, self._options, self._memory, self._desk = fp, options, memory, desk
        self._jitter = jitter
        self._changed = threading.Condition()
        self._asked: Request | None = None
        self._hurried: Request | None = None
        self._thread = threading.Thread(target=self._run, name="fencepost-claim", daemon=True)
        self._heard: SimpleQueue[Heard] = SimpleQueue()
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
        """The same claim under the same key, without waiting: whoever waits gets what it got."""
        asked = self._asked
        if asked is None or asked is self._hurried:
            return
        self._hurried = asked

        threading.Thread(
            target=self._ask, args=(asked, 0, self._heard), name="fencepost-hurry", daemon=True
        ).start()

    def _ask(self, request: Request, seconds: int, heard: SimpleQueue[Heard]) -> None:
        """Make the claim and hand on what comes. Of a hurried one errors are left out: the one that
        waits meets the same, and tells it."""
        try:
            heard.put(self._fp.claimed(request, seconds))
        except Exception as error:  # noqa: BLE001  # raised where it is waited for
            if seconds:
                heard.put(error)

    def _claimed(self, request: Request, seconds: int) -> tuple[Outcome, Moment]:
        """The first answer to this claim: of the one that waits, or of one that was hurried."""
        if not seconds:
            return self._fp.claimed(request, 0)
        heard = self._heard = SimpleQueue()
        threading.Thread(
            target=self._ask, args=(request, seconds, heard), name="fencepost-wait", daemon=True
        ).start()
        self._asked = request
        if self.stopped:
            self.hurry()
        try:
            found = heard.get()
        finally:
            self._asked = None
        if isinstance(found, Exception):
            raise found
        return found

    # -- the thread

    def _run(self) -> None:
        try:
            self._recover()
            while (room := self._room()) > 0:
                self._claim(room)
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
        options = self._options
        command = Claim(
            options.worker_id, options.queues, limit=min(room, 100),
            lease_seconds=options.lease_seconds,
        )  # fmt: skip
        request = Request.of(command, random_key())
        if not self._remembered(request):
            return
        idle = self._desk.in_hand() == 0
        found = self._answer(request, 0 if idle and options.exit_when_empty else None)
        if found is not None and found[0].grants:
            self._desk.take([self._held(grant, found[1], request) for grant in found[0].grants])
            return
        if found is not None or self.stopped is False:
            assert request.key is not None
            self._memory.claimed([request.key])
            if idle and options.exit_when_empty:
                self._desk.found_nothing()

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

    def _answer(self, request: Request, wait: int | None) -> tuple[Outcome, Moment] | None:
        """The answer to this very claim, asked for until it comes. None if it was refused, or the
        worker is stopping and the store cannot be reached. A store that has not answered yet, or
        not lately, is not asked to wait: so it is soon known whether it is there."""
        first = self._fp.steady()
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
                if outcome.replayed:  # it was given after an earlier sending, perhaps the first
                    moment = moment._replace(first=min(moment.first, first))
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
                found = self._answer(kept.request(), 0)
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
