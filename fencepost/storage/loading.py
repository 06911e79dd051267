"""Loads what the machine judges with, after the locks are held, in the one order of locks:
writer and scope rows, keys, tasks. Receipts are read by statements of their own after that."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from fencepost.machine.drawing import Draw
from fencepost.machine.needs import Needs, Sent, needs
from fencepost.machine.retention import ERASED_AT_ONCE, retention
from fencepost.machine.rows import Loaded, QueueRow, Stored
from fencepost.machine.tasks import task_lookup
from fencepost.model import Scope, StoreState, TaskRow
from fencepost.storage import looking
from fencepost.storage.candidates import Early, add_queues, add_tasks, look
from fencepost.storage.rows import destination_row, request_id, token_row
from fencepost.storage.steps import Ask, Steps, one, together

TimeOf = Callable[[StoreState, int | None], tuple[int, int]]
"""(the store's time, the wall clock); given a database's own clock it goes by that one."""
ENDED_PLACES = (4, 5, 6)


class Backing(Protocol):
    """What a database does in a way of its own while rows are loaded."""

    read_only: bool

    def row(self) -> Ask:
        """Asks for the store's row, held to the commit: whoever has to be alone waits for us."""

    def state(self, row: tuple[Any, ...]) -> StoreState:
        """What the row says."""

    def bury(self, lookup: str) -> bytes:
        """The lookup of an erased key."""

    def likely(self, wanted: Needs) -> Iterable[tuple[str, str]]:
        """Queues that it is worth while to ask for unasked, with what is asked first: names of
        tasks do not say which they are in, nor queues which others they owe. What is not among
        them is asked for once that is known."""

    def learn(self, loaded: Loaded) -> None:
        """These queues were needed."""

    def keys(self, wanted: Needs) -> list[Ask]:
        """What makes a copy of a claim wait for it, which would else find what that has left."""

    def time(self) -> list[Ask]:
        """What tells the time, where a database's own clock does; asked once all rows that
        commands name are held."""

    def draws(
        self, sent: Sequence[Sent], queues: Mapping[tuple[str, str], QueueRow],
        tasks: Mapping[str, TaskRow], more: int = 0,
    ) -> list[Ask]:
        """What draws the numbers, where transactions run side by side; asked once it is known how
        many, by what is loaded and how many `more` tasks may be found."""

    def drawn(self, loaded: Loaded, answers: Sequence[Any]) -> None:
        """The answers to `draws`; such as are drawn later come behind those that are there."""

    def before(self) -> tuple[Mapping[tuple[str, str], QueueRow], int] | None:
        """For a look at a queue before anything is answered: queues as they were, and a time that
        is the store's or a moment before. None where that is not known, or saves nothing."""

    def ready(self, queue_id: int, limit: int) -> list[Ask]:
        """What finds the first ready tasks of a queue, or some that are as good."""

    def over(self, queue_id: int, now: int, limit: int) -> list[Ask]:
        """What finds, before that, leases that have ended, and makes tasks ready that are due."""

    def enough(self, queue_id: int, found: Sequence[Sequence[Any]], limit: int) -> bool:
        """Whether that is what is ready, by both's answers; else it is to be looked for again."""


def load(
    sent: Sequence[Sent], time_of: TimeOf, draw: Draw, backing: Backing
) -> Steps[Loaded]:
    """All rows that these commands need. The time is asked once the named ones are held."""
    wanted = needs(sent)
    by_key, times = _by_key(wanted, backing), backing.time()
    behind = [*by_key, *times]
    # where no task is named nothing is waited for behind the store's row: all is asked at once
    by_name, known = wanted.names_tasks(), wanted.names_all()
    early = Early(sent, wanted, backing)
    if known and not by_name:
        behind += backing.draws(sent, {}, {})
    elif not by_name:
        behind += early.asks({}, {})
    asked = _first(backing.row(), wanted, backing.likely(wanted), [] if by_name else behind)
    first, answers = yield from asked
    loaded = Loaded(0, backing.state(first["store"][0]), draw, backing.read_only)
    yield from _scopes_and_queues(loaded, wanted, first)
    yield from _tokens(loaded, wanted, first)
    yield from _tasks(loaded, wanted, first)
    yield from _rows_of_destinations(loaded, wanted)
    yield from _destinations(loaded)
    if by_name:
        if known:
            behind += backing.draws(sent, loaded.queues, loaded.tasks)
        else:
            behind += early.asks(loaded.queues, loaded.tasks)
        answers = yield from _of_tasks(loaded, wanted, behind)
    late = yield from _receipts(loaded, wanted, backing.bury, answers[: len(by_key)])
    children = yield from _children(loaded, wanted)
    told, drawn = answers[len(by_key) :][: len(times)], answers[len(by_key) + len(times) :]
    if (late or children) and times:  # rows were waited for since
        told = yield together(times)
    loaded.now, loaded.wall = time_of(loaded.store, told[0][0][0] if told else None)
    numbered, named = known, len(wanted.tasks)
    if known:
        backing.drawn(loaded, drawn)
    else:
        numbered = yield from early.found(loaded, drawn)
    for place, limit in wanted.claims.items() if not early.good else ():
        yield from look(loaded, backing, place, limit + named)
    # what others of the batch may have settled or taken before it is a sweep's turn
    swept = sum(wanted.sweeps.values()) + sum(map(len, loaded.lapsed.values()))
    for scope, queue in wanted.sweeps:
        yield from _lapsed(loaded, scope, queue, swept + named)
    purged = sum(wanted.purges.values())
    for scope, queue in wanted.purges:
        yield from _purgeable(loaded, scope, queue, purged + named)
    if not numbered and (draws := backing.draws(sent, loaded.queues, loaded.tasks)):
        backing.drawn(loaded, (yield together(draws)))
    backing.learn(loaded)
    return loaded


Rows = dict[str, list[tuple[Any, ...]]]


def _first(
    store: Ask, wanted: Needs, likely: Iterable[tuple[str, str]], early: list[Ask]
) -> Steps[tuple[Rows, list[Any]]]:
    """What can be asked before anything is known, the store's row before all; and the answers to
    what is asked so `early`."""
    asks = {"store": store, "scopes": one("scopes", names=sorted(wanted.scopes))}
    queues = wanted.queues.union(likely)
    if queues:
        asks["queues"] = one("queues_by_name", names=sorted(queues))
    if wanted.tokens:
        asks["tokens"] = one("tokens_by_id", ids=sorted(wanted.tokens))
    if wanted.tasks:
        ids = sorted(task_id for _, task_id in wanted.tasks)
        asks["tasks"] = one("tasks_by_id", ids=ids)
    found = yield together([*asks.values(), *early])
    return dict(zip(asks, found, strict=False)), found[len(asks) :]


def _scopes_and_queues(loaded: Loaded, wanted: Needs, first: Rows) -> Steps[None]:
    for scope, policy_version, revoked, retain_seconds in first["scopes"]:
        loaded.scopes[scope] = Scope(scope, policy_version, bool(revoked), retain_seconds)
    add_queues(loaded, first.get("queues", ()))
    for scope in sorted(wanted.all_queues):
        rows = yield one("queues_of_scope", scope=scope)
        add_queues(loaded, rows)
    if wanted.all_queues or not wanted.queues <= loaded.queues.keys():
        ((loaded.last_queue,),) = yield one("last_queue")


def _tokens(loaded: Loaded, wanted: Needs, first: Rows) -> Steps[None]:
    """Those that callers have shown or a command ends, and whether a new one is known already."""
    loaded.tokens.update((row[0], token_row(row)) for row in first.get("tokens", ()))
    for digest in wanted.digests_of_tokens:
        for row in (yield one("token_by_sha256", sha256=digest)):
            loaded.digests_of_tokens[digest] = row[0]


def _tasks(loaded: Loaded, wanted: Needs, first: Rows) -> Steps[None]:
    """The tasks that the commands name, by id and by key."""
    if first.get("tasks"):
        yield from add_tasks(loaded, first["tasks"])
    keys = sorted(
        (loaded.queues[scope, queue].id, key)
        for scope, queue, key in wanted.keys
        if (scope, queue) in loaded.queues
    )
    if keys:
        rows = yield one("tasks_by_key", keys=keys)
        found = yield from add_tasks(loaded, rows)
        for task in found:
            loaded.keyed[task.scope, task.queue, task.key or ""] = task.task_id
        salts = yield one("salts", ids=[task.id for task in found])
        loaded.salts.update(salts)


def _lookups(wanted: Needs) -> set[str]:
    return wanted.lookups | {task_lookup(*key) for key in wanted.keys}


def _by_key(wanted: Needs, backing: Backing) -> list[Ask]:
    """What finds receipts by the commands' keys, and whether any key was closed."""
    if not _lookups(wanted):
        return []
    by_key = one("receipts_by_key", keys=sorted(wanted.lookups))
    return [*backing.keys(wanted), by_key, one("any_tombstone")]


def _receipts(
    loaded: Loaded, wanted: Needs, bury: Callable[[str], bytes], found: Sequence[Any]
) -> Steps[bool]:
    """Receipts by their keys as they were `found`, and the tasks of stored claims, whose leases a
    replay shows if they still live, and, where a purge may take the last, of stored enqueues: True
    if there are any."""
    if found:
        *_, rows, any_tombstone = found
        for key, *stored in rows:
            loaded.receipts[key] = Stored(*stored)
        for lookup in sorted(_lookups(wanted)) if any_tombstone else ():
            if (yield one("tombstone", lookup=bury(lookup))):
                loaded.tombstones.add(lookup)
    shown = ("claim", "enqueue", "sweep") if wanted.purges else ("claim",)
    ids = {task_id for stored in loaded.receipts.values() for task_id in stored.tasks(*shown)}
    if ids:
        rows = yield one("tasks_by_id", ids=sorted(ids))
        yield from add_tasks(loaded, rows)
    return bool(ids)


def _rows_of_destinations(loaded: Loaded, wanted: Needs) -> Steps[None]:
    """Where obligations go: what commands name, held; and what a claim is judged by."""
    for scope in sorted(wanted.all_queues):
        _add_destinations(loaded, (yield one("destinations_of_scope", scope=scope)))
    held = [loaded.queues[place].id for place in wanted.destinations if place in loaded.queues]
    if held:
        _add_destinations(loaded, (yield one("destinations_held", ids=sorted(held))))
    rows = (loaded.tasks.get(task_id) for task_id in wanted.claimed)
    places = {*wanted.claims, *((row.scope, row.queue) for row in rows if row is not None)}
    found = (loaded.queues.get(place) for place in places - loaded.destinations.keys())
    claimed = [queue.id for queue in found if queue is not None and queue.is_destination]
    if claimed:
        _add_destinations(loaded, (yield one("destinations_by_queue", ids=sorted(claimed))))


def _add_destinations(loaded: Loaded, rows: Sequence[tuple[Any, ...]]) -> None:
    for scope, queue, *columns in rows:
        loaded.destinations[scope, queue] = destination_row(queue, columns)


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
        add_queues(loaded, rows)


def secret() -> Steps[list[tuple[Any, ...]]]:
    """The store's secret, last in its one row."""
    rows: list[tuple[Any, ...]] = yield one("store_about")
    return rows


def buried(secret: bytes, lookup: str) -> bytes:
    """How an erased key is kept: HMAC-SHA-256 under the store's secret."""
    return hmac.digest(secret, lookup.encode(), "sha256")


class _OfTasks:
    """What is read by the row ids of loaded tasks."""

    def __init__(self, loaded: Loaded, wanted: Needs) -> None:
        tasks = loaded.tasks
        self._loaded = loaded
        self._results = [
            (task.id, task.round, sha256)
            for task_id, sha256 in wanted.results
            if (task := tasks.get(task_id)) is not None and task.revision
        ]
        self._revisions = [(tasks[t].id, n) for t, n in wanted.revisions if t in tasks]
        digests = [(tasks[t].id, request_id(sha256)) for t, sha256 in wanted.digests if t in tasks]
        self.asks = [
            one("result_entry", task=t, round=r, sha256=sha256) for t, r, sha256 in self._results
        ]
        self.asks += [one("commitment", task=t, revision=n) for t, n in self._revisions]
        self._digests = bool(digests)
        if digests:
            self.asks.append(one("receipts_by_request", requests=digests))

    def found(self, answers: Sequence[Any]) -> None:
        """The answers to `asks`, in their order."""
        loaded = self._loaded
        for place, rows in zip(self._results, answers, strict=False):
            for (number,) in rows:
                loaded.results[place] = number
        for reviewed, rows in zip(self._revisions, answers[len(self._results) :], strict=False):
            for commitment, sha256 in rows:
                loaded.commitments[reviewed] = commitment
                loaded.accepted[reviewed] = sha256
        for task_row_id, *columns in answers[-1] if self._digests else ():
            stored = Stored(*columns)
            if stored.request_sha256 is not None:
                loaded.digests.setdefault((task_row_id, stored.request_sha256), stored)


def _of_tasks(loaded: Loaded, wanted: Needs, behind: list[Ask]) -> Steps[list[Any]]:
    """What is read by the row ids of loaded tasks; the answers to what is asked behind it."""
    of_tasks = _OfTasks(loaded, wanted)
    asks = [*of_tasks.asks, *behind]
    found: list[Any] = (yield together(asks)) if asks else []
    of_tasks.found(found[: len(of_tasks.asks)])
    return found[len(of_tasks.asks) :]


def _children(loaded: Loaded, wanted: Needs) -> Steps[bool]:
    """The obligations of tasks that are to be erased; True if any were asked for."""
    for task_id in wanted.children:
        if task_id in loaded.tasks:
            parent = loaded.tasks[task_id].id
            rows = yield one("obligations_of", task=parent, limit=ERASED_AT_ONCE + 1)
            ids = [child for (child,) in rows]
            rows = yield one("tasks_by_id", ids=ids)
            yield from add_tasks(loaded, rows)
            loaded.children[parent] = ids
    return bool(wanted.children)


def _queue_ids(loaded: Loaded, scope: str, queue: str) -> Steps[list[int]]:
    if queue:
        rows = yield one("queues_by_name", names=[(scope, queue)])
    else:
        rows = yield one("queues_of_scope", scope=scope)
    add_queues(loaded, rows)
    return [row[0] for row in rows]


def _lapsed(loaded: Loaded, scope: str, queue: str, limit: int) -> Steps[None]:
    ids: list[str] = []
    for queue_id in (yield from _queue_ids(loaded, scope, queue)):
        if len(ids) < limit:
            rows = yield looking.lapsed(queue_id, loaded.now, limit)
            yield from add_tasks(loaded, rows)
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
            yield from add_tasks(loaded, rows)
            loaded.purgeable += [row[1] for row in rows]


def contents(task_ids: Sequence[str]) -> Steps[dict[str, tuple[bytes, bytes | None]]]:
    """Payload and progress of the tasks that still have a payload."""
    rows = yield one("contents", ids=list(task_ids))
    return {task_id: (payload, progress) for task_id, payload, progress in rows}
