"""Writes what the machine decided, guarded: the second lock on the door.

Values that are bytes go in as bytearrays: for bytes and None Python's sqlite3 searches an adapter
at every value, which cost a tenth of a completion.

Every guard compares with what the caller presented, or with what was loaded where he presents
nothing. A guard that trips although the rules said yes is a bug: it raises GuardTripped and
the transaction is undone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from fencepost.destinations import columns
from fencepost.issues import GuardTripped
from fencepost.machine.rows import Changes, Loaded, Stored
from fencepost.machine.tasks import task_lookup
from fencepost.model import TaskRow
from fencepost.rules.retry import due
from fencepost.storage.rows import request_id
from fencepost.storage.steps import Ask, Steps, many, one, together

KEY_HORIZON = 31 * 86_400 * 1_000_000
"""Microseconds that the keys of a purged task stay refused. Keys of an erased one: for ever."""

Bury = Callable[[str], bytes]


def save(changes: Changes, loaded: Loaded, bury: Bury) -> Steps[None]:
    """All changes of a batch, inside the transaction that loaded its rows."""
    asks = [*_places(changes), *_tokens(changes), *_tasks(changes, loaded)]
    asks += _destinations(changes, loaded)
    if changes.end_leases and changes.store is not None:
        asks.append(one("end_leases", now=loaded.wall, floor=changes.store.floor))
        asks.append(one("wait_again", now=loaded.wall))
    asks += _results(changes)
    if changes.entries:
        asks.append(many("insert_entry", [entry_columns(entry) for entry in changes.entries]))
    if changes.named:
        asks.append(many("insert_naming", changes.named))
    if changes.kept:
        asks += _kept(changes, loaded)
    if not changes.erases():
        yield from _written([*asks, *_store(changes, loaded)])
        return
    yield from _written(asks)
    for task in changes.erased:
        yield from _erase(task, bury)
    if changes.purged:
        yield from _purge(changes.purged, loaded, bury)
    yield from _written([*_store(changes, loaded)])


def _written(asks: list[Ask]) -> Steps[None]:
    """Run them together. A guard that trips undoes the transaction."""
    if not asks:
        return
    for ask, answer in zip(asks, (yield together(asks)), strict=True):
        if ask.name in GUARDED and answer != len(ask.rows or ()):
            raise GuardTripped(
                f"{ask.name}: {len(ask.rows or ())} rows were to change and {answer} passed the "
                "guard; the transaction is undone. This is a bug, please report it"
            )
        if ask.name == "update_store" and len(answer) != 1:
            raise GuardTripped("update_store: the store's row changed while it was held; a bug")


GUARDED = frozenset(
    ["revoke_token", "update_destination", "update_task", "close_commitment", "delete_task"]
)


def _places(changes: Changes) -> Iterator[Ask]:
    if changes.scopes:
        yield many("write_scope", [
            (s.scope, s.policy_version, int(s.revoked), s.retain_seconds)
            for s in changes.scopes.values()
        ])  # fmt: skip
    if changes.queues:
        yield many("write_queue", [
            (q.id, q.scope, q.queue, json.dumps(q.settings.to_json()), int(q.is_destination))
            for q in changes.queues.values()
        ])  # fmt: skip


def _destinations(changes: Changes, loaded: Loaded) -> Iterator[Ask]:
    new, old = [], []
    for place, (sequence, row) in changes.destinations.items():
        queue_id = loaded.queues[place].id
        if sequence is None:
            new.append((queue_id, *columns(row)))
        else:
            old.append((*columns(row), queue_id, sequence))
    if new:
        yield many("insert_destination", new)
    if old:
        yield many("update_destination", old)


def _tokens(changes: Changes) -> Iterator[Ask]:
    if changes.tokens:
        yield many("insert_token", [
            (
                t.token_id, digest, t.scope, t.kind, t.actor,
                None if t.queues is None else json.dumps(sorted(t.queues)),
                t.created_at, t.expires_at,
            )
            for t, digest in changes.tokens
        ])  # fmt: skip
    if changes.revoked:
        yield many("revoke_token", list(changes.revoked))


def place(task: TaskRow, now: int) -> tuple[int, int]:
    """Where a task stands in the index of the hot path, and its order there (the schema says)."""
    state = task.state
    if state == "leased":
        return 2, task.lease_expires_at
    if state == "ready":
        return ready_place(task, now)
    return PLACES[state], task.changed_at


def ready_place(task: TaskRow, now: int) -> tuple[int, int]:
    """The same for a ready task: before its time it stands where no claim steps over it."""
    return (0, -task.priority) if due(task, now) else (1, task.due_at)


PLACES = {"blocked": 3, "done": 4, "dead": 5, "cancelled": 6}


def _tasks(changes: Changes, loaded: Loaded) -> Iterator[Ask]:
    now = loaded.now
    if changes.inserted:
        ids = {place: queue.id for place, queue in loaded.queues.items()}
        yield many("insert_task", [
            (
                t.id, t.task_id, ids[t.scope, t.queue], t.key or "", *ready_place(t, now),
                t.priority, t.due_at, t.max_attempts, t.created_at, t.created_at,
                bytearray(t.content), t.created_entry, t.created_entry, t.parent or 0,
            )
            for t in changes.inserted.values()
        ])  # fmt: skip
        yield many("insert_payload", [
            (task, bytearray(salt), bytearray(body)) for task, salt, body in changes.payloads
        ])  # fmt: skip
    if changes.updated:
        yield many("update_task", [update_columns(t, now) for t in changes.updated.values()])
    if changes.unremarked:
        yield many("delete_remark", [(task,) for task in changes.unremarked])
    if changes.remarks:
        yield many("write_remark", [
            (task, bytearray(progress or b""), bytearray(log or b""))
            for task, (progress, log) in changes.remarks.items()
        ])  # fmt: skip


def update_columns(t: TaskRow, now: int) -> tuple[Any, ...]:
    """What is written of a changed task, and the guard: the presented fence and revision."""
    assert t.guard is not None
    fence, revision = t.guard
    return (
        t.state, *place(t, now), t.due_at, t.attempt, t.round, t.revision, t.fence, t.epoch,
        t.policy_version, t.worker_id, t.granted_at, t.lease_expires_at, t.changed_at, t.entry,
        bytearray(t.reason or b""), t.erased, t.id, fence, -1 if revision is None else revision,
    )  # fmt: skip


def _results(changes: Changes) -> Iterator[Ask]:
    if changes.results:
        yield many("insert_result", [
            (r.task, r.revision, r.round, bytearray(r.sha256), r.entry, bytearray(r.body or b""))
            for r in changes.results
        ])  # fmt: skip
    if changes.reviews:
        yield many("close_commitment", list(changes.reviews))


def entry_columns(entry: Stored) -> tuple[Any, ...]:
    """An entry beside its opening."""
    assert entry.request_sha256 is not None
    return (
        entry.number, entry.key or "", entry.task or 0, request_id(entry.request_sha256),
        bytearray(entry.body or b""), bytearray(entry.salt or b""),
        bytearray(entry.request_sha256), bytearray(entry.result_sha256 or b""),
    )  # fmt: skip


def _kept(changes: Changes, loaded: Loaded) -> list[Ask]:
    tasks = (*loaded.tasks.values(), *changes.purged)
    places = {task.id: (task.scope, task.queue) for task in tasks}
    limits: dict[int, int] = {}
    rows = []
    for kept in changes.kept:
        queue = loaded.queues[places[kept.task]].id
        limits[queue] = kept.limit
        rows.append((
            queue, kept.task, kept.worker_id, kept.fence, kept.at, kept.issues, kept.sha256,
            kept.body,
        ))  # fmt: skip
    bounds = [(queue, queue, limit) for queue, limit in limits.items()]
    return [many("keep_refused", rows), many("bound_refused", bounds)]


def _erase(task: TaskRow, bury: Bury) -> Steps[None]:
    """Whatever holds the content goes: all that is about the task, has brought it about or has
    named it is closed, and its keys are never given to anything new."""
    found = yield one("keys_of_task", task=task.id, created_entry=task.created_entry)
    yield from _bury([task], found, bury, None)
    yield many("close_openings", [(task.id, task.created_entry, task.id)])
    yield from _drop_content([task])
    yield many("forget_results", [(task.id,)])
    yield many("forget_key", [(task.id,)])


def _purge(tasks: list[TaskRow], loaded: Loaded, bury: Bury) -> Steps[None]:
    """The tasks go, and with them the openings of what is about them. One that an entry is not
    about, but has brought about or named, takes it along only as the last one of an enqueue: who
    asks again for what is kept gets its receipt (machine/retention.py, `_forget_receipts`)."""
    yield one("unbury", now=loaded.now)
    ids = [task.id for task in tasks]
    over = yield one("entries_of_tasks", ids=ids)
    naming = yield one("entries_naming", ids=ids)
    yield from _drop_content(tasks)
    yield many("delete_results", [(task.id,) for task in tasks])
    rows = [(task.id, task.guard[0] if task.guard else task.fence) for task in tasks]
    yield from _written([many("delete_task", rows)])
    brought = {task.created_entry for task in tasks} | {number for (number,) in naming}
    over += yield one("spent_entries", numbers=sorted(brought))
    yield from _bury(tasks, over, bury, loaded.now + KEY_HORIZON)
    yield many("close_entry", [(number,) for number, _ in over])
    yield many("drop_bodies", [(task.id, task.created_entry, task.entry) for task in tasks])


def _bury(
    tasks: list[TaskRow], entries: list[tuple[int, str | None]], bury: Bury, expires_at: int | None
) -> Steps[None]:
    """The keys of these tasks and of these entries are never given to anything new."""
    lookups = [key for _, key in entries if key is not None]
    lookups += [task_lookup(t.scope, t.queue, t.key) for t in tasks if t.key is not None]
    yield many("bury", [(bury(lookup), expires_at) for lookup in lookups])


def _drop_content(tasks: list[TaskRow]) -> Steps[None]:
    rows = [(task.id,) for task in tasks]
    for name in ("delete_naming", "delete_payload", "delete_remark", "delete_refused"):
        yield many(name, rows)


def _store(changes: Changes, loaded: Loaded) -> Iterator[Ask]:
    store, before = changes.store, loaded.store
    assert store is not None
    same = (store.epoch, store.floor) == (before.epoch, before.floor)
    if loaded.drawn is not None and same:
        return  # its counters are sequences, and its row is held
    yield one(
        "update_store", epoch=store.epoch, floor=store.floor, last_fence=store.last_fence,
        last_task=store.last_task, last_entry=store.last_entry, mark=store.mark,
        writer_id=before.writer_id, loaded_epoch=before.epoch, loaded_fence=before.last_fence,
        loaded_entry=before.last_entry,
    )  # fmt: skip
