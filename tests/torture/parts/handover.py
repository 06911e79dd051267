"""Every contact order of two owners and their receiver, where the old owner is started anew too.

The main suite walks the same without a start. `closed` says whether the walk came to its end.
"""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest
from helpers.handover import PLANTED, Over, Walk

LAW = "whatever two owners of a store and their receiver say, one lineage has effects, each once"
WEIGHT = 3
REQUIRES = ()


def planted(name: str) -> str:
    """What was wrong with the search for a planted fault; its shortest way is printed."""
    fault = PLANTED[name]
    with pytest.MonkeyPatch.context() as patch:
        fault.plant(patch)
        walk = Walk(1, all=fault.all)
        try:
            walk.run()
        except AssertionError as found:
            print(f"{name}: {found!s:.90} by {walk.path}", flush=True)
            return "" if re.search(fault.told, str(found)) else f"{name} was told as: {found!s:.90}"
    return f"the control was not found: {name}"


def run(seconds: float, seed: int) -> dict[str, Any]:
    """The whole walk, then the planted faults."""
    logging.disable(logging.CRITICAL)  # each stopped destination is an error of the log
    walk, failures, closed = Walk(1, most=seconds), [], "yes"
    try:
        walk.run()
    except Over:
        closed = "no"
    except AssertionError as broken:
        failures.append({"name": f"{broken!s:.200} by {walk.path}"})
    print(walk.told(), flush=True)
    wrong = [told for name in PLANTED if (told := planted(name))]
    logging.disable(logging.NOTSET)
    return {
        "closed": closed, "different_states": walk.states, "steps": walk.store.steps,
        "effects": walk.counts["accepted"], "replays": walk.counts["replayed"],
        "old_epoch": walk.counts["old_epoch"], "late_workers": walk.counts["late"],
        "control_found": len(PLANTED) - len(wrong),
        "failures": [*failures, *({"name": what} for what in wrong)],
    }  # fmt: skip
