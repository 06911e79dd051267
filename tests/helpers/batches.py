"""Random batches of commands over a small world, drawn from a seed."""

from __future__ import annotations

import random

from fencepost import commands as c
from fencepost.model import Caller
from helpers.stand import QUEUE, SCOPE, Stand

WORKERS = ("w", "v")
VALUES = (1, {"row": 1}, [2], None)
KEYS = (None, None, "k1", "k2")
HUMAN, OPERATOR = Caller(SCOPE, "human", "anna"), Caller(SCOPE, "operator", "local")
SMALL = {"max_attempts": 2, "lease_seconds": 30, "destinations": ["out"], "keep_refused": 2,
         "outcomes": {"out": ["result", "dead", "blocked", "cancelled"]}}  # fmt: skip
PLAIN_VERBS = ("sweep", "purge", "scope.set_policy", "queue.set", "scope.revoke")
ON_LEASE = ("renew", "submit", "complete", "fail", "release")
ON_TASK = ("cancel", "requeue", "resolve", "review", "import", "erase")


def world(seed: int) -> tuple[Stand, list[str]]:
    """A stand with six tasks in several states, and their ids. The same seed, the same world."""
    stand = Stand(seed)
    fp = stand.fp
    stand.ask(c.QueueSet(QUEUE, SMALL), key="settings")  # keys of its own: no chance in them
    stand.ask(c.SetPolicy(retain_seconds=10), key="retention")
    stand.ask(c.ClockReset(), key="restored")  # so that there is an epoch before this one
    requests = [
        c.Request.of(c.Enqueue(QUEUE, ({"payload": n, "key": f"task{n}"},)), f"enqueue{n}")
        for n in range(6)
    ]
    ids = [stand.ask(request).task_ids[0] for request in requests]
    old, done, broken, _ = fp.claim(QUEUE, worker_id="w", limit=4)
    old.submit({"row": 1})
    done.complete({"row": 1})
    broken.submit([2])
    broken.fail("stuck", then="block")
    stand.clock.advance(20)
    fp.claim(QUEUE, worker_id="v", limit=1)
    stand.clock.advance(random.Random(seed).choice((0, 10, 31)))
    return stand, ids


class Deck:
    """Draws commands that often meet one another."""

    def __init__(self, seed: int, ids: list[str]) -> None:
        self.draws = random.Random(seed)
        self.ids = ids

    def request(self) -> tuple[Caller, c.Request]:
        """One command with its caller; in a third of the cases with a key that may be taken."""
        verb = self.draws.choice(("enqueue", "claim", "claim", *ON_LEASE * 2, *ON_TASK * 2,
                                  *PLAIN_VERBS))  # fmt: skip
        command = self._command(verb)
        key = self.draws.choice(KEYS)
        if verb in ("enqueue", *PLAIN_VERBS, *ON_TASK) and key is None:
            key = f"own-{self.draws.random()}"
        return (HUMAN if verb == "review" else OPERATOR), c.Request.of(command, key)

    def _command(self, verb: str) -> c.Command:
        draws = self.draws
        if verb == "enqueue":
            return c.Enqueue(QUEUE, tuple(
                {"payload": draws.choice((0, 1)), "key": f"task{draws.randrange(8)}"}
                for _ in range(draws.randint(1, 2))
            ))  # fmt: skip
        if verb == "claim":
            worker, limit = draws.choice(WORKERS), draws.randint(1, 3)
            if draws.random() < 0.3:
                return c.Claim(worker, task_id=draws.choice(self.ids))
            return c.Claim(worker, (QUEUE, "out")[: draws.randint(1, 2)], limit=limit)
        if verb in PLAIN_VERBS:
            return self._plain(verb)
        fields = {"task_id": draws.choice(self.ids), **self._more(verb)}
        if verb in ON_LEASE:
            fields |= {"worker_id": draws.choice(WORKERS), "fence": (1 << 32) + draws.randint(1, 7)}
        return c.COMMANDS[verb](**fields)

    def _plain(self, verb: str) -> c.Command:
        draws = self.draws
        return {
            "sweep": lambda: c.Sweep(limit=draws.randint(1, 3)),
            "purge": lambda: c.Purge(limit=draws.randint(1, 3)),
            "scope.set_policy": lambda: c.SetPolicy(draws.randint(0, 2)),
            "queue.set": lambda: c.QueueSet(QUEUE, {"paused": draws.random() < 0.3}),
            "scope.revoke": lambda: c.Revoke(draws.random() < 0.2),
        }[verb]()

    def _more(self, verb: str) -> dict[str, object]:
        draws = self.draws
        if verb in ("submit", "complete"):
            made: dict[str, object] = {"result": draws.choice(VALUES)}
            if draws.random() < 0.3:
                made["expected_revision"] = draws.randint(0, 2)
            if verb == "complete" and draws.random() < 0.3:
                made["followups"] = ({"queue": QUEUE, "payload": 0, "key": "task7"},)
            return made
        if verb == "resolve":
            to = draws.choice(("done", "retry", "give_up"))
            return {"to": to, **({"evidence": draws.choice(VALUES)} if to == "done" else {})}
        if verb == "import":
            return {"revision": draws.randint(1, 3), "epoch": 0, "fence": 9, "evidence": "there",
                    "final": draws.random() < 0.5, "result": draws.choice(VALUES)}  # fmt: skip
        if verb == "review":
            return {"revision": draws.randint(1, 2), "verdict": "rejected",
                    "requeue": draws.random() < 0.5}  # fmt: skip
        if verb in ("renew", "release", "fail"):
            made = {"progress": draws.choice(VALUES), "log": draws.choice(("", "a", "b"))}
            made = {name: value for name, value in made.items() if value}
            return made | ({"then": draws.choice(("retry", "block"))} if verb == "fail" else {})
        return {}
