"""Settles leases: bytes are fixed and remembered, then sent until they are answered.

Completions of many tasks share a batch, and so a commit here and a sync of the worker's memory.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import NamedTuple

from fencepost.commands import Request
from fencepost.issues import ISSUES, FencepostError
from fencepost.log import Log
from fencepost.model import Outcome
from fencepost.worker.beat import AUTHORITY, Store
from fencepost.worker.memory import Memory

MOST, MOST_BYTES = 100, 8 * 1024 * 1024
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0

_log = Log("fencepost.worker")


class Settling(NamedTuple):
    """One command, by the name of its lease (`task:fence`)."""

    name: str
    request: Request


def not_now(code: str) -> bool:
    """Whether the same bytes may be answered otherwise later: nobody judged the command, or whoever
    sent it does not count at the moment. A paused queue refuses no completion."""
    issue = ISSUES.get(code)
    unjudged = issue is not None and issue.rule == 0 and issue.retry
    return unjudged or code in AUTHORITY or code == "store_read_only"


class Settler:
    """What is to be settled. `told` is called once a command, with its final outcome; `trouble`
    with why the last round was answered for nobody, or None where it was."""

    def __init__(
        self, fp: Store, memory: Memory, told: Callable[[Settling, Outcome], None],
        trouble: Callable[[str | None], None] = lambda why: None,
        jitter: Callable[[], float] = random.random,
    ) -> None:  # fmt: skip
        self._fp, self._memory, self._told, self._trouble = fp, memory, told, trouble
        self._jitter = jitter
        self._waiting: list[tuple[Settling, bool]] = []  # and whether it is remembered
        self._changed = threading.Condition()
        self._ended = False
        self._tries = 0
        self.open = 0

    def start(self) -> None:
        threading.Thread(target=self._run, name="fencepost-settle", daemon=True).start()

    def stop(self) -> None:
        """No more tries. What is open stays in the memory."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def add(self, name: str, request: Request, *, remembered: bool = False) -> None:
        """Settle this. Its bytes do not change any more."""
        with self._changed:
            self._waiting.append((Settling(name, request), remembered))
            self.open += 1
            if len(self._waiting) == 1:
                self._changed.notify_all()

    def hurry(self) -> None:
        """Try again now."""
        with self._changed:
            self._tries = 0
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._ended)
                if self._ended:
                    return
            if not self.round():
                pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(self._tries, 10))
                self._tries += 1
                with self._changed:
                    self._changed.wait(pause * (0.5 + self._jitter() / 2))
            else:
                self._tries = 0

    def round(self) -> bool:
        """One batch. False if any of it has to be sent again."""
        batch = self._take()
        self._remember([each for each, known in batch if not known])
        requests = [each for each, _ in batch]
        try:
            outcomes = self._fp.execute([each.request for each in requests])
        except FencepostError as error:
            return self._back(requests, error.code, str(error))
        except Exception as error:  # noqa: BLE001  # what it settles must not be forgotten for it
            _log.exception("settling failed, and is tried again")
            return self._back(requests, "internal", repr(error))
        return self._judge(requests, outcomes)

    def _take(self) -> list[tuple[Settling, bool]]:
        size = 0
        with self._changed:
            for count, (each, _) in enumerate(self._waiting[:MOST]):
                size += len(each.request.body)
                if size > MOST_BYTES and count:
                    break
            else:
                count = min(len(self._waiting), MOST)
            batch, self._waiting = self._waiting[:count], self._waiting[count:]
        return batch

    def _remember(self, fresh: list[Settling]) -> None:
        if not fresh:
            return
        try:
            self._memory.settle(fresh)
        except OSError as error:  # a full disk here is no reason to keep a result from the store
            _log.warning("a result is sent that could not be written down before: %s", error)

    def _judge(self, batch: list[Settling], outcomes: list[Outcome]) -> bool:
        later: list[Settling] = []
        over: list[tuple[Settling, Outcome]] = []
        for each, outcome in zip(batch, outcomes, strict=True):
            if outcome.issues and not_now(outcome.issues[0]):
                later.append(each)
                code, why = outcome.issues[0], outcome.message
            else:
                over.append((each, outcome))
        self._memory.settled(each.name for each, _ in over)
        for each, outcome in over:
            try:
                self._told(each, outcome)
            except Exception:  # noqa: BLE001  # it is settled; the others have to hear it too
                _log.exception("telling how task %s was settled failed", each.name)
        with self._changed:
            self.open -= len(over)
        if over:
            self._trouble(None)
        return self._back(later, code, why) if later else True

    def _back(self, batch: list[Settling], code: str, why: str) -> bool:
        """To be sent again, before what has come since."""
        _log.warning("%d tasks cannot be settled yet (%s): %s", len(batch), code, why)
        self._trouble(code)
        with self._changed:
            self._waiting[:0] = [(each, True) for each in batch]
        return False
