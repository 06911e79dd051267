"""claim, renew, release, sweep: who holds a task, and until when."""

from __future__ import annotations

from heapq import heappop
from typing import Any

from fencepost.commands import Claim, LeaseCommand, Release, Renew, Request, Sweep
from fencepost.fields import MAX_SWEEP
from fencepost.issues import in_order
from fencepost.journal import entry
from fencepost.machine.batch import Batch, Verdict, accept, refuse
from fencepost.machine.owing import owe_state
from fencepost.machine.rows import QueueRow
from fencepost.model import Caller, QueueSettings, TaskRow
from fencepost.rules import destinations, limits, retry
from fencepost.rules.fence import held_last, lapsed, lease_issues
from fencepost.rules.lifecycle import state_issue
from fencepost.rules.owing import owed_by


def claim(batch: Batch, caller: Caller, request: Request, task: TaskRow | None) -> Verdict:
    """ready, or leased and lapsed with attempts left → leased, under the next fence."""
    command = request.command
    assert isinstance(command, Claim)
    queues = _queues(batch, caller.scope, command, task)
    codes = batch.blocked()
    open_queues = [queue for queue in queues if not _closed(batch, queue)]
    if queues and not open_queues:
        codes.append("queue_paused")
    if any(limits.lease_too_long(command.lease_seconds, queue.settings) for queue in queues):
        codes.append("lease_too_long")
    if task is not None and (code := state_issue("claim", task.state)):
        codes.append(code)
    if codes:
        return refuse(codes, command, _why_closed(batch, queues, codes))
    taken = Candidates(batch, open_queues, task).take(command.limit)
    settle_lapsed(batch, caller, request, spent(batch, open_queues, task))
    if not taken and (request.key is None or request.waits):
        return accept(None)
    one = command.queues[0] if command.queues and len(command.queues) == 1 else ""
    items = [_lease(batch, command, row, one) for row in taken]
    receipt = batch.record(caller, request, items, queue=one)
    verdict = accept(receipt, [row.task_id for row in taken])
    verdict.claimed = tuple((row.task_id, row.fence) for row in taken)
    return verdict


def _queues(
    batch: Batch, scope: str, command: Claim, task: TaskRow | None
) -> list[QueueRow]:
    names = (task.queue,) if task is not None else command.queues or ()
    rows = (batch.loaded.queues.get((scope, name)) for name in names)
    return [row for row in rows if row is not None]


def _closed(batch: Batch, queue: QueueRow) -> str | None:
    """A claim finds nothing on it: it is paused, or a destination that is stopped."""
    row = batch.loaded.destinations.get((queue.scope, queue.queue))
    return limits.queue_paused(queue.settings) or destinations.stopped(row)


def _why_closed(batch: Batch, queues: list[QueueRow], codes: list[str]) -> str:
    """Which of the queues are stopped, and why; empty where something else leads."""
    rows = (batch.loaded.destinations.get((queue.scope, queue.queue)) for queue in queues)
    told = [
        f"{row.queue} is stopped: {row.stopped}"
        for row in rows
        if row is not None and destinations.stopped(row)
    ]
    leads = told and in_order(codes)[0] == "queue_paused"
    return f"claim: {'; '.join(told)}; start it with destination.set" if leads else ""


class Candidates:
    """The tasks that a claim may take, best first: higher priority, then older."""

    def __init__(self, batch: Batch, queues: list[QueueRow], task: TaskRow | None) -> None:
        self.batch = batch
        self.pools = [batch.loaded.pool.get((queue.scope, queue.queue), []) for queue in queues]
        if task is not None:
            self.pools = [[(0, task.id, task.task_id)]] if queues else []

    def take(self, limit: int) -> list[TaskRow]:
        taken: list[TaskRow] = []
        seen: set[int] = set()
        while len(taken) < limit:
            pools = [pool for pool in self.pools if pool]
            if not pools:
                break
            row = self.batch.loaded.tasks.get(heappop(min(pools))[2])
            if row is None:  # purged by an earlier command of the batch
                continue
            if row.id not in seen and self._free(row):
                taken.append(row)
            seen.add(row.id)
        return taken

    def _free(self, row: TaskRow) -> bool:
        """The superset that SQL selected is judged here, by rows as they are by now."""
        if row.state == "ready":
            return retry.due(row, self.batch.now)
        overdue = lapsed(row, self.batch.moment(row.scope))
        return overdue and retry.claimable_after_lapse(row, self.batch.settings(row))


def spent(batch: Batch, queues: list[QueueRow], task: TaskRow | None) -> list[TaskRow]:
    """Lapsed tasks that cannot be claimed again: the claim settles a bounded number on its way."""
    ids = [task.task_id] if task is not None else []
    for queue in queues if task is None else ():
        ids += batch.loaded.lapsed.get((queue.scope, queue.queue), [])
    found = (batch.loaded.tasks[task_id] for task_id in ids)
    over = [row for row in found if lapsed(row, batch.moment(row.scope))]
    rows = [r for r in over if not retry.claimable_after_lapse(r, batch.settings(r))]
    return nameable(batch, rows)  # the next claim goes on


def nameable(batch: Batch, rows: list[TaskRow], limit: int = MAX_SWEEP) -> list[TaskRow]:
    """The first of these lapsed tasks, as many as one entry can name with what they owe."""
    room = MAX_SWEEP
    for number, row in enumerate(rows[:limit]):
        settings = batch.settings(row)
        room -= 1 + len(owed_by(settings, retry.after_lapse(row, settings)))
        if room < 0:
            return rows[:number]
    return rows[:limit]


def _lease(batch: Batch, command: Claim, row: TaskRow, queue: str) -> str:
    """Give the task to the worker. The attempt is charged now: a killed worker counts."""
    before = row.state
    settings = batch.settings(row)
    batch.touch(row)
    row.state = "leased"
    row.fence = batch.draw_fence()
    row.epoch = batch.epoch
    row.policy_version = batch.scope(row.scope).policy_version
    row.worker_id = command.worker_id
    row.attempt += 1
    row.granted_at = batch.now
    row.lease_expires_at = limits.lease_end(
        batch.now, batch.now, command.lease_seconds, settings
    )
    batch.stamp(row)
    return entry.item(row, before, queue)


def renew(batch: Batch, caller: Caller, request: Request, task: TaskRow | None) -> Verdict:
    """leased → leased: the end moves on, the fence stays, no entry is left."""
    command = request.command
    assert isinstance(command, Renew) and task is not None
    settings = batch.settings(task)
    codes = batch.blocked() + lease_issues(command, task, batch.moment(task.scope))
    if limits.lease_too_long(command.lease_seconds, settings):
        codes.append("lease_too_long")
    if not codes and limits.hold_used_up(task, settings):
        codes.append("lease_too_long")
    if codes:
        return refuse(codes, command, **settled(task, command))
    batch.touch(task, command.fence)
    end = limits.lease_end(batch.now, task.granted_at, command.lease_seconds, settings)
    task.lease_expires_at = max(task.lease_expires_at, end)
    batch.remark(task, command)
    return accept(None, (task.task_id,), lease_expires_at=task.lease_expires_at)


def release(batch: Batch, caller: Caller, request: Request, task: TaskRow | None) -> Verdict:
    """leased → ready: the attempt is given back, the fence is not."""
    command = request.command
    assert isinstance(command, Release) and task is not None
    codes = batch.blocked() + lease_issues(command, task, batch.moment(task.scope))
    if codes:
        return refuse(codes, command, **settled(task, command))
    batch.touch(task, command.fence)
    batch.remark(task, command)
    task.state = "ready"
    task.attempt -= 1
    batch.offer(task)
    return batch.conclude(caller, request, task, "leased")


def sweep(batch: Batch, caller: Caller, request: Request, task: TaskRow | None) -> Verdict:
    """leased and lapsed → ready, dead or blocked. Nothing depends on anyone calling it."""
    command = request.command
    assert isinstance(command, Sweep)
    if codes := batch.blocked():
        return refuse(codes, command)
    place = caller.scope, command.queue or ""
    found = (batch.loaded.tasks[task_id] for task_id in batch.loaded.lapsed.get(place, []))
    over = [row for row in found if lapsed(row, batch.moment(row.scope))]
    rows = nameable(batch, over, command.limit)
    if not rows and request.key is None:
        return accept(None)
    items = [item for row in rows for item in _settle(batch, row, command.queue or "")]
    receipt = batch.record(caller, request, items, queue=command.queue or "")
    return accept(receipt, [row.task_id for row in rows])


def settle_lapsed(batch: Batch, caller: Caller, request: Request, rows: list[TaskRow]) -> None:
    """The sweep that a claim does on its way: an entry of its own, before the claim's."""
    if rows:
        items = [item for row in rows for item in _settle(batch, row, "")]
        batch.record(caller, request, items, verb="sweep")


def _settle(batch: Batch, row: TaskRow, queue: str) -> list[str]:
    """The task as the entry names it, and after it what is owed for where it has gone."""
    settings: QueueSettings = batch.settings(row)
    batch.touch(row)
    row.state = retry.after_lapse(row, settings)
    if row.state == "ready":
        row.due_at = batch.now + retry.backoff(row.attempt, settings, batch.loaded.draw.jitter())
    text = f'"lease lapsed in attempt {row.attempt} of {row.max_attempts}"'
    row.reason = text.encode()
    batch.stamp(row)
    return [entry.item(row, "leased", queue), *owe_state(batch, row, row.reason, queue)]


def facts(task: TaskRow) -> dict[str, Any]:
    """What a refusal tells of the task as it is."""
    return {"state": task.state, "fencing_token": task.fence, "revision": task.revision}


def settled(task: TaskRow, command: LeaseCommand) -> dict[str, Any]:
    """The same, naming the entry that ended the task to the very worker and fence that did."""
    own = task.state == "done" and held_last(command, task)
    named = {"receipt": task.entry} if own else {}
    return {**facts(task), **named}
