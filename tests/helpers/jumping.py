"""A store on the machine's own clocks, which jump and fall asleep (clockshim.c), at random.

Runs in a child that has the library loaded. What is held at each step: the store's time never
goes back; it is the wall clock's while that is not behind, else it goes on by the steady clock; a
lease is good until the store's time reaches its end and not a moment longer.
"""

from __future__ import annotations

import ctypes
import json
import random
import time
from pathlib import Path
from typing import Any

import fencepost
from fencepost import commands as c
from fencepost.clock import from_rfc3339
from fencepost.handle import Handle
from helpers.lab import QUEUE, SCOPE, SECOND
from helpers.tools import built

SOURCE = Path(__file__).with_name("clockshim.c")
SLACK = 2 * SECOND  # microseconds that a step may take on a busy machine
MINUTE, HOUR, YEAR = 60, 3_600, 365 * 86_400


def shim(folder: Path) -> Path | None:
    """The library; None where there is no compiler."""
    return built(SOURCE, folder)


def through_suspend() -> int:
    """Microseconds on the clock that no setting moves and no suspend stops."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000


class Walk:
    """Random steps on one store; `wrong` holds what was not as it must be."""

    def __init__(self, path: str, seed: int) -> None:
        self.path = path
        self.chance = random.Random(seed)
        self.library = ctypes.CDLL(None)
        self.wrong: list[str] = []
        self.counts = dict.fromkeys(("steps", "jumps", "suspends", "restarts", "reported"), 0)
        self.leases: list[Any] = []
        self.fp = self._open(create=True)
        self.last, self.steady = self.now(), through_suspend()
        self.steps = (
            self.work, self.work, self.work, self.settle, self.settle, self.jump, self.suspend,
            self.restart,
        )  # fmt: skip

    def _open(self, *, create: bool = False) -> Handle:
        return fencepost.open(self.path, scope=SCOPE, create=create)

    def step(self) -> None:
        """One of them, then a look at the time."""
        self.counts["steps"] += 1
        what = self.chance.choice(self.steps)
        what()
        self.look(what.__name__)

    def now(self) -> int:
        """The store's time, as it stands in the entry of a command that is carried out now."""
        body = json.loads(self.fp.enqueue(QUEUE, 1).body)
        return from_rfc3339(body["at"])

    def look(self, after: str) -> None:
        """The time must be about what is expected of it."""
        mark = self.fp.about()["mark"]
        steady, wall = through_suspend(), time.time_ns() // 1_000
        now = self.now()
        passed = steady - self.steady
        if now < self.last:
            self.wrong.append(f"after {after} the time went back by {self.last - now} us")
        right = []
        if wall > self.last - SLACK:
            right.append(max(wall, self.last))
        if wall < self.last + SLACK:
            # who has just started behind the mark has nothing to reckon from but the mark
            right.append(mark if after == "restart" else self.last + passed)
        if min(abs(now - expected) for expected in right) > SLACK:
            self.wrong.append(f"after {after} it is {now}, not about {right}")
        self.last, self.steady = now, steady

    def work(self) -> None:
        """One more task, leased for a while."""
        task_id = self.fp.enqueue(QUEUE, 1).task_id
        seconds = self.chance.choice((5, MINUTE, 10 * MINUTE))
        (lease,) = self.fp.claim(worker_id="w", task_id=task_id, lease_seconds=seconds)
        self.leases.append(lease)

    def settle(self) -> None:
        """Hand in the result of a lease, live or not."""
        if not self.leases:
            return
        lease = self.leases.pop(self.chance.randrange(len(self.leases)))
        before = self.now()
        command = c.Complete(lease.task_id, "w", lease.fence, result=1)
        (outcome,) = self.fp.execute([command])
        after = self.now()
        if outcome.accepted and before >= lease.lease_expires_at:
            self.wrong.append("a lease that had ended was honoured")
        if not outcome.accepted and after < lease.lease_expires_at:
            self.wrong.append(f"a lease that was good was refused: {outcome.issues}")

    def jump(self) -> None:
        """The wall clock is set."""
        seconds = self.chance.choice((2, 30, 20 * MINUTE, HOUR, 8 * HOUR))
        seconds *= self.chance.choice((1, -1, -1))
        told = len(self.fp.stats()["clock_jumps"])
        self.library.clockshim_jump(ctypes.c_long(seconds))
        self.counts["jumps"] += 1
        self.fp.enqueue(QUEUE, 1)
        self.counts["reported"] += len(self.fp.stats()["clock_jumps"]) > told
        ahead = seconds > 30 and time.time_ns() // 1_000 > self.last + 30 * SECOND
        if ahead and len(self.fp.stats()["clock_jumps"]) == told < 64:
            self.wrong.append(f"a jump of {seconds} s was not reported")

    def suspend(self) -> None:
        """The lid is closed: leases do not last longer for it."""
        self.library.clockshim_suspend(ctypes.c_long(self.chance.choice((3, MINUTE, HOUR))))
        self.counts["suspends"] += 1

    def restart(self) -> None:
        """Another handle, which knows nothing but the store's mark."""
        self.fp.enqueue(QUEUE, 1)
        self.fp.close()
        self.fp = self._open()
        self.counts["restarts"] += 1

    def end(self) -> dict[str, Any]:
        """The counts, and what was wrong."""
        found = self.fp.verify()
        self.wrong += [f"verify: {p.code} at {p.place}" for p in found.problems[:1]]
        self.fp.close()
        return {**self.counts, "wrong": self.wrong}


def walk(path: str, seed: int, steps: int, seconds: float) -> dict[str, Any]:
    """So many steps, or as many as can be made in the time."""
    began = time.monotonic()
    walked = Walk(path, seed)
    while walked.counts["steps"] < steps and time.monotonic() - began < seconds:
        walked.step()
    return walked.end()
