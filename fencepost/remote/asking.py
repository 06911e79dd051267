"""Asks until there is an answer or no time is left: the same bytes each time.

What may be sent again is the caller's to say (`Ask.repeatable`); what it means that no answer came
is told by `Failed.reached`.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

from fencepost.clock import SECOND, Clock, from_datetime, from_rfc3339
from fencepost.remote.transport import Answer, Lost, NotSent, Transport

T = TypeVar("T")
WAITED = re.compile(r"[0-9]{1,5}(\.[0-9]{1,9})?", re.ASCII)
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
CONNECT_AND_TALK = 1.0  # seconds beyond a long poll's own that its answer has to come through


class Ask(NamedTuple):
    """One request, fixed before the first try. `wait_seconds` makes it a long poll."""

    method: str
    target: str
    headers: Mapping[str, str] = MappingProxyType({})
    body: bytes | None = None
    repeatable: bool = True
    wait_seconds: int = 0


class Busy(Exception):
    """An answer that is none: not now, or (`final`) never here. `reached`: the request may have
    been carried out all the same. `pause` (seconds) is how long the service asked to wait."""

    def __init__(
        self, message: str, *, reached: bool, pause: float = 0.0, final: bool = False,
        code: str = "store_unavailable",
    ) -> None:  # fmt: skip
        super().__init__(message)
        self.reached = reached
        self.pause = pause
        self.final = final
        self.code = code


class Failed(Exception):
    """No answer in time. `reached`: the request may have been carried out; where it was not,
    `code` is why."""

    def __init__(self, message: str, *, reached: bool, code: str) -> None:
        super().__init__(message)
        self.reached = reached
        self.code = code


class Heard(NamedTuple, Generic[T]):
    """What was read from the answer. `first` is the steady time of the first try that may have
    reached the service, `answer` the last try's."""

    value: T
    first: int
    answer: Answer


class Asking:
    """How long and how often is asked. One object serves all threads.

    `deadline_seconds` bounds a request with all its tries, `try_seconds` each silence in a try.
    `sleep` and `jitter` (0 to 1) are for tests.
    """

    def __init__(
        self, transport: Transport, clock: Clock, deadline_seconds: float, try_seconds: float,
        sleep: Callable[[float], None] = time.sleep, jitter: Callable[[], float] = random.random,
    ) -> None:  # fmt: skip
        self.transport = transport
        self._clock = clock
        self._deadline_seconds = deadline_seconds
        self._try_seconds = try_seconds
        self._sleep = sleep
        self._jitter = jitter

    def ask(self, what: Ask, read: Callable[[Answer, int], T]) -> Heard[T]:
        """What `read` makes of the answer to the latest try (numbered from 0); it raises Lost or
        Busy where there should be another. Raises Failed."""
        begun = first = self._clock.steady()
        until = begun + round((self._deadline_seconds + what.wait_seconds) * SECOND)
        tries, reached, fresh = 0, False, not what.repeatable
        while True:
            now = self._clock.steady()
            if not reached:
                first = now
            pause, code = 0.0, "store_unavailable"
            try:
                answer = self._try(what, now - begun, until - now, fresh)
                return Heard(read(answer, tries), first, answer)
            except NotSent as error:
                failure, final = str(error), error.final
            except Lost as error:
                reached = True
                failure, final = str(error), error.final or not what.repeatable
                if error.stale and not fresh:
                    fresh = True  # at once, and not a try: nobody was listening there
                    continue
            except Busy as error:
                reached = reached or error.reached
                failure, pause, code = str(error), error.pause, error.code
                final = error.final or (error.reached and not what.repeatable)
            pause = max(pause, self._back_off(tries))
            tries, fresh = tries + 1, not what.repeatable
            if final or self._clock.steady() + round(pause * SECOND) >= until:
                raise Failed(f"{failure} ({_tries(tries)})", reached=reached, code=code)
            self._sleep(pause)

    def _try(self, what: Ask, passed: int, left: int, fresh: bool) -> Answer:
        target, wait = what.target, 0
        if what.wait_seconds:
            wait = max(0, (what.wait_seconds * SECOND - passed) // SECOND)
            target = f"{target}?wait_seconds={wait}"
        seconds = min(self._try_seconds + wait, max(left / SECOND, CONNECT_AND_TALK))
        return self.transport.exchange(
            what.method, target, what.headers, what.body, seconds, fresh=fresh
        )

    def _back_off(self, tries: int) -> float:
        """Doubling, and between half of it and all of it, so that clients do not come together."""
        longest: float = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(tries, 16))
        return longest * (0.5 + self._jitter() / 2)


def _tries(number: int) -> str:
    return "1 try" if number == 1 else f"{number} tries"


def retry_after(answer: Answer) -> float:
    """`Retry-After` in seconds: a number of them, or a date by the service's own clock. 0.0 where
    it says nothing that can be read."""
    text = (answer.headers.get("Retry-After") or "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        then = from_datetime(parsedate_to_datetime(text))
    except (ValueError, TypeError):
        return 0.0
    return max(0.0, (then - (service_time(answer) or answer.received[1])) / SECOND)


def waited(answer: Answer) -> int:
    """How long the service let a long poll wait before it made the claim (`Fencepost-Waited`, in
    seconds), in microseconds; 0 where it does not say."""
    text = (answer.headers.get("Fencepost-Waited") or "").strip()
    return int(float(text) * SECOND) if WAITED.fullmatch(text) else 0


def service_time(answer: Answer) -> int | None:
    """The service's wall clock as it answered (`Fencepost-Time`), in microseconds UTC."""
    try:
        return from_rfc3339((answer.headers.get("Fencepost-Time") or "").strip())
    except ValueError:
        return None
