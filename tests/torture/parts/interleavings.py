"""Every interleaving of three workers with three requests each, where processes may die.

Of states that differ in nothing that can matter (`helpers.exploring.canonical`) one is walked;
that this leaves out nothing is shown on two workers, where all states are walked too. `closed`
says whether the walk came to its end; where it did not, another seed begins elsewhere.
"""

from __future__ import annotations

import random
import re
import time
from dataclasses import replace
from typing import Any

import pytest
from helpers.exploring import LARGE, Walk, Watched
from helpers.planted import FOUND, PLANTED, shortest

LAW = "no order of requests, lost answers, ended leases and deaths of processes breaks a law"
WEIGHT = 3
REQUIRES = ()
FEWER = replace(LARGE, workers=2)


def planted(name: str) -> str:
    """What was wrong with the search for a planted fault; its shortest way is printed."""
    with pytest.MonkeyPatch.context() as patch:
        PLANTED[name].plant(patch)
        try:
            path, found, calls = shortest(LARGE)
        except LookupError:
            return f"the control was not found: {name}"
    print(f"{name}: {found!s:.90} by {path} after {calls} calls", flush=True)
    right = re.search(PLANTED[name].told, str(found))
    return "" if right else f"{name} was told as: {found!s:.90}"


def reduced(end: float) -> tuple[str, str]:
    """(whether the walk of every state came to its end, what it shows that the other leaves out)"""
    every = Watched(replace(FEWER, symmetric=False), end=end)
    if not every.run():
        return "no", ""
    one = Watched(FEWER)
    one.run()
    print(f"two workers: {every.told()}; one of those alike: {one.told()}", flush=True)
    several = sum(len(after) != 1 for after in every.futures.values())
    same = not several and every.futures == one.futures
    return "yes", "" if same else f"states are taken for one that differ ({several} are seen to)"


def run(seconds: float, seed: int) -> dict[str, Any]:
    """Planted faults, then three workers, then two without leaving out anything."""
    began = time.monotonic()
    wrong = [told for name in PLANTED if (told := planted(name))]
    found = len(PLANTED) - len(wrong)
    walk = Walk(LARGE, end=began + seconds * 0.8, order=random.Random(seed))
    closed = "no"
    try:
        closed = "yes" if walk.run() else "no"
    except FOUND as broken:
        wrong.append(f"{type(broken).__name__}: {broken!s:.200} by {walk.path}")
    print(f"three workers: {walk.told()}", flush=True)
    fewer, differ = reduced(began + seconds)
    return {
        "closed": closed, "different_states": walk.states, "calls": walk.calls,
        "deepest": walk.deepest, "lost_answers": walk.lost, "replays": walk.replays,
        "refusals": walk.refusals, "deaths": walk.deaths, "control_found": found,
        "two_workers_in_full": fewer,
        "failures": [{"name": what} for what in (*wrong, differ) if what],
    }  # fmt: skip
