"""One store of the target as a case sees it: commands go out, answers are judged."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from random import Random
from typing import Any, NamedTuple, Protocol

from .law import Failed, Unavailable

SCOPE, QUEUE, OUTBOX = "lab", "intake", "outbox"
LEASE_SECONDS = 60
BLOCKED = frozenset({"scope_revoked", "queue_paused", "store_read_only"})
LEASE_VERBS = ("renew", "submit", "complete", "fail", "release")

Json = dict[str, Any]


class Adapter(Protocol):
    """How a target is reached: the protocol of docs/conformance.md as methods."""

    def describe(self) -> Json: ...
    def fresh(self, owner: str) -> None: ...
    def send(self, owner: str, caller: Json, body: str, key: str | None) -> Json: ...
    def read(self, owner: str, caller: Json, what: str, **names: Any) -> Any: ...
    def advance(self, seconds: float) -> None: ...
    def advance_microseconds(self, microseconds: int) -> None: ...
    def fail_next(self, owner: str, place: str) -> None: ...
    def copy(self, source: str, target: str, pinned: bool) -> None: ...
    def race(self, sends: list[Json]) -> list[Json]: ...
    def close(self) -> object: ...


class Caller(NamedTuple):
    """Who sends."""

    kind: str
    actor: str
    scope: str = SCOPE


OPERATOR = Caller("operator", "op")
ANN = Caller("human", "ann")


def worker(name: str, scope: str = SCOPE) -> Caller:
    """A worker that may act for itself only."""
    return Caller("worker", name, scope)


class Lease(NamedTuple):
    """What a claim gave."""

    task_id: str
    worker: str
    fence: int
    told: Json


class Command(NamedTuple):
    """A command ready to be sent, any number of times: the bytes do not change."""

    by: Caller
    body: str
    key: str | None


def text_of(members: Json) -> str:
    """A command's bytes: JSON with sorted members and without spaces."""
    return json.dumps(members, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def command(verb: str, by: Caller = OPERATOR, key: str | None = None, **members: Any) -> Command:
    """A command of this verb."""
    return Command(by, text_of({"verb": verb, **members}), key)


def on_lease(verb: str, lease: Lease, key: str | None = None, **members: Any) -> Command:
    """A command of the lease's worker on it; `members` may say otherwise than the lease does."""
    own = {"task_id": lease.task_id, "worker_id": lease.worker, "fencing_token": lease.fence}
    if verb == "submit":
        own["result"] = "answer"
    given = {**own, **members}
    return command(verb, worker(given["worker_id"]), key, **given)


class Store:
    """The store of one owner. Every answer is held against the contract by `judge`, which takes
    the name of a definition and a value, and raises Failed."""

    def __init__(
        self, adapter: Adapter, random: Random, judge: Callable[[str, Any], None], owner: str = "A"
    ) -> None:
        self.adapter, self.random, self.judge, self.owner = adapter, random, judge, owner
        self.scopes = [SCOPE]

    # -- sending

    def send(self, sent: Command) -> Json:
        """The outcome of one command."""
        if sent.by.scope not in self.scopes:
            self.scopes.append(sent.by.scope)
        outcome = self.adapter.send(self.owner, sent.by._asdict(), sent.body, sent.key)
        self.judge("outcome", outcome)
        return outcome

    def race(self, *sends: Command) -> list[Json]:
        """The outcomes of commands that are sent at once, each over a connection of its own."""
        asked = [
            {"owner": self.owner, "caller": s.by._asdict(), "body": s.body, "key": s.key}
            for s in sends
        ]
        outcomes = self.adapter.race(asked)
        for outcome in outcomes:
            self.judge("outcome", outcome)
        return outcomes

    def accept(self, sent: Command) -> Json:
        """Send what has to be accepted."""
        return accepted(self.send(sent))

    def refuse(self, sent: Command, *issues: str) -> Json:
        """Send what has to be refused, with just these issues in this order."""
        return refused(self.send(sent), *issues)

    # -- what most cases begin with

    def scope_of(self, scope: str = SCOPE) -> str:
        """What the target calls a scope of the case: the same, unless it has to hold many cases
        side by side. A command's bytes name no scope."""
        named: Callable[[str, str], str] | None = getattr(self.adapter, "scope_of", None)
        return scope if named is None else named(self.owner, scope)

    def settings(self, queue: str = QUEUE, **settings: Any) -> None:
        """Change settings of a queue."""
        self.accept(command("queue.set", queue=queue, settings=settings))

    def offer(self, payload: Any = "work", queue: str = QUEUE, by: Caller = OPERATOR,
              **members: Any) -> str:  # fmt: skip
        """Put one task on a queue; its id."""
        task = {"payload": payload, **members}
        (task_id,) = self.accept(command("enqueue", by, queue=queue, tasks=[task]))["task_ids"]
        return str(task_id)

    def take(self, name: str = "w1", by: Caller | None = None, **members: Any) -> list[Lease]:
        """Claim; the leases that it gave."""
        if not members.keys() & {"queues", "task_id"}:
            members["queues"] = [QUEUE]
        sent = command("claim", by or worker(name), worker_id=name, **members)
        return leases_of(self.accept(sent))

    def claim(self, name: str = "w1", **members: Any) -> Lease:
        """The one lease of a claim that has to find a task."""
        leases = self.take(name, **members)
        equal("leases that the claim gave", 1, len(leases))
        return leases[0]

    def lease(self, name: str = "w1", payload: Any = "work", **members: Any) -> Lease:
        """A fresh task in the hands of this worker, for 60 seconds."""
        return self.claim(name, task_id=self.offer(payload, **members))

    def wait(self, seconds: float = LEASE_SECONDS) -> None:
        """Let time pass; without a number as long as a lease lasts."""
        self.adapter.advance(seconds)

    def wait_microseconds(self, microseconds: int) -> None:
        """The same, to the microsecond."""
        self.adapter.advance_microseconds(microseconds)

    def fail_next(self, place: str) -> None:
        """The next command meets a failure there."""
        self.adapter.fail_next(self.owner, place)

    def copy(self, *, pinned: bool) -> Store:
        """A copy of the store under another owner."""
        other = "B" if self.owner == "A" else "A"
        self.adapter.copy(self.owner, other, pinned)
        return Store(self.adapter, self.random, self.judge, other)

    # -- reading

    def read(self, what: str, by: Caller = OPERATOR, **names: Any) -> Any:
        """What a caller reads, or the outcome that refuses it."""
        return self.adapter.read(self.owner, by._asdict(), what, **names)

    def shaped(self, name: str, value: Any) -> Json:
        """A value that has the shape of the contract's definition of that name."""
        self.judge(name, value)
        return dict(value)

    def task(self, task_id: str, by: Caller = OPERATOR) -> Json:
        """A task as it stands."""
        return self.shaped("task", self.read("task", by, task_id=task_id))

    def results(self, task_id: str, by: Caller = OPERATOR) -> list[Json]:
        """The accepted results of a task."""
        found = self.read("results", by, task_id=task_id)
        return [self.shaped("result", result) for result in found]

    def commitments(self, task_id: str) -> list[str]:
        """What a human is owed for each result of a task."""
        return [result["commitment"] for result in self.results(task_id)]

    def tasks(self, queue: str | None = None, by: Caller = OPERATOR) -> list[Json]:
        """The tasks of a queue, in the order of their enqueueing."""
        found = self.read("tasks", by, queue=queue, state=None)
        return [self.shaped("task", task) for task in found]

    def entries(self, by: Caller = OPERATOR) -> list[Json]:
        """The journal."""
        return [self.shaped("entry_view", entry) for entry in self.read("entries", by)]

    def counts(self, by: Caller = OPERATOR) -> tuple[int, int, int]:
        """(results, receipts of results, obligations) of the scope."""
        found = self.shaped("counts", self.read("counts", by))
        return found["results"], found["receipts"], found["obligations"]

    def everything(self) -> Json:
        """All that can be read of every scope that the case has used."""
        seen: Json = {}
        for scope in self.scopes:
            by = Caller("operator", "op", scope)
            tasks = self.tasks(by=by)
            seen[scope] = {
                "tasks": tasks,
                "results": {t["task_id"]: self.results(t["task_id"], by) for t in tasks},
                "counts": self.counts(by),
            }
        with suppress(Unavailable, NotImplementedError):  # a target without a journal
            seen["entries"] = [entry["entry"] for entry in self.entries()]
        return seen

    @contextmanager
    def unchanged(self, code: str | None = None) -> Iterator[None]:
        """Nothing that can be read may differ after the block."""
        before = self.everything()
        yield
        after = self.everything()
        for scope in after.keys() - before.keys():  # used in the block for the first time
            before[scope] = {"tasks": [], "results": {}, "counts": (0, 0, 0)}
        if before != after:
            where = difference(before, after)
            raise Failed("a refused command changed something", *where, code)


def difference(before: Any, after: Any, path: str = "") -> tuple[str, str]:
    """The first place where two values differ, said of both."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted({*before, *after}):
            if before.get(name) != after.get(name):
                return difference(before.get(name), after.get(name), f"{path}/{name}")
    if isinstance(before, list | tuple) and isinstance(after, list | tuple):
        if len(before) != len(after):
            return f"{path}: {len(before)} of them", f"{path}: {len(after)} of them"
        for place, (one, other) in enumerate(zip(before, after, strict=True)):
            if one != other:
                return difference(one, other, f"{path}/{place}")
    return f"{path}: {before!r}"[:200], f"{path}: {after!r}"[:200]


def equal(what: str, expected: Any, observed: Any, code: str | None = None) -> None:
    """Two values have to be the same."""
    if expected != observed:
        raise Failed(what, expected, observed, code)


def said(outcome: Json) -> str:
    """An outcome in one line."""
    issues = ", ".join(outcome["issues"])
    return f"{outcome['status']}: {issues}" if issues else str(outcome["status"])


def accepted(outcome: Json) -> Json:
    """The outcome has to be accepted."""
    equal("the outcome", "accepted", said(outcome))
    return outcome


def refused(outcome: Json, *issues: str) -> Json:
    """The outcome has to be a refusal with just these issues, and without a receipt."""
    status = "blocked" if issues[0] in BLOCKED else "failed"
    equal("the outcome", f"{status}: {', '.join(issues)}", said(outcome), issues[0])
    equal("what a refusal gives away", (None, []), (outcome["receipt"], outcome["leases"]),
          issues[0])  # fmt: skip
    return outcome


def undone(outcome: Json) -> Json:
    """The outcome of a command that met a failure: not accepted, by a code that no rule decides."""
    codes = {"store_unavailable", "outcome_unknown", "guard_tripped"}
    if outcome["status"] == "accepted" or not codes.issuperset(outcome["issues"]):
        raise Failed("the outcome of a command that met a failure", sorted(codes), said(outcome))
    return outcome


def replayed(outcome: Json, first: Json) -> Json:
    """The outcome has to be the receipt of `first`, byte for byte."""
    accepted(outcome)
    equal("replayed", True, outcome["replayed"])
    equal("the receipt", first["receipt"], outcome["receipt"])
    return outcome


def leases_of(outcome: Json) -> list[Lease]:
    """The leases that a claim's outcome gives."""
    return [
        Lease(told["task_id"], told["worker_id"], told["fencing_token"], told)
        for told in outcome["leases"]
    ]


def rising(fences: Iterable[int]) -> None:
    """Fences only rise."""
    drawn = list(fences)
    equal("fences in the order in which they were drawn", sorted(set(drawn)), drawn, "stale_fence")
