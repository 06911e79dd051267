"""What commands from outside a lease may do, by what is true: people's, operators', settings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fencepost.clock import to_rfc3339
from fencepost.commands import (
    Cancel,
    Erase,
    Purge,
    QueueSet,
    Request,
    Requeue,
    Resolve,
    Review,
    Revoke,
    SetPolicy,
    Sweep,
)
from fencepost.model import Caller, Outcome
from fencepost.parts import NOTHING
from fencepost.record import replace
from helpers.sim import verbs
from helpers.sim.ghost import Job
from helpers.sim.laws import Judge
from helpers.sim.verbs import item_is, moved, one_task, refused, result, settled
from helpers.sim.world import SECOND, must

ENDED = ("done", "dead", "cancelled")
OPEN = ("ready", "leased", "blocked")


def sweep(judge: Judge, caller: Caller, request: Request, _: Job | None, outcome: Outcome) -> None:
    """leased and lapsed → ready, dead or blocked."""
    command, ghost = request.command, judge.ghost
    assert isinstance(command, Sweep)
    refused(outcome, ())
    entry = judge.entry(caller, request, outcome)
    judge.at(entry)
    settled(judge, entry)
    if judge.alone and len(entry["tasks"]) < command.limit:
        left = [job for job in ghost.open_jobs(caller.scope, command.queue) if ghost.lapsed(job)]
        must(not left, "a sweep has left what has lapsed")


def _from_outside(job: Job, command: Any, states: Iterable[str]) -> set[str]:
    codes = set() if job.state in states else {f"task_{job.state}"}
    if command.fence is not None and command.fence != job.fence:
        codes.add("unknown_fence" if command.fence > job.fence else "stale_fence")
    return codes


def cancel(
    judge: Judge, caller: Caller, request: Request, job: Job | None, outcome: Outcome
) -> None:
    """ready, leased, blocked → cancelled."""
    assert isinstance(request.command, Cancel) and job is not None
    if not refused(outcome, _from_outside(job, request.command, OPEN)):
        item, _ = one_task(judge, caller, request, job, outcome)
        moved(judge, item, job, "cancelled")


def new_round(job: Job) -> None:
    job.round += 1
    job.attempt = job.due_from = job.due_by = 0


def requeue(
    judge: Judge, caller: Caller, request: Request, job: Job | None, outcome: Outcome
) -> None:
    """dead, done, cancelled → ready, in a new round."""
    assert isinstance(request.command, Requeue) and job is not None
    if not refused(outcome, _from_outside(job, request.command, ENDED)):
        item, _ = one_task(judge, caller, request, job, outcome)
        new_round(job)
        moved(judge, item, job, "ready")


def resolve(
    judge: Judge, caller: Caller, request: Request, job: Job | None, outcome: Outcome
) -> None:
    """blocked → done with evidence (a result), ready, or dead."""
    command = request.command
    assert isinstance(command, Resolve) and job is not None
    if refused(outcome, _from_outside(job, command, ("blocked",))):
        return
    item, others = one_task(judge, caller, request, job, outcome)
    must(not result(judge, request, job, others), "a resolve has brought about more")
    if command.to == "retry":
        job.due_from = job.due_by = 0
    state = {"done": "done", "retry": "ready", "give_up": "dead"}[command.to]
    moved(judge, item, job, state)


def review(
    judge: Judge, caller: Caller, request: Request, job: Job | None, outcome: Outcome
) -> None:
    """One word of a human on one revision."""
    command = request.command
    assert isinstance(command, Review) and job is not None
    word = job.words.get(command.revision)
    codes = {"stale_revision"} if word is None else set()
    codes |= set() if word in (None, "open") else {"commitment_closed"}
    if command.requeue and job.state not in ENDED:
        codes.add(f"task_{job.state}")
    if refused(outcome, codes):
        return
    item, _ = one_task(judge, caller, request, job, outcome)
    job.words[command.revision] = command.verdict
    if command.requeue:
        new_round(job)
        moved(judge, item, job, "ready")
    else:
        item_is(item, job, job.state)


def erase(
    judge: Judge, caller: Caller, request: Request, job: Job | None, outcome: Outcome
) -> None:
    """Content goes, of the task and of what it owes; open ones are cancelled."""
    ghost = judge.ghost
    assert isinstance(request.command, Erase) and job is not None
    if refused(outcome, _from_outside(job, request.command, (*ENDED, *OPEN))):
        return
    entry = judge.entry(caller, request, outcome, job)
    judge.at(entry)
    owed = [ghost.jobs[task_id] for task_id in job.owes]
    gone = [job, *(other for other in owed if not other.erased and not other.purged)]
    must({i["task_id"] for i in entry["tasks"]} == {g.task_id for g in gone}, "erased: others")
    for item in entry["tasks"]:
        one = ghost.jobs[item["task_id"]]
        moved(judge, item, one, one.state if one.state in ENDED else "cancelled")
        ghost.erase(one)


def purge(judge: Judge, caller: Caller, request: Request, _: Job | None, outcome: Outcome) -> None:
    """Ended tasks whose retention is over are there no more."""
    command, ghost = request.command, judge.ghost
    assert isinstance(command, Purge)
    refused(outcome, ())
    entry = judge.entry(caller, request, outcome)
    judge.at(entry)
    for item in entry["tasks"]:
        job = ghost.jobs[item["task_id"]]
        kept = ghost.settings(job.place).retain_seconds
        kept = ghost.retain.get(job.scope) if kept is None else kept
        over = kept is not None and job.changed + kept * SECOND <= ghost.time.now
        must(over and job.state in ENDED and not job.purged, f"a {job.state} task was purged")
        must("state" not in item and item["before"] == job.state, "a purged task has no state")
        ghost.purge(job)


# -- settings


def plain(judge: Judge, caller: Caller, request: Request, outcome: Outcome) -> dict[str, Any]:
    """An accepted command that touches no task."""
    refused(outcome, ())
    entry = judge.entry(caller, request, outcome)
    must(entry["tasks"] == [], "a setting has touched a task")
    return entry


def queue_set(
    judge: Judge, caller: Caller, request: Request, _: Job | None, outcome: Outcome
) -> None:
    command = request.command
    assert isinstance(command, QueueSet)
    judge.at(plain(judge, caller, request, outcome))
    place = caller.scope, command.queue
    given = {**command.settings}
    if "destinations" in given:
        given["destinations"] = tuple(given["destinations"])
    judge.ghost.set_queue(place, replace(judge.ghost.settings(place), **given))


def set_policy(
    judge: Judge, caller: Caller, request: Request, _: Job | None, outcome: Outcome
) -> None:
    command, policy = request.command, judge.ghost.policy
    assert isinstance(command, SetPolicy)
    version = command.policy_version
    if version is not None and version <= policy.get(caller.scope, 0):
        refused(outcome, {"stale_policy"})
        return
    judge.at(plain(judge, caller, request, outcome))
    if version is not None:
        policy[caller.scope] = version
    if command.retain_seconds is not NOTHING:
        judge.ghost.retain[caller.scope] = command.retain_seconds


def revoke(judge: Judge, caller: Caller, request: Request, _: Job | None, outcome: Outcome) -> None:
    command = request.command
    assert isinstance(command, Revoke)
    judge.at(plain(judge, caller, request, outcome))
    judge.ghost.revoked[caller.scope] = command.revoked


def clock_reset(
    judge: Judge, caller: Caller, request: Request, _: Job | None, outcome: Outcome
) -> None:
    """The time is the wall clock's, in a new epoch that is the floor; all leases end."""
    ghost = judge.ghost
    entry = plain(judge, caller, request, outcome)
    wall = ghost.time.wall
    must(entry["note"]["to"] == to_rfc3339(wall), "the time is not the wall clock's after a reset")
    ghost.time.reset()
    judge.at(entry)
    for job in ghost.open_jobs():
        if job.state == "leased":
            job.until = min(job.until, wall)


VERBS: dict[str, verbs.Verb] = {
    "enqueue": verbs.enqueue, "claim": verbs.claim, "renew": verbs.renew, "submit": verbs.submit,
    "complete": verbs.complete, "fail": verbs.fail, "release": verbs.release, "cancel": cancel,
    "requeue": requeue, "resolve": resolve, "review": review, "sweep": sweep, "erase": erase,
    "purge": purge, "queue.set": queue_set, "scope.set_policy": set_policy,
    "scope.revoke": revoke, "clock.reset": clock_reset,
}  # fmt: skip
