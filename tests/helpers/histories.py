"""Random histories: whatever commands of everybody, alone and in batches, on whatever is there."""

from __future__ import annotations

from fencepost import commands as c
from fencepost.commands import Request

QUEUES = ("a", "b", "digest", "out", "mirror")
SETTINGS = (
    ("a", {"destinations": ["out"], "outcomes": {}}), ("a", {"destinations": ["out", "mirror"]}),
    ("a", {"destinations": ["out"], "outcomes": {"out": ["result", "dead", "blocked", "done"]}}),
    ("a", {"destinations": ["out", "mirror"], "outcomes": {"mirror": ["cancelled", "dead"]}}),
    ("a", {"destinations": [], "outcomes": {}}), ("b", {"max_attempts": 1, "backoff_seconds": 0}),
    ("b", {"on_lapse": "reconcile", "keep_refused": 3}), ("b", {"retain_seconds": 20}),
    ("digest", {"result_storage": "digest"}), ("digest", {"result_storage": "content"}),
)  # fmt: skip


class History:
    """Random commands, alone and in batches, by everybody, on whatever is there."""

    def __init__(self, fp, clock, rng):
        self.fp, self.clock, self.rng = fp, clock, rng
        self.leases = []
        self.tasks = []
        often = [self.enqueue, self.claim, self.settle, self.settle, self.settle, self.settle]
        self.steps = [*often, *often, self.outside, self.outside, self.care, self.time]

    def commands(self):
        return [self.rng.choice(self.steps)() for _ in range(self.rng.choice((1, 1, 3, 8)))]

    def enqueue(self):
        tasks = [
            {"payload": 1, "key": key}
            for key in self.rng.sample(("k1", "k2", None, None), self.rng.randint(1, 3))
        ]
        tasks = [{k: v for k, v in task.items() if v is not None} for task in tasks]
        return Request.of(c.Enqueue(self.rng.choice(QUEUES[:3]), tuple(tasks)), self.key())

    def key(self):
        return self.rng.choice((None, None, f"key-{self.rng.randrange(10**6)}"))

    def claim(self):
        queues = tuple(self.rng.sample(QUEUES, self.rng.randint(1, 2)))
        limit, seconds = self.rng.randint(1, 4), self.rng.choice((1, 30, 60))
        return Request.of(c.Claim("w", queues, None, limit, seconds), self.key())

    def settle(self):
        if not self.leases:
            return self.claim()
        lease = self.rng.choice(self.leases)
        bound = (lease.task_id, "w", lease.fence)
        result = self.rng.randrange(2)
        follow = ({"queue": "b", "payload": 1, "key": self.rng.choice(("k1", "f1", "f2"))},)
        return self.rng.choice((
            c.Submit(*bound, result=result),
            c.Complete(*bound, result=result),
            c.Complete(*bound, result=result, followups=follow),
            c.Complete(*bound, log="it said this"),
            c.Fail(*bound, then=self.rng.choice(("retry", "give_up", "block")), reason="why",
                   log="it broke"),
            c.Release(*bound, progress={"line": result}),
            c.Renew(*bound, lease_seconds=40, progress=[result], log="on it"),
        ))  # fmt: skip

    def outside(self):
        if not self.tasks:
            return self.enqueue()
        task = self.rng.choice(self.tasks)
        to = self.rng.choice((("done", {"evidence": 1}), ("retry", {}), ("give_up", {})))
        command = self.rng.choice((
            c.Cancel(task, reason="because"), c.Requeue(task), c.Requeue(task),
            c.Resolve(task, to=to[0], **to[1]), c.Resolve(task, to=to[0], **to[1]),
            c.Resolve(task, to=to[0], **to[1]), c.Erase(task), self.imported(task),
        ))  # fmt: skip
        return Request.of(command, f"key-{self.rng.randrange(10**9)}")

    def imported(self, task):
        known = self.rng.choice(({"result": 1}, {"result": 0}, {"result_sha256": "5a" * 32}))
        revision, final = self.rng.choice((1, 1, 2)), self.rng.random() < 0.5
        return c.Import(task, revision, 0, 7, final=final, evidence="there", **known)

    def care(self):
        queue, settings = self.rng.choice(SETTINGS)
        return self.rng.choice((
            c.Sweep(None), c.Sweep("a", 2), c.QueueSet(queue, settings), c.Purge(None),
            c.Purge("b", 3), c.SetPolicy(None, self.rng.choice((15, 40))),
            c.ClockReset() if self.rng.random() < 0.3 else c.Sweep(None),
        ))  # fmt: skip

    def time(self):
        self.clock.advance(self.rng.choice((0.5, 2, 35)))
        if self.rng.random() < 0.2:
            self.clock.jump_wall(self.rng.choice((-8, 8)))
        return self.claim()

    def review(self):
        task = self.rng.choice(self.tasks)
        verdict, requeue = self.rng.choice((("accepted", False), ("rejected", True)))
        human = self.fp.as_caller("ann", "human")
        return human.execute([c.Review(task, self.rng.randint(1, 2), verdict, requeue)])

    def live(self, number):
        accepted = 0
        for _ in range(number):
            outcomes = self.fp.execute(self.commands())
            if self.tasks and self.rng.random() < 0.2:
                outcomes += self.review()
            if self.rng.random() < 0.1:
                self.fp.seal()
            for outcome in outcomes:
                accepted += outcome.accepted
                self.leases = (self.leases + list(outcome.grants))[-12:]
                self.tasks = (self.tasks + list(outcome.task_ids))[-40:]
        return accepted
