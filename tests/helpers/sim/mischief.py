"""Mischief: what nobody honest would send."""

from __future__ import annotations

import json
from typing import Any

from fencepost import canonical
from fencepost import commands as c
from fencepost.model import Caller, Kind
from helpers.sim.ghost import Job
from helpers.sim.messages import Ask
from helpers.sim.office import Person
from helpers.sim.world import SECOND


class Mischief(Person):
    """Old bytes again, other bytes under an old key, forged and wrong members, others' names; and
    claims and sweeps at the very end of somebody's lease."""

    kind, name, every = "worker", "mallory", 6.0

    def act(self) -> None:
        chance = self.world.chance
        what = chance.random()
        if what < 0.25:
            self._at_the_end()
        elif what < 0.5:
            self._one_thing_wrong()
        elif self.net.archive:
            back = int(chance.expovariate(1 / chance.choice((10, 300))))
            old = self.net.archive[-1 - back % len(self.net.archive)]
            if chance.random() < 0.4:
                self._send(old.caller, old.body, old.key)
            else:
                self._changed(old)

    def _send(self, caller: Caller, body: bytes, key: str | None) -> None:
        self.world.counts["mischief"] += 1
        self.net.ask(caller, c.Request.read(body, key), None, lambda _: None)

    def _changed(self, old: Ask) -> None:
        """One member is another; the key is the same, another, or none."""
        chance, caller = self.world.chance, old.caller
        told: dict[str, Any] = json.loads(old.body)
        fenced = "fencing_token" in told and old.verb not in ("cancel", "requeue", "resolve")
        if fenced:
            member = chance.choice(("fencing_token", "worker_id", "epoch", "policy_version",
                                    "result", "expected_revision"))  # fmt: skip
            if member == "fencing_token":
                told[member] = max(1, told[member] + chance.choice((-1, 1, 1 << 32)))
            elif member == "worker_id":
                told[member] = f"w{chance.randrange(5)}"
                if chance.random() < 0.7:
                    caller = Caller(caller.scope, caller.kind, told[member])
            elif member in ("epoch", "policy_version"):
                told[member] = chance.randrange(4)
            elif old.verb in ("submit", "complete"):
                told[member] = chance.randrange(3)
        elif old.verb == "claim":
            told["limit"] = chance.choice((1, 2))
        key = chance.choice((old.key, None)) if fenced else old.key
        if caller.kind != "human" or old.verb == "review":
            self._send(caller, canonical.dumps(told), key)

    def _one_thing_wrong(self) -> None:
        """A command that would be accepted if it were not for one member, or its sender."""
        chance = self.world.chance
        job = self.some(*chance.choice((("leased",), ("leased",), ("ready", "blocked", "done"))))
        if job is None:
            return
        if job.state != "leased":
            self._from_outside(job)
            return
        bound: dict[str, Any] = {
            "task_id": job.task_id, "worker_id": job.worker, "fence": job.fence,
            "epoch": job.epoch, "policy_version": job.policy,
        }  # fmt: skip
        right: Kind = "worker"
        if self.ghost.is_destination(job.scope, job.queue):
            right = "dispatcher"
        kind, actor, scope = right, job.worker or "", job.scope
        wrong = chance.choice((*bound, "kind", "actor", "scope", "verb", "revision"))
        more = {"expected_revision": job.revision + 1} if wrong == "revision" else {}
        if wrong in ("fence", "epoch", "policy_version"):
            bound[wrong] = max(int(wrong == "fence"), bound[wrong] + chance.choice((1, -1)))
        elif wrong in ("worker_id", "actor"):
            actor = bound["worker_id"] = "nobody"
            if wrong == "actor":
                bound["worker_id"] = job.worker
        elif wrong == "scope":
            scope = "beta" if scope == "alpha" else "alpha"
        elif wrong in ("kind", "verb"):
            others: tuple[Kind, ...] = ("producer", "human", "auditor")
            swapped: Kind = "worker" if right == "dispatcher" else "dispatcher"
            kind = swapped if wrong == "kind" else chance.choice(others)
        command = chance.choice((c.Complete, c.Submit))(**bound, **more, result="wrong")
        self._send(Caller(scope, kind, actor), command.encoded_object(), None)

    def _from_outside(self, job: Job) -> None:
        """The same of people's commands: another fence, or a word that has been said."""
        chance = self.world.chance
        self.sent += 1
        key, fence = f"{self.name}.{self.sent}", max(0, job.fence + chance.choice((-1, 1)))
        spoken = [number for number, word in job.words.items() if word != "open"]
        if spoken and chance.random() < 0.5:
            kind: Kind = chance.choice(("human", "operator"))
            review = c.Review(job.task_id, spoken[-1], "rejected")
            self._send(Caller(job.scope, kind, "adam"), review.encoded_object(), key)
            return
        verb = {"blocked": c.Resolve, "done": c.Requeue}.get(job.state, c.Cancel)
        command = verb(job.task_id, fence)
        self._send(Caller(job.scope, "human", "adam"), command.encoded_object(), key)

    def _at_the_end(self) -> None:
        """Somebody claims, or sweeps, a microsecond before a lease ends, or just then."""
        chance = self.world.chance
        leased = [job for job in self.ghost.open_jobs() if job.state == "leased"]
        if not leased:
            return
        job = chance.choice(leased)
        at = self.server.moment(job.until) + chance.choice((-1, 0, 0))
        if not 0 < at - self.world.t < 600 * SECOND:
            return
        self.sent += 1
        key = f"end.{self.sent}"
        if chance.random() < 0.2:
            caller = Caller(job.scope, "operator", "op")
            self.net.ask(caller, c.Sweep(None), key, lambda _: None, at)
            return
        who = chance.choice((f"w{chance.randrange(5)}", job.worker or "w0"))
        dispatcher = self.ghost.is_destination(job.scope, job.queue)
        caller = Caller(job.scope, "dispatcher" if dispatcher else "worker", who)
        command = c.Claim(who, task_id=job.task_id, lease_seconds=5)
        self.net.ask(caller, command, key, lambda _: None, at)
