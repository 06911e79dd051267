"""Sends one request to the product and to the model, and compares what they say and hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fencepost import commands as c
from fencepost.deliveries.event import about_of, operation_of
from fencepost.model import Caller, Outcome
from fencepost.rules.authority import actor_of
from helpers.lab import START
from helpers.model import ATTEMPTS, LEASE, ON_LAPSE, RETAIN, TOLD, Model, Verdict
from helpers.stand import SCOPE, Make, Stand

SECOND = 1_000_000
TASKS = (
    "select t.task_id, q.queue, t.key, t.state, t.attempt, t.round, t.revision, t.fence, "
    "t.worker_id, t.erased > 0, t.lease_expires_at, t.due_at from fencepost_task t "
    "join fencepost_queue q on q.id = t.queue_id"
)
OWED = (
    "select t.task_id, p.task_id from fencepost_task t join fencepost_task p on p.id = t.parent "
    "join fencepost_queue q on q.id = t.queue_id where q.queue = 'out' order by t.id"
)
SAID = (
    "select t.task_id, p.body from fencepost_task t join fencepost_payload p on p.task = t.id "
    "join fencepost_queue q on q.id = t.queue_id where q.queue = 'out' and t.parent is not null "
    "and p.body is not null"
)
RESULTS = (
    "select t.task_id, r.revision, r.round, r.commitment from fencepost_result r "
    "join fencepost_task t on t.id = r.task"
)

Judge = Callable[[Outcome], Verdict]


@dataclass
class Sent:
    """A request as it was sent first, and how the model judges it when it is no replay."""

    caller: Caller
    request: c.Request
    judge: Judge

    @property
    def task_id(self) -> str | None:
        return getattr(self.request.command, "task_id", None)

    @property
    def place(self) -> tuple[str, ...]:
        """Where its receipt is found: actor and key, or task and digest."""
        command = self.request.command
        if self.request.key is None:
            return (self.task_id or "", self.request.sha256.hex())
        return ("key", actor_of(self.caller, command), self.request.key)


@dataclass
class Kept:
    """An accepted request: its digest, its receipt's bytes, the task whose erasure takes it."""

    sha256: bytes
    body: bytes
    task_id: str | None


class Pair:
    """The product and the model, side by side."""

    def __init__(self, make: Make = Stand) -> None:
        self.stand = make()
        self.model = Model(START // SECOND)
        self.model.clock.last = START // SECOND
        self.receipts: dict[tuple[str, ...], Kept] = {}
        self.operations: dict[str, str] = {}  # of each obligation that ever was, whose it is
        self.steps = self.replays = self.refusals = 0
        settings = {"max_attempts": ATTEMPTS, "lease_seconds": LEASE}
        self.stand.fp.queue_set("out", **settings)
        for queue in ("a", "b", "f"):
            more = {"destinations": ["out"]} if queue in ("a", *TOLD) else {}
            if queue in TOLD:
                more["outcomes"] = {name: list(told) for name, told in TOLD[queue].items()}
            kept = {"retain_seconds": RETAIN.get(queue)}
            lapse = {"on_lapse": ON_LAPSE.get(queue, "retry")}
            self.stand.fp.queue_set(queue, **settings, **more, **kept, **lapse)

    def close(self) -> None:
        assert self.stand.fp.verify().problems == (), "the journal and the rows disagree"
        self.stand.close()

    def send(self, sent: Sent) -> Outcome:
        """Both judge the request; AssertionError where they differ."""
        self.steps += 1
        verb = sent.request.command.verb
        expected = self.model.before(verb, sent.caller.kind, sent.task_id)
        kept = self.receipts.get(sent.place)
        if expected is None and kept is not None:
            expected = self._replayed(sent, kept)
        job = self.model.jobs.get(sent.task_id or "")
        if expected is None and job is not None and job.erased:
            expected = ("failed", "receipt_erased")
        (outcome,) = self.stand.batch([(sent.caller, sent.request)])
        fresh = expected is None
        if expected is None:
            expected = sent.judge(outcome)
        said = (outcome.status, outcome.issues[0] if outcome.issues else None)
        assert said == expected, f"{sent.request.body!r}: {said}, but {expected} {outcome.message}"
        replay = kept is not None and expected[0] == "accepted" and not fresh
        assert outcome.replayed == replay
        if replay:
            assert kept is not None and outcome.receipt is not None
            assert outcome.receipt.body == kept.body, "another receipt for the same bytes"
        elif outcome.receipt is not None:
            self._keep(sent, outcome)
        self.replays += replay
        self.refusals += not outcome.accepted
        self.compare()
        return outcome

    def _replayed(self, sent: Sent, kept: Kept) -> Verdict | None:
        task = self.model.jobs.get(kept.task_id or "")
        if kept.task_id is not None and (task is None or task.erased):
            return ("failed", "receipt_erased")
        if kept.sha256 != sent.request.sha256:
            return ("failed", "idempotency_key_reused")
        return ("accepted", None)

    def _keep(self, sent: Sent, outcome: Outcome) -> None:
        assert outcome.receipt is not None
        target = sent.task_id
        if isinstance(sent.request.command, c.Enqueue):
            (target,) = outcome.task_ids
        if not isinstance(sent.request.command, c.Claim):
            self.receipts[sent.place] = Kept(
                sent.request.sha256, outcome.receipt.body, target
            )
        elif sent.request.key is not None:
            self.receipts[sent.place] = Kept(sent.request.sha256, outcome.receipt.body, None)

    def compare(self) -> None:
        """Every row of tasks and results is as the model has it."""
        self._add_owed()
        self._compare_names()
        rows = self.stand.connection.execute(TASKS).fetchall()
        assert {row[0] for row in rows} == set(self.model.jobs)
        for task_id, *row in rows:
            job = self.model.jobs[task_id]
            *told, until, due = row
            assert tuple(told) == (
                job.queue, job.key, job.state, job.attempt, job.round, job.revision, job.fence,
                job.worker, job.erased,
            ), (task_id, told, job)  # fmt: skip
            if job.state == "leased":
                assert until == job.until * SECOND
            if job.state == "ready":
                self._compare_due(task_id, due)
        found = self.stand.connection.execute(RESULTS).fetchall()
        assert sorted(found) == sorted(
            (task_id, number, round_, job.words[number])
            for task_id, job in self.model.jobs.items()
            for number, (round_, _) in enumerate(job.results, start=1)
        )

    def _add_owed(self) -> None:
        """The obligations that states have brought about are there, and no others are."""
        owed = self.stand.connection.execute(OWED).fetchall() if self.model.owed else []
        for task_id, parent in owed:
            if task_id not in self.model.jobs and parent in self.model.owed:
                self.model.owed.remove(parent)
                self.model.add(task_id, "out", None, None, parent=parent)
        assert self.model.owed == [], "who asked for it was not told"

    def _compare_names(self) -> None:
        """No two obligations have an operation in common: a receiver would take only one."""
        for task_id, body in self.stand.connection.execute(SAID).fetchall():
            operation = operation_of(about_of(bytes(body)))
            whose = self.operations.setdefault(operation, task_id)
            assert whose == task_id, f"two obligations have the operation {operation}"

    def _compare_due(self, task_id: str, due: int) -> None:
        """A drawn back-off is looked up, once it is seen to be within its bounds."""
        job = self.model.jobs[task_id]
        if job.due < 0:
            first = self.model.now + 0.5 * 2 ** (job.attempt - 1)
            assert first * SECOND <= due <= (self.model.now + 2 ** (job.attempt - 1)) * SECOND
            job.due = due / SECOND  # type: ignore[assignment]
        assert due == round(job.due * SECOND)


def caller(kind: str = "operator") -> Caller:
    return Caller(SCOPE, kind, "anna" if kind == "human" else "local")  # type: ignore[arg-type]
