"""What must have come of a job: read from the store, its journal, what the commands have said, what
the watcher has seen, and what lies about at the end."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import fencepost
from fencepost.clock import from_rfc3339
from fencepost.handle import Handle
from fencepost.worker import isolation
from helpers.counting import SECOND, outliving

if TYPE_CHECKING:
    from helpers.job import Job

STATE_FILES = {"worker.jsonl", "worker.lock"}
LONGEST_HEAD = 512  # bytes of a state file that holds nothing but whose it is


class Leases:
    """The life of every lease, from the journal: when it was won, when it was over at the latest,
    and which entry has completed it."""

    def __init__(self, fp: Handle, length: int) -> None:
        self.won: dict[int, int] = {}
        self.over: dict[int, int] = {}
        self.completed: dict[str, list[tuple[int, int]]] = {}  # task: (fence, when)
        self._length, self._last = length, dict[str, int]()
        for entry in fp.entries():
            assert entry.body is not None
            self._read(json.loads(entry.body))

    def _read(self, body: dict[str, Any]) -> None:
        at = from_rfc3339(body["at"])
        for item in body["tasks"]:
            task = item["task_id"]
            if item.get("before") == "leased" and task in self._last:
                self.over[self._last[task]] = at
            if item["state"] == "leased":
                self._last[task] = item["fence"]
                self.won[item["fence"]] = at
            if body["verb"] == "complete":
                self.completed.setdefault(task, []).append((item["fence"], at))

    def ends(self, seen: dict[int, int]) -> dict[int, int]:
        """When each was over: by its last renewal that was seen in the store, or when the journal
        says that it was settled or taken by another."""
        found = {f: max(won + self._length, seen.get(f, 0)) for f, won in self.won.items()}
        return {fence: min(end, self.over.get(fence, end)) for fence, end in found.items()}


def judged(job: Job, found: dict[str, Any]) -> tuple[list[str], dict[str, int]]:
    """(what is wrong, a sentence each; counts)."""
    from helpers.job import GRACE, LEASE_SECONDS

    with fencepost.open(job.path) as fp:
        leases = Leases(fp, LEASE_SECONDS * SECOND)
        wrong = [f"verify: {problem}" for problem in fp.verify().problems[:3]]
        lapsed = dict(found["lapsed"])
        for task in fp.tasks("q"):
            wrong += _one_result(job, fp, task.task_id, task.state, leases, lapsed)
    ends = leases.ends(dict(found["ends"]))
    late, latest = outliving(found, ends, GRACE)
    wrong += late + _left(job)
    if found["left"]:
        wrong.append(f"{found['left']} processes are left at the end")
    if not found["seen"]:
        wrong.append("the watcher has seen no process")
    counts = {
        "tasks": job.number, "leases": len(leases.won), "processes_seen": len(found["seen"]),
        "looks": found["passes"], "worker_lives": sum(each.lives for each in job.workers),
        "latest_ms": latest // 1_000,
    }  # fmt: skip
    return wrong, counts


def _one_result(
    job: Job, fp: Handle, task_id: str, state: str, leases: Leases, lapsed: dict[int, int]
) -> list[str]:
    """The task is done, by one result, of a run whose lease was live as it was accepted."""
    from helpers.job import wanted

    payload = fp.task(task_id).payload
    name, done = f"task {payload['n']} ({payload['kind']})", leases.completed.get(task_id, [])
    results = list(fp.results(task_id))
    if state != "done" or len(results) != 1 or len(done) != 1:
        return [f"{name} is {state} with {len(results)} results and {len(done)} completions"]
    value, (fence, at) = dict(results[0].value), done[0]
    run = [str(value.pop("fence", None)), value.pop("mark", None)]
    wrong = []
    if value != wanted(payload["n"]):
        wrong.append(f"{name} has another's result")
    if run not in job.lines("begun"):
        wrong.append(f"{name} has a result of no run: {run}")
    if run[0] != str(fence):
        wrong.append(f"{name}: a result of fence {run[0]} was handed in under fence {fence}")
    if not leases.won[fence] <= at < lapsed.get(fence, at + 1):
        wrong.append(f"{name}: its result was accepted when the lease was over")
    return wrong


def _left(job: Job) -> list[str]:
    """Nothing lies about: temporary files, cgroups, a state file that has grown."""
    wrong = []
    for each in job.workers:
        wrong += [
            f"worker {each.name} has left {p.name} in TMPDIR, with {sorted(os.listdir(p))}"
            for p in each.temp.iterdir()
        ]
        state = {path.name: path.stat().st_size for path in each.state.iterdir()}
        wrong += [f"worker {each.name} has left {name}" for name in set(state) - STATE_FILES]
        if state.get("worker.jsonl", 0) > LONGEST_HEAD:
            wrong.append(f"the state of worker {each.name} has {state['worker.jsonl']} bytes")
        parent = isolation.own_group()
        if parent is not None:
            groups = parent.glob(f"{isolation.GROUP}{each.cookie}*")
            wrong += [f"worker {each.name} has left the cgroup {group.name}" for group in groups]
    return wrong
