"""A client that works through bad times: each request until it is answered, always with the same
bytes under the same key; and what its receipts have to agree with."""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import Any

from fencepost.conformance.http_wire import JSON, Lost, Origin, Wire

QUEUE = "pages"


class Worker:
    """One connection, one name."""

    def __init__(self, host: str, port: int, token: str, seconds: float) -> None:
        self.wire = Wire(Origin(False, host, port, ""), seconds)
        self.token = token
        self.counts: Counter[str] = Counter()

    def ask(self, path: str, members: dict[str, Any], key: str) -> dict[str, Any]:
        """The outcome, whenever it comes."""
        body = json.dumps(members).encode()
        headers = {"Content-Type": JSON, "Idempotency-Key": key}
        self.counts["asked"] += 1
        while True:
            try:
                answer = self.wire.ask("POST", f"/v1/default/{path}", self.token, body, headers)
            except Lost:
                self.counts["lost"] += 1
                time.sleep(0.01)  # as a client that was refused a connection
                continue
            if answer.status != 503:
                break
        self.counts["replayed"] += answer.headers.get("idempotent-replayed") == "true"
        told: dict[str, Any] = json.loads(answer.body)
        assert answer.status == 200, told
        return told


def works(
    host: str, port: int, token: str, seed: int, seconds: float, patience: float
) -> dict[str, Any]:
    """Enqueue, claim and complete for that long. The receipts by key, and the counts."""
    worker = Worker(host, port, token, patience)
    end, number = time.monotonic() + seconds, 0
    receipts: dict[str, Any] = {}
    while time.monotonic() < end:
        number += 1
        key = f"{seed}-{number}"
        task = {"verb": "enqueue", "queue": QUEUE, "tasks": [{"payload": key, "key": key}]}
        made = worker.ask(f"queues/{QUEUE}/tasks", task, f"e{key}")
        claim = {"verb": "claim", "task_id": made["task_ids"][0], "worker_id": "w1",
                 "lease_seconds": 900}  # fmt: skip
        (lease,) = worker.ask("claims", claim, f"c{key}")["leases"]
        bound = {name: lease[name] for name in ("task_id", "worker_id", "fencing_token")}
        done = {"verb": "complete", "result": key, **bound}
        ended = worker.ask(f"tasks/{lease['task_id']}/complete", done, f"d{key}")
        receipts[key] = [made["receipt"], ended["receipt"]]
    return {"counts": worker.counts, "receipts": receipts}


def untrue(fp: Any, receipts: dict[str, Any]) -> list[str]:
    """What in the store does not agree with what the client was told."""
    wrong = [] if fp.verify().clean else ["verify found problems"]
    tasks = {task.key: task for task in fp.tasks(QUEUE)}
    entries = list(fp.entries())
    if len(tasks) != len(receipts):
        wrong.append(f"{len(tasks)} tasks for {len(receipts)}")
    for key, told in receipts.items():
        results = [row.value for row in fp.results(tasks[key].task_id)]
        if tasks[key].state != "done" or results != [key]:
            wrong.append(f"{key}: {tasks[key].state}, results {results}")
        kept = [entries[receipt["number"] - 1].body.decode() for receipt in told]
        if kept != [receipt["entry"] for receipt in told]:
            wrong.append(f"{key}: another entry than the receipt's")
    verbs = Counter(json.loads(entry.body)["verb"] for entry in entries)
    return wrong + [
        f"{verbs[verb]} entries of {verb} for {len(receipts)} tasks"
        for verb in ("enqueue", "claim", "complete") if verbs[verb] != len(receipts)
    ]  # fmt: skip
