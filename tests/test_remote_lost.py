"""Whatever becomes of an answer on its way, the command has one effect and one receipt."""

from __future__ import annotations

import random
import socket

import pytest
from helpers import stub
from helpers.remote import pair
from helpers.stand import QUEUE, WORKER

import fencepost
from fencepost import commands as c
from fencepost.issues import OutcomeUnknown, Unavailable

FAULTS = {
    "lost": stub.lost, "unheard": stub.unheard, "reset": stub.reset, "doubled": stub.doubled,
    "hung up": stub.hung_up, "spoilt": stub.spoilt, "cut in the status": stub.cut(5),
    "cut in the headers": stub.cut(60), "cut before the body": stub.cut(0.25),
    "cut in the body": stub.cut(0.6), "cut before the last byte": stub.cut(0.999),
    "bad gateway": stub.saying(502), "busy": stub.refusing("store_unavailable"),
    "unknown": stub.refusing("outcome_unknown"), "too often": stub.saying(429),
    "empty": stub.saying(204), "not JSON": stub.saying(200, b"<p>", "application/json"),
    "a page": stub.saying(200, b"<p>welcome</p>"),
}  # fmt: skip


def leased(pair):
    pair.here.enqueue(QUEUE, {"n": 1})
    (lease,) = pair.here.claim(QUEUE, worker_id=WORKER)
    return pair.fp.lease(lease.task_id, worker_id=WORKER, fence=lease.fence)


# verb → what is there before; what is called on it
VERBS = {
    "enqueue": (None, lambda fp, _: fp.enqueue(QUEUE, 1)),
    "claim": (lambda both: both.stand.task(), lambda fp, _: fp.claim(QUEUE, worker_id="w")),
    "submit": (leased, lambda fp, lease: lease.submit(1)),
    "complete": (leased, lambda fp, lease: lease.complete("done")),
    "fail": (leased, lambda fp, lease: lease.fail("no luck")),
    "release": (leased, lambda fp, lease: lease.release()),
    "cancel": (lambda both: both.stand.task(), lambda fp, task_id: fp.cancel(task_id)),
    "erase": (lambda both: both.stand.task(), lambda fp, task_id: fp.erase(task_id)),
    "queue.set": (None, lambda fp, _: fp.queue_set("other", lease_seconds=9)),
    "scope.set_policy": (None, lambda fp, _: fp.set_policy(3)),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("verb", VERBS)
def test_a_command_that_meets_a_fault_on_the_way_is_carried_out_once(verb, fault):
    with pair() as both:
        prepare, call = VERBS[verb]
        there = prepare(both) if prepare else None
        before = both.entries()
        both.stub.script.append(FAULTS[fault])
        try:
            found = call(both.fp, there)
        except fencepost.ReceiptErased:  # a second erase says so: the first was carried out
            assert verb == "erase" and both.entries() == before + 1
            return
        entries = list(both.here.entries(before))
        assert len(entries) == 1, "one entry"
        if verb == "claim":
            assert [lease.task_id for lease in found] == [t.task_id for t in both.here.tasks()]
            assert found[0].fence == both.here.task(found[0].task_id).fence
        elif verb != "erase":  # its opening goes with what it erased
            assert found == entries[0].receipt, "the receipt of that very entry"
        tries = [seen for seen in both.stub.seen if seen.method == "POST"]
        assert len({(t.body, t.target, t.headers.get("idempotency-key")) for t in tries}) == 1
        assert len(tries) == (1 if fault in ("doubled", "hung up") else 2)


@pytest.mark.parametrize("fault", ["lost", "reset", "cut in the body", "unknown", "bad gateway"])
def test_without_an_answer_the_key_is_told_and_asking_again_with_it_gives_the_receipt(fault):
    with pair() as both:
        both.stub.default = FAULTS[fault]
        with pytest.raises(OutcomeUnknown) as caught:
            both.fp.enqueue(QUEUE, "once", key="t")
        both.stub.default = None
        key = caught.value.key
        receipt = both.fp.enqueue(QUEUE, "once", key="t", idempotency_key=key)
        assert [task.task_id for task in both.here.tasks()] == [receipt.task_id]
        assert both.fp.receipt(key) == receipt


def test_a_lease_command_whose_outcome_is_unknown_is_found_by_its_bytes():
    with pair() as both:
        lease = leased(both)
        both.stub.default = stub.lost
        with pytest.raises(OutcomeUnknown) as caught:
            lease.complete("done")
        both.stub.default = None
        assert both.fp.receipt(caught.value.key) == lease.complete("done")


@pytest.mark.parametrize("command", [c.Claim("w", (QUEUE,)), c.Purge()])
def test_a_command_that_nothing_makes_a_replay_is_not_sent_again(command):
    with pair() as both:
        both.fp.scope()  # a connection is kept
        both.stub.script.append(stub.lost)
        (outcome,) = both.fp.execute([c.Request.of(command)])
        assert outcome.issues == ("outcome_unknown",) and outcome.facts == {"key": None}
        posts = [seen for seen in both.stub.seen if seen.method == "POST"]
        assert len(posts) == 1 and posts[0].connection == 1, "once, on a connection of its own"


def test_such_a_command_is_sent_again_where_surely_nothing_was_done():
    with pair() as both:
        both.stub.script.extend([stub.refusing("store_unavailable"), stub.saying(429)])
        (outcome,) = both.fp.execute([c.Request.of(c.Purge())])
        assert outcome.accepted and len(both.stub.seen) == 3


def test_a_sweep_is_sent_again_since_what_lapsed_has_lapsed():
    with pair() as both:
        both.stub.script.append(stub.lost)
        assert both.fp.sweep().accepted
        assert len(both.stub.seen) == 2


def test_a_renew_is_sent_again_and_leaves_no_entry():
    with pair() as both:
        lease = leased(both)
        before = both.entries()
        both.stub.script.append(stub.lost)
        lease.renew(120)
        assert both.entries() == before and lease.remaining() == 120.0


def test_where_nobody_listens_nothing_was_done_and_it_says_so():
    with pair() as both:
        both.stub.close()
        with pytest.raises(Unavailable, match=r"no connection to http://127\.0") as caught:
            both.fp.enqueue(QUEUE, 1)
        assert not isinstance(caught.value, OutcomeUnknown)
        assert 55 < sum(both.slept) <= 60, "tried until the deadline"


def test_where_it_was_lost_once_and_then_nobody_listens_the_outcome_is_unknown():
    def last(exchange):
        exchange.stub._listener.shutdown(socket.SHUT_RDWR)
        return stub.lost(exchange)

    with pair() as both:
        both.stub.script.append(last)
        with pytest.raises(OutcomeUnknown, match="no connection"):
            both.fp.enqueue(QUEUE, 1)


def test_a_stale_connection_is_replaced_at_once_and_without_a_pause():
    with pair() as both:
        both.stub.script.append(stub.hung_up)
        both.fp.scope()
        assert both.fp.enqueue(QUEUE, 1).task_id
        assert both.slept == [] and [s.connection for s in both.stub.seen][-1] == 1


def test_an_answer_to_somebody_elses_command_is_no_answer():
    """A proxy that mixes up two answers: the receipt must be that of the bytes that were sent."""
    with pair() as both:
        other = both.here.enqueue(QUEUE, "other")
        told = {"status": "accepted", "issues": [], "message": "", "receipt": other.to_json(),
                "task_ids": [other.task_id], "leases": [], "facts": {}}  # fmt: skip
        both.stub.script.append(lambda x: (x.send(both.stub.told(told)), True)[1])
        mine = both.fp.enqueue(QUEUE, "mine")
        assert both.here.task(mine.task_id).payload == "mine" and len(both.stub.seen) == 2


def test_a_batch_whose_answer_is_lost_is_carried_out_once():
    with pair() as both:
        both.stub.script.append(stub.lost)
        commands = [c.Enqueue(QUEUE, (c.NewTask(n),)) for n in range(5)]
        outcomes = both.fp.execute(commands)
        assert [o.replayed for o in outcomes] == [True] * 5
        assert [t.task_id for t in both.here.tasks()] == [o.task_ids[0] for o in outcomes]


def test_a_batch_without_an_answer_tells_each_key_and_sends_no_more():
    with pair() as both:
        both.stub.default = stub.lost
        claims = [c.Request.of(c.Purge())]
        batch = [c.Enqueue(QUEUE, (c.NewTask(n),)) for n in range(3)]
        outcomes = both.fp.execute([*batch, *claims])
        assert [o.issues for o in outcomes] == [("outcome_unknown",)] * 3 + [("store_unavailable",)]
        keys = [outcome.facts["key"] for outcome in outcomes[:3]]
        assert len(set(keys)) == 3
        assert all(key.encode() in both.stub.seen[0].body for key in keys)


def test_a_command_spoilt_on_the_way_there_is_sent_once_more_and_a_malformed_one_told():
    with pair() as both:
        both.stub.script.append(stub.refusing("invalid_request"))
        assert both.fp.enqueue(QUEUE, 1).task_id
        both.stub.script.extend([stub.refusing("invalid_request")] * 2)
        with pytest.raises(fencepost.InvalidRequest):
            both.fp.enqueue(QUEUE, 1)


@pytest.mark.parametrize("seed", range(12))
def test_through_many_faults_each_task_is_completed_once(seed):
    chance = random.Random(seed)
    with pair() as both:

        def any_fault(exchange):
            weights = [30] + [1] * len(FAULTS)
            (fault,) = chance.choices([stub.right, *FAULTS.values()], weights)
            return fault(exchange)

        both.stub.default = any_fault
        both.fp.enqueue_many(QUEUE, [{"payload": n, "key": str(n)} for n in range(20)])
        done = {}
        while leases := both.fp.claim(QUEUE, worker_id="w", limit=3):
            for lease in leases:
                done[lease.payload] = lease.complete(lease.payload)
        assert sorted(done) == list(range(20)), f"seed {seed}"
        assert both.here.verify().clean
        for task in both.here.tasks():
            (result,) = both.here.results(task.task_id)
            assert done[result.value].task_id == task.task_id
            assert done[result.value].number == result.entry, f"seed {seed}"


def test_an_answer_that_is_cut_and_has_no_digest_is_no_answer():
    def cut(exchange):
        lines = exchange.answer().split(b"\r\n")
        raw = b"\r\n".join(line for line in lines if not line.startswith(b"Content-Digest"))
        body = raw.partition(b"\r\n\r\n")[2]
        exchange.send(raw.replace(body, b'{"scope":"s"}'))
        return False

    with pair() as both:
        both.stub.script.append(cut)
        assert both.fp.scope() == both.here.scope() and len(both.stub.seen) == 2


def test_what_is_spoilt_on_the_way_back_is_read_again():
    def spoilt(exchange):
        exchange.send(exchange.answer().replace(b"right", b"wrong"))
        return True

    with pair() as both:
        task_id = both.stand.task("right")
        both.stub.script.append(spoilt)
        assert both.fp.task(task_id).payload == "right" and len(both.stub.seen) == 2
