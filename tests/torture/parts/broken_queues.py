"""Every broken queue through the whole kit, and the honest ones beside them, seed after seed."""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import Any

from helpers.kit import judged, stores_in_memory, target
from helpers.verdicts import untrue

from fencepost.conformance.broken import BROKEN

LAW = "the whole kit accepts the product and the reference, and fails each broken queue by its code"
WEIGHT = 2
REQUIRES = ()
HONEST = ("sqlite", "reference")


def run(seconds: float, seed: int) -> dict[str, Any]:
    """All of them once, in random order, then again with the next seed, until the time is over."""
    end = time.monotonic() + seconds
    counts: Counter[str] = Counter(broken_there_are=len(BROKEN), runs_of_broken=0, rounds=0)
    wrong = []
    met = set()
    at = seed
    with stores_in_memory():
        while time.monotonic() < end:
            names = [*HONEST, *(f"broken:{name}" for name in BROKEN)]
            random.Random(at).shuffle(names)
            for name in names:
                if time.monotonic() > end:
                    break
                done = judged(target(name, seed=at), seed=at)
                met.add(name)
                counts["runs_of_honest" if name in HONEST else "runs_of_broken"] += 1
                counts["cases"] += len(done.verdicts)
                counts.update(f"{found['verdict']}" for found in done.verdicts)
                wrong += [f"{name}, seed {at}: {what}" for what in untrue(name, done)]
            else:
                counts["rounds"] += 1
            at += 1
    told = {**counts, "broken_met": len(met - set(HONEST))}
    return {**told, "failures": [{"name": what} for what in wrong[:20]]}
