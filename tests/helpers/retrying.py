"""A worker that is killed in the middle of its commands, and asks again with the same bytes.

Runs in a child without a thread, which forks for each try.
"""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

from fencepost import commands as c
from fencepost.machine.batch import lookup_of
from helpers.killing import Tell, die_after_commit, die_at, forked, told_in_fork
from helpers.lab import QUEUE, SCOPE, raw
from helpers.work import opened

ON_LEASE = (c.Submit, c.Complete, c.Complete, c.Fail, c.Release)
STEPS = 16  # about as many as a command has


def retries(path: str, now: int, seed: int, seconds: float, most: int) -> dict[str, Any]:
    """So many commands, or what fits into the time. Each is killed at a random step, or right
    after its commit; then it is asked twice more, and told the same receipt twice: the one that
    had been committed, if it had."""
    end, chance = time.monotonic() + seconds, random.Random(seed)
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    lease: dict[str, Any] | None = None
    while time.monotonic() < end and counts["commands"] < most:
        counts["commands"] += 1
        number = counts["commands"]
        request = _next(chance, lease, f"{seed}-{number}")
        after_commit = chance.random() < 0.5
        point = 0 if after_commit else chance.randrange(1, STEPS)
        code = forked(lambda r=request, p=point: _carry_out(path, now, r, p))  # type: ignore[misc]
        kept = _kept(path, request)
        _, told = told_in_fork(lambda tell, r=request: _ask_twice(path, now, r, tell))  # type: ignore[misc]
        counts["killed" if code == -signal.SIGKILL else "survived"] += 1
        counts["killed_between_commit_and_answer"] += code == -signal.SIGKILL and kept is not None
        what = _untrue(code, kept, after_commit, told)
        if what:
            wrong.append(f"{request.command.verb}, number {number}, point {point}: {what}")
        lease = _lease_after(request, told, lease)
    clean = told_in_fork(lambda tell: tell({"problems": _problems(path, now)}))[1]
    wrong += clean[-1].get("problems", clean[-1].get("wrong")) if clean else ["verify has died"]
    return {**counts, "wrong": wrong}


def _next(chance: random.Random, lease: dict[str, Any] | None, key: str) -> c.Request:
    if lease is not None:
        kind = chance.choice(ON_LEASE)
        more = {"result": {"n": key}} if kind in (c.Submit, c.Complete) else {}
        if kind is c.Complete and chance.random() < 0.3:
            more["followups"] = (c.Followup(key, queue="next"),)  # type: ignore[assignment]
        return c.Request.of(kind(lease["task_id"], "w1", lease["fence"], **more), key)
    if chance.random() < 0.5:
        return c.Request.of(c.Enqueue(QUEUE, (c.NewTask({"n": key}),)), key)
    return c.Request.of(c.Claim("w1", (QUEUE,)), key)


def _carry_out(path: str, now: int, request: c.Request, point: int) -> None:
    fp = opened(path, now)
    die_at(point) if point else die_after_commit()
    fp.execute([request])


def _ask_twice(path: str, now: int, request: c.Request, tell: Tell) -> None:
    with opened(path, now) as fp:
        for _ in range(2):
            (outcome,) = fp.execute([request])
            receipt = outcome.receipt
            tell({
                "entry": receipt.body.decode() if receipt else None, "issues": outcome.issues,
                "replayed": outcome.replayed,
                "leases": [{"task_id": g.task_id, "fence": g.fence} for g in outcome.grants],
            })  # fmt: skip


def _kept(path: str, request: c.Request) -> str | None:
    """The entry that lies in the file under the key of the request, before anybody asks again."""
    actor = getattr(request.command, "worker_id", "local")
    lookup = lookup_of(SCOPE, actor, request.key or "")
    with raw(Path(path)) as own:
        rows = own.execute("select body from fencepost_entry where key = ?", (lookup,)).fetchall()
    return rows[0][0].decode() if rows else None


def _untrue(
    code: int, kept: str | None, after_commit: bool, told: list[dict[str, Any]]
) -> str | None:
    if len(told) != 2 or any("wrong" in t for t in told):
        return f"asking again ended in {told}"
    first, second = told
    if first["issues"] or second["issues"]:
        return f"asked again: {first['issues']}, {second['issues']}"
    if first["entry"] is None or first["entry"] != second["entry"] or not second["replayed"]:
        return "asked twice: not the same receipt"
    if after_commit and (code != -signal.SIGKILL or kept is None):
        return f"the kill after the commit left nothing ({code})"
    if (kept is not None) != first["replayed"]:
        return "what was committed was done again" if kept else "a receipt from nowhere"
    if kept is not None and kept != first["entry"]:
        return "another receipt than was committed"
    return None


def _lease_after(
    request: c.Request, told: list[dict[str, Any]], lease: dict[str, Any] | None
) -> dict[str, Any] | None:
    if request.command.verb == "claim":
        leases = told[-1].get("leases") if told else None
        return leases[0] if leases else None
    return lease if request.command.verb in ("enqueue", "submit") else None


def _problems(path: str, now: int) -> list[str]:
    with opened(path, now) as fp:
        return [f"verify: {p.code} at {p.place}" for p in fp.verify().problems[:3]]

