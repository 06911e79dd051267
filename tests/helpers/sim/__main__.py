"""`python3 -m helpers.sim SEED [--minutes M] [--seeds N]`, from tests/: a run again, or many."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from helpers.sim.run import MINUTES, run  # after the path
from helpers.sim.world import Broken


def main() -> int:
    """1 if a law is broken."""
    parser = argparse.ArgumentParser(prog="helpers.sim", description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("--minutes", type=float, default=MINUTES, help="virtual, before the calm")
    parser.add_argument("--seeds", type=int, default=1, help="so many, from SEED on")
    chosen = parser.parse_args()
    counts: Counter[str] = Counter()
    began, hours = time.process_time(), 0.0
    for seed in range(chosen.seed, chosen.seed + chosen.seeds):
        try:
            told = run(seed, chosen.minutes)
        except Broken as broken:
            print(broken)
            return 1
        print(f"seed {seed}: {told.steps} steps, {told.hours:.2f} h, trace {told.trace}")
        counts.update(told.counts)
        hours += told.hours
    spent = time.process_time() - began
    calls = counts["calls"] / spent
    print(f"{spent:.1f} s of CPU: {hours / spent:.2f} virtual hours and {calls:.0f} calls a second")
    print(dict(sorted(counts.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
