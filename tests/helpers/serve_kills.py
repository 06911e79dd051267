"""`fencepost serve`, killed between the commit and the answer or at a random step, started again,
and asked again with the same bytes.

Runs in a child without a thread, which forks for each life of the service.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from fencepost.cli.main import main
from fencepost.conformance.http_wire import JSON, Answer, Lost, Origin, Wire
from fencepost.server import serve  # loaded here, so that each fork begins with all of it
from fencepost.storage import saving
from fencepost.storage.sqlite.transaction import SqliteTransaction
from helpers.killing import die_at
from helpers.lab import raw

QUEUE = "pages"
STEPS = 30  # about as many as a command over HTTP has
SECONDS = 20.0
ENDS = ("complete", "fail", "release")
assert serve.BACKLOG


class Ask(NamedTuple):
    """One request, whenever it is sent."""

    target: str
    body: bytes
    headers: dict[str, str]


def lives(path: str, token: str, seed: int, seconds: float, most: int) -> dict[str, Any]:
    """So many commands, or what fits into the time. Each is sent to a service that is killed while
    it carries it out; then another is asked twice."""
    end, chance = time.monotonic() + seconds, random.Random(seed)
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    lease: dict[str, Any] | None = None
    while time.monotonic() < end and counts["commands"] < most:
        counts["commands"] += 1
        ask = _next(chance, lease, f"{seed}-{counts['commands']}")
        point = 0 if chance.random() < 0.75 else chance.randrange(1, STEPS)
        before = _entries(path)
        first, code = _killed(path, token, ask, point)
        kept = _entries(path) - before
        told = _asked_twice(path, token, ask)
        counts["killed" if code == -signal.SIGKILL else "survived"] += 1
        counts["killed_between_commit_and_answer"] += first is None and kept == 1
        what = _untrue(point, first, code, kept, told, _entries(path) - before)
        if what:
            wrong.append(f"{ask.target}, number {counts['commands']}, point {point}: {what}")
        lease = _lease_after(ask, told, lease)
    return {**counts, "wrong": wrong}


def _next(chance: random.Random, lease: dict[str, Any] | None, key: str) -> Ask:
    if lease is None:
        kind = chance.choice(("enqueue", "claim", "claim", "queue.set"))
        members: dict[str, Any] = {
            "enqueue": {"queue": QUEUE, "tasks": [{"payload": key}, {"payload": [key]}]},
            "claim": {"queues": [QUEUE], "worker_id": "w1", "lease_seconds": 900},
            "queue.set": {"queue": QUEUE, "settings": {"max_attempts": chance.randrange(1, 99)}},
        }[kind]
        path = {"enqueue": f"queues/{QUEUE}/tasks", "claim": "claims"}.get(kind, kind)
        return _ask(path, {"verb": kind, **members}, key)
    verb = chance.choice(("submit", *ENDS, "complete"))
    bound = {name: lease[name] for name in ("task_id", "worker_id", "fencing_token")}
    more = {"result": {"n": key}} if verb in ("submit", "complete") else {}
    keyed = key if chance.random() < 0.5 else None
    return _ask(f"tasks/{lease['task_id']}/{verb}", {"verb": verb, **bound, **more}, keyed)


def _ask(path: str, members: dict[str, Any], key: str | None) -> Ask:
    headers = {"Content-Type": JSON, **({} if key is None else {"Idempotency-Key": key})}
    return Ask(f"/v1/default/{path}", json.dumps(members).encode(), headers)


# -- a life of the service


@contextmanager
def life(path: str, point: int | None) -> Iterator[tuple[int, Wire]]:
    """`fencepost serve` in a fork: its process id and a connection. `point`: None to live, 0 to be
    killed after the first commit of something new, else to be killed at that step."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        _serve(path, point, writes)
    os.close(writes)
    with os.fdopen(reads) as told:
        line = told.readline()
    if not line:
        os.waitpid(child, 0)
        raise AssertionError("the service did not start")
    wire = Wire(Origin.of(json.loads(line)["url"]), SECONDS)
    try:
        yield child, wire
    finally:
        wire.close()
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(child, 0)


def _serve(path: str, point: int | None, writes: int) -> None:
    try:
        os.dup2(writes, 1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        sys.stdout = os.fdopen(1, "w", closefd=False)
        if point == 0:
            die_after_writing()
        elif point is not None:
            die_at(point)
        main(["--store", path, "--json", "serve", "--port", "0"])
    finally:
        os._exit(1)


def die_after_writing() -> None:
    """Be killed between the first commit of something written and its answer."""
    save, commit = saving.save, SqliteTransaction.commit
    wrote: list[bool] = []

    def saved(*arguments: Any) -> Any:
        wrote.append(True)  # a seal of the journal commits too, and is not meant
        yield from save(*arguments)

    def committed(transaction: SqliteTransaction) -> None:
        commit(transaction)
        if wrote:
            os.kill(os.getpid(), signal.SIGKILL)

    saving.save, SqliteTransaction.commit = saved, committed  # type: ignore[assignment,method-assign]


def _killed(path: str, token: str, ask: Ask, point: int) -> tuple[Answer | None, int]:
    """What was heard, if anything, and how the service ended."""
    try:
        with life(path, point) as (child, wire):
            try:
                answer = wire.ask("POST", ask.target, token, ask.body, ask.headers)
            except Lost:
                return None, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            return answer, 0
    except AssertionError:
        return None, -signal.SIGKILL  # at a step of its start


def _asked_twice(path: str, token: str, ask: Ask) -> list[Answer]:
    with life(path, None) as (_, wire):
        return [wire.ask("POST", ask.target, token, ask.body, ask.headers) for _ in range(2)]


def _entries(path: str) -> int:
    """Entries that lie in the file, seen past every process."""
    with raw(Path(path)) as own:
        return int(own.execute("select count(*) from fencepost_entry").fetchone()[0])


def _untrue(
    point: int, first: Answer | None, code: int, kept: int, told: list[Answer], made: int
) -> str | None:
    if [answer.status for answer in told] != [200, 200]:
        return f"asked again: {[(answer.status, answer.body[:200]) for answer in told]}"
    if told[0].body != told[1].body:
        return "asked twice: not the same bytes"
    if first is not None and first.body != told[0].body:
        return "another receipt than was heard before the death"
    replayed = [answer.headers.get("idempotent-replayed") == "true" for answer in told]
    if replayed != [kept == 1, True]:
        return f"{kept} entries were kept, and replayed is {replayed}"
    if made != 1:
        return f"{made} effects"
    if point == 0 and (first is not None or code != -signal.SIGKILL or kept != 1):
        return f"no death between commit and answer ({code}, {kept} entries)"
    return None


def _lease_after(
    ask: Ask, told: list[Answer], lease: dict[str, Any] | None
) -> dict[str, Any] | None:
    verb = json.loads(ask.body)["verb"]
    if verb == "claim" and told and told[-1].status == 200:
        leases = json.loads(told[-1].body)["leases"]
        return leases[0] if leases else None
    return None if verb in ENDS else lease
