"""How much one token may ask for, and all together: buckets that fill as time goes by."""

from __future__ import annotations

from collections import Counter, OrderedDict

from fencepost.clock import SECOND, Clock
from fencepost.model import Caller
from fencepost.server.answers import Fault
from fencepost.server.asked import CLOSE, Asked
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
        self._streams = Seats(settings.max_streams, settings.max_streams_per_token)
        self._waiting = Seats(settings.max_waiting, settings.max_waiting_per_token)
        self._in_flight = 0

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
        name = _name(caller)
        bucket = kept.get(name)
        if bucket is None:
            bucket = kept[name] = Bucket(size, seconds, self._clock.steady())
            if len(kept) > REMEMBERED:
                kept.popitem(last=False)
        return bucket

    # -- what stays open

    def enter_stream(self, caller: Caller) -> None:
        """One more stream. Fault 429 above the limits."""
        if not self._streams.enter(caller):
            one, all_ = self._settings.max_streams_per_token, self._settings.max_streams
            raise limited(f"a token may hold {one} streams, and all together {all_}", 5)

    def leave_stream(self, caller: Caller) -> None:
        """The stream has ended."""
        self._streams.leave(caller)

    @property
    def open_streams(self) -> int:
        """How many streams are open."""
        return self._streams.taken

    def enter_waiting(self, caller: Caller) -> bool:
        """One more claim that waits. False where too many do: it is answered at once."""
        return self._waiting.enter(caller)

    def leave_waiting(self, caller: Caller) -> None:
        """It waits no longer."""
        self._waiting.leave(caller)

    @property
    def waiting(self) -> int:
        """How many claims wait."""
        return self._waiting.taken

    def hold(self, asked: Asked, size: int) -> None:
        """So many more bytes of this request's body are in memory. Fault 503 above the limit for
        all bodies together."""
        if self._in_flight + size > self._settings.max_bytes_in_flight:
            raise Fault(503, "too much is being sent at once; nothing was done", "rate_limited",
                        CLOSE)  # fmt: skip
        self._in_flight += size
        asked.held += size

    def let_go(self, asked: Asked) -> None:
        """The request has been answered."""
        self._in_flight -= asked.held
        asked.held = 0


class Seats:
    """Places for so many in all, and so many a token."""

    def __init__(self, in_all: int, each: int) -> None:
        self._in_all, self._each = in_all, each
        self._held: Counter[str] = Counter()
        self.taken = 0

    def enter(self, caller: Caller) -> bool:
        """Take a place, if there is one."""
        name = _name(caller)
        if self.taken >= self._in_all or self._held[name] >= self._each:
            return False
        self._held[name] += 1
        self.taken += 1
        return True

    def leave(self, caller: Caller) -> None:
        """Give it back."""
        name = _name(caller)
        self.taken -= 1
        self._held[name] -= 1
        if not self._held[name]:
            del self._held[name]


def _name(caller: Caller) -> str:
    """Whose limits they are: the token's; without tokens the actor's."""
    return caller.token or caller.actor


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
