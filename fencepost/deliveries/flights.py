"""A request on its way, and what it means where no answer comes."""

from __future__ import annotations

import socket
import ssl
from typing import NamedTuple, Protocol

from fencepost.clock import SECOND, SystemClock
from fencepost.deliveries.answers import Answer
from fencepost.deliveries.hearing import PART, Cut, Ear, Heard, Strange

MOST_LOOKS = 4
LOST = (OSError, Cut, Strange)
_CLOCK = SystemClock()


class Unheard(Exception):
    """Bytes were sent, and no whole answer came. `stale`: on a kept connection that gave nothing
    back, so that most likely it had been closed before."""

    def __init__(self, told: str, *, stale: bool = False) -> None:
        super().__init__(told)
        self.stale = stale


class Stale(Exception):
    """A kept connection was dead already: what was sent on it is sent again by itself."""


class Keeper(Protocol):
    """Whose connections they are."""

    def ended(self, sock: socket.socket, heard: Heard, *, broken: bool) -> Answer: ...


class Flight:
    """A request that was sent on a kept connection and not answered yet; `until`: when it is given
    up (steady). Its thread looks at others meanwhile."""

    def __init__(
        self, exchange: Keeper, sock: socket.socket, until: int, most: int, broken: bool
    ) -> None:
        self._exchange, self._sock, self._most, self._broken = exchange, sock, most, broken
        self.until = until
        self._got = b""
        self._looks = 0

    def fileno(self) -> int:
        return self._sock.fileno()

    def hear(self) -> Answer | None:
        """The answer, if it is whole with what has come; None where more has to come. Raises
        Unheard."""
        try:
            part = self._sock.recv(PART)
            self._got += part
            self._looks += 1
            heard = Ear(_NoMore(over=not part), lambda: 0.0, self._most, self._got).answer()
        except (BlockingIOError, _NotYet):
            return None
        except LOST as error:
            self._sock.close()
            raise unheard(error, fresh=False) from None
        return self._exchange.ended(self._sock, heard, broken=self._broken)

    @property
    def slow(self) -> bool:
        """It comes in many parts: each look begins anew, so the rest is waited for."""
        return self._looks >= MOST_LOOKS

    def rest(self) -> Answer:
        """Wait for the answer. Raises Unheard."""
        try:
            ear = Ear(self._sock, lambda: left(self.until), self._most, self._got)
            heard = ear.answer()
        except LOST as error:
            self._sock.close()
            raise unheard(error, fresh=False) from None
        return self._exchange.ended(self._sock, heard, broken=self._broken)

    def give_up(self) -> Unheard:
        """Its time is over."""
        self._sock.close()
        return Unheard("the answer did not come: timed out")


class _NotYet(Exception):
    """More has to come."""


class _NoMore(NamedTuple):
    """Stands for a connection on which nothing more has come yet, or nothing more will."""

    over: bool

    def settimeout(self, value: float, /) -> None: ...

    def recv(self, size: int, /) -> bytes:
        if self.over:
            return b""
        raise _NotYet


def unheard(error: Exception, *, fresh: bool) -> Unheard:
    """What one of LOST means; `fresh`: the connection was made for this request."""
    reset = isinstance(error, ConnectionError | ssl.SSLEOFError | ssl.SSLZeroReturnError)
    stale = not fresh and (reset or (isinstance(error, Cut) and error.early))
    return Unheard(f"the answer did not come: {told(error)}", stale=stale)


def left(until: int) -> float:
    """Seconds until this steady time. Raises TimeoutError where it is over."""
    left = (until - _CLOCK.steady()) / SECOND
    if left <= 0:
        raise TimeoutError("timed out")
    return left


def told(error: Exception) -> str:
    """What went wrong, in words that hold nothing of what was sent."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message})"
    if isinstance(error, OSError):
        return error.strerror or str(error) or type(error).__name__
    return str(error) if isinstance(error, Cut | Strange) else type(error).__name__
