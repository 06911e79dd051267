"""A copy of the file, opened as a store of its own: it begins an epoch, and honours no lease of
the one that it came from, which goes on."""

from __future__ import annotations

from typing import Any

from fencepost import commands as c
from fencepost.engine import Call
from fencepost.handle import Handle
from fencepost.model import Caller, Outcome
from helpers.sim.ghost import Job, Promise
from helpers.sim.laws import told
from helpers.sim.messages import Network
from helpers.sim.server import Server
from helpers.sim.world import World, must

LOOKED_AT = 5


class Copy:
    """One copy and its short life."""

    def __init__(self, world: World, net: Network, server: Server) -> None:
        self.world, self.net, self.server = world, net, server
        self.path = server.path.with_name("copy.db")

    def live(self) -> None:
        """Made as a careless person makes it: both files, as they lie there."""
        ghost = self.server.ghost
        self.world.count("copies", "the file is copied")
        self.path.write_bytes(self.server.path.read_bytes())
        log = self.server.path.with_name("work.db-wal")
        if log.exists():
            self.path.with_name("copy.db-wal").write_bytes(log.read_bytes())
        fp = self.server.open(self.path)
        try:
            writers = fp.writers()
            must(writers[-1].why == "copied", f"the copy is not recognised: {writers[-1]}")
            must(writers[-1].epoch > ghost.epoch, f"the copy begins no epoch: {writers[-1]}")
            leased = [job for job in ghost.open_jobs() if job.state == "leased"][:LOOKED_AT]
            for job in leased:
                self._copied_lease(fp, job)
            self._old_bytes(fp)
            self._new_lease(fp)
            found = fp.verify()
            must(found.clean, f"verify of the copy: {found.problems[:3]}")
        finally:
            fp.close()
            for file in self.path.parent.glob("copy.db*"):
                file.unlink()

    @staticmethod
    def _send(fp: Handle, caller: Caller, command: c.Command, key: str | None) -> Outcome:
        call = Call([(caller, c.Request.of(command, key))])
        fp._writer._serve(call)
        return call.wait()[0]

    def _copied_lease(self, fp: Handle, job: Job) -> None:
        command = c.Complete(job.task_id, job.worker or "", job.fence, result="copied")
        outcome = self._send(fp, Caller(job.scope, "operator", "op"), command, None)
        revoked = self.server.ghost.revoked.get(job.scope)
        due = "scope_revoked" if revoked else "stale_epoch"
        must(outcome.issues[:1] == (due,), f"a copied lease: {told(outcome)}, due is {due}")

    def _old_bytes(self, fp: Handle) -> None:
        """Receipts of before the copy are known there too."""
        ghost, chance = self.server.ghost, self.world.chance
        for _ in range(LOOKED_AT):
            ask = chance.choice(self.net.archive)
            request = c.Request.read(ask.body, ask.key)
            promise = ghost.promises.get(ghost.name(ask.caller, request) or ())
            if promise is None or not self._answered_here(promise, request, ask.caller):
                continue
            outcome = self._send(fp, ask.caller, request.command, ask.key)
            body = outcome.receipt and outcome.receipt.body
            must(outcome.replayed and body == promise.body,
                 f"the copy does not know {ask.verb} #{ask.number}: {told(outcome)}")  # fmt: skip

    def _answered_here(self, promise: Promise, request: c.Request, caller: Caller) -> bool:
        """The original would replay it. (The operator's own keys the copy has used anew.)"""
        ghost = self.server.ghost
        job = ghost.jobs.get(getattr(request.command, "task_id", None) or "")
        gone = promise.erased or (job is not None and (job.erased or job.purged))
        closed = ghost.revoked.get(caller.scope) or caller.kind == "operator"
        return promise.sha256 == request.sha256 and not gone and not closed

    def _new_lease(self, fp: Handle) -> None:
        """It gives fences of its own epoch; the original, told of one, has never heard of it."""
        ghost = self.server.ghost
        caller = Caller("alpha", "operator", "op")
        claim = c.Claim("w0", ("work", "care", "next"), limit=3)
        outcome = self._send(fp, caller, claim, "the.claim")
        for grant in outcome.grants:
            lowest = (ghost.epoch + 1) << 32
            must(grant.fence > max(lowest, ghost.highest), "a copy's fence is not of its epoch")
            bound: dict[str, Any] = {
                "task_id": grant.task_id, "worker_id": "w0", "fence": grant.fence, "result": 1,
            }  # fmt: skip
            there = self._send(fp, caller, c.Complete(**bound), None)
            must(there.accepted, f"a lease of the copy's own: {told(there)}")
            worker = Caller("alpha", "worker", "w0")
            self.net.ask(worker, c.Complete(**bound, followups=()), None, lambda _: None)
