"""SIGKILL of `fencepost serve` between the commit and the answer, and at random steps."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from helpers.children import found_by, start
from helpers.scratch import scratch
from helpers.serve_kills import lives

import fencepost

LAW = "who asks a service that was killed again with the same bytes gets what was committed"
WEIGHT = 1
REQUIRES = ()
A_STORE = 250  # commands on one store, then another


def run(seconds: float, seed: int) -> dict[str, Any]:
    """Store after store."""
    end = time.monotonic() + seconds
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    at = seed
    while time.monotonic() < end:
        with scratch() as folder:
            path = str(folder / "work.db")
            with fencepost.open(path, create=True) as fp:
                token = fp.token_create("op", "operator")[1]
            left = end - time.monotonic()
            found = found_by(start(lives, path, token, at, left, A_STORE), left + 90)
            with fencepost.open(path) as fp:
                wrong += [] if fp.verify().clean else [f"seed {at}: verify found problems"]
        wrong += [f"seed {at}: {what}" for what in found.pop("wrong")]
        counts.update(found)
        counts["stores"] += 1
        at += 1
    return {**counts, "untrue": len(wrong), "failures": [{"name": what} for what in wrong[:20]]}
