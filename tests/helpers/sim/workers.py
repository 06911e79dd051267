"""Workers and the dispatcher: they claim, work, die, fall asleep over their lease and go on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from fencepost import commands as c
from fencepost.model import Caller, Grant, Kind, Outcome
from helpers.sim.laws import LOST
from helpers.sim.messages import Ask, Network
from helpers.sim.world import MINUTE, SECOND, World

Places = tuple[tuple[str, tuple[str, ...]], ...]
WORK: Places = (
    ("alpha", ("work", "care", "next")), ("alpha", ("work",)), ("alpha", ("care", "next")),
    ("beta", ("work", "next")),
)  # fmt: skip
OUT: Places = (("alpha", ("out", "mail")), ("beta", ("out",)))


class Worker:
    """One worker. Each death begins another `life`: what the old one was about is forgotten, but
    for the bytes that it had kept, which are sent again."""

    def __init__(
        self, world: World, net: Network, name: str, places: Places = WORK, kind: Kind = "worker"
    ) -> None:
        self.world, self.net = world, net
        self.name, self.kind, self.places = name, kind, places
        self.life = 0
        self.holding = 0
        self.seen = 0
        self._idle = 0
        self._sent = 0
        self._asked: list[Ask] = []
        world.at(world.between(0, 5), self.wake, 0)

    # -- asking

    def _ask(
        self, scope: str, command: c.Command, then: Callable[[Outcome], None],
        *, keyed: bool, at: int | None = None,
    ) -> None:  # fmt: skip
        self._sent += 1
        key = f"{self.name}.{self._sent}" if keyed else None
        life = self.life

        def mine(outcome: Outcome) -> None:
            if self.life == life:
                self.seen = self.world.t
                then(outcome)

        caller = Caller(scope, self.kind, self.name)
        self._asked = [ask for ask in self._asked if ask.number in self.net.waiting]
        self._asked.append(self.net.ask(caller, command, key, mine, at))

    def _later(self, delay: float, what: Callable[..., None], *given: Any) -> None:
        life = self.life
        self.world.at(delay, lambda: what(*given) if self.life == life else None)

    def die(self) -> None:
        """The process is gone; it starts again in a while, and sends what bytes it had kept."""
        self.world.count("worker_crashes", f"{self.name} dies")
        self.life += 1
        self.holding = 0
        waiting = [ask for ask in self._asked if ask.number in self.net.waiting]
        self._asked = []
        wait = self.world.between(1, 120)
        for ask in waiting:
            if self.world.likely(0.8):
                ask.then = partial(self._found_again, ask.caller.scope)
                self.world.at(wait, ask.send)
                self._asked.append(ask)
            else:
                ask.forget()
        self.world.at(wait, self.wake, self.life)

    def _found_again(self, scope: str, outcome: Outcome) -> None:
        """The answer to what an earlier life had asked: leases are worked on."""
        self.world.counts["kept_bytes_answered"] += 1
        for grant in outcome.grants:
            self._work(grant, scope)

    # -- working

    def wake(self, life: int) -> None:
        """Look for work, unless there is some."""
        if life != self.life or self.holding:
            return
        chance = self.world.chance
        scope, queues = chance.choice(self.places)
        seconds = chance.choice((None, 5, 20, 60, 240))
        command = c.Claim(self.name, queues, limit=chance.choice((1, 1, 2, 4)),
                          lease_seconds=seconds)  # fmt: skip
        self._ask(scope, command, lambda outcome: self._claimed(scope, outcome), keyed=True)

    def _claimed(self, scope: str, outcome: Outcome) -> None:
        if not outcome.grants:
            self._idle += 1
            longest = 120 if self.world.calm else 16
            self._later(self.world.between(0.5, min(2**self._idle, longest)), self.wake, self.life)
            return
        self._idle = 0
        for grant in outcome.grants:
            self._work(grant, scope)

    def _work(self, grant: Grant, scope: str) -> None:
        world = self.world
        self.holding += 1
        job = Holding(self, grant, scope)
        span = world.between(0.2, 6) if world.calm or world.likely(0.6) else world.between(5, 120)
        if not world.calm and world.likely(0.1):
            world.count("zombies", f"{self.name} falls asleep over {grant.task_id}")
            span += world.between(60, 600)
        elif span > 10 * SECOND:
            self._later(span * world.chance.random(), job.renew)
        self._later(span, job.finish)

    def let_go(self) -> None:
        """One task less; the last one leads to the next claim."""
        self.holding -= 1
        if not self.holding:
            self._later(self.world.between(0, 1), self.wake, self.life)


class Holding:
    """One lease in the hands of a worker, as he believes."""

    def __init__(self, worker: Worker, grant: Grant, scope: str) -> None:
        self.worker, self.grant, self.scope = worker, grant, scope
        self.until = grant.lease_expires_at
        self.revision = grant.revision
        self.over = False

    def _bound(self) -> dict[str, Any]:
        """Task, worker and fence; sometimes all that the lease is bound to is named."""
        grant = self.grant
        bound = {"task_id": grant.task_id, "worker_id": grant.worker_id, "fence": grant.fence}
        if self.worker.world.likely(0.2):
            bound |= {"epoch": grant.epoch, "policy_version": grant.policy_version}
        return bound

    def _ask(self, command: c.Command, then: Callable[[Outcome], None]) -> None:
        world, at = self.worker.world, None
        if not world.calm and world.likely(0.1):
            # a message that arrives at the very end of the lease, or a microsecond beside it
            at = self.worker.net.store.moment(self.until) + world.chance.choice((-1, -1, 0, 0, 1))
            if not 0 < at - world.t < 20 * MINUTE:
                at = None
        keyed = world.likely(0.5)
        self.worker._ask(self.scope, command, then, keyed=keyed, at=at)

    def renew(self) -> None:
        """A heartbeat."""
        if not self.over:
            seconds = self.worker.world.chance.choice((None, 30, 120))
            self._ask(c.Renew(**self._bound(), lease_seconds=seconds), self._renewed)

    def _renewed(self, outcome: Outcome) -> None:
        if outcome.accepted:
            self.until = outcome.facts["lease_expires_at"]
        elif LOST.intersection(outcome.issues):
            self._end()

    def finish(self) -> None:
        """The work is done, or is not going to be."""
        if self.over:
            return
        chance, calm = self.worker.world.chance, self.worker.world.calm
        what = chance.random()
        if calm or what < 0.68:
            self._complete()
        elif what < 0.82:
            self._submit(chance.choice((1, 2, 3)))
        elif what < 0.92:
            then = chance.choice(("retry", "retry", "retry", "give_up", "block"))
            seconds = chance.choice((None, 0, 40)) if then == "retry" else None
            command = c.Fail(**self._bound(), then=then, reason="no", retry_seconds=seconds)
            self._ask(command, self._ended)
        elif what < 0.96:
            self._ask(c.Release(**self._bound()), self._ended)
        else:
            self._end()  # left to lapse

    def _result(self) -> dict[str, Any]:
        number = self.worker.world.chance.randrange(3)
        return {"by": self.grant.worker_id, "fence": self.grant.fence, "n": number}

    def _expected(self) -> int | None:
        """The revision that is expected, if one is named; now and then a wrong one."""
        wrong = self.worker.world.chance.choice((0, 0, 0, 1))
        return self.revision + wrong if self.worker.world.likely(0.5) else None

    def _submit(self, more: int) -> None:
        def then(outcome: Outcome) -> None:
            if outcome.accepted and outcome.receipt is not None:
                self.revision = outcome.receipt.revision
            if LOST.intersection(outcome.issues):
                self._end()
            elif more > 1:
                self._submit(more - 1)
            else:
                self._complete()

        command = c.Submit(
            **self._bound(), result=self._result(), expected_revision=self._expected()
        )
        self._ask(command, then)

    def _complete(self) -> None:
        chance = self.worker.world.chance
        more: dict[str, Any] = {}
        if self.grant.queue != "next" and self.worker.kind == "worker" and chance.random() < 0.25:
            keys = chance.sample((None, None, f"f{chance.randrange(15)}"), chance.choice((1, 2)))
            more["followups"] = tuple(
                c.Followup({"after": self.grant.task_id}, key=key, queue="next") for key in keys
            )
        if chance.random() < 0.9:
            more["result"] = self._result()
        self._ask(c.Complete(**self._bound(), expected_revision=self._expected(), **more),
                  self._completed)  # fmt: skip

    def _completed(self, outcome: Outcome) -> None:
        """Who had the wrong idea of the revision, or of a follow-up's key, fails the task."""
        if outcome.accepted or self.over or LOST.intersection(outcome.issues):
            self._end()
        else:
            self._ask(c.Fail(**self._bound()), self._ended)

    def _ended(self, outcome: Outcome) -> None:
        self._end()

    def _end(self) -> None:
        if not self.over:
            self.over = True
            self.worker.let_go()
