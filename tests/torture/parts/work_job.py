"""A job of some hundred commands, and everything that befalls it: by seed, alone and at once."""

from __future__ import annotations

import random
import time
from functools import cache
from typing import Any

from helpers import job_troubles as troubles
from helpers.job import Job
from helpers.scratch import scratch

from fencepost.issues import InvalidRequest
from fencepost.worker import isolation, shim
from torture.rounds import rounds

LAW = "whatever befalls its workers, each task has one result of a live lease, and none outlives it"
WEIGHT = 2
REQUIRES = ()
TASKS = 300
DEEDS = (
    troubles.kill, troubles.stand_still, troubles.suspend, troubles.cut, troubles.serve_again,
    troubles.fill_disk,
)  # fmt: skip


def run(seconds: float, seed: int) -> dict[str, Any]:
    """Job after job."""
    return rounds(seconds, seed, "jobs", a_job)


def a_job(seed: int, left: float) -> dict[str, Any]:
    """One, with troubles until most of its tasks are done, or for as long as is left."""
    end, draw = time.monotonic() + left, random.Random(seed)
    counts = dict.fromkeys((deed.__name__ for deed in DEEDS), 0)
    with scratch() as folder:
        job = Job(folder, TASKS, seed, service=True, names="abc")
        held = held_by(job, draw)
        mounted = troubles.small_disks(job)
        with job:
            while job.done() < TASKS * 0.8 and time.monotonic() < end:
                chosen = draw.sample(DEEDS, draw.choice((1, 1, 2, 3)))
                if draw.random() < 0.5:
                    troubles.befall_in_the_midst(job, *chosen)
                else:
                    troubles.befall(job, *chosen, patient=draw.random() < 0.7)
                for deed in chosen:
                    counts[deed.__name__] += 1
            wrong = job.end()
    print(f"seed {seed}: the last process of a lease was seen {-job.counts.pop('latest_ms')} ms "
          "before its end")  # fmt: skip
    return {**counts, **job.counts, "disks_mounted": int(mounted), **held, "wrong": wrong}


def held_by(job: Job, draw: random.Random) -> dict[str, int]:
    """Let some workers hold their commands by the kernel, where it can be had; how many do."""
    counts = {"by_shim": 0, "by_cgroup": 0, "by_bwrap": 0}
    for worker in job.workers:
        kind = draw.choice(("shim", "cgroup", "bwrap"))
        if kind != "shim" and can_be_had(kind):
            worker.flags = (*worker.flags, "--isolate", kind)
        else:
            kind = "shim"
        counts[f"by_{kind}"] += 1
    return counts


@cache
def can_be_had(kind: str) -> bool:
    """Whether this isolation can be made here; said where it cannot."""
    try:
        if kind == "bwrap":
            isolation.wrapper()
        else:
            isolation.kill_groups("probe", shim.GROUP_PATIENCE_MS)
            shim.kill_group(isolation.new_group("probe"), shim.GROUP_PATIENCE_MS)
    except InvalidRequest as reason:
        print(f"NOT RUN with {kind}: {reason}")
        return False
    return True
