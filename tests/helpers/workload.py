"""A small history that covers every verb and every kind of row, the same for each seed."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import fencepost
from fencepost.clock import FakeClock
from fencepost.engine import SystemDraw
from fencepost.handle import Handle
from helpers.lab import START
from helpers.wires import SECRET

SCOPE, QUEUE = "lab", "intake"


def opened(
    path: Path | str, clock: FakeClock | None = None, seed: int = 7, **options: Any
) -> Handle:
    """A handle on the store at `path`, made if it is not there."""
    draw = SystemDraw(random.Random(seed).randbytes)
    clock = clock or FakeClock(START)
    settings = {"scope": SCOPE, "create": True, "clock": clock, "draw": draw, **options}
    return fencepost.open(str(path), **settings)


def every_verb(fp: Handle, clock: FakeClock) -> dict[str, str]:
    """Live through everything; returns some task ids by name. Nothing is sealed at the end but
    what the purge has sealed."""
    human = fp.as_caller("ann", "human")
    fp.queue_set(QUEUE, destinations=["outbox", "mirror"], keep_refused=5, max_attempts=2)
    fp.set_policy(3, retain_seconds=100_000)
    ids = {}
    for name in ("done", "erased", "failed", "cancelled", "two", "late", "blocked", "purged"):
        ids[name] = fp.enqueue(QUEUE, {"name": name}, key=f"key-{name}").task_id
    fp.enqueue(QUEUE, {"name": "done"}, key="key-done")  # known already
    taken = {ids_of(ids, lease.task_id): lease for lease in claim(fp, 8)}
    taken["done"].complete({"of": "done"}, followups=[{"queue": "next", "payload": 1, "key": "n"}])
    taken["erased"].complete({"of": "erased"})
    taken["failed"].fail("no luck", retry_seconds=1)
    fp.cancel(ids["cancelled"], reason="not wanted")
    taken["two"].submit({"row": 1})
    clock.advance(1)
    taken["two"].submit({"row": 2})
    taken["two"].complete({"row": 2})
    taken["blocked"].fail("ask somebody", then="block")
    fp.resolve(ids["blocked"], "done", evidence={"seen": True})
    taken["purged"].complete({"of": "purged"}, followups=[{"queue": "next", "payload": 2}])
    human.review(ids["two"], 1, "accepted")
    human.review(ids["two"], 2, "rejected", requeue=True)
    (again,) = fp.claim(worker_id="w2", task_id=ids["two"])
    again.release()
    fp.requeue(ids["cancelled"])
    clock.advance(100)  # "late" has lapsed, and so has nothing else
    refused(taken["late"])
    fp.sweep(QUEUE)
    fp.erase(ids["erased"])
    fp.queue_set("short", retain_seconds=1, result_storage="digest", destinations=["mirror"])
    for name in ("short", "erased and purged"):  # what they bring about outlives them
        ids[name] = fp.enqueue("short", name).task_id
        follow = {"queue": "next", "payload": f"after {name}"}
        fp.claim("short", worker_id="w")[0].complete("gone soon", followups=[follow])
    fp.erase(ids["erased and purged"])
    ids["kept"] = fp.enqueue("short", "longer").task_id
    fp.queue_set("brief", retain_seconds=1)
    ids["brief"] = fp.enqueue("brief", "brings nothing about").task_id
    fp.claim("brief", worker_id="w")[0].complete("gone soon")
    clock.advance(10)
    fp.purge("short")
    fp.purge("brief")
    fp.claim("short", worker_id="w")[0].complete("digest only")
    fp.as_caller("local", scope="other").enqueue("q", "in another scope")
    fp.as_caller("local", scope="other").revoke()
    fp.token_create("w", "worker", queues=["next", QUEUE], expires_at="2030-01-01T00:00:00Z")
    made, _ = fp.token_create("ops", "operator", every_scope=True)
    fp.token_revoke(made.entry["note"]["token_id"])
    fp.destination_set(
        "parcels", "https://parcels.example/in?key=1", class_="fenced", options={"ordered": True}
    )
    fp.destination_secret("parcels", SECRET)
    fp.destination_advance("parcels", expected_sequence=0, sequence=1, head="0f" * 32)
    fp.destination_set("letters", "command:[\"post\"]", class_="unfenced")
    fp.destination_set("letters", stopped="no stamps")
    fp.destination_set("letters", stopped=None)
    fp.clock_reset()
    adopted(fp, clock, ids)
    fp.claim("next", worker_id="w", limit=2, idempotency_key="claim-1")
    return ids


def adopted(fp: Handle, clock: FakeClock, ids: dict[str, str]) -> None:
    """What receivers accepted in the epoch before, and what others are told of a task's end."""
    outcomes = {"mirror": ["result", "done", "dead", "blocked"], "outbox": ["cancelled"]}
    fp.queue_set("told", destinations=["mirror", "outbox"], outcomes=outcomes, max_attempts=1)
    for name in ("elsewhere", "digest", "given up", "lapsed", "unwanted"):
        ids[name] = fp.enqueue("told", name).task_id
    said = {"epoch": 0, "fence": 99, "evidence": {"receiver": "mirror"}}
    fp.import_accepted(ids["elsewhere"], 1, final=False, result={"of": "elsewhere"}, **said)
    fp.import_accepted(ids["elsewhere"], 2, final=True, result={"of": "elsewhere"}, **said)
    fp.import_accepted(ids["digest"], 1, final=True, result_sha256="5a" * 32, **said)
    taken = fp.claim("told", worker_id="w", limit=3, lease_seconds=60)
    taken[0].fail("no luck", then="give_up")
    fp.cancel(ids["unwanted"])
    clock.advance(61)
    fp.sweep("told")


def claim(fp: Handle, limit: int) -> list[Any]:
    """The leases of the first tasks."""
    return fp.claim(QUEUE, worker_id="w", limit=limit, lease_seconds=60)


def ids_of(ids: dict[str, str], task_id: str) -> str:
    """The name of a task."""
    return next(name for name, known in ids.items() if known == task_id)


def refused(lease: Any) -> None:
    """A result that comes too late; the queue keeps it aside."""
    try:
        lease.complete({"too": "late"})
    except fencepost.LeaseExpired:
        return
    raise AssertionError("a late result was accepted")
