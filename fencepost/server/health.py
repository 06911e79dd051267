"""Whether the process lives, whether it can serve, and what it has counted."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

from fencepost.handle import Handle
from fencepost.issues import ISSUES, FencepostError
from fencepost.server.answers import Answer, told
from fencepost.server.asked import Asked, Receive
from fencepost.server.callers import unknown
from fencepost.server.meters import Sample, exposition
from fencepost.server.service import Service
from fencepost.storage import reading
from fencepost.version import VERSION

PROBE_SECONDS = 2.0
TEXT = b"text/plain; version=0.0.4; charset=utf-8"
PLAIN = b"text/plain; charset=utf-8"


async def livez(service: Service, asked: Asked, receive: Receive) -> Answer:
    """The process answers. Nothing is asked of the store."""
    return Answer(200, b"ok\n", PLAIN)


async def readyz(service: Service, asked: Asked, receive: Receive) -> Answer:
    """The store can be written, its schema is ours, the disk has room. No detail is told."""
    if service.stopping.is_set():
        return Answer(503, b"stopping\n", PLAIN)
    # One look for all who ask meanwhile: it may wait for the turn, and anybody may ask.
    if service.probing is None or service.probing.done():
        service.probing = asyncio.ensure_future(service.bridge.read(lambda: _ready(service)))
    ready = await asyncio.shield(service.probing)
    return Answer(200, b"ok\n", PLAIN) if ready else Answer(503, b"not ready\n", PLAIN)


def _ready(service: Service) -> bool:
    fp = service.fp
    try:
        fp.probe_turn(PROBE_SECONDS)
        about = fp.about()
        if not about["writable"]:
            return False
        path = about["path"]
        if path == ":memory:" or "server_version" in about:  # a server's disk is not ours to see
            return True
        free = shutil.disk_usage(Path(path).parent).free
        return free >= service.settings.min_free_bytes
    except (FencepostError, OSError):
        return False


async def metrics(service: Service, asked: Asked, receive: Receive) -> Answer:
    """Prometheus text. For an operator or auditor of every scope, since it names queues."""
    asked.ask()
    handle = service.handle(asked)
    stored = await service.bridge.read(lambda: _stored(service, handle))
    return Answer(200, exposition([*stored, *service.meters.samples()]), TEXT)


def _stored(service: Service, handle: Handle) -> list[tuple[str, str, str, list[Sample]]]:
    fp = service.fp
    about = handle.about()  # refuses all but operator and auditor of every scope
    tasks: list[Sample] = []
    first: list[Sample] = []
    for scope in fp.read(reading.scope_names()):
        for row in fp.as_caller("local", scope=scope).stats()["queues"]:
            labels = {"scope": scope, "queue": row["queue"], "state": row["state"]}
            tasks.append(("", labels, row["tasks"]))
            if row["since"]:
                first.append(("", labels, row["since"] / 1_000_000))
    size = about["entries"]
    return [
        ("fencepost_build_info", "gauge", "The version.", [("", {"version": VERSION}, 1)]),
        ("fencepost_tasks", "gauge", "Tasks by queue and state.", tasks),
        ("fencepost_first_task_timestamp_seconds", "gauge",
         "The first due time, end of a lease, or end of a task; none of those that are ready.",
         first),
        ("fencepost_journal_entries_total", "counter", "Entries of the journal.", [("", {}, size)]),
        ("fencepost_journal_unsealed_entries", "gauge", "Entries not yet in the tree.",
         [("", {}, about["unsealed"])]),
        ("fencepost_lapsed_leases", "gauge", "Leases that have ended and not been settled.",
         [("", {}, about["lapsed"])]),
        ("fencepost_epoch", "gauge", "The store's epoch.", [("", {}, about["epoch"])]),
    ]  # fmt: skip


async def problem(service: Service, asked: Asked, receive: Receive) -> Answer:
    """What a code means and what to do."""
    code = asked.params["code"]
    issue = ISSUES.get(code)
    if issue is None:
        raise unknown()
    facts: dict[str, Any] = {
        "code": code, "title": issue.meaning, "advice": issue.advice, "status": issue.http,
        "retryable": issue.retry,
    }  # fmt: skip
    return told(facts)
