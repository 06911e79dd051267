"""What is true, kept beside the product from its answers alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from fencepost.clock import Clock
from fencepost.commands import LeaseCommand, Request
from fencepost.model import Caller, QueueSettings

Name = tuple[str, ...]


class Time:
    """The store's time by its law: the wall clock's, and never back but by a reset. Where the
    wall is behind, it goes on by the steady clock; a new process begins at the mark."""

    def __init__(self, start: int) -> None:
        self.now = self.mark = self.wall = start
        self._last: int | None = None
        self._steady = 0

    def expected(self, clock: Clock) -> int:
        """The time at which a command would be judged now."""
        wall = clock.wall()
        if self._last is None:
            return max(wall, self.mark)
        going = self._last + clock.steady() - self._steady
        behind = wall < self.mark or wall < self._last
        return max(self.mark, going) if behind else wall

    def tick(self, clock: Clock) -> None:
        """A batch begins."""
        self.now = self._last = self.expected(clock)
        self.wall = clock.wall()
        self._steady = clock.steady()

    def restart(self) -> None:
        """The process is another: it knows the mark and nothing else."""
        self._last = None

    def reset(self) -> None:
        """clock.reset: the mark is the wall clock's."""
        self.now = self.mark = self.wall
        self._last = None


@dataclass(slots=True)
class Job:
    """A task as all must see it. `due_from` and `due_by` bound when it may be claimed (0: always).

    `results` holds (round, digest) by revision, `words` what a human said of each.
    """

    task_id: str
    scope: str
    queue: str
    key: str | None
    payload: bytes
    max_attempts: int
    changed: int
    due_from: int = 0
    due_by: int = 0
    parent: str | None = None
    state: str = "ready"
    attempt: int = 0
    round: int = 1
    fence: int = 0
    epoch: int = 0
    policy: int = 0
    worker: str | None = None
    granted: int = 0
    until: int = 0
    erased: bool = False
    purged: bool = False
    results: list[tuple[int, bytes]] = field(default_factory=list)
    words: dict[int, str] = field(default_factory=dict)
    owes: list[str] = field(default_factory=list)

    @property
    def revision(self) -> int:
        return len(self.results)

    @property
    def place(self) -> tuple[str, str]:
        return self.scope, self.queue


@dataclass(slots=True)
class Promise:
    """A receipt that was given: the same bytes get it for ever, or hear that it was erased.

    `about` is the task that it is about, `names` are all that its entry names.
    """

    number: int
    body: bytes
    salt: bytes
    sha256: bytes
    about: str | None
    names: tuple[str, ...]
    erased: bool = False


class Ghost:
    """All that is true. `last` is the number of the last entry, `highest` the last fence."""

    def __init__(self, start: int) -> None:
        self.time = Time(start)
        self.jobs: dict[str, Job] = {}
        self.order: list[str] = []
        self.open: dict[tuple[str, str], dict[str, Job]] = {}
        self.keys: dict[Name, str] = {}
        self.promises: dict[Name, Promise] = {}
        self.touching: dict[str, list[Promise]] = {}
        self.entries: list[bytes] = []
        self.highest = self.epoch = self.floor = 0
        self.policy: dict[str, int] = {}
        self.revoked: dict[str, bool] = {}
        self.retain: dict[str, int | None] = {}
        self._settings: dict[tuple[str, str], QueueSettings] = {}

    @property
    def last(self) -> int:
        return len(self.entries)

    def settings(self, place: tuple[str, str]) -> QueueSettings:
        return self._settings.get(place) or QueueSettings()

    def known(self, place: tuple[str, str]) -> bool:
        """The queue has come into being."""
        return place in self._settings

    def set_queue(self, place: tuple[str, str], settings: QueueSettings) -> None:
        self._settings[place] = settings
        for destination in settings.destinations:
            self._settings.setdefault((place[0], destination), QueueSettings())

    def is_destination(self, scope: str, queue: str) -> bool:
        return any(
            queue in settings.destinations
            for (where, _), settings in self._settings.items() if where == scope
        )  # fmt: skip

    def add(self, job: Job) -> None:
        """A new task."""
        self._settings.setdefault(job.place, QueueSettings())
        self.jobs[job.task_id] = job
        self.order.append(job.task_id)
        self.open.setdefault(job.place, {})[job.task_id] = job
        if job.key is not None:
            self.keys[(*job.place, job.key)] = job.task_id

    def move(self, job: Job, state: str) -> None:
        """Its new state; `open` holds what is ready or leased."""
        job.state = state
        job.changed = self.time.now
        there = self.open.setdefault(job.place, {})
        if state in ("ready", "leased"):
            there[job.task_id] = job
        else:
            there.pop(job.task_id, None)

    def open_jobs(self, scope: str | None = None, queue: str | None = None) -> Iterator[Job]:
        """What is ready or leased, everywhere or in one place."""
        for (its_scope, its_queue), jobs in self.open.items():
            if scope in (None, its_scope) and queue in (None, its_queue):
                yield from jobs.values()

    def lapsed(self, job: Job) -> bool:
        """Leased, and the lease has ended."""
        ended = self.time.now >= job.until or job.epoch < self.floor
        return job.state == "leased" and ended

    def after_lapse(self, job: Job) -> str:
        if self.settings(job.place).on_lapse == "reconcile":
            return "blocked"
        return "dead" if job.attempt >= job.max_attempts else "ready"

    def free(self, job: Job, *, surely: bool = False) -> bool:
        """A claim may take it; `surely`: whatever its back-off was drawn to be."""
        if job.state == "ready":
            return (job.due_by if surely else job.due_from) <= self.time.now
        return self.lapsed(job) and self.after_lapse(job) == "ready"

    def wait(self, job: Job) -> None:
        """A back-off was drawn: between half and all of it."""
        settings = self.settings(job.place)
        doubled = settings.backoff_seconds * 2 ** min(job.attempt - 1, 40)
        longest = min(doubled, settings.max_backoff_seconds) * 1_000_000
        job.due_from = self.time.now + longest // 2
        job.due_by = self.time.now + longest

    def erase(self, job: Job) -> None:
        """All receipts that hold the task's content are erased."""
        job.erased = True
        for promise in self.touching.pop(job.task_id, ()):
            promise.erased = True

    def purge(self, job: Job) -> None:
        """Those that were about the task are erased, that of an enqueue with its last task."""
        job.purged = True
        for promise in self.touching.pop(job.task_id, ()):
            last = all(self.jobs[name].purged for name in promise.names)
            promise.erased |= last or promise.about == job.task_id

    @staticmethod
    def name(caller: Caller, request: Request) -> Name | None:
        """How the receipt of a request is found again; None where it leaves none."""
        command = request.command
        if request.key is not None:
            actor = getattr(command, "worker_id", None) or caller.actor
            return caller.scope, actor, request.key
        if isinstance(command, LeaseCommand) and command.verb != "renew":
            return command.task_id, request.sha256.hex()
        return None
