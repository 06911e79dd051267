"""Walks over a receiver and its independent reference, seed after seed."""

from __future__ import annotations

import logging
import time
from collections import Counter
from typing import Any

from helpers.receiver_walk import Walk
from helpers.scratch import scratch

LAW = "two receivers written apart say the same to writers that fork, repeat and contradict"
WEIGHT = 1
REQUIRES = ()
STEPS = 400


def run(seconds: float, seed: int) -> dict[str, Any]:
    """A fresh store for each walk."""
    logging.disable()
    end = time.monotonic() + seconds
    counts: Counter[str] = Counter()
    failures: list[dict[str, str]] = []
    at = seed
    while time.monotonic() < end or not counts["walks"]:
        with scratch() as folder:
            walk = Walk("sqlite", str(folder / "effects.db"), at)
            try:
                walk.walk(STEPS)
            except AssertionError as found:
                failures.append({
                    "name": f"seed {at}: {found}"[:300],
                    "replay": f"helpers.receiver_walk.Walk('sqlite', FILE, {at}).walk({STEPS})",
                })  # fmt: skip
            finally:
                walk.close()
            counts += walk.counts
        counts["walks"] += 1
        at += 1
    return {**counts, "failures": failures[:20]}
