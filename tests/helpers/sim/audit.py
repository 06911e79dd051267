"""At intervals: what was acknowledged is there, and nothing else; the journal is verified."""

from __future__ import annotations

import sqlite3
from typing import Any

from fencepost.handle import Handle
from helpers.sim.ghost import Ghost, Job
from helpers.sim.world import must

TASKS = """
select t.task_id, q.scope, q.queue, t.state, t.attempt, t.max_attempts, t.round, t.revision,
       t.fence, t.epoch, t.policy_version, t.worker_id, t.granted_at, t.lease_expires_at,
       t.changed_at, t.erased > 0, p.task_id
from fencepost_task t join fencepost_queue q on q.id = t.queue_id
     left join fencepost_task p on p.id = t.parent order by t.id
"""
RESULTS = """
select t.task_id, r.revision, r.round, r.sha256, r.commitment
from fencepost_result r join fencepost_task t on t.id = r.task order by t.id, r.revision
"""


def rows(connection: sqlite3.Connection, ghost: Ghost) -> None:
    """Tasks, results, entries and the store's own row are what is true."""
    there = [job for job in ghost.jobs.values() if not job.purged]
    _same("task", connection.execute(TASKS).fetchall(), [_row(ghost, job) for job in there])
    results = [
        (job.task_id, revision, round_, None if job.erased else digest, job.words[revision])
        for job in there for revision, (round_, digest) in enumerate(job.results, start=1)
    ]  # fmt: skip
    _same("result", connection.execute(RESULTS).fetchall(), results)
    _entries(connection, ghost)
    store = connection.execute(
        "select last_fence, last_entry, epoch, floor, mark from fencepost_store"
    ).fetchall()
    due = (ghost.highest, ghost.last, ghost.epoch, ghost.floor, ghost.time.mark)
    _same("store", store, [due])


def _row(ghost: Ghost, job: Job) -> tuple[Any, ...]:
    parent = ghost.jobs.get(job.parent or "")
    return (
        job.task_id, job.scope, job.queue, job.state, job.attempt, job.max_attempts, job.round,
        job.revision, job.fence, job.epoch, job.policy, job.worker, job.granted, job.until,
        job.changed, int(job.erased),
        None if parent is None or parent.purged else parent.task_id,
    )  # fmt: skip


def _same(what: str, found: list[Any], due: list[Any]) -> None:
    if found != due:
        wrong = next((pair for pair in zip(found, due, strict=False) if pair[0] != pair[1]), None)
        must(False, f"{len(found)} {what} rows, due are {len(due)}; first other: {wrong}")


def _entries(connection: sqlite3.Connection, ghost: Ghost) -> None:
    """Each entry is there byte for byte; only a purge takes bytes, of an ended task's entries."""
    found = connection.execute("select number, body from fencepost_entry order by number")
    number = 0
    for number, body in found:
        must(number <= ghost.last, f"entry {number} is of nobody")
        same = body == ghost.entries[number - 1]
        must(same or (body is None and _purged(ghost, number)), f"entry {number} is another")
    must(number == ghost.last, f"entries after {number} were acknowledged and are not there")


def _purged(ghost: Ghost, number: int) -> bool:
    names = ghost.entries[number - 1].decode()
    return any(job.purged and job.task_id in names for job in ghost.jobs.values())


def journal(handle: Handle, ghost: Ghost) -> None:
    """`verify` finds nothing, and has seen all there is."""
    found = handle.verify()
    must(not found.problems, f"verify: {found.problems[:3]}")
    seen = found.entries + found.purged
    must(seen == ghost.last, f"verify saw {seen} entries of {ghost.last}")
