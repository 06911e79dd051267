"""A job of some hundred commands, and everything that befalls it: by seed, alone and at once."""

from __future__ import annotations

import random
import time
from typing import Any

from helpers import job_troubles as troubles
from helpers.job import Job
from helpers.scratch import scratch

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
        mounted = troubles.small_disks(job)
        with job:
            while job.done() < TASKS * 0.8 and time.monotonic() < end:
                chosen = draw.sample(DEEDS, draw.choice((1, 1, 2, 3)))
                troubles.befall(job, *chosen, patient=draw.random() < 0.7)
                for deed in chosen:
                    counts[deed.__name__] += 1
            wrong = job.end()
    print(f"seed {seed}: the last process of a lease was seen {-job.counts.pop('latest_ms')} ms "
          "before its end")  # fmt: skip
    return {**counts, **job.counts, "disks_mounted": int(mounted), "wrong": wrong}
