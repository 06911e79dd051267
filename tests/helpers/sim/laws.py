"""Judges every decision of the store by what is true: rules 1 to 3, entries, leases in answers.

What is due to a command is worked out here from the ghost alone, and the store's answer must be
that: neither more (who had lost the lease changed something) nor less (the holder was refused).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fencepost.clock import to_rfc3339
from fencepost.commands import COMMANDS, Claim, Complete, Enqueue, LeaseCommand, Request
from fencepost.issues import ISSUES, LeaseLost
from fencepost.model import Caller, Outcome
from helpers.sim.ghost import Ghost, Job, Promise
from helpers.sim.world import Violation, must

LOST = frozenset(code for code, issue in ISSUES.items() if issubclass(issue.raises, LeaseLost))
WORK = ("claim", "renew", "submit", "complete", "fail", "release")
MAY = {
    "worker": WORK, "dispatcher": WORK, "producer": ("enqueue", "cancel"), "auditor": (),
    "human": ("review", "resolve", "cancel", "requeue"),
    "operator": tuple(verb for verb in COMMANDS if verb != "review"),
}  # fmt: skip
SPARED = ("scope.revoke", "erase", "purge", "clock.reset")

Sent = Sequence[tuple[Caller, Request]]


class Judge:
    """One batch after the other. `bodies` are the entries that the store holds beyond the last."""

    def __init__(
        self, ghost: Ghost, verbs: Mapping[str, Callable[..., None]],
        settled: Callable[[Judge, dict[str, Any]], None],
    ) -> None:  # fmt: skip
        self.ghost = ghost
        self.verbs = verbs
        self.settled = settled
        self.alone = True
        self._bodies: dict[int, bytes] = {}

    def batch(self, sent: Sent, outcomes: Sequence[Outcome], bodies: dict[int, bytes]) -> None:
        """What was decided, command by command, each seeing the ones before it."""
        self.alone = len(sent) == 1
        self._bodies = bodies
        must(len(outcomes) == len(sent), "each command gets an outcome")
        for (caller, request), outcome in zip(sent, outcomes, strict=True):
            try:
                self._one(caller, request, outcome)
            except Violation as broken:
                what = f"{caller.actor}@{caller.scope}, key {request.key}: {request.body.decode()}"
                raise Violation(f"{broken}\nafter {what[:600]}") from broken
        must(not bodies, f"entries that no command has made: {sorted(bodies)}")
        for (_, request), outcome in zip(sent, outcomes, strict=True):
            self._leases(request, outcome)

    def answered(self, caller: Caller, request: Request, outcome: Outcome) -> None:
        """What the caller is told, also after an error from COMMIT, is what was decided."""
        promise = self.ghost.promises.get(self.ghost.name(caller, request) or ())
        if outcome.accepted and outcome.receipt is not None:
            must(promise is not None, "somebody is told of a receipt that was never committed")
            assert promise is not None
            self._same(promise, outcome)
        if outcome.issues[:1] == ("store_unavailable",):
            undone = promise is None or promise.erased
            must(undone, "somebody is told that nothing was done, and it was")

    # -- one command

    def _one(self, caller: Caller, request: Request, outcome: Outcome) -> None:
        must("guard_tripped" not in outcome.issues, f"a guard tripped: {outcome.message}")
        command, ghost = request.command, self.ghost
        job = ghost.jobs.get(getattr(command, "task_id", None) or "")
        if code := self._barred(caller, request, job):
            must(outcome.issues == (code,), f"{code} is due, told is {told(outcome)}")
            return
        name = ghost.name(caller, request)
        promise = None if name is None else ghost.promises.get(name)
        if promise is not None and self._promised(promise, request, job, outcome):
            return
        must(not outcome.replayed, "a replay of what was never committed")
        if job is not None and job.erased:
            must(outcome.issues == ("receipt_erased",), f"an erased task tells {told(outcome)}")
            return
        if isinstance(command, LeaseCommand) and not self._holds(command, job, outcome):
            return
        before = ghost.last
        self.verbs[command.verb](self, caller, request, job, outcome)
        if not outcome.accepted:
            must(ghost.last == before and outcome.issues, "a refusal tells why, and leaves nothing")

    def _barred(self, caller: Caller, request: Request, job: Job | None) -> str | None:
        """Rule 1: the code that is due."""
        command, ghost = request.command, self.ghost
        bound = caller.kind in ("worker", "dispatcher")
        if command.verb not in MAY[caller.kind]:
            return "forbidden"
        if bound and getattr(command, "worker_id", caller.actor) != caller.actor:
            return "forbidden"
        spared = caller.kind == "operator" and command.verb in SPARED
        if ghost.revoked.get(caller.scope) and not spared:
            return "scope_revoked"
        if getattr(command, "task_id", None) is not None and (
            job is None or job.purged or job.scope != caller.scope
        ):
            return "not_found"
        if caller.kind in ("operator", "human"):
            return None
        for queue in _queues(command, job):
            if ghost.is_destination(caller.scope, queue) != (caller.kind == "dispatcher"):
                return "forbidden"
        return None

    def _promised(
        self, promise: Promise, request: Request, job: Job | None, outcome: Outcome
    ) -> bool:
        """Rule 3: the same bytes get the same receipt. Tells whether that settles it."""
        if promise.erased:
            if request.key is None and (job is None or not job.erased):
                must(not outcome.accepted, "an erased command was carried out again")
            else:
                must(outcome.issues == ("receipt_erased",),
                     f"receipt_erased is due, told is {told(outcome)}")  # fmt: skip
            return True
        if promise.sha256 != request.sha256:
            must(outcome.issues == ("idempotency_key_reused",),
                 f"other bytes under a known key: {told(outcome)}")  # fmt: skip
        elif job is not None and job.erased:
            must(outcome.issues == ("receipt_erased",), f"an erased task tells {told(outcome)}")
        else:
            must(outcome.replayed, f"the same bytes were not replayed: {told(outcome)}")
            self._same(promise, outcome)
        return True

    @staticmethod
    def _same(promise: Promise, outcome: Outcome) -> None:
        receipt = outcome.receipt
        must(receipt is not None, "a replay without a receipt")
        assert receipt is not None
        got = (receipt.number, receipt.body, receipt.salt, receipt.request_sha256)
        given = (promise.number, promise.body, promise.salt, promise.sha256)
        must(got == given, f"the same bytes got another receipt: {got} after {given}")

    def _holds(self, command: LeaseCommand, job: Job | None, outcome: Outcome) -> bool:
        """Rules 5 to 10: all codes that are due to somebody who is not the holder, and no other."""
        assert job is not None
        if outcome.issues == ("receipt_erased",):  # a follow-up's key; rule 3 ends the list
            keys = [(job.scope, n.queue, n.key) for n in getattr(command, "followups", ())]
            gone = [self.ghost.jobs[self.ghost.keys[k]] for k in keys if k in self.ghost.keys]  # type: ignore[index, operator]
            must(any(g.erased or g.purged for g in gone), "receipt_erased, and nothing was")
            return False
        due = self.lost(command, job)
        found = {code for code in outcome.issues if code in LOST}
        must(
            found == due and not (due and outcome.accepted),
            f"{command.verb} of {job.task_id} under fence {command.fence} by {command.worker_id}: "
            f"due is {sorted(due) or 'to be accepted'}, told is {told(outcome)}; its lease is "
            f"fence {job.fence} of {job.worker} until {to_rfc3339(job.until)}, "
            f"now {to_rfc3339(self.ghost.time.now)}",
        )  # fmt: skip
        return not due

    def lost(self, command: LeaseCommand, job: Job) -> set[str]:
        """Why this is not the holder of a live lease; empty if it is."""
        ghost, once = self.ghost, job.fence > 0
        of_state = "not_leased" if job.state == "ready" else f"task_{job.state}"
        why = {
            "stale_epoch": (once and job.epoch < ghost.floor)
            or command.epoch not in (None, job.epoch),
            "stale_policy": (once and job.policy != ghost.policy.get(job.scope, 0))
            or command.policy_version not in (None, job.policy),
            of_state: job.state != "leased",
            "wrong_worker": command.worker_id != job.worker,
            "unknown_fence": command.fence > job.fence,
            "stale_fence": command.fence < job.fence,
            "lease_expired": once and ghost.time.now >= job.until,
        }
        return {code for code, so in why.items() if so}

    # -- entries

    def entry(
        self, caller: Caller, request: Request, outcome: Outcome, job: Job | None = None
    ) -> dict[str, Any]:
        """The entry of an accepted command, which is its receipt: read, checked, remembered."""
        receipt, ghost = outcome.receipt, self.ghost
        must(receipt is not None, f"{request.command.verb} was accepted without a receipt")
        assert receipt is not None
        if request.command.verb == "claim" and receipt.number == ghost.last + 2:
            self._settled_on_the_way(caller, request)
        must(receipt.number == ghost.last + 1, f"entry {receipt.number} follows {ghost.last}")
        must(receipt.request_sha256 == request.sha256, "the receipt is of other bytes")
        must(receipt.result_sha256 == request.result_sha256, "the receipt is of another result")
        told = self._read(caller, request, request.command.verb)
        must(receipt.body == ghost.entries[-1], "the receipt is not the entry")
        name = ghost.name(caller, request)
        promise = Promise(
            receipt.number, receipt.body, receipt.salt, request.sha256,
            None if job is None else job.task_id, tuple(i["task_id"] for i in told["tasks"]),
        )  # fmt: skip
        if name is not None:
            ghost.promises[name] = promise
        if isinstance(request.command, LeaseCommand):  # found by its bytes, also if it had a key
            ghost.promises[request.command.task_id, request.sha256.hex()] = promise
        holds = {job.task_id} if job is not None else set()
        holds.update(
            item["task_id"] for item in told["tasks"]
            if told["verb"] == "enqueue" or item.get("role") == "followup" or "before" not in item
        )  # fmt: skip
        for task_id in sorted(holds):
            ghost.touching.setdefault(task_id, []).append(promise)
        return told

    def _read(self, caller: Caller, request: Request, verb: str) -> dict[str, Any]:
        """The next entry as the store holds it; its heading must be right."""
        ghost = self.ghost
        body = self._bodies.pop(ghost.last + 1, b"")
        must(body, f"entry {ghost.last + 1} was acknowledged and is not there")
        ghost.entries.append(body)
        told: dict[str, Any] = json.loads(body)
        if verb == "clock.reset":
            ghost.epoch += 1
            ghost.floor = ghost.epoch
        heading = (told["verb"], told["scope"], told["actor"], told["epoch"])
        actor = getattr(request.command, "worker_id", None) or caller.actor
        due = (verb, caller.scope, actor, ghost.epoch)
        must(heading == due, f"the entry is of {heading}, due is {due}")
        return told

    def at(self, told: dict[str, Any]) -> None:
        """The entry bears the store's time, which never goes back."""
        due = to_rfc3339(self.ghost.time.now)
        must(told["at"] == due, f"the entry says it is {told['at']}, it is {due}")

    def _settled_on_the_way(self, caller: Caller, request: Request) -> None:
        """The sweep that a claim has done, in an entry of its own before the claim's."""
        told = self._read(caller, request, "sweep")
        self.at(told)
        self.settled(self, told)

    # -- leases

    def _leases(self, request: Request, outcome: Outcome) -> None:
        """A claim's answer has exactly the leases of its entry that live after the batch."""
        if request.command.verb != "claim" or outcome.receipt is None:
            must(not outcome.grants, "leases for something else than a claim")
            return
        ghost, living = self.ghost, []
        for item in outcome.receipt.entry["tasks"]:
            job = ghost.jobs[item["task_id"]]
            if job.state == "leased" and job.fence == item["fence"] and not ghost.lapsed(job):
                living.append(job)
        due = [
            (j.task_id, j.worker, j.fence, j.revision, j.epoch, j.policy, j.granted, j.until,
             j.payload) for j in living
        ]  # fmt: skip
        given = [
            (g.task_id, g.worker_id, g.fence, g.revision, g.epoch, g.policy_version, g.granted_at,
             g.lease_expires_at, g.payload) for g in outcome.grants
        ]  # fmt: skip
        must(given == due, f"the leases given are {given}, those that live {due}")


def _queues(command: Any, job: Job | None) -> list[str]:
    if isinstance(command, Enqueue):
        return [command.queue]
    if isinstance(command, Claim) and command.queues is not None:
        return list(command.queues)
    followed = [new.queue for new in command.followups] if isinstance(command, Complete) else []
    return [] if job is None else [job.queue, *followed]


def told(outcome: Outcome) -> str:
    """An outcome in short."""
    return "accepted" if outcome.accepted else ",".join(outcome.issues)
