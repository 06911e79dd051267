"""What the machine decides on a command (`Verdict`), and the few moves that every verb is made of
(`Batch`)."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappush
from typing import Any

from fencepost.commands import Command, NewTask, Request
from fencepost.fields import MAX_ENTRY_BYTES
from fencepost.issues import ISSUES, in_order, status_of
from fencepost.journal import entry
from fencepost.machine.rows import Changes, Loaded, QueueRow, Stored
from fencepost.model import (
    Caller,
    Outcome,
    QueueSettings,
    Receipt,
    Scope,
    StoreState,
    TaskRow,
)
from fencepost.record import dataclass
from fencepost.rules import fence as fences
from fencepost.rules.authority import actor_of
from fencepost.rules.moment import Moment


@dataclass(slots=True)
class Verdict:
    """What was decided on one command; `claimed` are (task_id, fence) for its live leases."""

    outcome: Outcome
    claimed: tuple[tuple[str, int], ...] = ()


class Batch:
    """The rows as they stand while a batch is folded, and the moves that verbs are made of."""

    def __init__(self, loaded: Loaded) -> None:
        self.loaded = loaded
        self.now = loaded.now
        self.changes = Changes()
        self.epoch = loaded.store.epoch
        self.floor = loaded.store.floor
        self.mark = loaded.now
        self.last_fence = loaded.store.last_fence
        self.last_task = loaded.store.last_task
        self.last_entry = loaded.store.last_entry
        self._moments: dict[str, Moment] = {}

    # -- reading

    def blocked(self) -> list[str]:
        """The start of rule 4: the codes that hold for every change of this store."""
        return ["store_read_only"] if self.loaded.read_only else []

    def moment(self, scope: str) -> Moment:
        """What lease rules of this scope compare with."""
        found = self._moments.get(scope)
        if found is None:
            policy = self.scope(scope).policy_version
            found = self._moments[scope] = Moment(self.now, self.floor, policy)
        return found

    def forget_moments(self) -> None:
        """After a change of policy, epoch or floor within the batch."""
        self._moments.clear()

    def scope(self, name: str) -> Scope:
        return self.loaded.scopes.get(name) or Scope(name)

    def settings(self, task: TaskRow) -> QueueSettings:
        return self.loaded.queues[task.scope, task.queue].settings

    # -- changing

    def need_queue(self, scope: str, queue: str) -> QueueRow:
        """The queue, brought into being with its scope where it is new."""
        if scope not in self.loaded.scopes:
            self.loaded.scopes[scope] = self.changes.scopes[scope] = Scope(scope)
        row = self.loaded.queues.get((scope, queue))
        if row is None:
            self.loaded.last_queue += 1
            row = QueueRow(self.loaded.last_queue, scope, queue, QueueSettings())
            self.loaded.queues[scope, queue] = self.changes.queues[scope, queue] = row
        return row

    def touch(self, task: TaskRow, fence: int | None = None, revision: int | None = None) -> None:
        """The row will be written, guarded in SQL by what the first command presented.

        Where a verb presents no fence, the loaded one guards the write.
        """
        if task.guard is None:
            task.guard = (task.fence if fence is None else fence, revision)
            self.changes.updated[task.task_id] = task

    def remark(self, task: TaskRow, command: Command) -> None:
        """Progress and log, where the command brings any. Its row is touched: one guard is for
        both."""
        given = command.members
        if "progress" in given or "log" in given:
            progress, log = self.changes.remarks.get(task.id, (None, None))
            self.changes.remarks[task.id] = given.get("progress", progress), given.get("log", log)

    def unremark(self, task: TaskRow) -> None:
        """A new round begins without the progress and log of the last."""
        self.changes.remarks.pop(task.id, None)
        self.changes.unremarked.add(task.id)

    def stamp(self, task: TaskRow) -> None:
        """The row is changed by the entry that is recorded next."""
        task.changed_at = self.now
        task.entry = self.next_entry

    def offer(self, task: TaskRow) -> None:
        """A task that became ready may be claimed by a later command of this batch."""
        pool = self.loaded.pool.get((task.scope, task.queue))
        if pool is not None:
            heappush(pool, (-task.priority, task.id, task.task_id))

    @property
    def next_entry(self) -> int:
        """The number that the next recorded entry will have."""
        drawn = self.loaded.drawn
        return self.last_entry + 1 if drawn is None else drawn.entries[-1]

    def draw_fence(self) -> int:
        """The next fence; a new epoch begins when those of this one are used up."""
        drawn, last = self.loaded.drawn, self.last_fence
        if drawn is not None:  # drawn before an epoch of this very batch, it may lie below that
            last = max(last, drawn.fences.pop() - 1)
        fence = fences.next_fence(last, self.epoch)
        if fences.needs_new_epoch(fence, self.epoch):
            self.epoch += 1
        self.last_fence = fence
        return fence

    def new_task(
        self, queue: QueueRow, new: NewTask, due_at: int, payload: bytes, parent: int | None
    ) -> TaskRow:
        """A fresh ready task, which a later claim of the same batch may take."""
        drawn = self.loaded.drawn
        self.last_task = self.last_task + 1 if drawn is None else drawn.tasks.pop()
        salt = self.loaded.draw.salt()
        now, number = self.now, self.next_entry
        attempts = queue.settings.max_attempts if new.max_attempts is None else new.max_attempts
        task = TaskRow(
            self.last_task, self.loaded.draw.task_id(now), queue.scope, queue.queue, new.key,
            "ready", new.priority or 0, due_at,
            0, attempts, 1, 0,  # attempt, max_attempts, round, revision
            0, 0, 0, None, 0, 0,  # never leased: fence, epoch, policy, worker, granted, expires
            now, now, entry.content_commitment(salt, new.key, payload), number, number, parent,
            None, 0,  # no reason, not erased
        )  # fmt: skip
        self.changes.inserted[task.task_id] = self.loaded.tasks[task.task_id] = task
        self.changes.payloads.append((task.id, salt, payload))
        self.loaded.salts[task.id] = salt
        if new.key is not None:
            self.loaded.keyed[task.scope, task.queue, new.key] = task.task_id
        self.offer(task)
        return task

    def record(
        self,
        caller: Caller,
        request: Request,
        items: Sequence[str],
        *,
        verb: str = "",
        queue: str = "",
        task: TaskRow | None = None,
        note: str = "",
        token_sha256: bytes | None = None,
        destination: bytes | None = None,
    ) -> Receipt:
        """Append the command's entry. Its bytes are the receipt, now and at every replay.

        With another `verb` than the command's it is an entry of what the command did on its way,
        which bears neither its key nor its result.
        """
        command = request.command
        actor = actor_of(caller, command)
        store = self.loaded.store
        heading = entry.Heading(
            verb or command.verb, caller.scope, actor, self.now, self.epoch, store.writer_id
        )
        salt = self.loaded.draw.salt()
        own = not verb
        key, result_sha256 = (request.key, request.result_sha256) if own else (None, None)
        body = entry.body(
            heading, items, salt, request.sha256,
            queue=queue, key=key, result_sha256=result_sha256, note=note,
            token_sha256=token_sha256, destination=destination,
        )  # fmt: skip
        assert len(body) <= MAX_ENTRY_BYTES, "entry_too_large was not seen in time"
        self.last_entry = self.next_entry
        if self.loaded.drawn is not None:
            self.loaded.drawn.entries.pop()
        stored = Stored(self.last_entry, body, salt, request.sha256, result_sha256)
        self.changes.entries.append(stored)
        if key is not None:
            stored.key = lookup_of(caller.scope, actor, key)
            self.loaded.receipts[stored.key] = stored
        if task is not None and own:
            stored.task = task.id
            self.loaded.digests[task.id, request.sha256] = stored
        return Receipt(stored.number, body, salt, request.sha256, result_sha256)

    def conclude(
        self,
        caller: Caller,
        request: Request,
        task: TaskRow,
        before: str,
        others: Sequence[str] = (),
        note: str = "",
        changed: bool = True,
    ) -> Verdict:
        """The end of a command on one task: its row is stamped (where it has `changed`), and the
        entry names it first and then the `others` that it brought about."""
        if changed:
            self.stamp(task)
        items = (entry.item(task, before, task.queue), *others)
        receipt = self.record(caller, request, items, queue=task.queue, task=task, note=note)
        return accept(receipt, (task.task_id,))

    def closing_store(self) -> StoreState:
        """The store's row after the batch."""
        return StoreState(
            self.loaded.store.writer_id, self.epoch, self.floor,
            self.last_fence, self.last_task, self.last_entry, self.mark,
        )  # fmt: skip


ENDS_THE_LIST = 3


def lookup_of(scope: str, actor: str, key: str) -> str:
    """How a caller's key is found again. None of the three can hold a space."""
    return f"{scope} {actor} {key}"


def accept(receipt: Receipt | None, tasks: Sequence[str] = (), **facts: Any) -> Verdict:
    """The command was carried out."""
    return Verdict(Outcome("accepted", receipt=receipt, task_ids=tuple(tasks), facts=facts))


def refuse(codes: Sequence[str], command: Command, message: str = "", **facts: Any) -> Verdict:
    """The command was refused and changed nothing. The first code in order leads; one of rules
    1 to 3 ends the list."""
    issues = in_order(codes)
    issue = ISSUES[issues[0]]
    if issue.rule <= ENDS_THE_LIST:
        issues, facts = issues[:1], {}
    told = f"{issue.meaning}; {issue.advice}"
    text = message or (f"{command.verb}: {told}" if command.verb else told)
    return Verdict(
        Outcome(status_of(issues[0]), issues, text, facts=facts)  # type: ignore[arg-type]
    )
