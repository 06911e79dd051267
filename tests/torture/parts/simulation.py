"""Runs of the seeded simulation, seed after seed."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from helpers.sim.run import run as simulate
from helpers.sim.world import Broken

LAW = (
    "whatever is lost, doubled, late, crashed, copied or set back: each decision is lawful, what "
    "was acknowledged is there, and all is done when it is calm"
)
WEIGHT = 8
REQUIRES = ()
MINUTES = (10, 30, 60, 120)  # virtual, of faults; a calm follows
TOLD = (
    "calls", "batches", "lost", "doubled", "late", "crashes", "commit_errors", "worker_crashes",
    "zombies", "jumps", "suspends", "copies", "resets", "revocations", "replays", "refusals",
    "erasures", "audits", "verified",
)  # fmt: skip
FAILURES_TOLD = 20


def run(seconds: float, seed: int) -> dict[str, Any]:
    """See LAW."""
    end = time.monotonic() + seconds
    counts: Counter[str] = Counter()
    failures: list[dict[str, str]] = []
    hours, at = 0.0, seed
    while time.monotonic() < end and len(failures) < FAILURES_TOLD:
        try:
            told = simulate(at, MINUTES[at % len(MINUTES)])
        except Broken as broken:
            print(broken)
            what, *_, again = str(broken).splitlines()
            failures.append({"name": f"seed {at}: {what}"[:300], "replay": again})
        else:
            counts.update({name: told.counts.get(name, 0) for name in TOLD})
            hours += told.hours
        counts["seeds"] += 1
        at += 1
    return {
        **counts, "virtual_hours": int(hours), "violations": len(failures), "failures": failures,
    }  # fmt: skip
