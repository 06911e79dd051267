"""The machine's clocks jump and fall asleep."""

from __future__ import annotations

from typing import Any

from helpers.children import found_by, start
from helpers.jumping import shim, walk
from helpers.scratch import scratch

from torture.rounds import rounds

LAW = "the store's time never goes back, and no lease outlives its end, whatever the clocks do"
WEIGHT = 1
REQUIRES = ()
STEPS = 1_000


def run(seconds: float, seed: int) -> dict[str, Any]:
    """Walk after walk, each on a store of its own."""
    return rounds(seconds, seed, "walks", _a_walk)


def _a_walk(seed: int, left: float) -> dict[str, Any]:
    with scratch() as folder:
        library = shim(folder)
        if library is None:
            raise FileNotFoundError("needs a C compiler: apt-get install gcc")
        child = start(walk, str(folder / "work.db"), seed, STEPS, left,
                      env={"LD_PRELOAD": str(library)})  # fmt: skip
        return found_by(child, left + 60)
