"""Each verb as a request that can be sent again, and what it has done: for tests of what a network
does to it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from fencepost import destinations, tokens
from fencepost.handle import Handle, Lease
from helpers.web import Served

QUEUE = "pages"
Json = dict[str, Any]


class Ask(NamedTuple):
    """One request: a POST that means the same whenever it is sent."""

    target: str
    body: bytes
    key: str | None
    kind: str = "operator"

    @property
    def headers(self) -> dict[str, str]:
        key = {} if self.key is None else {"Idempotency-Key": self.key}
        return {"Content-Type": "application/json", **key}


def on_task(verb: str, task_id: str, key: str | None, kind: str = "operator", **more: Any) -> Ask:
    """A command at the path of its task."""
    members = {"verb": verb, "task_id": task_id, **more}
    return Ask(f"/v1/default/tasks/{task_id}/{verb}", json.dumps(members).encode(), key, kind)


def on_scope(verb: str, key: str | None, **more: Any) -> Ask:
    """A command about the scope."""
    return Ask(f"/v1/default/{verb}", json.dumps({"verb": verb, **more}).encode(), key)


class Bench:
    """A service, and tasks in each state that a verb needs."""

    def __init__(self, web: Served) -> None:
        self.web = web
        self.fp: Handle = web.fp.as_caller("kit", scope="default")
        self.tokens = {
            "operator": self.fp.token_create("op", "operator", every_scope=True)[1],
            "human": self.fp.token_create("ann", "human")[1],
        }
        self.number = 0

    def held(self) -> Lease:
        """A task in the hands of w1."""
        task_id = self.fp.enqueue(QUEUE, {"n": self.number}).task_id
        lease = self.fp.claim(task_id=task_id, worker_id="w1")
        assert isinstance(lease, list)
        return lease[0]

    def made(self, verb: str) -> Ask:
        """A command of this verb that is about to be carried out."""
        self.number += 1
        return MADE[verb](self, f"{verb}-{self.number}")

    def on_lease(self, verb: str, key: str | None, **more: Any) -> Ask:
        lease = self.held()
        bound = {"worker_id": lease.worker_id, "fencing_token": lease.fence}
        return on_task(verb, lease.task_id, key, **bound, **more)

    def ended(self, then: str = "") -> Lease:
        """A task that is done, or that failed so."""
        lease = self.held()
        lease.fail("broken", then=then) if then else lease.complete({"n": self.number})  # type: ignore[arg-type]
        return lease

    def lost(self) -> str:
        """A task of which a receiver has a result of an earlier epoch that is not here."""
        if self.fp.writers()[-1].epoch == 0:
            self.fp.clock_reset()
        return self.fp.enqueue(QUEUE, {"n": self.number}).task_id

    def claim(self, key: str) -> Ask:
        self.fp.enqueue(QUEUE, {"n": self.number}, priority=9)
        members = {"verb": "claim", "queues": [QUEUE], "worker_id": "w2"}
        return Ask(f"/v1/default/queues/{QUEUE}/claims", json.dumps(members).encode(), key)

    def token(self, key: str) -> Ask:
        digest = tokens.digest(tokens.make()).hex()
        return on_scope("token.create", key, token_sha256=digest, kind="worker", actor="w")

    def revoked(self, key: str) -> Ask:
        self.fp.token_create("w", "worker")
        return on_scope("token.revoke", key, token_id=self.fp.tokens()[-1].token_id)

    def destination(self) -> str:
        """A new destination."""
        self.fp.destination_set(f"out-{self.number}", "https://h.example/", class_="fenced")
        return f"out-{self.number}"

    def batch(self, key: str) -> Ask:
        commands = [
            {"command": {"verb": "enqueue", "queue": QUEUE, "tasks": [{"payload": n}]},
             "key": f"{key}-{n}"} for n in (1, 2)
        ]  # fmt: skip
        return Ask("/v1/default/batch", json.dumps({"commands": commands}).encode(), None)

    def entries(self) -> int:
        """How long the journal is."""
        return int(self.web.fp.about()["entries"])


def _enqueue(bench: Bench, key: str) -> Ask:
    members = {"verb": "enqueue", "queue": QUEUE, "tasks": [{"payload": key}]}
    return Ask(f"/v1/default/queues/{QUEUE}/tasks", json.dumps(members).encode(), key)


MADE: dict[str, Callable[[Bench, str], Ask]] = {
    "enqueue": _enqueue,
    "claim": Bench.claim,
    "renew": lambda bench, key: bench.on_lease("renew", None, lease_seconds=60),
    "submit": lambda bench, key: bench.on_lease("submit", None, result={"n": key}),
    "complete": lambda bench, key: bench.on_lease(
        "complete", None, result={"n": key}, followups=[{"queue": QUEUE, "payload": key}]
    ),
    "fail": lambda bench, key: bench.on_lease("fail", key, reason="later", retry_seconds=30),
    "release": lambda bench, key: bench.on_lease("release", None),
    "cancel": lambda bench, key: on_task("cancel", bench.held().task_id, key),
    "requeue": lambda bench, key: on_task("requeue", bench.ended().task_id, key),
    "resolve": lambda bench, key: on_task(
        "resolve", bench.ended("block").task_id, key, to="done", evidence=key
    ),
    "review": lambda bench, key: on_task(
        "review", bench.ended().task_id, key, "human", revision=1, verdict="accepted"
    ),
    "import": lambda bench, key: on_task(
        "import", bench.lost(), key, revision=1, epoch=0, fencing_token=7, final=True, result=key,
        evidence={"receiver": "archive"},
    ),
    "erase": lambda bench, key: on_task("erase", bench.ended().task_id, key),
    "sweep": lambda bench, key: on_scope("sweep", key),
    "purge": lambda bench, key: on_scope("purge", key),
    "queue.set": lambda bench, key: on_scope(
        "queue.set", key, queue="other", settings={"max_attempts": 1 + bench.number % 9}
    ),
    "scope.set_policy": lambda bench, key: on_scope(
        "scope.set_policy", key, policy_version=bench.number
    ),
    "scope.revoke": lambda bench, key: on_scope("scope.revoke", key, revoked=False),
    "clock.reset": lambda bench, key: on_scope("clock.reset", key),
    "token.create": Bench.token,
    "token.revoke": Bench.revoked,
    "destination.set": lambda bench, key: on_scope(
        "destination.set", key, queue=f"out-{bench.number}", address="https://h.example/",
        **{"class": "fenced"},
    ),
    "destination.secret": lambda bench, key: on_scope(
        "destination.secret", key, queue=bench.destination(), secret=destinations.new_secret()
    ),
    "destination.advance": lambda bench, key: on_scope(
        "destination.advance", key, queue=bench.destination(), expected_sequence=0, sequence=1,
        head="0f" * 32,
    ),
    "batch": Bench.batch,
}
# Entries that a command leaves; one if not said.
LEAVES = {"renew": 0, "batch": 2}
