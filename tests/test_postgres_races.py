"""Transactions of PostgreSQL side by side, in every order that could be wrong."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager

import pytest
from helpers.lab import QUEUE, SCOPE
from helpers.pg_side import WAITING, outcomes, sides, two_sides, until

from fencepost import commands as c
from fencepost import tokens
from fencepost.commands import Request
from fencepost.issues import (
    LeaseExpired,
    QueuePaused,
    Refused,
    ScopeRevoked,
    StalePolicy,
    TaskDone,
    Unauthenticated,
)
from fencepost.model import Caller
from fencepost.storage import reading

SECOND = 1_000_000


@pytest.fixture
def two():
    with two_sides() as made:
        yield made


def again(lease, handle):
    """The same lease in another process's hands."""
    return handle.lease(lease.task_id, worker_id=lease.worker_id, fence=lease.fence)


# -- one receipt


@pytest.mark.parametrize("waits", [False, True], ids=["at once", "waiting"])
@pytest.mark.parametrize("verb", ["claim", "sweep"])
def test_a_copy_of_a_claim_beside_it_hears_the_same_receipt(two, verb, waits):
    """The first has all there is and no receipt yet: the copy would find nothing left."""
    lease = two.lease()
    if verb == "sweep":
        two.clock.advance(3_600)
    else:
        lease.release()
    command = c.Sweep(QUEUE) if verb == "sweep" else c.Claim("w1", queues=[QUEUE])
    request = Request.of(command, "k")._replace(waits=waits)
    with paused(two.fp) as (there, go):
        first = two.go(two.fp.execute, [request])
        assert there(40)
        second = two.go(two.other.execute, [request])
        until(lambda: second.done() or two.sql(WAITING), "the copy to wait or to be answered")
        go()
    ((one,), (copy,)) = outcomes([first, second])
    assert (one.status, one.replayed, copy.status, copy.replayed) == (
        *("accepted", False),
        *("accepted", True),
    )
    assert copy.receipt.body == one.receipt.body
    assert [item["task_id"] for item in one.receipt.entry["tasks"]] == [lease.task_id]


@contextmanager
def paused(handle):
    """What this handle has loaded and decided it does not write before it is told to."""
    main, told, there = handle._store._main, threading.Event(), threading.Event()
    save = main.save

    def wait(*arguments):
        there.set()
        assert told.wait(40)
        return save(*arguments)

    main.save = wait
    try:
        yield there.wait, told.set
    finally:
        told.set()
        main.save = save


# -- one result


def test_of_two_results_for_one_revision_the_second_waits_and_is_refused(two):
    lease = two.lease()
    with two.holding_key("a", "w1"):
        first = two.go(lease.complete, {"answer": 1}, key="a")
        two.waiting(1)
        second = two.go(again(lease, two.other).complete, {"answer": 2}, key="b")
        two.waiting(2)
    receipt = first.result(30)
    with pytest.raises(TaskDone) as refused:
        second.result(30)
    assert refused.value.outcome.facts["receipt"] == receipt.number
    (result,) = two.fp.results(lease.task_id)
    assert result.value == {"answer": 1}


def test_of_two_identical_results_without_a_key_the_second_hears_the_firsts_bytes(two):
    lease = two.lease()
    with two.holding_task(lease.task_id):
        both = [two.go(again(lease, fp).complete, {"answer": 1}) for fp in (two.fp, two.other)]
        two.waiting(2)
    first, second = outcomes(both)
    assert (first.body, first.salt) == (second.body, second.salt)
    assert len(list(two.fp.results(lease.task_id))) == 1


def test_a_key_that_two_use_for_two_tasks_is_ones_alone(two):
    """The second waits for the key with its task in hand, and then finds it taken."""
    leases = [two.lease(), two.lease()]
    with two.holding_key("one-key", "w1"):
        both = [
            two.go(again(lease, fp).complete, {"answer": n}, key="one-key")
            for n, (lease, fp) in enumerate(zip(leases, (two.fp, two.other), strict=True))
        ]
        two.waiting(2)
    told = sorted(_issue(future) for future in both)
    assert told == ["", "idempotency_key_reused"]
    states = sorted(two.fp.task(lease.task_id).state for lease in leases)
    assert states == ["done", "leased"]


def _issue(future):
    try:
        future.result(30)
    except Refused as refused:
        return refused.code
    return ""


# -- what is acknowledged is not overtaken


def revoke(fp):
    fp.revoke()


def pause(fp):
    fp.queue_set(QUEUE, paused=True)


@pytest.mark.parametrize(("change", "refusal"), [(revoke, ScopeRevoked), (pause, QueuePaused)])
def test_a_change_of_what_others_are_judged_by_waits_for_them_and_they_for_it(two, change, refusal):
    two.fp.enqueue(QUEUE, 0)
    third = two.open()
    with two.holding_key("early"):
        early = two.go(two.fp.enqueue, QUEUE, 1, idempotency_key="early")
        two.waiting(1)
        changing = two.go(change, two.other)
        two.waiting(2)
        late = two.go(third.enqueue, QUEUE, 2)
        two.waiting(3)
        assert not changing.done() and not late.done()
    assert early.result(30).task_id
    changing.result(30)
    with pytest.raises(refusal):
        late.result(30)
    change_again = {revoke: lambda: two.fp.revoke(revoked=False), pause: lambda: None}
    change_again[change]()


def test_whoever_must_be_alone_is_not_overtaken_by_those_who_come_after(two):
    """Else under load, where somebody is always there, a revocation would wait for ever."""
    handles = [two.open() for _ in range(3)]
    two.fp.enqueue(QUEUE, 0)
    with two.holding_key("early"):
        early = two.go(two.fp.enqueue, QUEUE, 1, idempotency_key="early")
        two.waiting(1)
        alone = two.go(two.other.set_policy, 7)
        two.waiting(2)
        late = [two.go(fp.claim, QUEUE, worker_id="w1") for fp in handles]
        two.waiting(5)
    early.result(30), alone.result(30)
    leases = [lease for found in outcomes(late) for lease in found]
    assert {lease.grant.policy_version for lease in leases} == {7}


def test_what_was_completed_beside_a_new_policy_stands_and_what_comes_after_is_stale(two):
    early, late = two.lease("w1"), two.lease("w2")
    with two.holding_key("k", "w1"):
        completing = two.go(early.complete, {"answer": 1}, key="k")
        two.waiting(1)
        raising = two.go(two.other.set_policy, 3)
        two.waiting(2)
        behind = two.go(again(late, two.open()).complete, {"answer": 2})
        two.waiting(3)
    completing.result(30), raising.result(30)
    with pytest.raises(StalePolicy):
        behind.result(30)
    assert two.fp.task(early.task_id).state == "done"


def test_a_token_that_was_revoked_carries_nothing_out_any_more(two):
    _, text = two.fp.token_create("w9", "worker")
    token = two.fp.read(reading.token_by_sha256(tokens.digest(text)))
    holder = two.open().for_caller(token.caller(SCOPE))
    two.fp.enqueue(QUEUE, 1)
    with two.holding_key("x", "w9"):
        claim = two.go(holder.claim, QUEUE, worker_id="w9", idempotency_key="x")
        two.waiting(1)
        ending = two.go(two.other.token_revoke, token.token_id)
        two.waiting(2)
        late = two.go(two.open().for_caller(token.caller(SCOPE)).claim, QUEUE, worker_id="w9")
        two.waiting(3)
    assert len(claim.result(30)) == 1
    ending.result(30)
    with pytest.raises(Unauthenticated):
        late.result(30)


# -- exact ends of leases


@pytest.mark.parametrize("early", [1, 0])
def test_a_lock_wait_across_the_end_of_a_lease_counts_to_the_microsecond(two, early):
    """The time is asked when the row is held, and not when the command was sent."""
    lease = two.lease(seconds=60)
    with two.holding_task(lease.task_id):
        completing = two.go(lease.complete, {"answer": 1})
        two.waiting(1)
        two.clock.advance(60 - early / SECOND)
        assert two.clock.wall() == lease.lease_expires_at - early
    if early:
        assert completing.result(30).entry["at"] == "2026-01-01T00:00:59.999999Z"
    else:
        with pytest.raises(LeaseExpired):
            completing.result(30)


def test_a_claim_that_waited_for_its_task_has_its_lease_from_when_it_had_it():
    """By the server's clock, asked after the wait: a frozen one would have it shorter."""
    with sides(clock=False) as made:
        task_id = made.fp.enqueue(QUEUE, 1).task_id
        with made.holding_task(task_id):
            claiming = made.go(made.fp.claim, worker_id="w1", task_id=task_id, lease_seconds=60)
            made.waiting(1)
            ((released,),) = made.sql(
                "select (extract(epoch from clock_timestamp()) * 1000000)::bigint"
            )
        (lease,) = claiming.result(30)
        assert lease.grant.granted_at >= released
        assert lease.lease_expires_at == lease.grant.granted_at + 60 * SECOND


# -- the tree


def test_a_late_commit_is_skipped_by_no_sealer_and_comes_behind(two):
    two.fp.enqueue(QUEUE, 0)
    with two.holding_key("slow"):
        slow = two.go(two.fp.enqueue, QUEUE, 1, idempotency_key="slow")
        two.waiting(1)
        ahead = two.other.enqueue(QUEUE, 2)
        two.other.seal()
        assert two.order()[-1] == ahead.number
    late = slow.result(30)
    assert late.number < ahead.number
    two.other.seal()
    assert two.order()[-2:] == [ahead.number, late.number]
    for receipt in (ahead, late):
        two.fp.prove(receipt).check()


def test_no_number_is_passed_over_while_who_has_drawn_it_still_runs(two):
    settled = two.other._store._main.settled
    two.fp.enqueue(QUEUE, 0)
    with two.holding_key("slow"):
        slow = two.go(two.fp.enqueue, QUEUE, 1, idempotency_key="slow")
        two.waiting(1)
        for n in range(3):
            two.other.enqueue(QUEUE, n)
            two.other.seal()
        held = settled.since
    late = slow.result(30)
    two.other.seal()
    assert two.order()[-1] == late.number
    assert held <= late.number
    for n in range(2):
        two.other.enqueue(QUEUE, n)
        two.other.seal()
    assert settled.since > late.number


def test_a_tasks_own_entries_stand_in_the_tree_in_the_order_of_its_life(two):
    """Whatever other entries come late between them."""
    ids = {two.fp.enqueue(QUEUE, 0).task_id, two.fp.enqueue("quick", 0).task_id}
    with two.holding_key("slow"):
        slow = two.go(two.fp.enqueue, QUEUE, 1, idempotency_key="slow")
        two.waiting(1)
        task_id = two.other.enqueue("quick", 2).task_id
        two.other.seal()
        (lease,) = two.other.claim(worker_id="w1", task_id=task_id)
        lease.complete({"answer": 1})
    task_id = slow.result(30).task_id
    (lease,) = two.other.claim(worker_id="w1", task_id=task_id)
    two.other.seal()
    lease.complete({"answer": 2})
    two.fp.seal()
    for (found,) in two.sql("select task_id from fencepost_task where state = 'done'"):
        assert found not in ids
        views = [json.loads(view.body) for view in two.fp.entries() if found.encode() in view.body]
        assert [view["verb"] for view in views] == ["enqueue", "claim", "complete"]


def test_two_sealers_put_each_entry_in_once(two):
    for n in range(40):
        two.fp.enqueue(QUEUE, n)
    with two.holding("select * from fencepost_unsealed for update"):
        both = [two.go(fp.seal) for fp in (two.fp, two.other)]
        two.waiting(2)
    assert {checkpoint.size for checkpoint in outcomes(both)} == {40}


# -- locks in one order


def test_two_batches_that_name_the_same_tasks_in_both_orders_do_not_lock_each_other_out(two):
    first, second = two.lease(), two.lease()
    with two.holding_task(min(first.task_id, second.task_id)):
        both = [
            two.go(fp.execute, [_renewal(lease) for lease in leases])
            for fp, leases in ((two.fp, (first, second)), (two.other, (second, first)))
        ]
        two.waiting(2)
    assert all(outcome.accepted for told in outcomes(both) for outcome in told)
    assert two.deadlocks() == 0


def test_two_batches_that_name_tasks_by_id_and_by_key_in_both_orders_are_both_carried_out(
    two, caplog
):
    """Each has one by its id and waits for the other by its key. PostgreSQL ends one of them after
    its deadlock_timeout, which is a second; it is run again, and nobody hears of it."""
    gate, one, other = (
        two.fp.enqueue(QUEUE, {"of": key}, key=key).task_id for key in ("gate", "one", "other")
    )

    def batch(task_id, key):
        known = tuple(c.NewTask({"of": name}, key=name) for name in ("gate", key))
        return [c.Cancel(task_id), Request.of(c.Enqueue(QUEUE, known), f"by-{key}")]

    with two.holding_task(gate):  # the first of each by key: both have theirs by id then
        both = [
            two.go(two.fp.execute, batch(one, "other")),
            two.go(two.other.execute, batch(other, "one")),
        ]
        two.waiting(2)
    assert all(outcome.accepted for told in outcomes(both) for outcome in told)
    assert two.deadlocks() >= 1
    assert "one by one" not in caplog.text  # each whole, in one transaction
    assert [two.fp.task(task_id).state for task_id in (one, other)] == ["cancelled"] * 2


def _renewal(lease):
    return c.Renew(lease.task_id, lease.worker_id, lease.fence, lease_seconds=90)


@pytest.mark.parametrize("what", ["receipts", "task keys", "queues", "scopes"])
def test_two_batches_that_bring_the_same_into_being_in_both_orders_do_not_either(two, what):
    """Each waits for the first name in order, with none of the others in its hand."""
    names = ["a", "m", "z"]
    made = {
        "receipts": lambda name: (SCOPE, QUEUE, None, name),
        "task keys": lambda name: (SCOPE, QUEUE, name, None),
        "queues": lambda name: (SCOPE, name, None, None),
        "scopes": lambda name: (name, QUEUE, None, None),
    }[what]
    held = {
        "receipts": "insert into fencepost_entry (number, key) values (-1, 'lab local m')",
        "task keys": "select 1",
        "queues": "insert into fencepost_queue values (-1, 'lab', 'm', 0, '{}')",
        "scopes": "insert into fencepost_scope values ('m', 0, 0)",
    }[what]
    two.fp.enqueue(QUEUE, 0)
    if what == "task keys":
        held = _held_task_key(two, "m")
    with two.holding(held):
        both = [
            two.go(_enqueue_all, fp, [made(name) for name in order])
            for fp, order in ((two.fp, names), (two.other, [*reversed(names)]))
        ]
        two.waiting(2)
    told = outcomes(both)
    assert all(outcome.accepted for each in told for outcome in each)
    if what == "receipts":
        bytes_of = [{outcome.receipt.body for outcome in each} for each in told]
        assert bytes_of[0] == bytes_of[1]
    assert two.deadlocks() == 0


def _held_task_key(two, key):
    """A copy of the task that is there, under the key."""
    columns = [
        name
        for (name,) in two.sql(
            "select attname from pg_attribute where attrelid = 'fencepost_task'::regclass "
            "and attnum > 0 order by attnum"
        )
    ]
    new = {"id": "-1", "task_id": "'held'", "key": f"'{key}'"}
    values = ", ".join(new.get(name, name) for name in columns)
    return f"insert into fencepost_task select {values} from fencepost_task"


def _enqueue_all(fp, tasks):
    """One transaction for all of them."""
    sent = [
        (Caller(scope), Request.of(c.Enqueue(queue, (c.NewTask(1, key),)), idem))
        for scope, queue, key, idem in tasks
    ]
    call = fp.hand_in(sent, lambda call: None)
    return call.wait(40)
