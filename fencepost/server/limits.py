"""How much one token may ask for, and all together: buckets that fill as time goes by."""

from __future__ import annotations

from collections import OrderedDict

from fencepost.clock import SECOND, Clock
from fencepost.model import Caller
from fencepost.server.answers import Fault
from fencepost.server.asked import CLOSE
from fencepost.server.settings import ServerSettings

REMEMBERED = 4_096


class Bucket:
    """Holds up to `size` units and fills at `size` units in `seconds`."""

    __slots__ = ("_at", "_held", "_pace", "_size")

    def __init__(self, size: int, seconds: int, now: int) -> None:
        self._size = float(size)
        self._pace = size / (seconds * SECOND)
        self._held = float(size)
        self._at = now

    def take(self, units: float, now: int) -> float:
        """Take them: 0.0. Where they are not there: the seconds until they are, and none taken."""
        self._held = min(self._held + (now - self._at) * self._pace, self._size)
        self._at = now
        if self._held >= units:
            self._held -= units
            return 0.0
        return (units - self._held) / self._pace / SECOND

    def owe(self, units: float) -> None:
        """Take what has been used already: the next `take` waits for it."""
        self._held -= units


class Limits:
    """Who has asked how often. Nothing is kept of tokens that have been quiet."""

    def __init__(self, settings: ServerSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._asking: OrderedDict[str, Bucket] = OrderedDict()
        self._claiming: OrderedDict[str, Bucket] = OrderedDict()
        self._streams: dict[str, int] = {}
        self.open_streams = 0
        self.waiting = 0

    def ask(self, caller: Caller) -> None:
        """One request of this caller's. Fault 429 above its rate."""
        rate = self._settings.max_requests_per_second
        _take(self._bucket(self._asking, caller, rate, 1), 1, self._clock.steady(),
              f"a token may send {rate} requests a second")  # fmt: skip

    def claim(self, caller: Caller) -> None:
        """A claim of this caller's. Fault 429 where it has claimed too much lately."""
        rate = self._settings.max_claimed_per_minute
        _take(self._bucket(self._claiming, caller, rate, 60), 0.001, self._clock.steady(),
              f"a token may claim {rate} tasks a minute")  # fmt: skip

    def claimed(self, caller: Caller, tasks: int) -> None:
        """So many tasks have been given to it."""
        rate = self._settings.max_claimed_per_minute
        self._bucket(self._claiming, caller, rate, 60).owe(tasks)

    def _bucket(
        self, kept: OrderedDict[str, Bucket], caller: Caller, size: int, seconds: int
    ) -> Bucket:
        name = caller.token or caller.actor
        bucket = kept.get(name)
        if bucket is None:
            bucket = kept[name] = Bucket(size, seconds, self._clock.steady())
            if len(kept) > REMEMBERED:
                kept.popitem(last=False)
        return bucket

    # -- what stays open

    def enter_stream(self, caller: Caller) -> None:
        """One more stream. Fault 429 above the limits."""
        name = caller.token or caller.actor
        mine = self._streams.get(name, 0)
        if mine >= self._settings.max_streams_per_token:
            raise limited(f"a token may hold {self._settings.max_streams_per_token} streams", 5)
        if self.open_streams >= self._settings.max_streams:
            raise limited(f"{self._settings.max_streams} streams are open already", 5)
        self._streams[name] = mine + 1
        self.open_streams += 1

    def leave_stream(self, caller: Caller) -> None:
        """The stream has ended."""
        name = caller.token or caller.actor
        self.open_streams -= 1
        if self._streams[name] == 1:
            del self._streams[name]
        else:
            self._streams[name] -= 1


def _take(bucket: Bucket, units: float, now: int, rule: str) -> None:
    seconds = bucket.take(units, now)
    if seconds:
        raise limited(rule, seconds)


def limited(rule: str, seconds: float) -> Fault:
    """What is told above a limit: the rule, and when to come again."""
    again = str(max(1, round(seconds + 0.5))).encode()
    return Fault(429, f"{rule}; nothing was done, wait {again.decode()} s", "rate_limited",
                 ((b"retry-after", again),))  # fmt: skip


def full(connections: int) -> Fault:
    """What is told where more connections are open than that: this one is closed."""
    return Fault(
        503, f"{connections} connections are open already; nothing was done", "rate_limited", CLOSE
    )
