"""Every call of the disk that two stories make, failing or the last one, in random order."""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import Any

from helpers.failing import PLANTS, STORIES, Bench, faults
from helpers.scratch import scratch

LAW = "whatever call of the disk fails, or is the last, each answer is true then and later"
WEIGHT = 4
REQUIRES = ()
AT_ONCE = 150
FOR_CONTROLS = [fault for fault in faults({"sync": 14}) if fault.split(":")[2] == "5"]


def run(seconds: float, seed: int) -> dict[str, Any]:
    """All faults of all stories, mixed, until the time is over; from the start again if there is
    some left."""
    end = time.time() + seconds
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    with scratch() as folder:
        bench = Bench(folder)
        for planted in PLANTS:
            found = bench.sweep("live", FOR_CONTROLS, None, planted)
            counts["control_found"] += len(found["wrong"])
            if not found["wrong"]:
                wrong.append(f"the control was not found: {planted}")
        calls = {kind: bench.count(kind) for kind in STORIES}
        every = [(kind, fault) for kind in STORIES for fault in faults(calls[kind])]
        counts["call_sites"] = sum(sum(found.values()) for found in calls.values())
        counts["faults_there_are"] = len(every)
        random.Random(seed).shuffle(every)
        tried = 0
        while time.time() < end and tried < len(every):
            for kind in STORIES:
                chosen = [f for k, f in every[tried : tried + AT_ONCE] if k == kind]
                found = bench.sweep(kind, chosen, end)
                counts["faults_tried"] += found["runs"]
                for what, number in found["answers"].items():
                    counts["told_" + what.replace(" ", "_")] += number
                wrong += found["wrong"]
            tried += AT_ONCE
    counts["untrue"] = len(wrong)
    return {**counts, "failures": [{"name": what} for what in wrong[:20]]}
