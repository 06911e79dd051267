"""The conformance kit through a proxy that cuts, repeats and delays at any byte."""

from __future__ import annotations

from collections import Counter
from typing import Any

from helpers.lossy import seeded
from helpers.lossy_kit import Through

from fencepost.conformance.fault_injection_tests import CASES
from fencepost.conformance.verification import Run
from torture.rounds import rounds

LAW = "through a network that loses answers the kit is passed by asking again with the same bytes"
WEIGHT = 1
REQUIRES = ()
SHARE = 0.5  # of all requests


def run(seconds: float, seed: int) -> dict[str, Any]:
    """The whole kit under one seed after the other."""
    return rounds(seconds, seed, "runs", _the_kit)


def _the_kit(seed: int, left: float) -> dict[str, Any]:
    """A run is never cut short: `left` is not looked at."""
    adapter = Through(seeded(seed, SHARE), seed=seed)
    made = Run(CASES, seed)
    try:
        made(adapter, [case.name for case in CASES], lambda verdict: None)
    finally:
        adapter.close()
    done = sum((proxy.done for proxy in adapter.proxies.values()), Counter())
    return {
        "cases": len(made.verdicts),
        **{what.replace(" ", "_"): number for what, number in done.items()},
        "wrong": [
            f"{found['case']}: {found.get('why')}"
            for found in made.verdicts if found["verdict"] != "passed"
        ],
    }  # fmt: skip
