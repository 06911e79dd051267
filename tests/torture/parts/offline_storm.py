"""Laptops through weeks of bad luck, one seed after the other: here, and each tenth over HTTP."""

from __future__ import annotations

from collections import Counter
from typing import Any

from helpers.offline_storm import storm
from helpers.scratch import scratch

from torture.rounds import rounds

LAW = "whatever happens to an outbox, nothing recorded is lost or doubled, and all comes to rest"
WEIGHT = 2
REQUIRES = ()
OVER_HTTP = 10


def run(seconds: float, seed: int) -> dict[str, Any]:
    """Life after life."""
    return rounds(seconds, seed, "lives", a_life)


def a_life(seed: int, left: float) -> dict[str, Any]:
    """One; it is never cut short: `left` is not looked at."""
    wire = "http" if seed % OVER_HTTP == 0 else "local"
    with scratch() as folder:
        try:
            told = storm(folder, seed, wire=wire)
        except Exception as error:  # noqa: BLE001  told with its seed
            return {"wrong": [f"{type(error).__name__}: {error!s:.200}"]}
    kept = ("cut", "sync", "record", "verdict", "restore", "twin", "conflicts", "accepted")
    counts: Counter[str] = Counter({name: told[name] for name in kept})
    return {**counts, f"over_{wire}": 1, "wrong": []}
