"""A storm over deliveries: receivers that fail at every step, dispatchers ended again and again."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from helpers.deliver_storm import storm
from helpers.scratch import scratch

LAW = "each accepted result has its effect once, or is listed; nothing is uncertain in silence"
WEIGHT = 4
REQUIRES = ()
RESULTS = 100_000
A_SECOND = 150  # results that a storm of so many seconds is made of, at the least


def run(seconds: float, seed: int) -> dict[str, Any]:
    """One storm after another, of a hundred thousand results where there is time for them."""
    end = time.monotonic() + seconds
    counts: Counter[str] = Counter()
    failures: list[dict[str, str]] = []
    at = seed
    while (left := end - time.monotonic()) > 0 and (left > 20 or at == seed):
        with scratch() as folder:
            results = min(RESULTS, max(1_000, int(left / 2 * A_SECOND)))
            found = storm(folder, at, results, max(60.0, left))
        replay = f"seed {at}, {results} results"
        failures += [{**each, "replay": replay} for each in found.pop("failures")]
        counts.update({name.replace(" ", "_"): number for name, number in found.items()})
        counts["storms"] += 1
        at += 1
    return {**counts, "failures": failures[:20]}
