"""What no command names and is looked for: the tasks that a claim may take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify
from itertools import chain
from typing import TYPE_CHECKING, Any

from fencepost.machine.needs import Needs, Sent
from fencepost.machine.rows import Loaded, QueueRow
from fencepost.model import TaskRow
from fencepost.storage.rows import queue_row, task_row
from fencepost.storage.steps import Ask, Steps, one, together

if TYPE_CHECKING:
    from fencepost.storage.loading import Backing

SWEPT_BY_A_CLAIM = 100
Place = tuple[str, str]


def add_queues(loaded: Loaded, rows: Sequence[tuple[Any, ...]]) -> None:
    for row in rows:
        queue = queue_row(row)
        loaded.queues.setdefault((queue.scope, queue.queue), queue)


def add_tasks(loaded: Loaded, rows: Sequence[tuple[Any, ...]]) -> Steps[list[TaskRow]]:
    """Rows of tasks; one that is here already stays as the batch has it."""
    queues = {queue.id: queue for queue in loaded.queues.values()}
    unknown = sorted({row[2] for row in rows} - set(queues))
    if unknown:
        found = yield one("queues_by_id", ids=unknown)
        add_queues(loaded, found)
        queues = {queue.id: queue for queue in loaded.queues.values()}
    tasks = []
    for row in rows:
        task = loaded.tasks.get(row[1])
        if task is None:
            task = loaded.tasks[row[1]] = task_row(row, queues[row[2]])
        tasks.append(task)
    return tasks


def look(loaded: Loaded, backing: Backing, place: Place, limit: int) -> Steps[None]:
    """Candidates for claims of one queue: a superset, which the machine judges and orders."""
    queue = loaded.queues.get(place)
    if queue is None:
        loaded.pool[place] = []
        return
    over = backing.over(queue.id, loaded.now, limit + SWEPT_BY_A_CLAIM)
    answers = yield together([*over, *backing.ready(queue.id, limit)])
    ended, ready = answers[0], answers[len(over) :]
    if not backing.enough(queue.id, answers, limit):
        ready = yield together(backing.ready(queue.id, limit))
    yield from _found(loaded, place, ended, ready)


def _found(
    loaded: Loaded, place: Place, ended: Sequence[Any], ready: Sequence[Sequence[Any]]
) -> Steps[None]:
    loaded.lapsed[place] = [row[1] for row in ended]
    found = yield from add_tasks(loaded, [*chain.from_iterable(ready), *ended])
    loaded.pool[place] = [(-task.priority, task.id, task.task_id) for task in found]
    heapify(loaded.pool[place])


class Early:
    """The look of a claim, and the drawing of the numbers behind it, asked together with what is
    asked before: two round trips less. It is by a time that was a moment ago: where it does not
    find enough, the look is made again by the store's own. Only where one queue is claimed from and
    nothing else is looked for."""

    def __init__(self, sent: Sequence[Sent], wanted: Needs, backing: Backing) -> None:
        self.good = False
        self._sent, self._backing = sent, backing
        self._place: Place | None = None
        others = wanted.sweeps or wanted.purges or wanted.children or wanted.destinations
        if len(wanted.claims) == 1 and not others:
            ((self._place, limit),) = wanted.claims.items()
            self._limit = limit + len(wanted.tasks)
        self._queue_id = self._until = self._over = self._looks = 0
        self._drawing: list[Ask] = []

    def asks(self, queues: Mapping[Place, QueueRow], tasks: Mapping[str, TaskRow]) -> list[Ask]:
        """Nothing where it is not known which queue it is, or which time."""
        known = self._backing.before()
        if known is None or self._place is None:
            return []
        were, self._until = known
        queues = queues or were
        if self._place not in queues:
            return []
        self._queue_id = queues[self._place].id
        most = self._limit + SWEPT_BY_A_CLAIM
        over = self._backing.over(self._queue_id, self._until, most)
        ready = self._backing.ready(self._queue_id, self._limit)
        self._over, self._looks = len(over), len(over) + len(ready)
        # from a mark (lowwater.py) it may find too little and look again: numbers come after that
        if len(ready) == 1:
            self._drawing = self._backing.draws(self._sent, queues, tasks, self._limit + most)
        return [*over, *ready, *self._drawing]

    def found(self, loaded: Loaded, answers: Sequence[Any]) -> Steps[bool]:
        """Whether the numbers that were drawn behind it will do, too."""
        place, backing = self._place, self._backing
        queue = None if place is None else loaded.queues.get(place)
        if not self._looks or place is None or queue is None or queue.id != self._queue_id:
            return False
        if loaded.now < self._until:  # a clock was set back: what was due may not be any more
            yield one("wait_again", now=loaded.now)
        if backing.before() is None or loaded.now < self._until:
            return False
        looked, drawn = answers[: self._looks], answers[self._looks :]
        will_do = bool(self._drawing)
        if self._until < loaded.now and _many(looked, self._over) < self._limit:
            looked, will_do = (yield from self._again(loaded, looked)), False
        ready = looked[self._over :]
        if not backing.enough(queue.id, looked, self._limit):
            ready, will_do = (yield together(backing.ready(queue.id, self._limit))), False
        yield from _found(loaded, place, looked[0], ready)
        self.good = True
        if will_do:
            backing.drawn(loaded, drawn)
            yield from self._rest(loaded)
        return will_do

    def _again(self, loaded: Loaded, looked: Sequence[Any]) -> Steps[list[Any]]:
        """By the store's own time. What was made ready by the first look is so already."""
        over = self._backing.over(self._queue_id, loaded.now, self._limit + SWEPT_BY_A_CLAIM)
        ready = self._backing.ready(self._queue_id, self._limit)
        self._over = len(over)
        ended, *due = yield together([*over, *ready])
        return [ended, *([*a, *b] for a, b in zip(looked[1:len(over)], due, strict=False)),
                *due[len(over) - 1 :]]  # fmt: skip

    def _rest(self, loaded: Loaded) -> Steps[None]:
        """What is missing of the numbers, now that it is known what was found."""
        needed = self._backing.draws(self._sent, loaded.queues, loaded.tasks)
        for ask, wanted in zip(self._drawing, needed, strict=True):
            missing = {n: max(0, wanted.values[n] - had) for n, had in ask.values.items()}
            if any(missing.values()):
                self._backing.drawn(loaded, [(yield one(ask.name, **missing))])


def _many(looked: Sequence[Any], over: int) -> int:
    """How many tasks a look has found, ended or ready."""
    return len(looked[0]) + sum(map(len, looked[over:]))
