"""SIGKILL in the middle of commands, and the same bytes sent again."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from helpers.children import found_by, start
from helpers.lab import START, Lab
from helpers.retrying import retries
from helpers.scratch import scratch

LAW = "who is killed and asks again with the same bytes is told the receipt that was committed"
WEIGHT = 2
REQUIRES = ()
A_STORE = 400  # commands on one store, then another


def run(seconds: float, seed: int) -> dict[str, Any]:
    """Store after store."""
    end = time.monotonic() + seconds
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    at = seed
    while time.monotonic() < end:
        with scratch() as folder:
            lab = Lab(folder / "work.db")
            lab.close()
            left = end - time.monotonic()
            child = start(retries, str(lab.path), START, at, left, A_STORE)
            found = found_by(child, left + 60)
        wrong += [f"seed {at}: {what}" for what in found.pop("wrong")]
        counts.update(found)
        counts["stores"] += 1
        at += 1
    return {**counts, "untrue": len(wrong), "failures": [{"name": what} for what in wrong[:20]]}
