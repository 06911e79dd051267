"""erase and purge: content goes, proofs and tombstones stay."""

from __future__ import annotations

import json
from collections.abc import Sequence, Set

from fencepost.commands import Erase, Purge, Request
from fencepost.journal import entry
from fencepost.machine.batch import Batch, Verdict, accept, refuse
from fencepost.machine.claims import facts
from fencepost.machine.rows import Stored
from fencepost.machine.tasks import task_lookup
from fencepost.model import Caller, QueueSettings, Scope, TaskRow
from fencepost.rules.fence import moved_on
from fencepost.rules.lifecycle import ENDED
from fencepost.rules.retry import SECOND

ERASED_AT_ONCE = 180


def erase(batch: Batch, caller: Caller, request: Request, task: TaskRow | None) -> Verdict:
    """Content, key and openings of a task and of its obligations go; an open task is cancelled.

    One entry names at most 180 obligations. Where there are more, they go first, the task
    stays, and `remaining` says so: send the next erase until it is 0.
    """
    command = request.command
    assert isinstance(command, Erase) and task is not None
    codes = batch.blocked()
    if code := moved_on(command.fence, task):
        codes.append(code)
    if codes:
        return refuse(codes, command, **facts(task))
    owed = still_owed(batch, task)
    rows = owed[:ERASED_AT_ONCE]
    remaining = len(owed) - len(rows)
    if not remaining:
        rows = [task, *rows]
    items = [_erase(batch, row, command.fence if row is task else None) for row in rows]
    receipt = batch.record(caller, request, items, task=task)
    for row in rows:
        _forget(batch, row)
    return accept(receipt, [row.task_id for row in rows], remaining=remaining)


def still_owed(batch: Batch, task: TaskRow) -> list[TaskRow]:
    """Its obligations that are not erased; of those that one entry cannot name, one is loaded."""
    children = (batch.loaded.tasks.get(child) for child in batch.loaded.children.get(task.id, ()))
    return [child for child in children if child is not None and not child.erased]


def _erase(batch: Batch, row: TaskRow, fence: int | None) -> str:
    before = row.state
    batch.touch(row, fence)
    if row.state not in ENDED:
        row.state = "cancelled"
    row.erased = batch.now
    batch.stamp(row)
    batch.changes.erased.append(row)
    return entry.item(row, before)


def _forget(batch: Batch, row: TaskRow) -> None:
    """The rest of the batch meets the keys of what is erased as every later batch will."""
    gone = batch.loaded.tombstones
    _forget_key(batch, row)
    for lookup, stored in batch.loaded.receipts.items():
        if row.id == stored.task or _has_brought(stored, row):
            gone.add(lookup)


def _forget_key(batch: Batch, row: TaskRow) -> None:
    if row.key is not None:
        batch.loaded.tombstones.add(task_lookup(row.scope, row.queue, row.key))


def _has_brought(stored: Stored, row: TaskRow) -> bool:
    """Whether the request of this entry holds the content of the task, which it brought about or
    named by its key (see `Changes.named`)."""
    if stored.number == row.created_entry:
        return True
    told = {} if stored.body is None else json.loads(stored.body)
    items = (item for item in told.get("tasks", ()) if item["task_id"] == row.task_id)
    return any(told["verb"] == "enqueue" or item.get("role") == "followup" for item in items)


def purge(batch: Batch, caller: Caller, request: Request, task: TaskRow | None) -> Verdict:
    """Ended tasks go whose retention is over, with results and openings. Leaf hashes stay."""
    command = request.command
    assert isinstance(command, Purge)
    if codes := batch.blocked():
        return refuse(codes, command)
    scope = batch.scope(caller.scope)
    found = [batch.loaded.tasks.get(task_id) for task_id in batch.loaded.purgeable]
    there = [row for row in found if row is not None]
    rows = [row for row in there if _due(batch, row, scope, command.queue)][: command.limit]
    if not rows and request.key is None:
        return accept(None)
    items = [entry.gone(row, command.queue or "") for row in rows]
    for row in rows:
        batch.touch(row)
        batch.changes.purged.append(row)
        batch.changes.updated.pop(row.task_id, None)
        del batch.loaded.tasks[row.task_id]
    _forget_receipts(batch, rows)
    receipt = batch.record(caller, request, items, queue=command.queue or "")
    return accept(receipt, [row.task_id for row in rows])


def _forget_receipts(batch: Batch, rows: Sequence[TaskRow]) -> None:
    """The same for what is purged. A receipt goes with the task that it is about, that of an
    enqueue (or of a sweep that had something to owe) with the last of its tasks: as long as one of
    them is there, who sends it again gets it."""
    purged = {row.id for row in rows}
    brought = {row.created_entry for row in rows}
    for row in rows:
        _forget_key(batch, row)
    for lookup, stored in batch.loaded.receipts.items():
        if stored.task in purged or _is_spent(batch, stored, brought):
            batch.loaded.tombstones.add(lookup)


def _is_spent(batch: Batch, stored: Stored, brought: Set[int]) -> bool:
    """Whether this is an enqueue, or a sweep that has brought about what is purged, of whose tasks
    none is left; a purge has all of them loaded."""
    tasks = stored.tasks("enqueue", *(("sweep",) if stored.number in brought else ()))
    return bool(tasks) and not any(task_id in batch.loaded.tasks for task_id in tasks)


def retention(settings: QueueSettings, scope: Scope) -> int | None:
    """Microseconds that an ended task is kept: the queue's word, else the scope's, else ever."""
    seconds = settings.retain_seconds
    if seconds is None:
        seconds = scope.retain_seconds
    return None if seconds is None else seconds * SECOND


def _due(batch: Batch, row: TaskRow, scope: Scope, queue: str | None) -> bool:
    if row.scope != scope.scope or row.state not in ENDED or queue not in (None, row.queue):
        return False
    kept = retention(batch.settings(row), scope)
    return kept is not None and row.changed_at + kept <= batch.now
