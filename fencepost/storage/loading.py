"""Loads what the machine judges with, after the locks are held, in the one order of locks:
writer and scope rows, keys, tasks. Receipts are read by statements of their own after that."""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable, Sequence
from heapq import heapify
from typing import Any, Protocol

from fencepost.machine.batch import Loaded, QueueRow, Stored
from fencepost.machine.drawing import Draw
from fencepost.machine.needs import Needs, Sent, needs
from fencepost.machine.retention import ERASED_AT_ONCE, retention
from fencepost.machine.tasks import task_lookup
from fencepost.model import QueueSettings, Scope, StoreState, TaskRow, Token
from fencepost.storage.steps import Ask, Steps, one, together

TimeOf = Callable[[StoreState, int | None], tuple[int, int]]
"""(the store's time, the wall clock); given a database's own clock it goes by that one."""
SWEPT_BY_A_CLAIM = 100
ENDED_PLACES = (4, 5, 6)


class Backing(Protocol):
    """What a database does in a way of its own while rows are loaded."""

    read_only: bool

    def row(self, sent: Sequence[Sent]) -> Ask:
        """Asks for the store's row, held to the commit: whoever has to be alone waits for us."""

    def state(self, row: tuple[Any, ...]) -> StoreState:
        """What the row says."""

    def bury(self, lookup: str) -> bytes:
        """The lookup of an erased key."""

    def moment(self, store: StoreState, time_of: TimeOf) -> Steps[tuple[int, int]]:
        """The time, asked after the locks of named rows are held."""

    def numbers(self, loaded: Loaded, sent: Sequence[Sent]) -> Steps[None]:
        """Draw `loaded.drawn`, where transactions run side by side."""


def load(
    sent: Sequence[Sent], time_of: TimeOf, draw: Draw, backing: Backing
) -> Steps[Loaded]:
    """All rows that these commands need. The time is asked once the named ones are held."""
    wanted = needs(sent)
    first = yield from _first(backing.row(sent), wanted)
    loaded = Loaded(0, backing.state(first["store"][0]), draw, backing.read_only)
    yield from _scopes_and_queues(loaded, wanted, first)
    yield from _tokens(loaded, wanted, first)
    yield from _tasks(loaded, wanted, first)
    yield from _receipts(loaded, wanted, backing.bury)
    yield from _destinations(loaded)
    yield from _of_tasks(loaded, wanted)
    loaded.now, loaded.wall = yield from backing.moment(loaded.store, time_of)
    named = len(wanted.tasks)
    for (scope, queue), limit in wanted.claims.items():
        yield from _pool(loaded, scope, queue, limit + named)
    # what others of the batch may have settled or taken before it is a sweep's turn
    swept = sum(wanted.sweeps.values()) + sum(map(len, loaded.lapsed.values()))
    for scope, queue in wanted.sweeps:
        yield from _lapsed(loaded, scope, queue, swept + named)
    purged = sum(wanted.purges.values())
    for scope, queue in wanted.purges:
        yield from _purgeable(loaded, scope, queue, purged + named)
    yield from backing.numbers(loaded, sent)
    return loaded


Rows = dict[str, list[tuple[Any, ...]]]


def _first(store: Ask, wanted: Needs) -> Steps[Rows]:
    """What can be asked before anything is known, the store's row before all."""
    asks = {"store": store, "scopes": one("scopes", names=sorted(wanted.scopes))}
    if wanted.queues:
        asks["queues"] = one("queues_by_name", names=sorted(wanted.queues))
    if wanted.tokens:
        asks["tokens"] = one("tokens_by_id", ids=sorted(wanted.tokens))
    if wanted.tasks:
        ids = sorted(task_id for _, task_id in wanted.tasks)
        asks["tasks"] = one("tasks_by_id", ids=ids)
    return dict(zip(asks, (yield together([*asks.values()])), strict=True))


def _scopes_and_queues(loaded: Loaded, wanted: Needs, first: Rows) -> Steps[None]:
    for scope, policy_version, revoked, retain_seconds in first["scopes"]:
        loaded.scopes[scope] = Scope(scope, policy_version, bool(revoked), retain_seconds)
    _add_queues(loaded, first.get("queues", ()))
    for scope in sorted(wanted.all_queues):
        rows = yield one("queues_of_scope", scope=scope)
        _add_queues(loaded, rows)
    if wanted.all_queues or not wanted.queues <= loaded.queues.keys():
        ((loaded.last_queue,),) = yield one("last_queue")


def _add_queues(loaded: Loaded, rows: Sequence[tuple[Any, ...]]) -> None:
    for row in rows:
        queue = queue_row(row)
        loaded.queues.setdefault((queue.scope, queue.queue), queue)


def queue_row(row: tuple[Any, ...]) -> QueueRow:
    """A queue out of its columns. Settings of a newer minor version are left alone."""
    row_id, scope, queue, settings, is_destination = row
    values = json.loads(settings)
    values["destinations"] = tuple(values.get("destinations", ()))
    return QueueRow(row_id, scope, queue, QueueSettings(**values), bool(is_destination))


def _tokens(loaded: Loaded, wanted: Needs, first: Rows) -> Steps[None]:
    """Those that callers have shown or a command ends, and whether a new one is known already."""
    loaded.tokens.update((row[0], token_row(row)) for row in first.get("tokens", ()))
    for digest in wanted.digests_of_tokens:
        for row in (yield one("token_by_sha256", sha256=digest)):
            loaded.digests_of_tokens[digest] = row[0]


def token_row(row: tuple[Any, ...]) -> Token:
    """A token out of its columns."""
    token_id, scope, kind, actor, queues, *times = row
    names = None if queues is None else frozenset(json.loads(queues))
    return Token(token_id, scope, kind, actor, names, *times)


def _tasks(loaded: Loaded, wanted: Needs, first: Rows) -> Steps[None]:
    """The tasks that the commands name, by id and by key."""
    if first.get("tasks"):
        yield from _add_tasks(loaded, first["tasks"])
    keys = sorted(
        (loaded.queues[scope, queue].id, key)
        for scope, queue, key in wanted.keys
        if (scope, queue) in loaded.queues
    )
    if keys:
        rows = yield one("tasks_by_key", keys=keys)
        found = yield from _add_tasks(loaded, rows)
        for task in found:
            loaded.keyed[task.scope, task.queue, task.key or ""] = task.task_id
        salts = yield one("salts", ids=[task.id for task in found])
        loaded.salts.update(salts)


def _receipts(loaded: Loaded, wanted: Needs, bury: Callable[[str], bytes]) -> Steps[None]:
    """What is stored under the commands' keys, and the tasks of stored claims, whose leases a
    replay shows if they still live, and, where a purge may take the last, of stored enqueues."""
    lookups = wanted.lookups | {task_lookup(*key) for key in wanted.keys}
    if lookups:
        known = one("receipts_by_key", keys=sorted(wanted.lookups))
        rows, any_tombstone = yield together([known, one("any_tombstone")])
        for key, *stored in rows:
            loaded.receipts[key] = Stored(*stored)
        for lookup in sorted(lookups) if any_tombstone else ():
            if (yield one("tombstone", lookup=bury(lookup))):
                loaded.tombstones.add(lookup)
    shown = ("claim", "enqueue") if wanted.purges else ("claim",)
    ids = {task_id for stored in loaded.receipts.values() for task_id in stored.tasks(*shown)}
    if ids:
        rows = yield one("tasks_by_id", ids=sorted(ids))
        yield from _add_tasks(loaded, rows)


def _add_tasks(loaded: Loaded, rows: Sequence[tuple[Any, ...]]) -> Steps[list[TaskRow]]:
    """Rows of tasks; one that is here already stays as the batch has it."""
    queues = {queue.id: queue for queue in loaded.queues.values()}
    unknown = sorted({row[2] for row in rows} - set(queues))
    if unknown:
        found = yield one("queues_by_id", ids=unknown)
        _add_queues(loaded, found)
        queues = {queue.id: queue for queue in loaded.queues.values()}
    tasks = []
    for row in rows:
        task = loaded.tasks.get(row[1])
        if task is None:
            task = loaded.tasks[row[1]] = task_row(row, queues[row[2]])
        tasks.append(task)
    return tasks


def _destinations(loaded: Loaded) -> Steps[None]:
    """The queues on which the loaded tasks' results bring about obligations."""
    unknown = {
        (queue.scope, name)
        for queue in loaded.queues.values()
        for name in queue.settings.destinations
        if (queue.scope, name) not in loaded.queues
    }
    if unknown:
        rows = yield one("queues_by_name", names=sorted(unknown))
        _add_queues(loaded, rows)


def task_row(row: tuple[Any, ...], queue: QueueRow) -> TaskRow:
    """A task out of its columns."""
    return TaskRow(row[0], row[1], queue.scope, queue.queue, *row[3:])


def request_id(sha256: bytes) -> int:
    """The first 8 bytes of a digest as a signed number, which an index holds cheaply."""
    return int.from_bytes(sha256[:8], "big", signed=True)


def secret() -> Steps[list[tuple[Any, ...]]]:
    """The store's secret, last in its one row."""
    rows: list[tuple[Any, ...]] = yield one("store_about")
    return rows


def buried(secret: bytes, lookup: str) -> bytes:
    """How an erased key is kept: HMAC-SHA-256 under the store's secret."""
    return hmac.digest(secret, lookup.encode(), "sha256")


def _of_tasks(loaded: Loaded, wanted: Needs) -> Steps[None]:
    """What is read by the row ids of loaded tasks."""
    tasks = loaded.tasks
    results = [
        (task.id, task.round, sha256)
        for task_id, sha256 in wanted.results
        if (task := tasks.get(task_id)) is not None and task.revision
    ]
    revisions = [(tasks[t].id, revision) for t, revision in wanted.revisions if t in tasks]
    digests = [(tasks[t].id, request_id(sha256)) for t, sha256 in wanted.digests if t in tasks]
    asks = [one("result_entry", task=t, round=r, sha256=sha256) for t, r, sha256 in results]
    asks += [one("commitment", task=task, revision=revision) for task, revision in revisions]
    if digests:
        asks.append(one("receipts_by_request", requests=digests))
    found = (yield together(asks)) if asks else []
    for place, rows in zip(results, found, strict=False):
        for (number,) in rows:
            loaded.results[place] = number
    for reviewed, rows in zip(revisions, found[len(results) :], strict=False):
        for (commitment,) in rows:
            loaded.commitments[reviewed] = commitment
    for task_row_id, *columns in found[-1] if digests else ():
        stored = Stored(*columns)
        if stored.request_sha256 is not None:
            loaded.digests.setdefault((task_row_id, stored.request_sha256), stored)
    for task_id in wanted.children:
        if task_id in tasks:
            parent = tasks[task_id].id
            rows = yield one("obligations_of", task=parent, limit=ERASED_AT_ONCE + 1)
            ids = [child for (child,) in rows]
            rows = yield one("tasks_by_id", ids=ids)
            yield from _add_tasks(loaded, rows)
            loaded.children[parent] = ids


def _pool(loaded: Loaded, scope: str, queue: str, limit: int) -> Steps[None]:
    """Candidates for claims: a superset, which the machine judges and orders."""
    row = loaded.queues.get((scope, queue))
    pool: list[tuple[int, int, str]] = []
    loaded.pool[scope, queue] = pool
    if row is None:
        return
    asks = [
        one("ready_tasks", queue_id=row.id, limit=limit),
        one("lapsed_tasks", queue_id=row.id, now=loaded.now, limit=limit + SWEPT_BY_A_CLAIM),
    ]
    if not loaded.read_only:
        asks.insert(0, one("promote_due", queue_id=row.id, now=loaded.now))
    *_, ready, ended = yield together(asks)
    loaded.lapsed[scope, queue] = [row[1] for row in ended]
    found = yield from _add_tasks(loaded, [*ready, *ended])
    pool.extend((-task.priority, task.id, task.task_id) for task in found)
    heapify(pool)


def _queue_ids(loaded: Loaded, scope: str, queue: str) -> Steps[list[int]]:
    if queue:
        rows = yield one("queues_by_name", names=[(scope, queue)])
    else:
        rows = yield one("queues_of_scope", scope=scope)
    _add_queues(loaded, rows)
    return [row[0] for row in rows]


def _lapsed(loaded: Loaded, scope: str, queue: str, limit: int) -> Steps[None]:
    ids: list[str] = []
    for queue_id in (yield from _queue_ids(loaded, scope, queue)):
        if len(ids) < limit:
            rows = yield one("lapsed_tasks", queue_id=queue_id, now=loaded.now, limit=limit)
            yield from _add_tasks(loaded, rows)
            ids += [row[1] for row in rows]
    loaded.lapsed[scope, queue] = ids


def _purgeable(loaded: Loaded, scope: str, queue: str, limit: int) -> Steps[None]:
    """Ended tasks older than their queue's retention, or the scope's where it has none."""
    kept = loaded.scopes.get(scope) or Scope(scope)
    for queue_id in (yield from _queue_ids(loaded, scope, queue)):
        row = next(q for q in loaded.queues.values() if q.id == queue_id)
        age = retention(row.settings, kept)
        if age is None:
            continue
        before = loaded.now - age
        for place in ENDED_PLACES:
            found = {"queue_id": queue_id, "place": place, "before": before, "limit": limit}
            rows = yield one("ended_tasks", **found)
            yield from _add_tasks(loaded, rows)
            loaded.purgeable += [row[1] for row in rows]


def contents(task_ids: Sequence[str]) -> Steps[dict[str, tuple[bytes, bytes | None]]]:
    """Payload and progress of the tasks that still have a payload."""
    rows = yield one("contents", ids=list(task_ids))
    return {task_id: (payload, progress) for task_id, payload, progress in rows}
