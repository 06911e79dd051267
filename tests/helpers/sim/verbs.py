"""What each verb may do, by what is true. Called where rules 1 to 3 and the lease allow it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from fencepost.clock import from_rfc3339, to_rfc3339
from fencepost.commands import (
    Claim,
    Complete,
    Enqueue,
    Fail,
    NewTask,
    Renew,
    Request,
    Submit,
)
from fencepost.model import Caller, Outcome
from helpers.sim.ghost import Job
from helpers.sim.laws import Judge, told
from helpers.sim.world import SECOND, must

Verb = Callable[[Judge, Caller, Request, Job | None, Outcome], None]


def refused(outcome: Outcome, due: Iterable[str]) -> bool:
    """Exactly these codes are due; tells whether there are any."""
    codes = set(due)
    if "receipt_erased" in codes:  # rule 3 ends the list
        codes = {"receipt_erased"}
    must(set(outcome.issues) == codes and outcome.accepted != bool(codes),
         f"due is {sorted(codes) or 'to be accepted'}, told is {told(outcome)}")  # fmt: skip
    return bool(codes)


def item_is(item: dict[str, Any], job: Job, before: str | None) -> None:
    """What the entry says of the task is what is true after the command."""
    said = (item["task_id"], item.get("before"), item["state"], item["fence"], item["revision"])
    due = (job.task_id, before, job.state, job.fence, job.revision)
    must(said == due, f"the entry says {said}, due is {due}")


def moved(judge: Judge, item: dict[str, Any], job: Job, state: str) -> None:
    """The task is in another state, by this entry."""
    before = job.state
    judge.ghost.move(job, state)
    item_is(item, job, before)


def one_task(
    judge: Judge, caller: Caller, request: Request, job: Job, outcome: Outcome
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The entry of a command on one task: what it says of that, and of what it brought about."""
    entry = judge.entry(caller, request, outcome, job)
    judge.at(entry)
    must(outcome.task_ids == (job.task_id,), "the outcome names another task")
    first, *others = entry["tasks"]
    return first, others


# -- enqueue and what results bring about


def key_codes(judge: Judge, scope: str, new: Iterable[tuple[str, NewTask]]) -> set[str]:
    """key_conflict and receipt_erased, for tasks to be added."""
    codes, here = set(), {}
    for queue, task in new:
        if task.key is None:
            continue
        known = judge.ghost.keys.get((scope, queue, task.key))
        payload = here.setdefault((queue, task.key), task.members["payload"])
        if known is not None:
            job = judge.ghost.jobs[known]
            if job.erased or job.purged:
                codes.add("receipt_erased")
            payload = job.payload
        if payload != task.members["payload"]:
            codes.add("key_conflict")
    return codes


def added(
    judge: Judge, scope: str, queue: str, new: NewTask, item: dict[str, Any], parent: Job | None
) -> None:
    """A new task, or the one that has its key."""
    ghost = judge.ghost
    known = ghost.keys.get((scope, queue, new.key)) if new.key is not None else None
    if known is not None:
        must(item["task_id"] == known, "a known task key gave another task")
        item_is(item, ghost.jobs[known], ghost.jobs[known].state)
        return
    must(item["task_id"] not in ghost.jobs, "a task id was given twice")
    place = scope, queue
    attempts = new.max_attempts or ghost.settings(place).max_attempts
    due = 0 if new.due_at is None else from_rfc3339(str(new.due_at))
    job = Job(
        item["task_id"], scope, queue, new.key, new.members["payload"], attempts, ghost.time.now,
        due, due, None if parent is None else parent.task_id,
    )  # fmt: skip
    ghost.add(job)
    item_is(item, job, None)


def enqueue(
    judge: Judge, caller: Caller, request: Request, _: Job | None, outcome: Outcome
) -> None:
    """– → ready; a known task key gives the task as it is."""
    command = request.command
    assert isinstance(command, Enqueue)
    codes = key_codes(judge, caller.scope, [(command.queue, task) for task in command.tasks])
    if judge.ghost.settings((caller.scope, command.queue)).paused:
        codes.add("queue_paused")
    if refused(outcome, codes):
        return
    entry = judge.entry(caller, request, outcome)
    judge.at(entry)
    for new, item in zip(command.tasks, entry["tasks"], strict=True):
        added(judge, caller.scope, command.queue, new, item, None)


def result(
    judge: Judge, request: Request, job: Job, others: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """A result, if it brings one that the round has not yet, and what is owed for it: one to each
    destination. Returns the entry's other items."""
    digest, ghost = request.result_sha256, judge.ghost
    fresh = digest is not None and (job.round, digest) not in job.results
    if fresh:
        assert digest is not None
        job.results.append((job.round, digest))
        job.words[job.revision] = "open"
    owed = [item for item in others if item.get("role") == "obligation"]
    due = ghost.settings(job.place).destinations if fresh else ()
    queues = sorted(item.get("queue", job.queue) for item in owed)
    must(queues == sorted(due), f"owed to {sorted(due)}, the entry has {queues}")
    for item in owed:
        must("before" not in item and item["task_id"] not in ghost.jobs, "an obligation is new")
        message = _message(judge, request, job)
        owing = Job(
            item["task_id"], job.scope, item["queue"], None, message,
            ghost.settings((job.scope, item["queue"])).max_attempts, ghost.time.now,
            parent=job.task_id,
        )  # fmt: skip
        ghost.add(owing)
        job.owes.append(owing.task_id)
        item_is(item, owing, None)
    return [item for item in others if item.get("role") != "obligation"]


def _message(judge: Judge, request: Request, job: Job) -> bytes:
    """What an obligation says: the result, and where it comes from."""
    members = request.command.members
    content = (members.get("result") or members.get("evidence") or b"").decode()
    assert request.result_sha256 is not None
    final = "false" if request.command.verb == "submit" else "true"
    key = f'"key":"{job.key}",' if job.key else ""
    return (
        f'{{"at":"{to_rfc3339(judge.ghost.time.now)}","epoch":{judge.ghost.epoch},'
        f'"fencing_token":{job.fence},"final":{final},{key}"outcome":"result",'
        f'"queue":"{job.queue}","result":{content},'
        f'"result_sha256":"{request.result_sha256.hex()}",'
        f'"revision":{job.revision},"task_id":"{job.task_id}"}}'
    ).encode()


# -- a worker's commands


def claim(
    judge: Judge, caller: Caller, request: Request, job: Job | None, outcome: Outcome
) -> None:
    """What is free → leased, under fences that rise above all that were given before."""
    command, ghost = request.command, judge.ghost
    assert isinstance(command, Claim)
    scope = caller.scope
    queues = command.queues if job is None else (job.queue,)
    codes = set()
    there = [(scope, queue) for queue in queues or () if ghost.known((scope, queue))]
    if there and all(ghost.settings(place).paused for place in there):
        codes.add("queue_paused")
    if job is not None and job.state not in ("ready", "leased"):
        codes.add(f"task_{job.state}")
    if refused(outcome, codes):
        return
    free = [other for place in there if not ghost.settings(place).paused
            for other in ghost.open_jobs(*place) if ghost.free(other, surely=True)]  # fmt: skip
    entry = judge.entry(caller, request, outcome)
    judge.at(entry)
    for item in entry["tasks"]:
        leased(judge, command, ghost.jobs[item["task_id"]], item)
        must(ghost.jobs[item["task_id"]].queue in (queues or ()), "a task of another queue")
    left = [other for other in free if job in (None, other) and ghost.free(other, surely=True)]
    more = len(entry["tasks"]) < command.limit
    must(not (judge.alone and more and left), "a claim has passed over what was free")


def leased(judge: Judge, command: Claim, job: Job, item: dict[str, Any]) -> None:
    """One task of a claim."""
    ghost = judge.ghost
    must(ghost.free(job) and not job.erased, f"{job.task_id} was claimed, and was not free")
    must(not ghost.settings(job.place).paused, "a task of a paused queue was claimed")
    lowest = max(ghost.highest, ghost.epoch << 32)
    must(item["fence"] > lowest, f"fence {item['fence']} after {lowest}: it does not rise")
    ghost.highest = job.fence = item["fence"]
    job.epoch, job.policy = ghost.epoch, ghost.policy.get(job.scope, 0)
    job.worker, job.granted = command.worker_id, ghost.time.now
    job.attempt += 1
    job.until = end_of(judge, job, command.lease_seconds)
    moved(judge, item, job, "leased")


def end_of(judge: Judge, job: Job, seconds: int | None) -> int:
    """When a lease asked for now ends."""
    settings = judge.ghost.settings(job.place)
    asked = settings.lease_seconds if seconds is None else seconds
    longest = job.granted + settings.max_hold_seconds * SECOND
    return min(judge.ghost.time.now + asked * SECOND, longest)


def renew(
    judge: Judge, caller: Caller, request: Request, job: Job | None, outcome: Outcome
) -> None:
    """The end moves on and never back."""
    command = request.command
    assert isinstance(command, Renew) and job is not None
    longest = job.granted + judge.ghost.settings(job.place).max_hold_seconds * SECOND
    if refused(outcome, {"lease_too_long"} if job.until >= longest else ()):
        return
    job.until = max(job.until, end_of(judge, job, command.lease_seconds))
    must(outcome.facts["lease_expires_at"] == job.until, "a renewal tells another end")


def submit(
    judge: Judge, caller: Caller, request: Request, job: Job | None, outcome: Outcome
) -> None:
    """leased → leased, with one result more."""
    command = request.command
    assert isinstance(command, Submit) and job is not None
    codes = set()
    if (job.round, request.result_sha256) in job.results:
        codes.add("duplicate_result")
    if command.expected_revision not in (None, job.revision):
        codes.add("stale_revision")
    if refused(outcome, codes):
        return
    item, others = one_task(judge, caller, request, job, outcome)
    must(not result(judge, request, job, others), "a submit has brought about more")
    moved(judge, item, job, "leased")


def complete(
    judge: Judge, caller: Caller, request: Request, job: Job | None, outcome: Outcome
) -> None:
    """leased → done, with at most one result more, and the follow-ups."""
    command = request.command
    assert isinstance(command, Complete) and job is not None
    new = [(task.queue, task) for task in command.followups]
    codes = key_codes(judge, caller.scope, new)
    if command.expected_revision not in (None, job.revision):
        codes.add("stale_revision")
    if refused(outcome, codes):
        return
    item, others = one_task(judge, caller, request, job, outcome)
    followed = result(judge, request, job, others)
    moved(judge, item, job, "done")
    for (queue, task), child in zip(new, followed, strict=True):
        added(judge, job.scope, queue, task, child, job)


def fail(judge: Judge, caller: Caller, request: Request, job: Job | None, outcome: Outcome) -> None:
    """leased → ready after a while, dead, or blocked."""
    command = request.command
    assert isinstance(command, Fail) and job is not None
    refused(outcome, ())
    item, _ = one_task(judge, caller, request, job, outcome)
    out = "ready" if job.attempt < job.max_attempts else "dead"
    state = {"retry": out, "give_up": "dead", "block": "blocked"}[command.then]
    moved(judge, item, job, state)
    if state == "ready" and command.retry_seconds is None:
        judge.ghost.wait(job)
    elif state == "ready":
        job.due_from = job.due_by = judge.ghost.time.now + (command.retry_seconds or 0) * SECOND


def release(
    judge: Judge, caller: Caller, request: Request, job: Job | None, outcome: Outcome
) -> None:
    """leased → ready, and the attempt is given back."""
    assert job is not None
    refused(outcome, ())
    item, _ = one_task(judge, caller, request, job, outcome)
    job.attempt -= 1
    moved(judge, item, job, "ready")


# -- lapsed leases


def settled(judge: Judge, entry: dict[str, Any]) -> None:
    """Lapsed leases, and no others, are settled as their queue says."""
    ghost = judge.ghost
    for item in entry["tasks"]:
        job = ghost.jobs[item["task_id"]]
        must(ghost.lapsed(job), f"a {job.state} task whose lease had not lapsed was swept")
        moved(judge, item, job, ghost.after_lapse(job))
        if job.state == "ready":
            ghost.wait(job)
