"""Every interleaving of a few workers' requests on the real code: load, fold, save on SQLite.

A depth-first walk. Before each step the database stands at a savepoint, and after all that can
follow it is rolled back there, so no statement is prepared twice. States that were seen are not
walked again. What is true is kept beside the product, in `Ghost`, and asserted at every step.

Where processes die (`Bounds.deaths`), one may die before its command is committed (`undone`: it
asks again with the bytes that it has kept), or at any time and know nothing after it (`forget`);
either way the store is opened anew from what is committed. An answer may be lost (`unheard`) in
any case. A lease that has lapsed is claimed by whoever asks.
"""

from __future__ import annotations

import hashlib
import math
import random
import sqlite3
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from fencepost import commands as c
from fencepost.clock import FakeClock
from fencepost.engine import SystemDraw
from fencepost.engine.transact import Transactor
from fencepost.model import Caller, Outcome
from fencepost.storage.sqlite.connect import connect
from fencepost.storage.sqlite.transaction import SqliteTransaction
from helpers.ghost import Ghost, Rows, check_rows, judge
from helpers.lab import START
from helpers.stand import QUEUE, SCOPE, Stand

LEASE_SECONDS = 60
ROWS = (
    "select state, attempt, fence, revision, worker_id, lease_expires_at from fencepost_task",
    "select last_fence, last_entry, mark, epoch from fencepost_store",
    "select task, revision, round, hex(sha256), entry from fencepost_result",
    "select number, key, task, request_id from fencepost_entry",
)

Action = tuple[str, int]


class Nested(SqliteTransaction):
    """The store's transaction, inside a savepoint of the walk's."""

    def begin(self) -> None:
        self.connection.execute("savepoint command")

    def commit(self) -> None:
        self.connection.execute("release command")

    def rollback(self) -> None:
        self.connection.execute("rollback to command")
        self.connection.execute("release command")


@dataclass(frozen=True)
class Bounds:
    """What is walked: so many workers, new requests each, leases' lengths of time; deaths or none.

    `symmetric`: of states that differ only in what `canonical` says, one is walked.
    """

    workers: int = 2
    requests: int = 3
    expiries: int = 2
    deaths: bool = False
    symmetric: bool = False


SMALL = Bounds()
LARGE = Bounds(workers=3, deaths=True, symmetric=True)


@dataclass(frozen=True)
class Worker:
    """What a worker knows: the fence of its last lease (0: none), and what it sent last."""

    fence: int = 0
    sent: int = 0
    last: tuple[str, str, int] | None = None


@dataclass(frozen=True)
class State:
    """All but the database: time in expiries, the workers, and what is true."""

    ticks: int
    workers: tuple[Worker, ...]
    ghost: Ghost = Ghost()


def name_of(number: int) -> str:
    """A worker's name in the store."""
    return f"w{number}"


def canonical(state: State, rows: Rows) -> Any:
    """What decides all that can follow; two states that have it in common are walked once.

    Workers differ by their names only, and no rule orders or takes apart names: what each knows
    is listed in order of its content, with whether it holds the lease in place of its name in the
    task. The rest that is left out is never looked at again. No request but a worker's last can
    come once more, so of the journal it matters which of these it knows, and what fence it gave.
    A name is never used twice, so no new request meets an older key or result. The numbers of
    entries, the results' bytes and the store's mark (the clock only goes on) go into no decision.
    `test_what_is_walked_once_has_one_future` holds this against the walk without it.
    """
    (task,), (store,), results, _ = rows
    ghost = state.ghost
    answers = dict(ghost.answers)

    def seen(number: int, worker: Worker) -> Any:
        kind, name, fence = worker.last or ("", "", 0)
        known = answers.get(name)
        gave = -1 if known is None else known[2]
        owner = (ghost.holder == number, task[4] == name_of(number))
        return worker.fence, worker.sent, kind, fence, gave, *owner

    workers = sorted(seen(number, worker) for number, worker in enumerate(state.workers))
    true = ghost.highest, ghost.until, ghost.done
    return state.ticks, *workers, true, *task[:4], task[5], store[0], store[3], len(results)


def _with(state: State, number: int, worker: Worker, ghost: Ghost | None = None) -> State:
    workers = list(state.workers)
    workers[number] = worker
    return replace(state, workers=tuple(workers), ghost=ghost or state.ghost)


class Over(Exception):
    """The time for the walk is over."""


class Walk:
    """One walk to its end, to `depth` steps, or until `end` (time.monotonic). Counts what was met.

    `order` shuffles what is tried first.
    """

    def __init__(
        self, bounds: Bounds = SMALL, *, depth: float = math.inf, end: float = math.inf,
        order: random.Random | None = None,
    ) -> None:  # fmt: skip
        self.bounds, self.depth, self.end, self.order = bounds, depth, end, order
        self.states = self.calls = self.lost = self.replays = self.refusals = self.deaths = 0
        self.deepest = 0
        self.path: list[Action] = []
        self._seen: dict[bytes, float] = {}  # of a state its digest: the steps that were left

    def run(self) -> bool:
        """Walk; whether to the end. AssertionError at the first law that is broken; `path` then
        leads there."""
        with Stand() as stand:
            self.task_id = stand.task()
            stand.fp.queue_set(QUEUE, max_attempts=99, lease_seconds=LEASE_SECONDS)
            stand.connection.execute("begin")
            self._use(stand.connection)
            try:
                self._walk(State(0, (Worker(),) * self.bounds.workers), self._rows())
            except Over:
                return False
            return True

    def told(self) -> str:
        """What was met."""
        return (
            f"{self.states} states, {self.calls} calls of the real code, {self.lost} lost answers, "
            f"{self.replays} replays, {self.refusals} refusals, {self.deaths} deaths"
        )

    def _use(self, connection: Any) -> None:
        self._connection = connection
        self._transaction = Nested(connection, "walk", read_only=False)

    def _new(self, state: State, rows: Rows) -> bool:
        """Whether this has not been walked yet, with as many steps left."""
        place = canonical(state, rows) if self.bounds.symmetric else (state, rows)
        digest = hashlib.blake2b(repr(place).encode(), digest_size=16).digest()
        left = self.depth - len(self.path)
        before = self._seen.get(digest)
        if left < 0 or (before is not None and before >= left):
            return False
        self._seen[digest] = left
        self.states += before is None
        self.deepest = max(self.deepest, len(self.path))
        return True

    def _walk(self, state: State, rows: Rows, *, died: bool = False) -> None:
        if not self._new(state, rows):
            return
        with self._reborn(rows) if died else nullcontext():
            self._on(state, rows)

    def _on(self, state: State, rows: Rows) -> None:
        """All that can follow."""
        if time.monotonic() > self.end:
            raise Over
        todo = list(actions(state, self.bounds))
        if self.order is not None:
            self.order.shuffle(todo)
        for action in todo:
            if action[0] == "forget":
                nobody = Worker(0, state.workers[action[1]].sent)
                self._then(action, _with(state, action[1], nobody), rows, died=True)
            elif action[0] == "expire":
                self._then(action, replace(state, ticks=state.ticks + 1), rows)
            else:
                self._sent(state, rows, action)

    def _then(self, action: Action, state: State, rows: Rows, *, died: bool = False) -> None:
        self.path.append(action)
        self._walk(state, rows, died=died)
        self.path.pop()

    def _sent(self, state: State, rows: Rows, action: Action) -> None:
        """A request is carried out; its answer comes or does not; or all of it is undone."""
        kind, number = action
        worker = state.workers[number]
        asked = worker.last if kind == "retry" else (kind, f"{number}.{worker.sent}", worker.fence)
        assert asked is not None
        learned = replace(worker, sent=worker.sent + (kind != "retry"), last=asked)
        self._connection.execute("savepoint step")
        self.path.append(action)
        ghost, outcome, after = self._send(state, rows, number, asked)
        self.path.pop()
        heard = learned
        if asked[0] == "claim" and outcome.grants:
            heard = replace(learned, fence=outcome.grants[0].fence)
        self._then(action, _with(state, number, heard, ghost), after)
        if heard != learned:
            self.lost += 1
            self._then((f"{kind} unheard", number), _with(state, number, learned, ghost), after)
        self._connection.execute("rollback to step")
        self._connection.execute("release step")
        if self.bounds.deaths and kind != "retry":
            undone = _with(state, number, learned)
            self._then((f"{kind} undone", number), undone, rows, died=True)

    @contextmanager
    def _reborn(self, rows: Rows) -> Iterator[None]:
        """A new connection to what is committed, which must be these rows."""
        before = self._connection
        connection = connect(":memory:", writable=True)
        with closing(sqlite3.connect(":memory:")) as image:
            # not into `connection` at once: it would be one whose changes serialize() leaves out
            image.deserialize(before.serialize())
            image.backup(connection)
        connection.execute("begin")
        self._use(connection)
        try:
            assert self._rows() == rows, "what is committed is not what was answered"
            self.deaths += 1
            yield
        finally:
            connection.close()
            self._use(before)

    def _rows(self) -> Rows:
        return tuple(tuple(self._connection.execute(sql).fetchall()) for sql in ROWS)

    def _send(
        self, state: State, before: Rows, number: int, asked: tuple[str, str, int]
    ) -> tuple[Ghost, Outcome, Rows]:
        now = START + state.ticks * LEASE_SECONDS * 1_000_000
        request = self._request(number, asked)
        draw = SystemDraw(random.Random(asked[1]).randbytes)
        transactor = Transactor(FakeClock(now), draw)
        done = transactor.run(self._transaction, [(Caller(SCOPE), request)])
        self.calls += 1
        (outcome,) = done.outcomes
        rows = self._rows()
        ghost = judge(state.ghost, number, asked, outcome, now, rows == before)
        check_rows(ghost, rows)
        self.replays += outcome.replayed
        self.refusals += not outcome.accepted
        return ghost, outcome, rows

    def _request(self, number: int, asked: tuple[str, str, int]) -> c.Request:
        kind, name, fence = asked
        worker = name_of(number)
        if kind == "claim":
            return c.Request.of(c.Claim(worker, (QUEUE,)), name)
        verb = c.Submit if kind == "submit" else c.Complete
        return c.Request.of(verb(self.task_id, worker, fence, result=name))


class Watched(Walk):
    """A walk that notes of each canonical state what it leads to, each time that it is walked."""

    place = staticmethod(canonical)

    def __init__(self, bounds: Bounds, **how: Any) -> None:
        super().__init__(bounds, **how)
        self.futures: dict[Any, set[Any]] = defaultdict(set)
        self._leading: list[list[Any]] = []

    def _new(self, state: State, rows: Rows) -> bool:
        if self._leading:
            self._leading[-1].append((self.path[-1][0], self.place(state, rows)))
        return super()._new(state, rows)

    def _on(self, state: State, rows: Rows) -> None:
        self._leading.append([])
        super()._on(state, rows)
        self.futures[self.place(state, rows)].add(tuple(sorted(self._leading.pop())))


def actions(state: State, bounds: Bounds) -> Iterator[Action]:
    """All that can happen next. Workers differ in name only, so worker 0 sends first."""
    begun = any(worker.sent for worker in state.workers)
    for number, worker in enumerate(state.workers if begun else state.workers[:1]):
        if worker.sent < bounds.requests:
            yield "claim", number
            if worker.fence:
                yield "submit", number
                yield "complete", number
        if worker.last is not None:
            yield "retry", number
            if bounds.deaths:
                yield "forget", number
    if state.ticks < bounds.expiries:
        yield "expire", 0
