"""How far this machine's clock is from the service's.

Only what is certain is told: the service read its clock between the sending and the receiving, so
a difference smaller than that could be the way there and back.
"""

from __future__ import annotations

from fencepost.clock import SECOND
from fencepost.log import Log
from fencepost.remote.asking import service_time
from fencepost.remote.transport import Answer

_log = Log("fencepost.remote")


class Skew:
    """What the answers have told so far. `max_seconds` None: nobody minds."""

    def __init__(self, max_seconds: float | None) -> None:
        self.max_seconds = max_seconds
        self.seconds: float | None = None
        self._told = False

    @property
    def too_far(self) -> bool:
        """Whether the last answer showed more than is allowed."""
        if self.max_seconds is None or self.seconds is None:
            return False
        return abs(self.seconds) > self.max_seconds

    def note(self, answer: Answer) -> None:
        """Learn from an answer. Going beyond what is allowed is logged, and coming back is."""
        theirs = service_time(answer)
        if theirs is None:
            return
        early, late = sorted((answer.sent[1], answer.received[1]))
        self.seconds = (max(0, early - theirs) - max(0, theirs - late)) / SECOND
        if self.too_far != self._told:
            self._told = self.too_far
            what = "beyond" if self._told else "again within"
            _log.warning(
                "clock_skew: this machine's clock is %s the service's, %s the allowed %g s",
                self.words, what, self.max_seconds, extra={"code": "clock_skew"},
            )  # fmt: skip

    @property
    def words(self) -> str:
        """The difference for people."""
        seconds = self.seconds or 0.0
        return f"{abs(seconds):.3f} s {'ahead of' if seconds > 0 else 'behind'}"
