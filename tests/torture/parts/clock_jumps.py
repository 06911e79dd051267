"""The machine's clocks jump and fall asleep."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from helpers.children import found_by, start
from helpers.jumping import shim, walk
from helpers.scratch import scratch

LAW = "the store's time never goes back, and no lease outlives its end, whatever the clocks do"
WEIGHT = 1
REQUIRES = ()
STEPS = 1_000


def run(seconds: float, seed: int) -> dict[str, Any]:
    """Walk after walk, each on a store of its own."""
    end = time.monotonic() + seconds
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    at = seed
    while time.monotonic() < end:
        with scratch() as folder:
            library = shim(folder)
            if library is None:
                raise FileNotFoundError("needs a C compiler: apt-get install gcc")
            left = end - time.monotonic()
            child = start(walk, str(folder / "work.db"), at, STEPS, left,
                          env={"LD_PRELOAD": str(library)})  # fmt: skip
            found = found_by(child, left + 60)
        wrong += [f"seed {at}: {what}" for what in found.pop("wrong")]
        counts.update(found)
        counts["walks"] += 1
        at += 1
    return {**counts, "untrue": len(wrong), "failures": [{"name": what} for what in wrong[:20]]}
