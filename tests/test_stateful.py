"""All verbs in any order, by a model that was written apart: both must say and hold the same."""

from __future__ import annotations

import pytest
from helpers.machine import Pair, Sent, caller
from helpers.model import OK, OWES
from helpers.stand import Stand
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from fencepost import commands as c
from fencepost.deliveries import event
from fencepost.machine import claims, fold, importing, results
from fencepost.rules import fence, retry

QUEUES = st.sampled_from(["a", "a", "b", "f"])
WORKERS = st.sampled_from(["w", "v"])
VALUES = st.sampled_from([1, 2, "x"])
ANY = st.integers(0, 7)
SEEN = {"machines": 0, "steps": 0, "replays": 0, "refusals": 0}


class Queue(RuleBasedStateMachine):
    """The rules send commands; `leases` are those ever given, live or not."""

    make = Stand

    def __init__(self):
        super().__init__()
        self.pair = Pair(self.make)
        self.model = self.pair.model
        self.tasks, self.leases, self.sent = [], [], []
        self.number = 0

    def teardown(self):
        SEEN["machines"] += 1
        for name in ("steps", "replays", "refusals"):
            SEEN[name] += getattr(self.pair, name)
        self.pair.close()

    @initialize(queue=QUEUES, restored=st.booleans())
    def begin(self, queue, restored):
        """Work is there and some of it in hand."""
        if restored:  # so that there is an epoch before this one, of which results may be imported
            self.care("reset", queue, 0)
        for payload in (1, 2, "x"):
            self.enqueue(queue, None, payload, 0)
        self.claim(queue, "w", 2, False)

    def send(self, command, judge, key=None, kind="operator"):
        """A new request, with a key of its own where its verb is due one."""
        self.number += 1
        if not command.self_keyed and command.verb != "claim":
            key = key or f"key-{self.number}"
        sent = Sent(caller(kind), c.Request.of(command, key), judge)
        self.sent.append(sent)
        return self.pair.send(sent)

    def pick(self, things, place):
        return things[-1 - place % len(things)]

    def job(self, task_id):
        return self.model.jobs[task_id]

    # -- giving work

    @rule(queue=QUEUES, key=st.sampled_from([None, "t1", "t2"]), payload=VALUES,
          priority=st.sampled_from([0, 0, 5]))  # fmt: skip
    def enqueue(self, queue, key, payload, priority):
        def judge(outcome):
            verdict = self.model.enqueue(queue, key, payload)
            if verdict == OK:
                (task_id,) = outcome.task_ids
                known = self.model.by_key(queue, key)
                assert known in (None, task_id), "a known key gave another task"
                if known is None:
                    self.model.add(task_id, queue, key, payload, priority)
                    self.tasks.append(task_id)
            return verdict

        self.send(c.Enqueue(queue, (c.NewTask(payload, key, priority),)), judge)

    @rule(queue=st.sampled_from(["a", "a", "b", "f", "out"]), worker=WORKERS,
          limit=st.integers(1, 3), keyed=st.booleans())  # fmt: skip
    def claim(self, queue, worker, limit, keyed):
        def judge(outcome):
            verdict, due = self.model.claim(queue, limit)
            assert list(outcome.task_ids) == due, "the wrong tasks, or in the wrong order"
            for grant in outcome.grants:
                given = grant.fence if self.pair.stand.gaps else 0
                assert grant.fence == self.model.take(grant.task_id, worker, given)
                self.leases.append((grant.task_id, worker, grant.fence))
            assert len(outcome.grants) == len(due)
            return verdict

        key = f"claim-{self.number}" if keyed else None
        self.send(c.Claim(worker, (queue,), None, limit), judge, key)

    # -- work under a lease, live or long lost

    @precondition(lambda self: self.leases)
    @rule(place=ANY, value=VALUES, expected=st.sampled_from([None, None, 0, 1]))
    def submit(self, place, value, expected):
        task_id, worker, fence_ = self.pick(self.leases, place)
        command = c.Submit(task_id, worker, fence_, result=value, expected_revision=expected)
        self.send(command, self.handing_in(task_id, worker, fence_, value, expected, ()))

    @precondition(lambda self: self.leases)
    @rule(place=ANY, value=st.sampled_from([None, 1, 2]), followups=st.integers(0, 1))
    def complete(self, place, value, followups):
        task_id, worker, fence_ = self.pick(self.leases, place)
        given = {} if value is None else {"result": value}
        new = tuple({"queue": "f", "payload": value} for _ in range(followups))
        command = c.Complete(task_id, worker, fence_, **given, followups=new)
        self.send(command, self.handing_in(task_id, worker, fence_, value, None, new))

    def handing_in(self, task_id, worker, fence_, value, expected, followups):
        def judge(outcome):
            verb = self.sent[-1].request.command.verb if self.fresh else self.retried
            job = self.job(task_id)
            verdict, added = self.model.hand_in(
                job, worker, fence_, value, expected, verb == "complete"
            )
            if verdict == OK:
                self.offspring(outcome, job, value, added, followups)
            return verdict

        return judge

    fresh, retried = True, ""

    def offspring(self, outcome, job, value, added, followups):
        """Follow-ups and obligations are there as tasks, and no more of them."""
        (_, *items) = outcome.receipt.entry["tasks"]
        items = [item for item in items if item["role"] == "followup" or job.queue in OWES]
        roles = [item["role"] for item in items]
        owed = added and job.queue in OWES
        assert roles == ["followup"] * len(followups) + ["obligation"] * owed
        for item in items:
            queue = "f" if item["role"] == "followup" else OWES[job.queue]
            self.model.add(item["task_id"], queue, None, value, parent=outcome.task_ids[0])

    @precondition(lambda self: self.leases)
    @rule(place=ANY)
    def renew(self, place):
        task_id, worker, fence_ = self.pick(self.leases, place)
        judge = lambda _: self.model.renew(self.job(task_id), worker, fence_)  # noqa: E731
        self.send(c.Renew(task_id, worker, fence_), judge)

    @precondition(lambda self: self.leases)
    @rule(place=ANY, then=st.sampled_from(["retry", "give_up", "block"]),
          wait=st.sampled_from([0, 5]))  # fmt: skip
    def fail(self, place, then, wait):
        task_id, worker, fence_ = self.pick(self.leases, place)
        judge = lambda _: self.model.fail(self.job(task_id), worker, fence_, then, wait)  # noqa: E731
        self.send(c.Fail(task_id, worker, fence_, then=then, retry_seconds=wait), judge)

    @precondition(lambda self: self.leases)
    @rule(place=ANY, forged=st.sampled_from([0, 0, 0, 1]), other=st.booleans())
    def release(self, place, forged, other):
        task_id, worker, fence_ = self.pick(self.leases, place)
        worker, fence_ = ("stranger" if other and forged else worker), fence_ + forged
        judge = lambda _: self.model.release(self.job(task_id), worker, fence_)  # noqa: E731
        self.send(c.Release(task_id, worker, fence_), judge)

    @rule(queue=QUEUES, worker=WORKERS, steps=st.lists(st.sampled_from([
        "submit", "submit", "repeat", "complete", "retry", "retry", "block", "late", "policy",
    ]), min_size=2, max_size=3))  # fmt: skip
    def shift(self, queue, worker, steps):
        """A claim and what often follows it, so that deep states are not left to luck."""
        self.claim(queue, worker, 1, False)
        if not self.leases:
            return
        for step in steps:
            if step == "submit":
                self.submit(0, 1, None)
            elif step == "repeat":  # the same result in other bytes
                self.submit(0, 1, 1)
            elif step == "complete":
                self.complete(0, 1, 0)
            elif step in ("retry", "block"):
                self.fail(0, step, 0)
            elif step == "late":
                self.pass_time(61, 0)
            else:
                self.care("policy", queue, 1)

    # -- from outside

    @precondition(lambda self: self.tasks)
    @rule(place=ANY, verb=st.sampled_from(["cancel", "requeue", "requeue", "erase"]))
    def outside(self, place, verb):
        task_id = self.pick(self.tasks, place)
        kinds = {"cancel": c.Cancel, "requeue": c.Requeue, "erase": c.Erase}

        def judge(outcome):
            given = task_id if verb == "erase" else self.job(task_id)
            return getattr(self.model, verb)(given)

        self.send(kinds[verb](task_id), judge)

    @precondition(lambda self: self.tasks)
    @rule(place=ANY, to=st.sampled_from(["done", "retry", "give_up"]), value=VALUES)
    def resolve(self, place, to, value):
        task_id = self.pick(self.tasks, place)
        evidence = {"evidence": value} if to == "done" else {}

        def judge(outcome):
            job = self.job(task_id)
            verdict, added = self.model.resolve(job, to, value)
            if verdict == OK:
                self.offspring(outcome, job, value, added, ())
            return verdict

        self.send(c.Resolve(task_id, None, None, to, **evidence), judge)

    @precondition(lambda self: self.tasks)
    @rule(place=ANY, revision=st.sampled_from([1, 1, 2, 2, 3]), epoch=st.sampled_from([0, 0, 1]),
          value=VALUES, final=st.booleans())  # fmt: skip
    def adopt(self, place, revision, epoch, value, final):
        task_id = self.pick(self.tasks, place)

        def judge(outcome):
            job = self.job(task_id)
            verdict, added = self.model.adopt(job, revision, epoch, value, final)
            if verdict == OK and added:
                self.offspring(outcome, job, value, added, ())
            return verdict

        command = c.Import(task_id, revision, epoch, 9, final, "a receiver's", result=value)
        self.send(command, judge)

    @precondition(lambda self: self.tasks)
    @rule(place=ANY, revision=st.integers(1, 2), word=st.sampled_from(["accepted", "rejected"]))
    def review(self, place, revision, word):
        task_id = self.pick(self.tasks, place)
        judge = lambda _: self.model.review(self.job(task_id), revision, word)  # noqa: E731
        self.send(c.Review(task_id, revision, word), judge, kind="human")

    # -- care: one rule, so that most steps are work

    @rule(verb=st.sampled_from([
        "sweep", "sweep", "purge", "pause", "resume", "resume", "policy", "revoke", "reset",
    ]), queue=QUEUES, version=st.integers(0, 2))  # fmt: skip
    def care(self, verb, queue, version):
        model = self.model
        if verb == "sweep":
            self.send(c.Sweep(), lambda _: model.sweep())
        elif verb == "purge":
            self.send(c.Purge(None, 200), self.purged)
        elif verb in ("pause", "resume"):
            self.send(c.QueueSet(queue, {"paused": verb == "pause"}), self.paused(queue, verb))
        elif verb == "policy":
            version += model.policy
            self.send(c.SetPolicy(version), lambda _: model.set_policy(version))
        elif verb == "revoke":
            self.send(c.Revoke(True), self.revoked(True))
        else:
            self.send(c.ClockReset(), lambda _: model.reset_clock())

    def purged(self, outcome):
        assert set(outcome.task_ids) == self.model.purge()
        return OK

    def paused(self, queue, verb):
        def judge(outcome):
            (self.model.paused.add if verb == "pause" else self.model.paused.discard)(queue)
            return OK

        return judge

    def revoked(self, revoked):
        def judge(outcome):
            self.model.revoked = revoked
            return OK

        return judge

    @precondition(lambda self: self.model.revoked)
    @rule()
    def lift(self):
        self.send(c.Revoke(False), self.revoked(False))

    @rule(seconds=st.sampled_from([1, 20, 59, 60, 61, 300]), jump=st.sampled_from(
        [0, 0, 0, 0, -3600, -30, 30, 3600]))  # fmt: skip
    def pass_time(self, seconds, jump):
        self.pair.stand.clock.advance(seconds)
        self.pair.stand.clock.jump_wall(jump)
        self.model.clock.wall += seconds + jump
        self.model.clock.steady += seconds

    # -- the same bytes again, and other bytes under a known key

    @precondition(lambda self: self.sent)
    @rule(place=st.integers(0, 15))
    def again(self, place):
        sent = self.pick(self.sent, place)
        self.fresh, self.retried = False, sent.request.command.verb
        self.pair.send(sent)
        self.fresh = True

    @precondition(lambda self: self.taken())
    @rule(place=ANY)
    def reuse_a_key(self, place):
        sent = self.pick(self.taken(), place)
        worker = getattr(sent.request.command, "worker_id", None)
        command = c.Claim(worker, ("elsewhere",)) if worker else c.Sweep("elsewhere")
        self.pair.send(Sent(sent.caller, c.Request.of(command, sent.request.key), None))


    def taken(self):
        """Requests of the operator's whose keys are taken."""
        return [
            sent for sent in self.sent
            if sent.request.key and sent.caller.kind == "operator"
            and sent.place in self.pair.receipts
        ]  # fmt: skip


BUDGET = settings(
    max_examples=100, stateful_step_count=50, derandomize=True, deadline=None, database=None,
    print_blob=False, suppress_health_check=list(HealthCheck),
)  # fmt: skip


def test_the_product_and_the_model_say_and_hold_the_same():
    run_state_machine_as_test(Queue, settings=BUDGET)
    print(SEEN)
    assert SEEN["steps"] > 3_000
    assert min(SEEN["replays"], SEEN["refusals"]) > 50


PLANTED = {
    "the lease lives on": (
        fence, "LEASE_RULES",
        lambda rules: tuple(rule for rule in rules if rule is not fence.lease_expired),
    ),
    "the policy is forgotten": (
        fence, "LEASE_RULES",
        lambda rules: tuple(rule for rule in rules if rule is not fence.stale_policy),
    ),
    "attempts do not run out": (retry, "exhausted", lambda _: lambda task: False),
    "no replay": (fold, "replay", lambda _: lambda *given: None),
    "an import may be of any epoch": (importing, "unknown_lineage", lambda _: lambda *given: None),
    "an import of what is known is believed": (
        importing, "result_conflict", lambda _: lambda *given: None,
    ),
    "a failure is told to nobody": (results, "owe_state", lambda _: lambda *given: []),
    "a lapse is told to nobody": (claims, "owe_state", lambda _: lambda *given: []),
    "results of a task have one name": (
        event, "result_operation", lambda right: lambda task_id, revision: right(task_id, 1),
    ),
    "every result is new": (results, "duplicate_result", lambda _: lambda *given: None),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_each_planted_fault_makes_them_differ(name, monkeypatch):
    place, attribute, fault = PLANTED[name]
    monkeypatch.setattr(place, attribute, fault(getattr(place, attribute)))
    quick = settings(BUDGET, phases=[Phase.generate], report_multiple_bugs=False)
    with pytest.raises(AssertionError) as raised:
        run_state_machine_as_test(Queue, settings=quick)
    print(name, str(raised.value)[:200])
