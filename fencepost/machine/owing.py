"""Obligations: a task on each destination that what has come of a task obliges, in the very
transaction that has brought it about.

The message is complete in itself, so that it outlives the retention of the task it came from. Its
bytes are canonical by hand: the members are sorted, and names, digests and keys need no escape.
"""

from __future__ import annotations

from collections.abc import Sequence

from fencepost.clock import to_rfc3339
from fencepost.commands import NewTask
from fencepost.journal import entry
from fencepost.machine.batch import Batch
from fencepost.model import TaskRow
from fencepost.record import dataclass
from fencepost.rules.owing import owed_by


@dataclass(frozen=True, slots=True)
class Accepted:
    """Under which lease a result was accepted, when, and whether it ended its task: the store's
    own, or that of the writer whose result is imported."""

    at: int
    epoch: int
    fence: int
    final: bool


def owe_result(
    batch: Batch, parent: TaskRow, result: bytes, digest: bytes, by: Accepted
) -> list[str]:
    """What is owed for a result that was just accepted, as its entry names it."""
    owed = owed_by(batch.settings(parent), "result")
    if not owed:
        return []
    message = b"".join((
        f'{{"at":"{to_rfc3339(by.at)}","epoch":{by.epoch},"fencing_token":{by.fence},'
        f'"final":{"true" if by.final else "false"},{_named(parent)}"outcome":"result",'
        f'"queue":"{parent.queue}","result":'.encode(), result,
        f',"result_sha256":"{digest.hex()}","revision":{parent.revision},'
        f'"task_id":"{parent.task_id}"}}'.encode(),
    ))  # fmt: skip
    return _put(batch, parent, owed, message, parent.queue)


def owe_state(
    batch: Batch, parent: TaskRow, reason: bytes | None = None, queue: str | None = None
) -> list[str]:
    """What is owed for the state that the task has just come to, for a `reason` if there was one.
    `queue` is the entry's own, where that is not the task's."""
    settings = batch.settings(parent)
    if not settings.outcomes:
        return []
    owed = owed_by(settings, parent.state)
    if not owed:
        return []
    because = b"" if reason is None else b'"reason":' + reason + b","
    message = b"".join((
        f'{{"at":"{to_rfc3339(batch.now)}","epoch":{batch.epoch},"fencing_token":{parent.fence},'
        f'{_named(parent)}"outcome":"{parent.state}","queue":"{parent.queue}",'.encode(), because,
        f'"revision":{parent.revision},"round":{parent.round},'
        f'"task_id":"{parent.task_id}"}}'.encode(),
    ))  # fmt: skip
    return _put(batch, parent, owed, message, parent.queue if queue is None else queue)


def _named(parent: TaskRow) -> str:
    return "" if parent.key is None else f'"key":"{parent.key}",'


def _put(
    batch: Batch, parent: TaskRow, owed: Sequence[str], message: bytes, entry_queue: str
) -> list[str]:
    items = []
    for destination in owed:
        queue = batch.need_queue(parent.scope, destination)
        row = batch.new_task(queue, OBLIGATION, batch.now, message, parent.id)
        if parent.id in batch.loaded.children:  # an erase later in this batch takes it along
            batch.loaded.children[parent.id].append(row.task_id)
        items.append(entry.item(row, None, entry_queue, "obligation"))
    return items


OBLIGATION = NewTask(payload=None)
