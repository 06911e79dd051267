"""Processes and threads on one store, killed and followed by others; what they were told."""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import Any

from helpers.children import found_by, start
from helpers.linear_plants import PLANTS, with_faults
from helpers.linear_run import recorded
from helpers.scratch import scratch

LAW = "what any number of processes are told of a task could have happened in a line"
WEIGHT = 3
REQUIRES = ()
A_STORE = 2.0  # seconds of recording, then another store
KILLS = (("step", "commit", "moment"), ("step",), ("commit",), ("moment",), ())
COUNTED = (
    "operations", "histories", "events", "steps", "lives", "killed", "unknown", "unknown_settled",
    "settled_as_happened", "gave_up", "not_linearizable", "record_ms", "check_ms",
)  # fmt: skip


def run(seconds: float, seed: int) -> dict[str, Any]:
    """The planted faults once; then store after store, of few and of many at a time."""
    end = time.monotonic() + seconds
    counts: Counter[str] = Counter()
    planted = found_by(start(with_faults, seed), seconds + 120)
    counts["planted_bugs"] = len(PLANTS)
    wrong = [{"name": f"not found: {fault}"} for fault in PLANTS
             if not planted.get(fault, {}).get("not_linearizable")]  # fmt: skip
    counts["planted_found"] = len(PLANTS) - len(wrong)
    at = seed
    while time.monotonic() < end:
        chance = random.Random(at)
        processes, threads = chance.choice(((2, 1), (4, 1), (6, 1), (2, 4), (3, 3), (1, 8)))
        kills = chance.choice(KILLS)
        with scratch() as folder:
            found = found_by(
                start(recorded, str(folder), at, A_STORE, processes, threads, kills), seconds + 120
            )
        for line in found["wrong"]:
            name = f"seed {at}, {processes} processes of {threads}: {line}"
            print(name)  # all of it: where the line breaks off, and what could not follow
            again = f"python3 tests/torture.py --only linearizability --seed {at} --minutes 1"
            wrong.append({"name": name.splitlines()[0], "replay": again})
        counts.update({what: found.get(what, 0) for what in COUNTED})
        counts["stores"] += 1
        at += 1
    for what in ("record", "check"):
        counts[f"{what}_seconds"] = counts.pop(f"{what}_ms") // 1_000
    return {**counts, "failures": wrong[:20]}
