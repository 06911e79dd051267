"""A producer, a human reviewer, an operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fencepost import commands as c
from fencepost.clock import to_rfc3339
from fencepost.model import Caller, Kind, Outcome
from helpers.sim.ghost import Ghost, Job
from helpers.sim.messages import Network
from helpers.sim.server import Server
from helpers.sim.world import SECOND, World

SCOPES = ("alpha", "alpha", "alpha", "beta")
SETTINGS: dict[tuple[str, str], dict[str, Any]] = {
    ("alpha", "work"): {"destinations": ["mail", "out"], "keep_refused": 3, "max_attempts": 4},
    ("alpha", "care"): {"on_lapse": "reconcile", "destinations": ["out"], "lease_seconds": 30},
    ("alpha", "next"): {"result_storage": "digest", "max_hold_seconds": 90},
    ("beta", "work"): {"destinations": ["out"], "retain_seconds": 200},
}


class Person:
    """Somebody who does something every now and then, one thing at a time, until it is calm."""

    kind: Kind = "operator"
    name = "op"
    every = 60.0  # seconds, on the average

    def __init__(self, world: World, net: Network, server: Server) -> None:
        self.world, self.net, self.server = world, net, server
        self.sent = 0
        self._next()

    @property
    def ghost(self) -> Ghost:
        return self.server.ghost

    def _next(self) -> None:
        self.world.at(self.world.chance.expovariate(1 / self.every) * SECOND, self._turn)

    def _turn(self) -> None:
        if not self.world.calm:
            self.act()
            self._next()

    def act(self) -> None:
        """Do one thing."""
        raise NotImplementedError

    def ask(
        self, scope: str, command: c.Command, then: Callable[[Outcome], None] = lambda _: None
    ) -> None:
        """Send a command under a key of one's own."""
        self.sent += 1
        caller = Caller(scope, self.kind, self.name)
        self.net.ask(caller, command, f"{self.name}.{self.sent}", then)

    def some(self, *states: str) -> Job | None:
        """A task that is in one of these states, or any; newer ones more often."""
        jobs = self.ghost.order
        for _ in range(8):
            if jobs:
                back = int(self.world.chance.expovariate(1 / 40))
                job = self.ghost.jobs[jobs[-1 - back % len(jobs)]]
                if not states or job.state in states:
                    return job
        return None


class Producer(Person):
    """Enqueues."""

    kind, name, every = "producer", "producer", 9.0

    def act(self) -> None:
        chance = self.world.chance
        scope = chance.choice(SCOPES)
        queue = chance.choice(("work", "work", "care", "next") if scope == "alpha" else ("work",))
        tasks = tuple(self._task() for _ in range(chance.choice((1, 1, 3))))
        self.ask(scope, c.Enqueue(queue, tasks))

    def _task(self) -> c.NewTask:
        chance, more = self.world.chance, {}
        payload = {"n": self.sent, "r": chance.randrange(3)}
        if chance.random() < 0.4:
            more["key"] = f"k{int(chance.expovariate(1 / 12))}"
            payload = {"n": 0, "r": int(chance.random() < 0.1)}
        if chance.random() < 0.15:
            ahead = self.world.between(0, 300)
            more["due_at"] = to_rfc3339(self.ghost.time.expected(self.world.clock) + ahead)
        if chance.random() < 0.2:
            more["max_attempts"] = chance.randint(1, 3)
        return c.NewTask(payload, priority=chance.choice((None, 0, 5)), **more)


class Human(Person):
    """Reviews, resolves, requeues, cancels."""

    kind, name, every = "human", "eva", 12.0

    def act(self) -> None:
        chance = self.world.chance
        what = chance.choice(("resolve", "resolve", "review", "review", "requeue", "cancel"))
        wanted = {"resolve": ("blocked",), "requeue": ("done", "dead", "cancelled")}
        job = self.some(*wanted.get(what, ()))
        if job is None:
            return
        seen = max(0, job.fence + chance.choice((0, 0, 1, -1)))
        fence = seen if chance.random() < 0.6 else None
        if what == "review":
            self._review(job)
        elif what == "resolve":
            to = chance.choice(("done", "retry", "retry", "give_up"))
            more = {"evidence": {"seen": chance.randrange(3)}} if to == "done" else {}
            self.ask(job.scope, c.Resolve(job.task_id, fence, to=to, **more))
        else:
            verb = c.Requeue if what == "requeue" else c.Cancel
            self.ask(job.scope, verb(job.task_id, fence, reason="so"))

    def _review(self, job: Job) -> None:
        verdict = self.world.chance.choice(("accepted", "accepted", "rejected"))
        revision = max(1, job.revision - self.world.chance.choice((0, 0, 1)))
        requeue = verdict == "rejected" and self.world.likely(0.5)
        self.ask(job.scope, c.Review(job.task_id, revision, verdict, requeue))


class Operator(Person):
    """Sweeps, purges, erases, raises policies, revokes, pauses, resets the clock, copies."""

    kind, name, every = "operator", "op", 16.0

    def act(self) -> None:
        chance = self.world.chance
        scope = chance.choice(SCOPES)
        acts = (
            (self._sweep, 6), (self._purge, 2), (self._erase, 3), (self._cancel, 2),
            (self._policy, 2), (self._revoke, 1), (self._pause, 2), (self._reset, 1),
            (self._settings, 1),
        )  # fmt: skip
        (act,) = chance.choices([act for act, _ in acts], [often for _, often in acts])
        act(scope)

    def _sweep(self, scope: str) -> None:
        chance = self.world.chance
        self.ask(scope, c.Sweep(chance.choice((None, "work", "care")), chance.choice((2, 100))))

    def _purge(self, scope: str) -> None:
        if self.world.likely(0.3):
            seconds = self.world.chance.choice((None, 300, 1_800))
            self.ask(scope, c.SetPolicy(retain_seconds=seconds))
        self.ask(scope, c.Purge(None, self.world.chance.choice((3, 100))))

    def _erase(self, scope: str) -> None:
        if job := self.some(*self.world.chance.choice(((), ("done",)))):
            self.world.counts["erasures"] += 1
            self.ask(job.scope, c.Erase(job.task_id))

    def _cancel(self, scope: str) -> None:
        if job := self.some("leased", "ready", "blocked"):
            self.ask(job.scope, c.Cancel(job.task_id, job.fence or None))

    def _policy(self, scope: str) -> None:
        version = self.ghost.policy.get(scope, 0) + self.world.chance.choice((0, 1, 1, 2))
        self.world.counts["policies"] += 1
        self.ask(scope, c.SetPolicy(policy_version=version))

    def _revoke(self, scope: str) -> None:
        self.world.counts["revocations"] += 1
        self.ask(scope, c.Revoke(), lambda _: self._lift(scope))

    def _lift(self, scope: str) -> None:
        self.world.at(self.world.between(10, 200), self.ask, scope, c.Revoke(revoked=False))

    def _pause(self, scope: str) -> None:
        queue = self.world.chance.choice(("work", "care", "next"))
        self.ask(scope, c.QueueSet(queue, {"paused": True}))
        self.world.at(self.world.between(10, 120), self.ask, scope,
                      c.QueueSet(queue, {"paused": False}))  # fmt: skip

    def _reset(self, scope: str) -> None:
        self.world.counts["resets"] += 1
        self.ask(scope, c.ClockReset())

    def _settings(self, scope: str) -> None:
        seconds = self.world.chance.choice((10, 60, 120))
        self.ask(scope, c.QueueSet("work", {"lease_seconds": min(seconds, 60)}))

    def calm_down(self, beta_stays_revoked: bool) -> None:
        """After the last fault: nothing is paused, and nothing revoked but perhaps one scope."""
        for scope in ("alpha", "beta"):
            stays = scope == "beta" and beta_stays_revoked
            self.ask(scope, c.Revoke(revoked=False),
                     lambda _, scope=scope, stays=stays: self._open(scope, stays))  # fmt: skip

    def _open(self, scope: str, stays_revoked: bool) -> None:
        for queue in ("work", "care", "next"):
            self.ask(scope, c.QueueSet(queue, {"paused": False}))
        if stays_revoked:
            self.ask(scope, c.Revoke())
