"""A service on another host, over a link on which packets are lost, answers vanish, connections
are reset and the link goes down."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from typing import Any

from helpers.children import TESTS, result_of, start
from helpers.net_worker import untrue, works
from helpers.netns import DOWN, FAULTS, PORT, THERE, two_hosts
from helpers.scratch import scratch

import fencepost

LAW = "whatever happens on the network, each command has one effect and its receipt is told"
WEIGHT = 1
REQUIRES = ()
LASTS, PAUSE, PATIENCE = 1.2, 0.4, 0.5  # seconds: of a trouble, after it, for an answer
A_ROUND = (LASTS + PAUSE) * (len(FAULTS) + 1)


def run(seconds: float, seed: int) -> dict[str, Any]:
    """Round after round: each trouble once, in random order. Raises where there are no hosts."""
    end, chance = time.monotonic() + seconds, random.Random(seed)
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    with two_hosts() as hosts:
        while not counts["rounds"] or time.monotonic() + A_ROUND < end:
            counts["rounds"] += 1
            kinds = chance.sample([*FAULTS, DOWN], len(FAULTS) + 1)
            with scratch() as folder:
                found = one_round(hosts, str(folder / "work.db"), kinds, seed)
            wrong += [f"{', '.join(kinds)}: {what}" for what in found.pop("wrong")]
            counts.update(found)
    if not counts["replayed"]:
        wrong.append("the control was not found: no answer was lost after its commit")
    return {**counts, "untrue": len(wrong), "failures": [{"name": what} for what in wrong[:20]]}


def one_round(hosts: Any, path: str, kinds: list[str], seed: int) -> dict[str, Any]:
    """A store, its service there, a client here, and the troubles between them."""
    with fencepost.open(path, create=True) as fp:
        token = fp.token_create("op", "operator")[1]
    command = ["ip", "netns", "exec", hosts.service, sys.executable, "-m", "fencepost", "--store",
               path, "serve", "--host", THERE, "--port", str(PORT), "--behind-proxy"]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(TESTS.parent)}
    service = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)  # fmt: skip
    try:
        wrapper = ("ip", "netns", "exec", hosts.client)
        client = start(works, THERE, PORT, token, seed, A_ROUND, PATIENCE, wrapper=wrapper)
        for what in kinds:
            time.sleep(PAUSE)  # all is well, for so long
            hosts.hurt(what)
            time.sleep(LASTS)  # the trouble's own length: nobody waits for something here
            hosts.heal()
        told = result_of(client)
    finally:
        service.send_signal(signal.SIGTERM)
        service.wait(20)
    with fencepost.open(path) as fp:
        wrong = untrue(fp, told["receipts"])
    return {**told["counts"], "tasks": len(told["receipts"]), "wrong": wrong}
