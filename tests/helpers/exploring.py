"""Every interleaving of a few workers' requests on the real code: load, fold, save on SQLite.

A depth-first walk. Before each step the database stands at a savepoint, and after all that can
follow it is rolled back there, so no statement is prepared twice. States that were seen are not
walked again. What is true is kept beside the product, in `Ghost`, and asserted at every step.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from fencepost import commands as c
from fencepost.clock import FakeClock
from fencepost.engine import SystemDraw
from fencepost.engine.transact import Transactor
from fencepost.model import Caller, Outcome
from fencepost.storage.sqlite.transaction import SqliteTransaction
from helpers.lab import START
from helpers.stand import QUEUE, SCOPE, Stand

LEASE_SECONDS = 60
WORKERS, REQUESTS, EXPIRIES = 2, 3, 2
ROWS = (
    "select state, attempt, fence, revision, worker_id, lease_expires_at from fencepost_task",
    "select last_fence, last_entry, mark, epoch from fencepost_store",
    "select task, revision, round, hex(sha256), entry from fencepost_result",
    "select number, key, task, request_id from fencepost_entry",
)

Rows = tuple[tuple[tuple[Any, ...], ...], ...]
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
class Worker:
    """What a worker knows: the fence of its last lease (0: none), and what it sent last."""

    fence: int = 0
    sent: int = 0
    last: tuple[str, str, int] | None = None


@dataclass(frozen=True)
class Ghost:
    """What is true: the last fence given, who holds the lease until when, results, receipts."""

    highest: int = 0
    holder: int | None = None
    until: int = 0
    done: bool = False
    results: tuple[str, ...] = ()
    answers: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class State:
    """All but the database: time in expiries, the workers, and what is true."""

    ticks: int = 0
    workers: tuple[Worker, ...] = (Worker(),) * WORKERS
    ghost: Ghost = Ghost()


class Walk:
    """One walk to its end. `states`, `calls` and `lost` count what was seen."""

    def __init__(self) -> None:
        self.states = self.calls = self.lost = self.replays = self.refusals = 0
        self.path: list[Action] = []
        self._seen: set[tuple[State, Rows]] = set()

    def run(self) -> None:
        """Walk. AssertionError at the first law that is broken; `path` then leads there."""
        with Stand() as stand:
            self.task_id = stand.task()
            stand.fp.queue_set(QUEUE, max_attempts=99, lease_seconds=LEASE_SECONDS)
            self._connection = stand.connection
            self._transaction = Nested(stand.connection, "walk", read_only=False)
            self._connection.execute("begin")
            self._walk(State(), self._rows())
            self._connection.execute("rollback")

    def _walk(self, state: State, rows: Rows) -> None:
        place = (state, rows)
        if place in self._seen:
            return
        self._seen.add(place)
        self.states += 1
        for action in actions(state):
            self.path.append(action)
            self._connection.execute("savepoint step")
            for following, after in self._step(state, rows, action):
                self._walk(following, after)
            self._connection.execute("rollback to step")
            self._connection.execute("release step")
            self.path.pop()

    def _rows(self) -> Rows:
        return tuple(tuple(self._connection.execute(sql).fetchall()) for sql in ROWS)

    def _step(self, state: State, rows: Rows, action: Action) -> list[tuple[State, Rows]]:
        kind, number = action
        if kind == "expire":
            return [(replace(state, ticks=state.ticks + 1), rows)]
        worker = state.workers[number]
        asked = worker.last if kind == "retry" else (kind, f"{number}.{worker.sent}", worker.fence)
        assert asked is not None
        ghost, outcome, rows = self._send(state, rows, number, asked)
        learned = replace(worker, sent=worker.sent + (kind != "retry"), last=asked)
        after = [(self._with(state, number, learned, ghost), rows)]
        if asked[0] == "claim" and outcome.grants:
            self.lost += 1  # the answer above was lost; here it arrives
            knowing = replace(learned, fence=outcome.grants[0].fence)
            after.append((self._with(state, number, knowing, ghost), rows))
        return after

    @staticmethod
    def _with(state: State, number: int, worker: Worker, ghost: Ghost) -> State:
        workers = list(state.workers)
        workers[number] = worker
        return replace(state, workers=tuple(workers), ghost=ghost)

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
        worker = f"w{number}"
        if kind == "claim":
            return c.Request.of(c.Claim(worker, (QUEUE,)), name)
        verb = c.Submit if kind == "submit" else c.Complete
        return c.Request.of(verb(self.task_id, worker, fence, result=name))


def check_rows(ghost: Ghost, rows: Rows) -> None:
    """What the store holds is what was answered, no more and no less."""
    (task,), (store,), results, entries = rows
    assert len(results) == len(ghost.results) == task[3], "results and revision differ"
    assert [row[1] for row in results] == list(range(1, len(results) + 1)), "a revision is off"
    assert len(entries) == len(ghost.answers) + 2, "an entry is missing or too many"
    assert [row[0] for row in entries] == list(range(1, len(entries) + 1)), "a gap in numbers"
    assert store[0] == ghost.highest, "the fence counter is not the last fence given"


def actions(state: State) -> Iterator[Action]:
    """All that can happen next. Workers differ in name only, so worker 0 sends first."""
    begun = any(worker.sent for worker in state.workers)
    for number, worker in enumerate(state.workers if begun else state.workers[:1]):
        if worker.sent < REQUESTS:
            yield "claim", number
            if worker.fence:
                yield "submit", number
                yield "complete", number
        if worker.last is not None:
            yield "retry", number
    if state.ticks < EXPIRIES:
        yield "expire", 0


def judge(
    ghost: Ghost, number: int, asked: tuple[str, str, int], outcome: Outcome, now: int,
    unchanged: bool,
) -> Ghost:  # fmt: skip
    """The laws of one answer; returns what is true after it."""
    kind, name, fence = asked
    answers = dict(ghost.answers)
    body = outcome.receipt and (outcome.receipt.body, outcome.receipt.number)
    known = answers.get(name)
    if known is not None:
        assert outcome.replayed, "the same bytes had an effect a second time"
        assert body == known, "the same bytes got another receipt"
        assert unchanged, "a replay changed something"
        return ghost
    assert not outcome.replayed, "a replay of what never was accepted"
    live = ghost.holder is not None and now < ghost.until and not ghost.done
    if not outcome.accepted:
        assert unchanged, "a refusal changed something"
        assert kind != "claim", "a claim was refused"
        owner = live and ghost.holder == number and ghost.highest == fence
        assert not owner, f"the holder of the lease was refused: {outcome.issues}"
        return ghost
    answers[name] = body
    ghost = replace(ghost, answers=tuple(sorted(answers.items())))
    if kind != "claim":
        assert live and ghost.holder == number, "who had lost the lease changed something"
        assert fence == ghost.highest, "a stale fence was accepted"
        return replace(ghost, results=(*ghost.results, name), done=kind == "complete")
    assert bool(outcome.grants) == (not live and not ghost.done), "a task was claimed wrongly"
    if not outcome.grants:
        return ghost
    (grant,) = outcome.grants
    assert grant.fence > ghost.highest, "fences do not rise"
    return replace(ghost, highest=grant.fence, holder=number, until=grant.lease_expires_at)
