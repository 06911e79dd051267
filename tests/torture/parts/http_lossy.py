"""The conformance kit through a proxy that cuts, repeats and delays at any byte."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from helpers.lossy import seeded
from helpers.lossy_kit import Through

from fencepost.conformance.fault_injection_tests import CASES
from fencepost.conformance.verification import Run

LAW = "through a network that loses answers the kit is passed by asking again with the same bytes"
WEIGHT = 1
REQUIRES = ()
SHARE = 0.5  # of all requests


def run(seconds: float, seed: int) -> dict[str, Any]:
    """The whole kit under one seed after the other."""
    end = time.monotonic() + seconds
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    at = seed
    while time.monotonic() < end:
        adapter = Through(seeded(at, SHARE), seed=at)
        made = Run(CASES, at)
        try:
            names = [case.name for case in CASES]
            made(adapter, names, lambda verdict: None)
        finally:
            adapter.close()
        for found in made.verdicts:
            counts["cases"] += 1
            if found["verdict"] != "passed":
                wrong.append(f"seed {at}: {found['case']}: {found.get('why')}")
        done = sum((proxy.done for proxy in adapter.proxies.values()), Counter())
        counts.update({what.replace(" ", "_"): number for what, number in done.items()})
        counts["runs"] += 1
        at += 1
    return {**counts, "untrue": len(wrong), "failures": [{"name": what} for what in wrong[:20]]}
