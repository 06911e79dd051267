"""A claim that waits until there is a task: by looking, more and more seldom, at the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost.clock import SECOND
from fencepost.commands import Claim, Request
from fencepost.handle.verbs import Verbs
from fencepost.storage import reading

if TYPE_CHECKING:
    from fencepost.handle.handle import Handle
    from fencepost.handle.lease import Moment
    from fencepost.model import Outcome

SHORTEST_PAUSE, LONGEST_PAUSE = 0.005, 0.1


def claimed(
    fp: Handle, request: Request, command: Claim, wait_seconds: int
) -> tuple[Outcome, Moment]:
    """The outcome of a claim that is made when a task is there, or when the time is over.

    With a key it is made once, since even a claim that found nothing is then on record. A look
    takes no turn; it sees what this process and others have committed, and what has come due.
    """
    until = fp.steady() + wait_seconds * SECOND
    pause = SHORTEST_PAUSE
    while True:
        left = (until - fp.steady()) / SECOND
        if left <= 0 or worth_a_claim(fp, request, command):
            outcome, moment = Verbs.claimed(fp, request, 0)
            if outcome.grants or left <= 0 or request.key is not None or command.queues is None:
                return outcome, moment
            pause = LONGEST_PAUSE  # others were quicker, or what looked free was not
        fp.sleep(max(0.0, min(pause, left)))
        pause = min(pause * 1.5, LONGEST_PAUSE)


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
