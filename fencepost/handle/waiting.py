"""A claim that waits until there is a task: by looking, more and more seldom, at the store."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fencepost.clock import SECOND
from fencepost.commands import Claim, Request
from fencepost.handle.verbs import Verbs
from fencepost.machine.batch import lookup_of
from fencepost.storage import reading

if TYPE_CHECKING:
    from fencepost.handle.handle import Handle
    from fencepost.handle.lease import Moment
    from fencepost.model import Outcome

SHORTEST_PAUSE, LONGEST_PAUSE = 0.001, 0.1
LONGER = 1.25


class AskedAgain:
    """Claims with keys that wait. Who asks for one again ends its earlier waiting: it is made now,
    and both get the same answer."""

    def __init__(self) -> None:
        self._waiting: dict[str, threading.Event] = {}
        self._lock = threading.Lock()

    def tell(self, asked: str | None) -> None:
        """It (see `asked_of`) is asked for again."""
        with self._lock:
            if asked is not None and (waiting := self._waiting.get(asked)):
                waiting.set()

    @contextmanager
    def waiting(self, asked: str | None) -> Iterator[threading.Event]:
        """Set once somebody asks again. Without a key nobody can."""
        mine = threading.Event()
        if asked is None:
            yield mine
            return
        self.tell(asked)
        with self._lock:
            self._waiting[asked] = mine
        try:
            yield mine
        finally:
            with self._lock:
                if self._waiting.get(asked) is mine:
                    del self._waiting[asked]


def claimed(
    fp: Handle, request: Request, command: Claim, wait_seconds: int
) -> tuple[Outcome, Moment]:
    """The outcome of a claim that is made when a task is there, or when the time is over.

    Where it finds nothing it leaves nothing, with a key as without: the same bytes may be asked
    again under the same key. A look takes no turn; it sees what this process and others have
    committed, and what has come due. Where the store gives hints, one ends a pause. For the one
    task of a `task_id` nobody waits.
    """
    if command.queues is None:
        return Verbs.claimed(fp, request, 0)
    request = request._replace(waits=True)
    until = fp.steady() + wait_seconds * SECOND
    pause = SHORTEST_PAUSE
    asked = asked_of(fp.caller.scope, command, request.key)
    with fp.asked_again.waiting(asked) as asked_again, hint_for(fp, command.queues) as hint:
        told = False
        while True:
            left = 0.0 if asked_again.is_set() else (until - fp.steady()) / SECOND
            if left <= 0 or told or worth_a_claim(fp, request, command):
                outcome, moment = Verbs.claimed(fp, request, 0)
                if outcome.receipt is not None or left <= 0:
                    return outcome, moment
                pause = LONGEST_PAUSE  # others were quicker, or what looked free was not
            told = paused(fp, hint, max(0.0, min(pause, left)))
            pause = min(pause * LONGER, LONGEST_PAUSE)


@contextmanager
def hint_for(fp: Handle, queues: Sequence[str]) -> Iterator[threading.Event | None]:
    """Set by a hint that one of these queues has a task; None where nobody gives hints."""
    places = {(fp.caller.scope, queue) for queue in queues}
    hint = threading.Event()

    def hinted(place: tuple[str, str]) -> None:
        if place in places:
            hint.set()

    with fp.hinted(hinted) as given:
        yield hint if given else None


def paused(fp: Handle, hint: threading.Event | None, seconds: float) -> bool:
    """Pause; True if a hint has ended it."""
    if hint is None:
        fp.sleep(seconds)
        return False
    told = hint.wait(seconds)
    hint.clear()
    return told


def asked_of(scope: str, command: Claim, key: str | None) -> str | None:
    """Which claim it is, whenever it is asked for; None without a key."""
    return None if key is None else lookup_of(scope, command.worker_id, key)


def worth_a_claim(fp: Handle, request: Request, command: Claim) -> bool:
    """A task is there, or the receipt of this very claim. For the one task of a `task_id` nobody
    waits."""
    now = fp.now()
    queues = command.queues
    if queues is None or any(
        fp.read(reading.claimable(fp.caller.scope, queue, now, 1)) for queue in queues
    ):
        return True
    return request.key is not None and fp.knows(command.worker_id, request.key)
