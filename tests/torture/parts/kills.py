"""SIGKILL in the middle of commands, and the same bytes sent again."""

from __future__ import annotations

from typing import Any

from helpers.children import found_by, start
from helpers.lab import START, Lab
from helpers.retrying import retries
from helpers.scratch import scratch

from torture.rounds import rounds

LAW = "who is killed and asks again with the same bytes is told the receipt that was committed"
WEIGHT = 2
REQUIRES = ()
A_STORE = 400  # commands on one store, then another


def run(seconds: float, seed: int) -> dict[str, Any]:
    """Store after store."""
    return rounds(seconds, seed, "stores", _a_store)


def _a_store(seed: int, left: float) -> dict[str, Any]:
    with scratch() as folder:
        lab = Lab(folder / "work.db")
        lab.close()
        return found_by(start(retries, str(lab.path), START, seed, left, A_STORE), left + 60)
