"""An example target: a small queue in another style, behind the kit's protocol. Copy from it.

It is one dictionary a store, knows three verbs and no journal, and stops there on purpose: the
kit calls it `incomplete`. With `--careless` it completes a task for anybody who names it, as many
queues do, and the kit calls it `failed`.

    fencepost conform stdio:"python3 stdio_example.py"
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

CARELESS = "--careless" in sys.argv
SECOND = timedelta(seconds=1)
stores: dict[str, dict[str, Any]] = {}
clock = datetime(2026, 1, 1, tzinfo=UTC)


class No(Exception):
    """A refusal: its issue codes, and what it tells beside them."""

    def __init__(self, *issues: str, **facts: Any) -> None:
        super().__init__(*issues)
        self.answer = {
            "status": "failed", "issues": [*issues], "message": ", ".join(issues), "facts": facts,
        }  # fmt: skip


def text(moment: datetime | None) -> str | None:
    return None if moment is None else f"{moment:%Y-%m-%dT%H:%M:%S.%f}Z"


def describe() -> dict[str, Any]:
    return {
        "name": "careless example" if CARELESS else "example", "version": "1",
        "controls": ["fresh", "clock"], "operations": ["enqueue", "claim", "complete"],
        "principals": ["operator", "worker"],
    }  # fmt: skip


def fresh(owner: str) -> None:
    stores[owner] = {"tasks": {}, "results": [], "receipts": {}, "fence": 0, "number": 0}
    stores[owner]["ended_by"] = {}


def advance(seconds: float = 0, microseconds: int = 0) -> None:
    global clock  # noqa: PLW0603  # the whole target is this one module
    clock += timedelta(seconds=seconds, microseconds=microseconds)


def send(owner: str, caller: dict[str, str], body: str, key: str | None) -> dict[str, Any]:
    """One command: the same bytes under the same key get the same receipt, before all else."""
    store, outcome = stores[owner], dict(EMPTY)
    command = json.loads(body)
    digest = hashlib.sha256(body.encode()).hexdigest()
    actor = command.get("worker_id", caller["actor"])
    place = (caller["scope"], actor, key or digest)
    known = store["receipts"].get(place)
    try:
        if known is not None:
            if known["receipt"]["opening"]["request_sha256"] != digest:
                raise No("idempotency_key_reused")
            return {**known, "leases": live(store, known["leases"]), "replayed": True}
        outcome |= VERBS[command["verb"]](store, caller["scope"], command)
    except No as refused:
        return outcome | refused.answer
    found_nothing = command["verb"] == "claim" and not outcome["leases"]
    if key is not None or not found_nothing:
        outcome["receipt"] = receipt(store, caller["scope"], actor, command, digest)
    if key is not None or command["verb"] == "complete":
        store["receipts"][place] = outcome
    return outcome


EMPTY: dict[str, Any] = {
    "status": "accepted", "issues": [], "message": "", "receipt": None, "task_ids": [],
    "leases": [], "replayed": False, "facts": {},
}  # fmt: skip


def receipt(store: dict[str, Any], scope: str, actor: str, command: Any, digest: str) -> Any:
    """What proves that it was done. Its text is not the contract's entry: no case that this target
    can run asks for that."""
    store["number"] += 1
    entry = {"actor": actor, "number": store["number"], "scope": scope, "verb": command["verb"]}
    salt = hashlib.sha256(f"{store['number']} {digest}".encode()).hexdigest()
    opening = {"salt": salt, "request_sha256": digest}
    return {"number": store["number"], "entry": json.dumps(entry), "opening": opening}


def enqueue(store: dict[str, Any], scope: str, command: dict[str, Any]) -> dict[str, Any]:
    ids = []
    for new in command["tasks"]:  # first looked at, then added: all or nothing
        twin = named(store, scope, command["queue"], new.get("key"))
        if twin is not None and twin["payload"] != new["payload"]:
            raise No("key_conflict")
    for new in command["tasks"]:
        task = named(store, scope, command["queue"], new.get("key"))
        task = task or add(store, scope, command["queue"], new)
        ids.append(task["task_id"])
    return {"task_ids": ids}


def named(store: dict[str, Any], scope: str, queue: str, key: str | None) -> Any:
    place = (scope, queue, key)
    tasks = store["tasks"].values()
    return next((t for t in tasks if key and (t["scope"], t["queue"], t["key"]) == place), None)


def add(store: dict[str, Any], scope: str, queue: str, new: dict[str, Any]) -> dict[str, Any]:
    task_id = f"00000000-0000-7000-8000-{len(store['tasks']) + 1:012x}"
    due = datetime.fromisoformat(new["due_at"]) if "due_at" in new else clock
    task: dict[str, Any] = {
        "task_id": task_id, "scope": scope, "queue": queue, "key": new.get("key"),
        "state": "ready", "priority": new.get("priority", 0), "due_at": due, "attempt": 0,
        "max_attempts": new.get("max_attempts", 5), "round": 1, "revision": 0,
        "fencing_token": 0, "epoch": 0, "policy_version": 0, "worker_id": None,
        "granted_at": None, "lease_expires_at": None, "created_at": clock, "changed_at": clock,
        "parent": None, "reason": None, "erased": False, "payload": new["payload"],
        "progress": None, "log": None,
    }  # fmt: skip
    store["tasks"][task_id] = task
    return task


def claim(store: dict[str, Any], scope: str, command: dict[str, Any]) -> dict[str, Any]:
    free = []
    for task in store["tasks"].values():
        wanted = task["queue"] in command.get("queues", []) or (
            task["task_id"] == command.get("task_id")
        )
        if task["scope"] != scope or not wanted:
            continue
        lapsed = task["state"] == "leased" and clock >= task["lease_expires_at"]
        if lapsed and task["attempt"] >= task["max_attempts"]:
            task |= {"state": "dead", "changed_at": clock}
        elif lapsed or (task["state"] == "ready" and clock >= task["due_at"]):
            free.append(task)
    free.sort(key=lambda task: -int(task["priority"]))  # stable: among equals the older first
    taken = free[: command.get("limit", 1)]
    for task in taken:
        store["fence"] += 1
        ends = clock + SECOND * command.get("lease_seconds", 60)
        task |= {
            "state": "leased", "fencing_token": store["fence"], "attempt": task["attempt"] + 1,
            "worker_id": command["worker_id"], "granted_at": clock, "lease_expires_at": ends,
            "changed_at": clock,
        }  # fmt: skip
    return {"task_ids": [t["task_id"] for t in taken], "leases": [leased(t) for t in taken]}


def leased(task: dict[str, Any]) -> dict[str, Any]:
    names = "task_id queue key worker_id fencing_token revision attempt max_attempts epoch payload"
    times = {name: text(task[name]) for name in ("granted_at", "lease_expires_at")}
    known = {name: task[name] for name in names.split()}
    return known | times | {"policy_version": 0, "progress": None}


def live(store: dict[str, Any], leases: list[Any]) -> list[Any]:
    """Of the leases that a claim gave, those that still hold."""
    found = []
    for lease in leases:
        task = store["tasks"][lease["task_id"]]
        same = (task["state"], task["fencing_token"]) == ("leased", lease["fencing_token"])
        if same and clock < task["lease_expires_at"]:
            found.append(leased(task))
    return found


def complete(store: dict[str, Any], scope: str, command: dict[str, Any]) -> dict[str, Any]:
    task = store["tasks"].get(command["task_id"])
    if task is None or task["scope"] != scope:
        raise No("not_found")
    states = {"ready": "not_leased", "done": "task_done", "dead": "task_dead"}
    held, given = task["fencing_token"], command["fencing_token"]
    ended = task["lease_expires_at"] is not None and clock >= task["lease_expires_at"]
    issues = [
        (states.get(task["state"]), task["state"] != "leased"),
        ("wrong_worker", command["worker_id"] != task["worker_id"]),
        ("unknown_fence", given > held), ("stale_fence", given < held), ("lease_expired", ended),
    ]  # fmt: skip
    if wrong := [str(code) for code, applies in issues if applies and not CARELESS]:
        own = wrong[0] == "task_done" and "wrong_worker" not in wrong
        raise No(*wrong, **({"receipt": store["ended_by"][task["task_id"]]} if own else {}))
    task |= {"state": "done", "changed_at": clock, "log": command.get("log")}
    store["ended_by"][task["task_id"]] = store["number"] + 1
    if "result" in command:
        task["revision"] += 1
        store["results"].append({
            "task_id": task["task_id"], "revision": task["revision"], "round": 1, "kept": True,
            "result_sha256": hashlib.sha256(json.dumps(command["result"]).encode()).hexdigest(),
            "value": command["result"], "commitment": "open", "entry": store["number"] + 1,
        })  # fmt: skip
    return {"task_ids": [task["task_id"]]}


VERBS = {"enqueue": enqueue, "claim": claim, "complete": complete}


def read(owner: str, caller: dict[str, str], what: str, **names: Any) -> Any:
    store, scope = stores[owner], caller["scope"]
    tasks = [task for task in store["tasks"].values() if task["scope"] == scope]
    if what == "tasks":
        wanted = [task for task in tasks if names.get("queue") in (None, task["queue"])]
        return [shown(task) | {"payload": None, "log": None} for task in wanted]
    if what == "task":
        return shown(store["tasks"][names["task_id"]])
    results = [row for row in store["results"] if names.get("task_id") in (None, row["task_id"])]
    if what == "results":
        return results
    if what == "counts":
        return {"results": len(results), "receipts": len(results), "obligations": 0}
    return cannot(f"this queue keeps no {what}")


def shown(task: dict[str, Any]) -> dict[str, Any]:
    return {name: text(v) if isinstance(v, datetime) else v for name, v in task.items()}


def cannot(why: str) -> NoReturn:
    raise NotImplementedError(why)


OPERATIONS: dict[str, Callable[..., Any]] = {
    "describe": describe, "fresh": fresh, "advance": advance, "send": send, "read": read,
}  # fmt: skip


def main() -> None:
    """One JSON line in, one JSON line out."""
    for line in sys.stdin:
        request = json.loads(line)
        answer = {"id": request.pop("id")}
        op = request.pop("op")
        try:
            answer["ok"] = OPERATIONS[op](**request) if op in OPERATIONS else cannot(op)
        except NotImplementedError as error:
            answer["unavailable"] = str(error)
        except Exception as error:  # noqa: BLE001  # told to the kit, which fails the case
            answer["error"] = repr(error)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
