"""Several processes on one store, each with its own handle, and what each asked and was told.

All work on a few hot tasks. Each call is written down before it is made and again when it is
answered, with `time.monotonic_ns`, which all processes of a machine share. The store's time is
that same clock made to run a hundred times as fast: so it can be told for every call, and a lease
of a second, the shortest there is, ends after ten milliseconds, while a few calls of others fit
in. Some processes are killed in the midst of it all; others follow.

Runs in a child without a thread, which forks for each life of a process.
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import fencepost
from fencepost import commands as c
from fencepost.engine import SystemDraw
from fencepost.handle import Handle
from helpers.killing import die_after_commit, die_at
from helpers.lab import SCOPE, START
from helpers.linear import MOST_STEPS

RATE = 100  # microseconds of the store for each that passes
HOT, ASKING = "hot", "asking"  # queues: what lapses on the second is blocked
QUEUES = {HOT: 4, ASKING: 2}
SETTINGS: dict[str, dict[str, Any]] = {
    HOT: {"max_attempts": 3},
    ASKING: {"max_attempts": 3, "on_lapse": "reconcile"},
}
WORKERS = 3  # names that the processes share, so that two may hold one lease
LONGEST = 20  # seconds beyond its time that a life may take; then it hangs


class Fast:
    """The machine's monotonic clock, RATE times as fast, as a store's clock."""

    def __init__(self, zero: int) -> None:
        self.zero = zero

    def at(self, nanoseconds: int) -> int:
        """The store's time when `time.monotonic_ns` shows this."""
        return START + (nanoseconds - self.zero) * RATE // 1_000

    def wall(self) -> int:
        return self.at(time.monotonic_ns())

    def steady(self) -> int:
        return self.wall()


class Plan(NamedTuple):
    """How one recording goes: until the time is over, or until each thread of each process has
    made its operations. `kills` are the ways in which every second process ends, life after life:
    "step" (at some step of a command), "commit" (between a commit and its answer), "moment"
    (whenever it may be)."""

    folder: str
    seed: int
    seconds: float
    processes: int = 4
    threads: int = 1  # of each process
    kills: tuple[str, ...] = ("step", "commit", "moment")
    most: int = 1_000_000  # operations of a thread in one life
    lives: int = 1_000_000  # of one process
    most_steps: int = MOST_STEPS  # of the search in one history


class Log:
    """A file of lines, written at once: what was written outlives a kill."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, **line: Any) -> None:
        os.write(self._file, json.dumps(line).encode() + b"\n")


class Asker:
    """Sends and reads, and writes down what it asked and what it was told."""

    def __init__(self, fp: Handle, log: Log, name: str) -> None:
        self.fp, self.log, self.name = fp, log, name
        self.number = 0

    def send(self, request: c.Request, again: str = "") -> Any:
        """One command; its outcome. `again` names a call that had no answer."""
        name = self._asked(body=request.body.decode(), sha=request.sha256.hex(), key=request.key,
                           digest=(request.result_sha256 or b"").hex(), again=again)  # fmt: skip
        (outcome,) = self.fp.execute([request])
        back = time.monotonic_ns()
        self.log.write(name=name, back=back, outcome=outcome.to_json())
        return outcome

    def look(self, task_id: str) -> Any:
        """Read the task."""
        name = self._asked(read="task", task_id=task_id)
        task = self.fp.task(task_id)
        back = time.monotonic_ns()
        row = (task.state, task.fence, task.worker_id, task.attempt, task.round, task.revision,
               task.lease_expires_at, task.due_at)  # fmt: skip
        self.log.write(name=name, back=back, row=row)
        return task

    def look_at_results(self, task_id: str) -> None:
        """Read the task's results."""
        name = self._asked(read="results", task_id=task_id)
        found = list(self.fp.results(task_id))
        back = time.monotonic_ns()
        assert [r.revision for r in found] == list(range(1, len(found) + 1)), found
        rows = [(r.round, r.result_sha256) for r in found]
        self.log.write(name=name, back=back, row=rows)

    def _asked(self, **what: Any) -> str:
        self.number += 1
        name = f"{self.name}-{self.number}"
        self.log.write(name=name, call=time.monotonic_ns(), **what)
        return name


class Worker(Asker):
    """Asks whatever comes to mind: mostly what may be accepted by what it has seen last."""

    def __init__(
        self, fp: Handle, log: Log, name: str, chance: random.Random, tasks: list[str],
        mortal: bool,
    ) -> None:  # fmt: skip
        super().__init__(fp, log, name)
        self.chance, self.tasks, self.mortal = chance, tasks, mortal
        self.leases: list[tuple[str, str, int]] = []
        self.seen: dict[str, tuple[str, int, str | None]] = {}
        self.error: BaseException | None = None
        self.sent: list[c.Request] = []
        ways = {
            self.read: 22, self.claim: 18, self.hand_in: 34, self.outside: 14, self.sweep: 4,
            self.again: 6, self.reuse: 1,
        }  # fmt: skip
        self.ways = [way for way, weight in ways.items() for _ in range(weight)]

    def work(self, end: int, most: int) -> None:
        """Until the end (`time.monotonic_ns`), or so many operations."""
        try:
            while time.monotonic_ns() < end and self.number < most:
                self.chance.choice(self.ways)()
        except BaseException as error:  # noqa: BLE001  told by the thread that started this one
            self.error = error

    def task(self) -> str:
        return self.chance.choice(self.tasks)

    def ask(self, command: c.Command, *, keyed: bool = True) -> None:
        """Send it, with a key if it is to have one."""
        key = f"{self.name}-{self.number}" if keyed else None
        request = c.Request.of(command, key)
        self.sent = [*self.sent[-20:], request]
        outcome = self.send(request)
        for grant in outcome.grants:
            self.leases = [*self.leases[-5:], (grant.task_id, grant.worker_id, grant.fence)]
        task_id = getattr(command, "task_id", None)
        if task_id and "state" in outcome.facts:
            last = self.seen.get(task_id, ("", 0, None))
            facts = outcome.facts
            self.seen[task_id] = facts["state"], facts["fencing_token"], last[2]

    def read(self) -> None:
        task_id = self.task()
        if self.chance.random() < 0.2:
            self.look_at_results(task_id)
        else:
            task = self.look(task_id)
            self.seen[task_id] = task.state, task.fence, task.worker_id

    def claim(self) -> None:
        worker = f"w{self.chance.randrange(WORKERS)}"
        seconds = self.chance.choice((1, 1, 2, 4))
        if self.chance.random() < 0.4:
            command = c.Claim(worker, None, self.task(), 1, seconds)
        else:
            queues = self.chance.choice(((HOT,), (HOT,), (ASKING,), (HOT, ASKING)))
            command = c.Claim(worker, queues, None, self.chance.choice((1, 1, 2, 9)), seconds)
        # without a key nobody can tell what became of a claim whose caller was killed
        self.ask(command, keyed=self.mortal or self.chance.random() < 0.4)

    def hand_in(self) -> None:
        """A command on a lease: on the last one mostly, on an older one, on somebody's, forged."""
        task_id = self.task()
        _, fence, worker = self.seen.get(task_id, ("", 0, None))
        bound = task_id, worker or "w0", max(fence, 1)
        if self.leases and self.chance.random() < 0.8:
            recent = self.chance.random() < 0.7
            bound = self.leases[-1] if recent else self.chance.choice(self.leases)
        if self.chance.random() < 0.05:
            bound = (*bound[:2], bound[2] + self.chance.choice((-1, 1)) or 1)
        result: dict[str, Any] = {"result": self.chance.randrange(3)}
        if self.chance.random() < 0.2:
            result["expected_revision"] = self.chance.randrange(4)
        wait: dict[str, Any] = self.chance.choice(({}, {"retry_seconds": 0}, {"retry_seconds": 1}))
        then: Any = self.chance.choice(("retry", "retry", "retry", "give_up", "block"))
        command = self.chance.choice((
            c.Submit(*bound, **result), c.Submit(*bound, **result), c.Complete(*bound, **result),
            c.Complete(*bound), c.Fail(*bound, then=then, **wait), c.Release(*bound),
            c.Renew(*bound, lease_seconds=self.chance.choice((1, 2, 3))),
            c.Renew(*bound, lease_seconds=self.chance.choice((1, 2, 3))),
        ))  # fmt: skip
        self.ask(command, keyed=command.verb != "renew" and self.chance.random() < 0.5)

    def outside(self) -> None:
        """What may help the task on, as it was seen last; or a cancel."""
        task_id = self.task()
        state, fence, _ = self.seen.get(task_id, ("", 0, None))
        seen = self.chance.choice((None, None, fence))
        if state in ("done", "dead", "cancelled") or self.chance.random() < 0.2:
            self.ask(c.Requeue(task_id, seen))
        elif state == "blocked" or self.chance.random() < 0.3:
            to: Any = self.chance.choice(("done", "retry", "retry", "give_up"))
            evidence: dict[str, Any] = (
                {"evidence": self.chance.randrange(3)} if to == "done" else {}
            )
            self.ask(c.Resolve(task_id, seen, to=to, **evidence))
        elif self.chance.random() < 0.4:
            self.ask(c.Cancel(task_id, seen))

    def sweep(self) -> None:
        queue, limit = self.chance.choice((None, HOT, ASKING)), self.chance.choice((1, 100))
        self.ask(c.Sweep(queue, limit), keyed=self.mortal or self.chance.random() < 0.3)

    def again(self) -> None:
        """The same bytes and key as before."""
        if self.sent:
            self.send(self.chance.choice(self.sent))

    def reuse(self) -> None:
        """The key of a command on a task, with other bytes for the same task."""
        taken = [r for r in self.sent if r.key and getattr(r.command, "task_id", None)]
        if taken:
            first = self.chance.choice(taken)
            self.send(c.Request.of(c.Cancel(first.command.task_id, 0), first.key))  # type: ignore[attr-defined]


def opened(plan: Plan, clock: Fast, name: str, *, create: bool = False) -> Handle:
    """The store, in this process."""
    draw = SystemDraw(random.Random(f"{plan.seed} {name}").randbytes)
    path = str(Path(plan.folder) / "work.db")
    return fencepost.open(path, scope=SCOPE, create=create, clock=clock, draw=draw)


def live(plan: Plan, clock: Fast, name: str, tasks: list[str], end: int) -> None:
    """One life of one process: all its threads work until the end, or until it is killed."""
    chance = random.Random(f"{plan.seed} {name}")
    fp = opened(plan, clock, name)
    log = Log(Path(plan.folder) / f"{name}.log")
    mortal = bool(plan.kills) and int(name.partition("x")[0]) % 2 == 0
    workers = [
        Worker(fp, log, f"{name}.{number}", random.Random(chance.random()), tasks, mortal)
        for number in range(plan.threads)
    ]
    threads = [threading.Thread(target=w.work, args=(end, plan.most)) for w in workers]
    if mortal:
        _condemn(chance, plan.kills)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    fp.close()
    for worker in workers:
        if worker.error is not None:
            raise worker.error


def _condemn(chance: random.Random, ways: tuple[str, ...]) -> None:
    """To be killed in one of these ways."""
    way = chance.choice(ways)
    if way == "step":
        die_at(chance.randrange(40, 1_000))
    elif way == "commit":
        die_after_commit(chance.randrange(1, 20))
    else:
        killer = threading.Timer(chance.uniform(0.01, 0.3), os.kill, (os.getpid(), signal.SIGKILL))
        killer.daemon = True
        killer.start()
