"""Two hundred clients at once against a service, and against two on one file."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from helpers.http_crowd import crowd, judged
from helpers.scratch import scratch
from helpers.service import Service

LAW = "what 200 clients of a service are told stands, once each, and no answer is a fault of ours"
WEIGHT = 2
REQUIRES = ()
CLIENTS = 200
A_ROUND = 60.0  # seconds, or what is left


def run(seconds: float, seed: int) -> dict[str, Any]:
    """Round after round: one service, then two on one file."""
    end = time.monotonic() + seconds
    counts: Counter[str] = Counter()
    failures: list[dict[str, Any]] = []
    at = seed
    while counts["rounds"] == 0 or time.monotonic() < end - 5:
        left = max(5.0, min(A_ROUND, seconds, (end - time.monotonic()) * 0.6))
        found, wrong = one_round(left, at, 1 + counts["rounds"] % 2)
        counts.update(found)
        counts["rounds"] += 1
        failures += [{"name": f"seed {at}: {what}"} for what in wrong[:20]]
        at += 1
    return {**counts, "clients": CLIENTS, "failures": failures}


def one_round(
    seconds: float, seed: int, services: int, clients: int = CLIENTS
) -> tuple[Counter[str], list[str]]:
    """The crowd, then the books; a service that wrote of a fault of its own is one too."""
    with scratch() as folder:
        made = [Service(folder, log=folder / f"{n}.err") for n in range(services)]
        try:
            for service in made:
                service.__enter__()
            told = crowd(made[0].path, made, clients, seconds, seed)
            codes = [service.ended() for service in made]
            wrong = [f"a service ended with {codes}"] if any(code for code, _ in codes) else []
            for service in made:
                wrong += [f"the log says {line}" for line in service.lines()
                          if line["level"] == "error" or line.get("status") == 500]  # fmt: skip
        finally:
            for service in made:
                service.__exit__()
        counts, found = judged(made[0].path, told)
    return counts, wrong + found
