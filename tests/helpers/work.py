"""What child processes of the tests do. No pytest here, so that they begin quickly."""

from __future__ import annotations

import os
import signal

import fencepost
from fencepost.clock import FakeClock
from fencepost.handle import Handle
from helpers.lab import QUEUE, SCOPE, START


def opened(path: str, now: int = START) -> Handle:
    """A handle on the lab's store in this process, at a time that stands still."""
    return fencepost.open(path, scope=SCOPE, clock=FakeClock(now))


def claim_one_each(path: str, worker: str) -> list[tuple[str, int]]:
    """Claim one task at a time until there is none; (task id, fence) of each."""
    taken = []
    with opened(path) as fp:
        while leases := fp.claim(QUEUE, worker_id=worker):
            taken += [(lease.task_id, lease.fence) for lease in leases]
    return taken


def claim_and_die(path: str, now: int) -> None:
    """Claim one task and be killed with it in hand."""
    fp = opened(path, now)
    (_,) = fp.claim(QUEUE, worker_id="w1")
    os.kill(os.getpid(), signal.SIGKILL)
