"""A receiver keeps its receipts until the writer has said that it knows of the effects: so it is
told now and then while all is well, or it would keep them for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable

from fencepost.clock import SECOND
from fencepost.deliveries.event import Voice
from fencepost.deliveries.hello import hello
from fencepost.deliveries.places import Sender
from fencepost.log import Log

CONFIRM_SECONDS = 3_600
CONFIRM_EFFECTS = 1_000
"""A hello after so long or so many effects. Those of a dispatcher that never lives for an hour are
counted over its lives, by the position itself."""

_log = Log("fencepost.deliveries")


class Confirming:
    """Of one stream. May be shared by threads. `steady`: microseconds."""

    def __init__(self, sender: Sender, steady: Callable[[], int], heard: int) -> None:
        self._sender, self._steady = sender, steady
        self._lock = threading.Lock()
        self.told(heard)

    def told(self, heard: int) -> None:
        """The receiver has just been greeted with this position."""
        self._told, self._since = heard, self._steady()

    def now_and_then(self, voice: Voice, heard: int, seconds: float) -> None:
        """Say that the store knows of all effects up to `heard`, if it is time to. What comes of it
        decides nothing: whoever holds the stream hears of it by the next delivery."""
        if not self._due(heard) or not self._lock.acquire(blocking=False):
            return
        try:
            if self._due(heard):
                self.told(heard)
                self._tell(voice, heard, seconds)
        finally:
            self._lock.release()

    def _due(self, heard: int) -> bool:
        if heard <= self._told or not self._sender.greets:
            return False
        late = self._steady() - self._since >= CONFIRM_SECONDS * SECOND
        return late or heard // CONFIRM_EFFECTS > self._told // CONFIRM_EFFECTS

    def _tell(self, voice: Voice, heard: int, seconds: float) -> None:
        answer = self._sender.greet(hello(voice, [voice], heard, None, limit=1), seconds)
        if answer.status != 200:
            _log.warning("%s: that its effects are known up to %d is told later: %s",
                         voice.stream, heard, answer.told)  # fmt: skip
