"""Counters of this process, and the Prometheus text format (version 0.0.4)."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
Sample = tuple[str, dict[str, str], float]
Family = tuple[str, str, str, list[Sample]]


class Meters:
    """What has been asked and answered since the process started."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str]] = Counter()
        self.refusals: Counter[str] = Counter()
        self.replays = 0
        self.commands: Counter[str] = Counter()
        self._slots = [0] * (len(BUCKETS) + 1)
        self._seconds = 0.0
        self.others: list[Callable[[], Iterable[Family]]] = []  # of what runs beside the service

    def answered(self, route: str, status: int, code: str, seconds: float) -> None:
        """One answer. `route` is the path's template, never the path."""
        self.requests[route, str(status)] += 1
        if code:
            self.refusals[code] += 1
        self._slots[bisect_left(BUCKETS, seconds)] += 1
        self._seconds += seconds

    def samples(self) -> Iterable[Family]:
        """(name, kind, help, samples)."""
        for others in self.others:
            yield from others()
        yield (
            "fencepost_http_requests_total",
            "counter",
            "Answers by route and status.",
            [
                ("", {"route": route, "status": status}, count)
                for (route, status), count in sorted(self.requests.items())
            ],
        )
        yield (
            "fencepost_commands_total",
            "counter",
            "Commands accepted, by verb.",
            [("", {"verb": verb}, count) for verb, count in sorted(self.commands.items())],
        )
        yield (
            "fencepost_refusals_total",
            "counter",
            "Refusals by code.",
            [("", {"code": code}, count) for code, count in sorted(self.refusals.items())],
        )
        yield "fencepost_replays_total", "counter", "Receipts told again.", [("", {}, self.replays)]
        yield "fencepost_http_request_seconds", "histogram", "Seconds to an answer.", self._times()

    def _times(self) -> list[Sample]:
        found: list[Sample] = []
        total = 0
        for limit, count in zip((*map(str, BUCKETS), "+Inf"), self._slots, strict=True):
            total += count
            found.append(("_bucket", {"le": limit}, total))
        return [*found, ("_sum", {}, round(self._seconds, 6)), ("_count", {}, total)]


def exposition(families: Iterable[tuple[str, str, str, list[Sample]]]) -> bytes:
    """The text that Prometheus reads."""
    lines: list[str] = []
    for name, kind, told, samples in families:
        lines += [f"# HELP {name} {told}", f"# TYPE {name} {kind}"]
        for suffix, labels, value in samples:
            inside = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
            lines.append(f"{name}{suffix}{{{inside}}} {value}" if inside
                         else f"{name}{suffix} {value}")  # fmt: skip
    return "".join(f"{line}\n" for line in lines).encode()


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
