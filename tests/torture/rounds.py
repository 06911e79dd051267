"""One life after the other until the time is over, each with the next seed; what came of all."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

SHOWN = 20


def rounds(
    seconds: float, seed: int, named: str, one: Callable[[int, float], dict[str, Any]]
) -> dict[str, Any]:
    """`one(seed, seconds that are left)` tells counts, and in "wrong" what it found wrong, which is
    told with its seed. The rounds themselves are counted as `named`."""
    end = time.monotonic() + seconds
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    at = seed
    while time.monotonic() < end:
        found = one(at, end - time.monotonic())
        wrong += [f"seed {at}: {what}" for what in found.pop("wrong")]
        counts.update(found)
        counts[named] += 1
        at += 1
    failures = [{"name": what} for what in wrong[:SHOWN]]
    return {**counts, "untrue": len(wrong), "failures": failures}
