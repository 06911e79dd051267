"""Commands that do not want to die, and whatever holds them killed or stopped at any moment."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections import Counter
from typing import Any

from helpers import trees

from fencepost.worker import containment, shim

LAW = "no process of a task outlives its lease, whoever of worker, shim and tree is killed and when"
WEIGHT = 1
REQUIRES = ()
WORDS = ("deaf", "daemons", "hydra", "leave", "stopped", "polite")
BOUND = 20.0


def run(seconds: float, seed: int) -> dict[str, Any]:
    """Tree after tree."""
    if not shim.LINUX:
        raise RuntimeError("process trees are held on Linux only")
    end, at = time.monotonic() + seconds, seed
    counts: Counter[str] = Counter()
    failures: list[dict[str, str]] = []
    while time.monotonic() < end:
        what, gone = once(at)
        counts["trees"] += 1
        counts[what] += 1
        if not gone:
            replay = f"from tests/: python -c 'from torture.parts import trees; trees.once({at})'"
            failures.append({"name": f"seed {at}: {what}: not gone", "replay": replay})
        at += 1
    return {**counts, "outlived": len(failures), "failures": failures[:20]}


def once(seed: int) -> tuple[str, bool]:
    """One tree and its end: what was done, and whether it is gone. What is drawn is the seed's, the
    moment at which it happens is the machine's too."""
    draw = random.Random(seed)
    mode = "+".join(word for word in WORDS if draw.random() < 0.5) or "deaf"
    deed = draw.choice(DEEDS)
    with trees.field() as field:
        return deed.__name__, deed(field, mode, draw)


def delay(draw: random.Random) -> None:
    """From before the shim has begun until after the tree is in full swing."""
    time.sleep(draw.random() ** 2 * 0.2)


def held_here(field: trees.Field, mode: str, draw: random.Random) -> tuple[Any, trees.Witness]:
    """A tree of this process, at some moment of its beginning."""
    witness = field.witness()
    held = field.start(trees.hostile(mode), witness, grace=0.1)
    delay(draw)
    return held, witness


def lease_lost(field: trees.Field, mode: str, draw: random.Random) -> bool:
    held, witness = held_here(field, mode, draw)
    held.kill()
    return witness.gone(BOUND) and held.finish(BOUND)


def shim_killed(field: trees.Field, mode: str, draw: random.Random) -> bool:
    held, witness = held_here(field, mode, draw)
    with contextlib.suppress(ProcessLookupError):
        os.kill(held.pid, signal.SIGKILL)
    return held.finish(BOUND) and witness.gone(BOUND)


def some_of_it_killed(field: trees.Field, mode: str, draw: random.Random) -> bool:
    held, witness = held_here(field, mode, draw)
    for pid in shim.descendants(held.pid):
        if draw.random() < 0.5:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, draw.choice([signal.SIGKILL, signal.SIGSTOP, signal.SIGHUP]))
    held.kill()
    return witness.gone(BOUND) and held.finish(BOUND)


def worker_killed(field: trees.Field, mode: str, draw: random.Random) -> bool:
    worker, _, witness = field.worker(mode)
    delay(draw)
    worker.kill()
    return witness.gone(BOUND)


def worker_and_shim_killed(field: trees.Field, mode: str, draw: random.Random) -> bool:
    worker, shim_pid, witness = field.worker(mode)
    order = [shim_pid, worker.pid]
    draw.shuffle(order)
    for pid in order:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    containment.sweep(field.prefix)
    return witness.gone(BOUND)


def orphans_of_the_worker(field: trees.Field, mode: str, draw: random.Random) -> bool:
    worker, shim_pid, witness = field.worker(mode, own=True, no_scan=True)
    delay(draw)
    with contextlib.suppress(ProcessLookupError):
        os.kill(shim_pid, signal.SIGKILL)
    gone, _, other = trees.ask(worker, "finish")
    return bool(gone and other and witness.gone(BOUND))


DEEDS = (
    lease_lost, shim_killed, some_of_it_killed, worker_killed, worker_and_shim_killed,
    orphans_of_the_worker,
)  # fmt: skip
