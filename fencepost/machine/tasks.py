"""enqueue, and the follow-ups of a completion."""

from __future__ import annotations

from collections.abc import Iterable

from fencepost.clock import from_rfc3339
from fencepost.commands import Enqueue, NewTask, Request
from fencepost.journal import entry
from fencepost.machine.batch import Batch, Verdict, accept, refuse
from fencepost.machine.rows import QueueRow
from fencepost.model import Caller, QueueSettings, TaskRow
from fencepost.rules import limits


def enqueue(batch: Batch, caller: Caller, request: Request, task: TaskRow | None) -> Verdict:
    """– → ready. A known task key with the same payload gives the task as it is."""
    command = request.command
    assert isinstance(command, Enqueue)
    queue = batch.loaded.queues.get((caller.scope, command.queue))
    settings = QueueSettings() if queue is None else queue.settings
    codes = batch.blocked()
    if limits.queue_paused(settings):
        codes.append("queue_paused")
    codes += new_task_issues(batch, caller.scope, command.queue, command.tasks)
    if codes:
        return refuse(codes, command)
    rows = []
    items = []
    known: list[tuple[int, int]] = []
    queue = batch.need_queue(caller.scope, command.queue)
    for new in command.tasks:
        row = known_task(batch, queue.scope, queue.queue, new)
        before: str | None = None
        if row is None:
            row = add(batch, queue, new, None)
        else:
            before = row.state
            known.append((row.id, batch.next_entry))
        rows.append(row)
        items.append(entry.item(row, before, command.queue))
    if len(known) == len(rows) and request.key is None:
        return accept(None, [row.task_id for row in rows], known=True)
    batch.changes.named += known
    receipt = batch.record(caller, request, items, queue=command.queue)
    return accept(receipt, [row.task_id for row in rows])


def known_task(batch: Batch, scope: str, queue: str, new: NewTask) -> TaskRow | None:
    """The task that bears this key already."""
    if new.key is None:
        return None
    task_id = batch.loaded.keyed.get((scope, queue, new.key))
    return None if task_id is None else batch.loaded.tasks[task_id]


def new_task_issues(
    batch: Batch, scope: str, queue: str, tasks: Iterable[NewTask]
) -> list[str]:
    """Rule 4 for tasks to be added: too large, or of a key that has another payload."""
    row = batch.loaded.queues.get((scope, queue))
    settings = QueueSettings() if row is None else row.settings
    codes = []
    named: dict[str, bytes] = {}
    for new in tasks:
        payload = new.members["payload"]
        if limits.payload_too_large(len(payload), settings):
            codes.append("payload_too_large")
        if new.key is not None:
            codes += key_issues(batch, scope, queue, new, payload)
            if named.setdefault(new.key, payload) != payload:  # twice in this very command
                codes.append("key_conflict")
    return codes


def key_issues(batch: Batch, scope: str, queue: str, new: NewTask, payload: bytes) -> list[str]:
    """A task key is bound to its payload for the task's life, and stays taken when erased."""
    if task_lookup(scope, queue, new.key or "") in batch.loaded.tombstones:
        return ["receipt_erased"]
    row = known_task(batch, scope, queue, new)
    if row is None:
        return []
    salt = batch.loaded.salts.get(row.id)
    if salt is None:
        return ["receipt_erased"]
    same = entry.content_commitment(salt, new.key, payload) == row.content
    return [] if same else ["key_conflict"]


def task_lookup(scope: str, queue: str, key: str) -> str:
    """How an erased task key is found again (a caller's key has no `#` before its scope)."""
    return f"# {scope} {queue} {key}"


def add(batch: Batch, queue: QueueRow, new: NewTask, parent: int | None) -> TaskRow:
    """A new task on the queue, due at once unless it says otherwise."""
    due_at = batch.now if new.due_at is None else from_rfc3339(str(new.due_at))
    return batch.new_task(queue, new, due_at, new.members["payload"], parent)


def add_followup(batch: Batch, parent: TaskRow, queue: str, new: NewTask) -> str:
    """A follow-up of `parent`, as its entry names it. A known key gives the known task."""
    row = known_task(batch, parent.scope, queue, new)
    if row is not None:
        batch.changes.named.append((row.id, batch.next_entry))
        return entry.item(row, row.state, parent.queue, "followup")
    row = add(batch, batch.need_queue(parent.scope, queue), new, parent.id)
    return entry.item(row, None, parent.queue, "followup")
