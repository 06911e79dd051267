"""Every path, once: the application, the OpenAPI document and the tests read this table.

A command's verb is the last part of its path; tasks and claims have the paths of DESIGN's §8.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import lru_cache, partial

from fencepost import canonical
from fencepost.commands import COMMANDS
from fencepost.record import dataclass
from fencepost.server import commands, health, openapi, reads, tail
from fencepost.server.answers import Answer
from fencepost.server.asked import Asked, Receive
from fencepost.server.service import Service

Run = Callable[[Service, Asked, Receive], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Route:
    """One path and method. `verb` is the command's (`batch` for many); empty where it reads.
    `open` needs no token."""

    method: str
    path: str
    name: str
    run: Run
    verb: str = ""
    open: bool = False


def _command(path: str, verb: str, name: str = "") -> Route:
    run: Run = partial(commands.command, verb=verb)
    return Route("POST", path, name or verb, run, verb)


def _read(path: str, name: str, run: Run, *, open: bool = False) -> Route:
    return Route("GET", path, name, run, open=open)


SCOPE = "/v1/{scope}"
TASK = SCOPE + "/tasks/{task_id}"
QUEUE = SCOPE + "/queues/{queue}"
ON_A_TASK = tuple(
    verb for verb, kind in COMMANDS.items() if "task_id" in kind.WIRE and verb != "claim"
)
ON_A_SCOPE = tuple(verb for verb in COMMANDS if verb not in (*ON_A_TASK, "enqueue", "claim"))


async def document(service: Service, asked: Asked, receive: Receive) -> Answer:
    """The OpenAPI document. It needs no token: it says nothing of what is in a store."""
    asked.ask()
    return Answer(200, _document())


@lru_cache(1)
def _document() -> bytes:
    return canonical.dumps(openapi.made(ROUTES))


ROUTES: tuple[Route, ...] = (
    # what is asked most often stands first: paths are tried in this order
    *(_command(f"{TASK}/{verb}", verb) for verb in ON_A_TASK),
    _command(QUEUE + "/claims", "claim", "claim_of_a_queue"),
    _command(QUEUE + "/tasks", "enqueue"),
    Route("POST", SCOPE + "/batch", "batch", commands.batch, "batch"),
    _command(SCOPE + "/claims", "claim"),
    Route("POST", SCOPE + "/seal", "seal", reads.seal),
    *(_command(f"{SCOPE}/{verb}", verb) for verb in ON_A_SCOPE),
    _read(TASK, "task", reads.task),
    _read(TASK + "/results", "results", reads.results),
    _read(TASK + "/refused", "refused", reads.refused),
    _read(TASK + "/history", "history", reads.history),
    _read(SCOPE + "/tasks", "tasks", reads.tasks),
    _read(SCOPE + "/queues", "queues", reads.queues),
    _read(QUEUE, "queue", reads.queue),
    _read(SCOPE + "/destinations", "destinations", reads.destinations),
    _read(QUEUE + "/destination", "destination", reads.destination),
    _read(QUEUE + "/keys/{key:path}", "task_by_key", reads.task_by_key),
    _read(SCOPE + "/receipts/{key:path}", "receipt", reads.receipt),
    _read(SCOPE + "/stats", "stats", reads.stats),
    _read(SCOPE + "/tokens", "tokens", reads.issued),
    _read(SCOPE + "/writers", "writers", reads.writers),
    _read(SCOPE + "/about", "about", reads.about),
    _read(SCOPE + "/journal/events", "events", tail.events),
    _read(SCOPE + "/journal/entries", "entries", reads.entries),
    _read(SCOPE + "/journal/entries/{number}/proof", "proof", reads.proof),
    _read(SCOPE + "/journal/consistency", "consistency", reads.consistency),
    _read(SCOPE + "/journal/checkpoints", "checkpoints", reads.checkpoints),
    _read(SCOPE, "scope", reads.scope),
    _read("/metrics", "metrics", health.metrics),
    _read("/livez", "livez", health.livez, open=True),
    _read("/readyz", "readyz", health.readyz, open=True),
    _read("/openapi.json", "openapi", document, open=True),
    _read("/problems/{code}", "problem", health.problem, open=True),
)
