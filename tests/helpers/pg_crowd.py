"""What each process of a crowd does to one PostgreSQL store. All begin when the gate opens: an
advisory lock that the test holds."""

from __future__ import annotations

import hashlib
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg

import fencepost
from fencepost import commands as c
from fencepost.commands import Request
from fencepost.handle import Handle
from fencepost.issues import FencepostError, LeaseLost, OutcomeUnknown, Refused, Unavailable
from helpers.lab import QUEUE, SCOPE

GATE = 7_777


@contextmanager
def closed_gate(url: str) -> Iterator[Callable[[int], None]]:
    """Nobody begins in the block; what is yielded waits until so many stand before the gate."""
    with psycopg.connect(url, autocommit=True) as gate:
        gate.execute("select pg_advisory_lock(%s)", (GATE,))

        def gathered(count: int) -> None:
            sql = "select count(*) from pg_locks where locktype = 'advisory' and not granted"
            while gate.execute(sql).fetchone() != (count,):
                threading.Event().wait(0.01)

        yield gathered


def _through_the_gate(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as mine:
        mine.execute("select pg_advisory_lock_shared(%s)", (GATE,))


def _threads(count: int, work: Callable[[int], dict[str, Any]]) -> list[dict[str, Any]]:
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(work, range(count)))


def same_commands(url: str, threads: int, rounds: int) -> list[dict[str, str]]:
    """Every thread of every process sends the very same commands; what each was told, by name."""
    with fencepost.open(url, scope=SCOPE) as fp:
        _through_the_gate(url)
        return _threads(threads, lambda _: _same_rounds(fp, rounds))


def _same_rounds(fp: Handle, rounds: int) -> dict[str, str]:
    told: dict[str, str] = {}
    for number in range(rounds):
        queue = f"q{number % 3}"
        enqueue = Request.of(
            c.Enqueue(queue, (c.NewTask(number, f"t{number}"), c.NewTask(number))), f"e{number}"
        )
        _tell(told, f"enqueue {number}", fp, enqueue)
        claim = c.Claim("w1", (queue,), None, 2, 600)
        outcome = _tell(told, f"claim {number}", fp, Request.of(claim, f"c{number}"))
        told[f"taken {number}"] = " ".join(sorted(outcome.task_ids))
        for place, task_id in enumerate(sorted(outcome.task_ids)):
            fence = next(
                i["fence"] for i in outcome.receipt.entry["tasks"] if i["task_id"] == task_id
            )
            complete = Request.of(c.Complete(task_id, "w1", fence, result={"n": number}))
            _tell(told, f"complete {number} {place}", fp, complete)
    return told


def _tell(told: dict[str, str], name: str, fp: Handle, request: Request) -> Any:
    (outcome,) = fp.execute([request])
    if not outcome.accepted:
        told[name] = f"{outcome.issues}: {outcome.message}"
        return outcome
    told[name] = hashlib.sha256(outcome.receipt.body + outcome.receipt.salt).hexdigest()
    return outcome


def claim_all(url: str, worker: str, limit: int) -> dict[str, Any]:
    """Claim until there is no task left: (task, fence) of each, and the sizes of the answers."""
    taken: list[tuple[str, int]] = []
    sizes: list[int] = []
    with fencepost.open(url, scope=SCOPE) as fp:
        _through_the_gate(url)
        while found := fp.claim(QUEUE, worker_id=worker, limit=limit, lease_seconds=600):
            sizes.append(len(found))
            taken += [(lease.task_id, lease.fence) for lease in found]
    return {"taken": taken, "sizes": sizes}


def bring_into_being(url: str, seed: int, scopes: int, queues: int) -> list[str]:
    """Enqueue in every scope and queue, none of which is there, in an order of one's own."""
    names = [(f"s{s}", f"q{q}") for s in range(scopes) for q in range(queues)]
    random.Random(seed).shuffle(names)
    wrong: list[str] = []
    with fencepost.open(url, scope=SCOPE) as fp:
        _through_the_gate(url)
        for scope, queue in names:
            try:
                fp.as_caller("local", scope=scope).enqueue(queue, seed, key="one")
            except fencepost.KeyConflict:
                continue
            except FencepostError as error:
                wrong.append(repr(error))
    return wrong


def storm(url: str, seed: int, seconds: float) -> dict[str, Any]:
    """Everything at random, for some seconds. A refusal by a rule is an answer; what no rule says
    is wrong. `results` are the accepted ones, `raised` the policies that were acknowledged."""
    chance = random.Random(seed)
    told: dict[str, Any] = {"results": [], "wrong": [], "commands": 0}
    with fencepost.open(url, scope=SCOPE) as fp:
        _through_the_gate(url)
        end = time.monotonic() + seconds
        held: list[Any] = []
        while time.monotonic() < end:
            told["commands"] += 1
            try:
                _step(fp, chance, held, told["results"], f"w{seed}")
            except (Refused, LeaseLost):
                continue
            except (Unavailable, OutcomeUnknown) as error:
                told["wrong"].append(repr(error))
    return told


def _step(fp: Handle, chance: random.Random, held: list[Any], results: list[Any], me: str) -> None:
    kind = chance.choices(range(8), (6, 6, 8, 2, 1, 1, 0.5, 0.5))[0]
    if kind == 0:
        fp.enqueue_many(QUEUE, [{"payload": n, "key": f"k{chance.randrange(400)}"} for n in (1, 1)])
    elif kind == 1:
        held += fp.claim(QUEUE, worker_id=me, limit=chance.randint(1, 5), lease_seconds=5)
    elif kind == 2 and held:
        lease = held.pop(chance.randrange(len(held)))
        receipt = lease.complete({"by": me, "n": chance.randrange(99)})
        results.append((lease.task_id, receipt.number))
    elif kind == 3 and held:
        held.pop().fail("again", retry_seconds=0)
    elif kind == 4:
        fp.sweep(QUEUE)
    elif kind == 5:
        fp.purge(QUEUE, limit=20)
    elif kind == 6 and results:
        fp.erase(chance.choice(results)[0])
    elif kind == 7:
        fp.set_policy(fp.scope().policy_version + 1)
