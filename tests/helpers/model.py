"""The rules of the queue once more, in plain dictionaries, written from the design and not from the
code: what the state machine of test_stateful.py holds the product against.

Every method takes what a command names and returns (status, leading issue). Seconds are integers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

OK = ("accepted", None)
LEASE = 60
ATTEMPTS = 2
ENDED = ("done", "dead", "cancelled")
RETAIN = {"a": 300}
ON_LAPSE = {"b": "reconcile"}
OWES = {"a": "out"}
TOLD = {"b": {"out": ("dead", "cancelled", "blocked", "done")}}  # and of results nothing
SPARED = ("scope.revoke", "erase", "purge", "clock.reset")

Verdict = tuple[str, str | None]


@dataclass
class Job:
    """A task as the model sees it. `results` holds (round, value) by revision."""

    queue: str
    key: str | None
    payload: object
    priority: int
    number: int
    due: int
    created: int
    state: str = "ready"
    attempt: int = 0
    round: int = 1
    fence: int = 0
    epoch: int = 0
    policy: int = 0
    worker: str | None = None
    until: int = 0
    changed: int = 0
    erased: bool = False
    parent: str | None = None
    results: list[tuple[int, object]] = field(default_factory=list)
    words: dict[int, str] = field(default_factory=dict)

    @property
    def revision(self) -> int:
        return len(self.results)

    def add(self, value: object) -> bool:
        """Record a result unless this round has it; whether it was new."""
        if (self.round, value) in self.results:
            return False
        self.results.append((self.round, value))
        self.words[self.revision] = "open"
        return True


class Clock:
    """The store's time: never back, except by a reset."""

    def __init__(self, start: int) -> None:
        self.wall = start
        self.steady = 0
        self.mark = start
        self.last: int | None = None
        self.at = 0

    def now(self) -> int:
        if self.last is None:
            found = max(self.wall, self.mark)
        else:
            going = self.last + (self.steady - self.at)
            found = self.wall if self.wall >= self.last else max(going, self.mark)
        self.last, self.at = found, self.steady
        self.mark = max(self.mark, found)
        return found

    def reset(self) -> None:
        self.mark, self.last = self.wall, None


class Model:
    def __init__(self, start: int) -> None:
        self.clock = Clock(start)
        self.jobs: dict[str, Job] = {}
        self.gone: set[str] = set()
        self.owed: list[str] = []  # whose obligations are to be there by now
        self.dead_keys: set[tuple[str, str]] = set()
        self.paused: set[str] = set()
        self.policy = self.epoch = self.fences = 0
        self.floor = 0
        self.revoked = False
        self.now = start

    # -- what comes before every verb's own rules

    def before(self, verb: str, kind: str, task_id: str | None) -> Verdict | None:
        self.now = self.clock.now()
        if self.revoked and not (kind == "operator" and verb in SPARED):
            return ("blocked", "scope_revoked")
        if task_id is not None and task_id not in self.jobs:
            return ("failed", "not_found")
        return None

    def lost(self, job: Job, worker: str, fence: int) -> str | None:
        """Why this worker and fence are not the holder of a live lease."""
        if job.fence and job.epoch < self.floor:
            return "stale_epoch"
        if job.fence and job.policy != self.policy:
            return "stale_policy"
        if job.state != "leased":
            return "not_leased" if job.state == "ready" else f"task_{job.state}"
        if worker != job.worker:
            return "wrong_worker"
        if fence != job.fence:
            return "unknown_fence" if fence > job.fence else "stale_fence"
        return "lease_expired" if self.now >= job.until else None

    def over(self, job: Job) -> bool:
        ended = self.now >= job.until or job.epoch < self.floor
        return job.state == "leased" and ended

    def after_lapse(self, job: Job) -> str:
        if ON_LAPSE.get(job.queue) == "reconcile":
            return "blocked"
        return "dead" if job.attempt >= ATTEMPTS else "ready"

    def come(self, job: Job, state: str) -> None:
        """The task comes to a state, and somebody may be told."""
        told = TOLD.get(job.queue, {}).get("out", ())
        if state != job.state and state in told:
            self.owed.append(next(i for i, known in self.jobs.items() if known is job))
        job.state = state

    def settle(self, job: Job) -> None:
        """A lapsed lease is settled. The back-off is drawn: the caller fills in `due`."""
        self.come(job, self.after_lapse(job))
        job.changed = self.now
        job.due = -1 if job.state == "ready" else job.due

    # -- the verbs

    def enqueue(self, queue: str, key: str | None, payload: object) -> Verdict:
        if key is not None and (queue, key) in self.dead_keys:
            return ("failed", "receipt_erased")
        if queue in self.paused:
            return ("blocked", "queue_paused")
        known = self.by_key(queue, key)
        if known is not None and self.jobs[known].payload != payload:
            return ("failed", "key_conflict")
        return OK

    def by_key(self, queue: str, key: str | None) -> str | None:
        found = [i for i, job in self.jobs.items() if key and (job.queue, job.key) == (queue, key)]
        return found[0] if found else None

    def add(
        self, task_id: str, queue: str, key: str | None, payload: object, priority: int = 0,
        parent: str | None = None,
    ) -> None:  # fmt: skip
        number = 1 + max((job.number for job in self.jobs.values()), default=0)
        self.jobs[task_id] = Job(
            queue, key, payload, priority, number, self.now, self.now, changed=self.now,
            parent=parent,
        )

    def claim(self, queue: str, limit: int) -> tuple[Verdict, list[str]]:
        """The verdict, and the tasks that a claim must give, best first."""
        if queue in self.paused:
            return ("blocked", "queue_paused"), []
        here = {i: job for i, job in self.jobs.items() if job.queue == queue}
        free = [i for i, job in here.items() if self.free(job)]
        free.sort(key=lambda i: (-here[i].priority, here[i].number))
        for job in here.values():
            if self.over(job) and self.after_lapse(job) != "ready":
                self.settle(job)
        return OK, free[:limit]

    def free(self, job: Job) -> bool:
        if job.state == "ready":
            return job.due <= self.now or job.due == job.created  # due from the first
        return self.over(job) and self.after_lapse(job) == "ready"

    def take(self, task_id: str, worker: str, given: int = 0) -> int:
        """The lease that a claim gives; returns its fence. `given`: of a store that leaves gaps
        between its fences."""
        job = self.jobs[task_id]
        self.fences = max(max(self.fences, self.epoch << 32) + 1, given)
        job.state, job.worker, job.fence = "leased", worker, self.fences
        job.epoch, job.policy, job.attempt = self.epoch, self.policy, job.attempt + 1
        job.until, job.changed = self.now + LEASE, self.now
        return job.fence

    def renew(self, job: Job, worker: str, fence: int) -> Verdict:
        code = self.lost(job, worker, fence)
        if code is None:
            job.until = max(job.until, self.now + LEASE)
        return ("failed", code) if code else OK

    def hand_in(
        self, job: Job, worker: str, fence: int, value: object, expected: int | None, ends: bool
    ) -> tuple[Verdict, bool]:
        """submit, or with `ends` complete: the verdict, and whether a result was added."""
        code = self.lost(job, worker, fence)
        if code is None and not ends and (job.round, value) in job.results:
            code = "duplicate_result"
        if code is None and expected is not None and expected != job.revision:
            code = "stale_revision"
        if code is not None:
            return ("failed", code), False
        added = value is not None and job.add(value)
        self.come(job, "done" if ends else job.state)
        job.changed = self.now
        return OK, added

    def fail(self, job: Job, worker: str, fence: int, then: str, wait: int) -> Verdict:
        code = self.lost(job, worker, fence)
        if code is not None:
            return ("failed", code)
        tired = then == "give_up" or job.attempt >= ATTEMPTS
        self.come(job, "blocked" if then == "block" else "dead" if tired else "ready")
        job.due = self.now + wait if job.state == "ready" else job.due
        job.changed = self.now
        return OK

    def release(self, job: Job, worker: str, fence: int) -> Verdict:
        code = self.lost(job, worker, fence)
        if code is not None:
            return ("failed", code)
        job.state, job.attempt, job.changed = "ready", job.attempt - 1, self.now
        return OK

    def cancel(self, job: Job) -> Verdict:
        if job.state in ENDED:
            return ("failed", f"task_{job.state}")
        self.come(job, "cancelled")
        job.changed = self.now
        return OK

    def requeue(self, job: Job) -> Verdict:
        if job.state not in ENDED:
            return ("failed", f"task_{job.state}")
        job.state, job.round, job.attempt = "ready", job.round + 1, 0
        job.due, job.changed = job.created, self.now
        return OK

    def resolve(self, job: Job, to: str, evidence: object) -> tuple[Verdict, bool]:
        if job.state != "blocked":
            return ("failed", f"task_{job.state}"), False
        added = to == "done" and job.add(evidence)
        self.come(job, {"done": "done", "retry": "ready", "give_up": "dead"}[to])
        job.due = job.created if to == "retry" else job.due
        job.changed = self.now
        return OK, added

    def adopt(
        self, job: Job, revision: int, epoch: int, value: object, final: bool
    ) -> tuple[Verdict, bool]:
        """import: the verdict, and whether a result was added."""
        if revision <= job.revision:
            same = job.results[revision - 1][1] == value
            return (OK if same else ("failed", "result_conflict")), False
        if epoch >= self.epoch:
            return ("failed", "unknown_fence"), False
        if revision != job.revision + 1:
            return ("failed", "stale_revision"), False
        if job.state == "leased" and not final:
            job.state, job.attempt = "ready", job.attempt - 1
        if (job.round, value) in job.results:
            job.round, job.attempt = job.round + 1, 0
        job.add(value)
        self.come(job, "done" if final else job.state)
        job.changed = self.now
        return OK, True

    def review(self, job: Job, revision: int, verdict: str) -> Verdict:
        word = job.words.get(revision)
        if word is None:
            return ("failed", "stale_revision")
        if word != "open":
            return ("failed", "commitment_closed")
        job.words[revision] = verdict
        return OK

    def sweep(self) -> Verdict:
        for job in self.jobs.values():
            if self.over(job):
                self.settle(job)
        return OK

    def erase(self, task_id: str) -> Verdict:
        owed = [j for j in self.jobs.values() if j.parent == task_id and j.queue == "out"]
        for job in (self.jobs[task_id], *owed):
            if not job.erased:
                self.forget(job)
        return OK

    def forget(self, job: Job) -> None:
        job.erased, job.changed = True, self.now
        job.state = job.state if job.state in ENDED else "cancelled"
        if job.key is not None:
            self.dead_keys.add((job.queue, job.key))
            job.key = None

    def purge(self) -> set[str]:
        """The tasks that go."""
        over = {
            i for i, job in self.jobs.items()
            if job.state in ENDED and job.queue in RETAIN
            and job.changed + RETAIN[job.queue] <= self.now
        }  # fmt: skip
        for task_id in over:
            job = self.jobs.pop(task_id)
            self.gone.add(task_id)
            if job.key is not None:
                self.dead_keys.add((job.queue, job.key))
        return over

    def set_policy(self, version: int) -> Verdict:
        if version <= self.policy:
            return ("failed", "stale_policy")
        self.policy = version
        return OK

    def reset_clock(self) -> Verdict:
        self.epoch += 1
        self.floor = self.epoch
        for job in self.jobs.values():
            if job.state == "leased":
                job.until = min(job.until, self.clock.wall)
        self.clock.reset()
        return OK
