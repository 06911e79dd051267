"""What has become of deliveries in this process, for Prometheus. Labels name destinations alone."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
Sample = tuple[str, dict[str, str], float]
Family = tuple[str, str, str, list[Sample]]


class Meters:
    """Tries by destination and what they came to, and the seconds that they took. May be shared by
    threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tries: Counter[tuple[str, str]] = Counter()
        self._slots: dict[str, list[int]] = {}
        self._seconds: dict[str, float] = {}
        self._held: dict[str, Callable[[], bool]] = {}

    def tried(self, destination: str, word: str, seconds: float) -> None:
        """One try; `not_met`: nothing was sent, since the receiver could not be greeted."""
        with self._lock:
            self._tries[destination, word] += 1
            slots = self._slots.setdefault(destination, [0] * (len(BUCKETS) + 1))
            slots[bisect_left(BUCKETS, seconds)] += 1
            self._seconds[destination] = self._seconds.get(destination, 0.0) + seconds

    def watch(self, destination: str, held: Callable[[], bool]) -> None:
        """Whether this destination is held is told by calling this."""
        with self._lock:
            self._held[destination] = held

    def words(self) -> dict[str, int]:
        """Tries by what they came to."""
        found: Counter[str] = Counter()
        with self._lock:
            for (_, word), count in self._tries.items():
                found[word] += count
        return dict(sorted(found.items()))

    def families(self) -> Iterable[Family]:
        """(name, kind, help, samples), as `server.meters` writes them."""
        with self._lock:
            tries, held = sorted(self._tries.items()), dict(self._held)
            times = [sample for name in sorted(self._slots) for sample in self._times(name)]
        yield (
            "fencepost_deliveries_total", "counter", "Tries to deliver, by what they came to.",
            [("", {"destination": name, "outcome": word}, n) for (name, word), n in tries],
        )  # fmt: skip
        yield "fencepost_delivery_seconds", "histogram", "Seconds of a try.", times
        yield (
            "fencepost_destination_held", "gauge", "1 while only a probe is sent to it.",
            [("", {"destination": name}, int(asked())) for name, asked in sorted(held.items())],
        )  # fmt: skip

    def _times(self, destination: str) -> list[Sample]:
        found: list[Sample] = []
        label = {"destination": destination}
        total = 0
        slots = self._slots[destination]
        for limit, count in zip((*map(str, BUCKETS), "+Inf"), slots, strict=True):
            total += count
            found.append(("_bucket", {**label, "le": limit}, total))
        seconds = round(self._seconds[destination], 6)
        return [*found, ("_sum", label, seconds), ("_count", label, total)]
