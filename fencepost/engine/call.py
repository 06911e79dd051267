"""One call: its commands, and the answer that its caller waits for. A future of the barest kind.

`concurrent.futures` would do, but loading it is a tenth of the time to start a command, and
making one is dearer than deciding a command. `Handle.send` gives a real future on top.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from fencepost.commands import Claim, Command, Enqueue
from fencepost.machine.needs import Sent
from fencepost.model import Outcome


def weight(command: Command) -> int:
    """Units of work in a command: the tasks that it touches."""
    if isinstance(command, Enqueue):
        return len(command.tasks)
    return command.limit if isinstance(command, Claim) else 1


class Call:
    """Answered once: outcomes or an error. Until the writer begins, the caller may give it up.

    `units` is the work in it: the tasks that its commands touch.
    """

    __slots__ = ("_decided", "_done", "_outcomes", "_told", "answered", "error", "sent", "units")

    def __init__(self, sent: list[Sent], told: Callable[[Call], None] | None = None) -> None:
        self.sent = sent
        self.units = sum(weight(request.command) for _, request in sent)
        # Whoever takes this lock first decides: the writer begins, or the caller gives up.
        self._decided = threading.Lock()
        self._done = threading.Lock()
        self._done.acquire()
        self._outcomes: list[Outcome] = []
        self.answered = False
        self.error: BaseException | None = None
        self._told = told

    def begin(self) -> bool:
        """The writer takes the call on. False where its caller has given up: nothing is done."""
        return self._decided.acquire(blocking=False)

    def give_up(self) -> bool:
        """The caller waits no longer. False where the writer has begun: the answer will come."""
        return self._decided.acquire(blocking=False)

    def answer(self, outcomes: list[Outcome]) -> None:
        """The outcomes, one a command."""
        self._outcomes = outcomes
        self._finish()

    def fail(self, error: BaseException) -> None:
        """What went wrong for the whole call."""
        self.error = error
        self._finish()

    def _finish(self) -> None:
        self.answered = True
        told, self._told = self._told, None
        self._done.release()
        if told is not None:
            told(self)

    def wait(self, seconds: float | None = None) -> list[Outcome]:
        """The outcomes. Raises the error, or TimeoutError after `seconds`."""
        if not self._done.acquire(timeout=-1 if seconds is None else seconds):
            raise TimeoutError
        self._done.release()
        if self.error is not None:
            raise self.error
        return self._outcomes
