"""One bit of a closed store flipped, again and again."""

from __future__ import annotations

import logging
import random
import time
from collections import Counter
from typing import Any

from helpers.flips import Original, places
from helpers.histories import History
from helpers.lab import START
from helpers.scratch import scratch
from helpers.workload import every_verb, opened

from fencepost.clock import FakeClock

LAW = "a flipped bit is harmless, or it is named; it is never silent"
WEIGHT = 2
REQUIRES = ()
A_STORE = 500


def run(seconds: float, seed: int) -> dict[str, Any]:
    """Store after store: one of every verb, one of a random history, in turn."""
    logging.disable()
    end = time.monotonic() + seconds
    counts: Counter[str] = Counter()
    failures: list[dict[str, str]] = []
    at = seed
    while time.monotonic() < end:
        with scratch() as folder:
            path = folder / "work.db"
            clock = FakeClock(START)
            with opened(path, clock, at) as fp:
                every_verb(fp, clock)
                if at % 2:
                    History(fp, clock, random.Random(at)).live(60)
                fp.seal()
            original = Original(path)
            for place, bit in places(original.data, random.Random(at), A_STORE):
                if time.monotonic() > end:
                    break
                told = _flipped(original, place, bit)
                counts["flips"] += 1
                counts[told.split(":")[0].lower().replace(" ", "_")] += 1
                if told.startswith(("SILENT", "LEAKED")):
                    failures.append({"name": f"seed {at}, byte {place}, bit {bit}: {told}"})
        counts["stores"] += 1
        at += 1
    return {**counts, "failures": failures[:20]}


def _flipped(original: Original, place: int, bit: int) -> str:
    try:
        told = original.flip(place, bit)
    except Exception as error:  # noqa: BLE001  what comes through raw is a fault of its own
        return f"LEAKED: {type(error).__name__}: {error}"[:200]
    return f"SILENT: {original.differs()}"[:300] if told == "SILENT" else told
