"""Keeps leases: renews each at a third of its length, and tells in time when one is over.

One thread judges and never waits for the store; others send, so that an answer that does not come
holds up neither the next renewal nor the telling. What ends a lease is a refusal or the local
deadline, which counts from the sending of the last renewal that was answered. A failed beat does
not.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import Protocol

from fencepost import canonical
from fencepost.clock import SECOND
from fencepost.commands import Command, Request
from fencepost.fields import progress as checked_progress
from fencepost.issues import ISSUES, FencepostError, LeaseLost
from fencepost.log import Log
from fencepost.model import Outcome
from fencepost.worker.held import Held

SENDERS = 4
GLANCE = 1 * SECOND  # waiting stands still in suspend, and the clock does not
MARK_PAUSE = 1 * SECOND
LONGEST_RETRY = 2 * SECOND
AUTHORITY = frozenset({"unauthenticated", "forbidden", "scope_revoked"})
"""Who asks does not count, here or now. A lease that cannot be renewed is as good as lost."""

_log = Log("fencepost.worker")


class Store(Protocol):
    """What a beat needs of a handle."""

    def execute(self, commands: Sequence[Command | Request]) -> list[Outcome]: ...
    def steady(self) -> int: ...


def ends_a_lease(code: str) -> bool:
    """Whether a refusal with this code means that the task is no longer this worker's."""
    issue = ISSUES.get(code)
    lost = issue is not None and issubclass(issue.raises, LeaseLost)
    return lost or code in AUTHORITY or code == "not_found"


class Beat:
    """The leases of one worker. `start` begins the threads; tests call `judge` and `beat`."""

    def __init__(self, fp: Store, jitter: Callable[[], float] = random.random) -> None:
        self._fp = fp
        self._jitter = jitter
        self._held: dict[str, Held] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._jobs: SimpleQueue[list[Held] | None] = SimpleQueue()
        self._idle = self._senders = 0
        self._ended = False

    def start(self) -> None:
        threading.Thread(target=self._run, name="fencepost-beat", daemon=True).start()

    def stop(self) -> None:
        """No more beats."""
        self._ended = True
        self._wake.set()
        for _ in range(SENDERS):
            self._jobs.put(None)

    def hold(self, *leases: Held) -> None:
        """Keep these leases from now on."""
        with self._lock:
            self._held.update((held.name, held) for held in leases)
        self._wake.set()

    def let_go(self, held: Held) -> None:
        """It is settled, or it is over."""
        with self._lock:
            self._held.pop(held.name, None)

    def all(self) -> list[Held]:
        with self._lock:
            return list(self._held.values())

    def mark(self, held: Held, progress: object) -> None:
        """Renew soon, at most once a second, and tell this mark as it is now: whoever made it may
        change it meanwhile. Raises InvalidRequest."""
        mark = canonical.dumps(checked_progress(progress, "progress"))
        kept = canonical.loads(mark, max_bytes=len(mark), what="progress")
        with self._lock:
            held.pending = (kept,)
            soon = max(self._fp.steady(), held.sent_at + MARK_PAUSE)
            if held.beat_at is not None:
                held.beat_at = min(held.beat_at, soon)
        self._wake.set()

    # -- judging

    def judge(self) -> None:
        """Tell every task whose lease can end soon by the steady clock. Before each claim too: a
        worker that slept must not ask for more while it takes lost leases for its own."""
        now = self._fp.steady()
        for held in self.all():
            if now >= held.tell_at and not held.settling:
                held.lose("lease_expired")

    def due(self) -> list[Held]:
        """The leases to renew now; each is due again after a third, whatever becomes of this."""
        now = self._fp.steady()
        with self._lock:
            found = [h for h in self._held.values() if h.beat_at is not None and h.beat_at <= now]
            for held in found:
                held.beat_at = now + held.pace.beat
        return [held for held in found if not held.over or held.settling]

    # -- sending

    def beat(self, leases: list[Held]) -> None:
        """Renew these in one batch. Never raises: a failed beat is made again."""
        sent = self._fp.steady()
        marks = [held.pending for held in leases]
        commands = [held.renewal() for held in leases]
        try:
            outcomes = self._fp.execute(commands)
        except FencepostError as error:
            _log.warning("a renewal of %d leases failed, and is made again: %s", len(leases), error)
            self._again(leases)
            return
        except Exception:  # noqa: BLE001  # the thread that keeps leases must not die of anything
            _log.exception("a renewal failed, and is made again")
            self._again(leases)
            return
        for held, command, mark, outcome in zip(leases, commands, marks, outcomes, strict=True):
            if outcome.accepted:
                seconds = command.lease_seconds or 0
                held.renewed(sent, seconds, int(outcome.facts["lease_expires_at"]))
                self._next(held, mark, sent + seconds * SECOND // 3)
            else:
                self._refused(held, outcome)

    def _next(self, held: Held, mark: object, at: int) -> None:
        with self._lock:
            if held.pending is mark:
                held.pending = None
                held.beat_at = at - int(self._jitter() * held.pace.beat / 10)
            else:  # another mark has come since
                held.beat_at = min(at, held.sent_at + MARK_PAUSE)

    def _refused(self, held: Held, outcome: Outcome) -> None:
        code = outcome.issues[0]
        if held.settling:
            return  # its completion may have been carried out: the answer to that will tell
        if ends_a_lease(code):
            _log.warning("the lease of task %s is lost: %s", held.lease.task_id, code)
            held.lose(code, refused=True)
            return
        if code == "lease_too_long":
            held.shorten()
        elif held.pending is not None and ISSUES[code].rule:
            held.pending = None  # it was the mark that could not be taken
        _log.warning("renewing task %s: %s", held.lease.task_id, outcome.message)
        self._again([held])

    def _again(self, leases: list[Held]) -> None:
        """After a while that grows with the lease, shortened by chance."""
        now = self._fp.steady()
        with self._lock:
            for held in leases:
                pause = min(LONGEST_RETRY, held.length // 12) * (0.5 + self._jitter() / 2)
                held.beat_at = now + int(pause) if held.wish else None

    # -- threads

    def _run(self) -> None:
        while not self._ended:
            try:
                self.judge()
                if leases := self.due():
                    self._hand_out(leases)
                pause = self.pause() / SECOND
            except Exception:  # noqa: BLE001  # the thread that keeps leases must not die of anything
                _log.exception("keeping the leases met an error, and goes on")
                pause = 0.1
            self._wake.wait(pause)
            self._wake.clear()

    def pause(self) -> int:
        """Microseconds until something may have to be done."""
        now = self._fp.steady()
        times: list[int] = []
        for held in self.all():
            if held.beat_at is not None and (held.settling or not held.over):
                times.append(held.beat_at)
            if not held.settling and not held.over:
                times.append(held.tell_at)
        return max(0, min([now + GLANCE, *times]) - now)

    def _hand_out(self, leases: list[Held]) -> None:
        with self._lock:
            more = not self._idle and self._senders < SENDERS
            self._senders += more
            self._idle -= 0 if more or not self._idle else 1
        if more:
            threading.Thread(target=self._send, name="fencepost-renew", daemon=True).start()
        self._jobs.put(leases)

    def _send(self) -> None:
        while (leases := self._jobs.get()) is not None:
            with suppress(Exception):
                self.beat(leases)
            self._wake.set()
            with self._lock:
                self._idle += 1
