"""The server's clock, as this process knows it between two askings."""

from __future__ import annotations

import threading
from collections.abc import Callable

from fencepost.clock import SECOND, SystemClock
from fencepost.issues import Unavailable

ASK_AFTER = 5 * SECOND


class ServerClock:
    """`wall` is the server's clock, so that what is shown, waited for and counted here goes by the
    time that decides, whatever this machine's clock says. It never is behind the server's: it
    counts from before the asking. `steady` is this machine's."""

    def __init__(self, ask: Callable[[], int], ours: SystemClock | None = None) -> None:
        self._ask = ask
        self._ours = ours or SystemClock()
        self._lock = threading.Lock()
        self._told: tuple[int, int] | None = None  # (steady before the asking, the server's answer)

    def steady(self) -> int:
        return self._ours.steady()

    def wall(self) -> int:
        """Microseconds UTC. Raises Unavailable where the server never could be asked."""
        now = self._ours.steady()
        told = self._told
        if told is None or now - told[0] > ASK_AFTER:
            told = self._asked(told)
        asked, answer = told
        return answer + self._ours.steady() - asked

    def _asked(self, known: tuple[int, int] | None) -> tuple[int, int]:
        before = self._ours.steady()
        try:
            found = before, self._ask()
        except Unavailable:
            if known is None:
                raise
            return known  # it goes on by our steady clock until the server answers again
        with self._lock:
            if self._told is None or self._told[0] < before:
                self._told = found
        return found
