"""The kit: a store in memory, a clock that moves when it is told to, and handlers run at once."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterable
from datetime import datetime
from os import PathLike
from typing import Any, TypeAlias

from fencepost import fields
from fencepost.clock import SECOND, FakeClock, from_rfc3339
from fencepost.commands import Claim, Request
from fencepost.engine import SystemDraw
from fencepost.handle import Handle, open_handle
from fencepost.model import Task
from fencepost.testing.inline import Inline, Line
from fencepost.testing.runs import ANY, Run, listed
from fencepost.worker.handlers import Handler
from fencepost.worker.options import Options

START = "2026-01-01T00:00:00Z"
MOST = 1_000
Queues: TypeAlias = str | Iterable[str]


class Kit:
    """A real store that nobody else sees, by a clock of its own. Use it in a `with` block.

    `fp` is the store's handle: hand it to the code that enqueues. `clock` begins at `start`; move
    it with `advance`. `runs` are all that `run_one` and `run_all` have done. The store is in memory
    unless `path` names a file, which `fp.within` needs. Ids and back-offs are drawn from `seed`.
    """

    def __init__(
        self, path: str | PathLike[str] = ":memory:", *, start: str | datetime = START,
        seed: int = 1,
    ) -> None:  # fmt: skip
        self.clock = FakeClock(from_rfc3339(fields.instant(start, "start")))
        draw = SystemDraw(random.Random(seed).randbytes)  # noqa: S311  # nothing here is secret
        self.fp: Handle = open_handle(
            path, create=True, clock=self.clock, draw=draw, sleep=self.advance
        )
        self.runs: list[Run] = []
        self._in_hand: list[Inline] = []
        self._later: list[tuple[int, int, Callable[[], object]]] = []
        self._number = 0
        self._failed: BaseException | None = None

    def __enter__(self) -> Kit:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the store back. A second call does nothing."""
        self.fp.close()

    # -- time

    def advance(self, seconds: float) -> None:
        """Let time pass. Leases end and due times come; what a running handler holds is renewed,
        as its worker would do it. ValueError if `seconds` is negative."""
        if seconds < 0:
            raise ValueError(f"time does not pass backwards ({seconds} s)")
        self._pass(seconds, lambda: False)

    def advance_to_due(self, queues: Queues) -> float:
        """Let time pass until the next task of the queue comes due, or the next lease ends; returns
        the seconds. AssertionError where that never comes."""
        now = self.fp.now()
        tasks = self._tasks(_names(queues))
        times = [at for at in map(_due, tasks) if at > now]
        if not times:
            raise AssertionError(f"nothing more comes due; found:{listed(tasks, now)}")
        seconds = (min(times) - now) / SECOND
        self.advance(seconds)
        return seconds

    def later(self, seconds: float, call: Callable[[], object]) -> None:
        """Call this when so much time has passed: in `advance`, or while a handler waits."""
        self._number += 1
        at = self.clock.steady() + round(seconds * SECOND)
        heapq.heappush(self._later, (at, self._number, call))

    def _pass(self, seconds: float, enough: Callable[[], bool]) -> None:
        end = self.clock.steady() + round(seconds * SECOND)
        while True:
            pause = min((inline.turn() for inline in self._in_hand), default=seconds)
            self._call()
            now = self.clock.steady()
            if now >= end or enough():
                return
            left = (min([end, *(at for at, _, _ in self._later[:1])]) - now) / SECOND
            self.clock.advance(max(0.0, min(pause, left)))

    def _call(self) -> None:
        while self._later and self._later[0][0] <= self.clock.steady():
            call = heapq.heappop(self._later)[2]
            try:
                call()
            except BaseException as error:
                if self._in_hand:
                    self._failed = error  # the handler that waits meanwhile may not keep it
                raise

    # -- handlers

    def run_one(
        self, queues: Queues, handler: Handler, *, worker_id: str = "worker",
        lease_seconds: int | None = None, tick: float = 0.0,
    ) -> Run:  # fmt: skip
        """Claim a task, call the handler, and settle what it returns or raises.

        With `tick`, so many seconds pass whenever the handler looks at `work.lost` or tells how far
        it has come. AssertionError where no task can be claimed.
        """
        names = _names(queues)
        run = self._run(names, handler, worker_id, lease_seconds, tick)
        if run is None:
            raise AssertionError(f"nothing to claim on {', '.join(names)}; {self._found()}")
        return run

    def run_all(
        self, queues: Queues, handler: Handler, *, wait: bool = False, most: int = MOST,
        worker_id: str = "worker", lease_seconds: int | None = None, tick: float = 0.0,
    ) -> list[Run]:  # fmt: skip
        """The same for one task after the other, until none can be claimed.

        With `wait` time passes too, until nothing more comes due. AssertionError after `most`
        runs: a task that is tried again for ever would keep it busy.
        """
        names, runs = _names(queues), list[Run]()
        while True:
            run = self._run(names, handler, worker_id, lease_seconds, tick)
            if run is not None:
                runs.append(run)
                if len(runs) > most:
                    raise AssertionError(f"more than {most} runs, the last: {run}") from run.error
            elif not wait or all(_due(task) <= self.fp.now() for task in self._tasks(names)):
                return runs
            else:
                self.advance_to_due(names)

    def _run(
        self, names: tuple[str, ...], handler: Handler, worker_id: str,
        lease_seconds: int | None, tick: float,
    ) -> Run | None:  # fmt: skip
        options = Options(names, worker_id, lease_seconds=lease_seconds).checked()
        inline = Inline(Line(self.fp), handler, options, tick, self._pass)
        claim = Claim(worker_id, names, limit=1, lease_seconds=lease_seconds)
        outcome, moment = inline.line.claimed(Request.of(claim), 0)
        if not outcome.grants:
            return None
        self._in_hand.append(inline)
        try:
            run = inline.run(outcome.grants[0], moment)
        finally:
            self._in_hand.remove(inline)
        self.runs.append(run)
        failed, self._failed = self._failed, None
        if failed is None and not isinstance(run.error, Exception | SystemExit | None):
            failed = run.error  # such as an interrupt, or what ends a test
        if failed is not None:
            raise failed
        return run

    # -- what goes wrong while a handler runs

    def cut_off(self) -> CutOff:
        """From now on the worker that runs does not reach the store, until the `with` block of what
        this returns ends, if there is one. Its lease is not renewed; `fp` goes on."""
        return CutOff([inline.line for inline in self._holders("cut_off")])

    def stop(self) -> None:
        """The worker that runs is stopped, and its grace is over: `work.lost` is set, `stopping`
        the reason, and what does not complete is given back."""
        for inline in self._holders("stop"):
            inline.stop()

    def _holders(self, what: str) -> list[Inline]:
        if not self._in_hand:
            raise AssertionError(f"{what}: no handler is running; call it from what one calls")
        return self._in_hand

    # -- what is there

    def tasks(self, queue: str | None = None) -> list[Task]:
        """The tasks of a queue or of all, in the order of their enqueueing, with their payloads."""
        return [self.fp.task(task.task_id) for task in self.fp.tasks(queue)]

    def results(self, task_id: str) -> list[Any]:
        """The accepted results of a task by revision."""
        return [result.value for result in self.fp.results(task_id)]

    def assert_enqueued(self, queue: str, payload: Any = ANY, *, key: str | None = ANY) -> Task:
        """One task of this kind was enqueued, whatever has become of it since: the task.
        AssertionError that says what was enqueued instead."""
        found = self._matching(queue, payload, key)
        if len(found) != 1:
            number = f"{len(found)} tasks like" if found else "no task like"
            last = self.runs[-1].error if self.runs else None
            raise AssertionError(
                f"{number} {_described(queue, payload, key)}; {self._found()}"
            ) from last
        return found[0]

    def assert_not_enqueued(self, queue: str, payload: Any = ANY, *, key: str | None = ANY) -> None:
        """No task of this kind was enqueued."""
        if self._matching(queue, payload, key):
            raise AssertionError(
                f"there is a task like {_described(queue, payload, key)}; {self._found()}"
            )

    def _matching(self, queue: str, payload: Any, key: str | None) -> list[Task]:
        # what is expected stands left: ANY is asked, whatever it is compared with
        return [t for t in self.tasks(queue) if payload == t.payload and key == t.key]

    def _tasks(self, names: tuple[str, ...]) -> list[Task]:
        return [task for name in names for task in self.tasks(name)]

    def _found(self) -> str:
        """All that is enqueued, and what has been run."""
        runs = "".join(f"\n  {run}" for run in self.runs[-10:]) or " nothing"
        return f"enqueued was:{listed(self.tasks(), self.fp.now())}\nrun was:{runs}"


class CutOff:
    """Ways to the store that are cut, until the end of its `with` block."""

    def __init__(self, lines: list[Line]) -> None:
        self._lines = lines
        for line in lines:
            line.is_cut = True

    def __enter__(self) -> CutOff:
        return self

    def __exit__(self, *_: object) -> None:
        for line in self._lines:
            line.is_cut = False


def _names(queues: Queues) -> tuple[str, ...]:
    return (queues,) if isinstance(queues, str) else tuple(queues)


def _due(task: Task) -> int:
    """When something happens to it by itself; 0: never."""
    if task.state == "leased":
        return task.lease_expires_at
    return task.due_at if task.state == "ready" else 0


def _described(queue: str, payload: Any, key: str | None) -> str:
    with_key = "" if key is ANY else f" with key {key!r}"
    return f"{queue}: {payload!r}{with_key}"
