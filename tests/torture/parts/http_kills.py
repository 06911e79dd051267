"""SIGKILL of `fencepost serve` between the commit and the answer, and at random steps."""

from __future__ import annotations

from typing import Any

from helpers.children import found_by, start
from helpers.scratch import scratch
from helpers.serve_kills import lives

import fencepost
from torture.rounds import rounds

LAW = "who asks a service that was killed again with the same bytes gets what was committed"
WEIGHT = 1
REQUIRES = ()
A_STORE = 250  # commands on one store, then another


def run(seconds: float, seed: int) -> dict[str, Any]:
    """Store after store."""
    return rounds(seconds, seed, "stores", _a_store)


def _a_store(seed: int, left: float) -> dict[str, Any]:
    with scratch() as folder:
        path = str(folder / "work.db")
        with fencepost.open(path, create=True) as fp:
            token = fp.token_create("op", "operator")[1]
        found = found_by(start(lives, path, token, seed, left, A_STORE), left + 90)
        with fencepost.open(path) as fp:
            found["wrong"] += [] if fp.verify().clean else ["verify found problems"]
    return found
