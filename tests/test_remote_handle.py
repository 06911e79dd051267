"""One face: what a local handle can be asked, a remote one can, and answers the same."""

from __future__ import annotations

import asyncio
import inspect
import threading

import pytest
from helpers import stub
from helpers.remote import live, pair
from helpers.stand import QUEUE, SCOPE, UNKNOWN, WORKER
from helpers.together import at_once

import fencepost
from fencepost import commands as c
from fencepost.handle import Handle
from fencepost.issues import InvalidRequest, JournalBroken, NotFound, Unavailable
from fencepost.journal.checkpoint import Checkpoint
from fencepost.journal.proof import ConsistencyProof, Proof
from fencepost.remote import RemoteHandle, paths

# Of a face that serves others, and of the file.
ONLY_HERE = {"for_caller", "hand_in", "read", "knows", "page_secret", "queue_row", "any_token",
             "caller", "check_token", "may_wait", "sleep", "hinted"}  # fmt: skip
INSTEAD = {"within": "key", "within_async": "key", "copy_to": "fencepost backup",
           "examined": "fencepost doctor", "held": "fencepost copy", "verify": "fencepost verify",
           "changed": "wait_seconds", "probe_turn": "readyz", "begin_writer": "fencepost adopt",
           "scope_names": "where it lies",
           "as_caller": "token"}  # fmt: skip


def public(kind):
    return {name for name in dir(kind) if not name.startswith("_") and not name.endswith("_page")}


def test_whatever_a_handle_has_the_remote_one_has_with_the_same_arguments():
    missing = public(Handle) - public(RemoteHandle) - ONLY_HERE
    assert missing == set()
    for name in public(Handle) & public(RemoteHandle) - set(INSTEAD):
        found = [getattr(kind, name) for kind in (Handle, RemoteHandle)]
        if any(map(callable, found)):  # what is no method is a value that both have
            here, there = map(inspect.signature, found)
            assert list(here.parameters) == list(there.parameters), name


@pytest.mark.parametrize("name", INSTEAD)
def test_what_cannot_be_done_over_http_says_what_to_do_instead(name):
    takes_one = ("probe_turn", "held", "within", "as_caller", "begin_writer")
    given = [1] if name in takes_one else []
    with pair() as both, pytest.raises(InvalidRequest, match=INSTEAD[name]):
        getattr(both.fp, name)(*given)


def test_everything_that_can_be_read_is_the_same_here_and_there():
    with pair() as both:
        live(both.stand)
        here, there = both.here, both.fp
        for read in (
            lambda fp: list(fp.tasks()), lambda fp: list(fp.tasks(QUEUE, state="done")),
            lambda fp: [fp.task(task.task_id) for task in fp.tasks()],
            lambda fp: [list(fp.results(t.task_id)) for t in fp.tasks()],
            lambda fp: [list(fp.refused(t.task_id)) for t in fp.tasks()],
            lambda fp: [list(fp.history(t.task_id)) for t in fp.tasks()],
            lambda fp: list(fp.entries()), lambda fp: list(fp.entries(5)),
            lambda fp: list(fp.checkpoints()), lambda fp: fp.stats(), lambda fp: fp.now(),
            lambda fp: fp.queue(QUEUE), lambda fp: fp.scope(),
            lambda fp: [(row.queue, row.settings, row.is_destination) for row in fp.queue_rows()],
            lambda fp: fp.about(), lambda fp: fp.seal(), lambda fp: fp.prove(3),
            lambda fp: fp.prove_consistency(next(fp.checkpoints())),
            lambda fp: fp.prove_consistency(next(fp.checkpoints()).size),
        ):  # fmt: skip
            assert read(there) == read(here)


@pytest.mark.parametrize("key", ["a/b", "..", ".", "a%2Fb", "?x", "#", "a;b", "a+b", "a&b=c", "~"])
def test_a_key_of_any_characters_finds_its_task_and_its_receipt(key):
    with pair() as both:
        receipt = both.fp.enqueue(QUEUE, 1, key=key, idempotency_key=key)
        assert both.fp.task_by_key(QUEUE, key).task_id == receipt.task_id
        assert both.fp.receipt(key) == receipt


@pytest.mark.parametrize("call", [
    lambda fp: fp.task(UNKNOWN), lambda fp: fp.task_by_key(QUEUE, "no"),
    lambda fp: fp.receipt("no"),
    lambda fp: fp.results(UNKNOWN), lambda fp: fp.history(UNKNOWN), lambda fp: fp.cancel(UNKNOWN),
    lambda fp: fp.prove(99), lambda fp: fp.refused(UNKNOWN),
])  # fmt: skip
def test_what_is_not_there_raises_at_once_what_it_raises_here(call):
    with pair() as both:
        with pytest.raises(NotFound):
            call(both.here)
        with pytest.raises(NotFound):
            call(both.fp)


def test_a_refusal_raises_the_same_class_with_the_same_outcome():
    with pair() as both:
        lease = both.stand.leased()
        both.clock.advance(61)
        both.stand.claim()
        outcomes = []
        for fp in (both.here, both.fp):
            with pytest.raises(fencepost.StaleFence) as caught:
                fp.lease(lease.task_id, worker_id=WORKER, fence=lease.fence).complete(1)
            outcomes.append(caught.value.outcome)
        assert outcomes[0] == outcomes[1] and outcomes[0].facts["fencing_token"] == 2


def test_a_batch_gives_each_command_its_own_outcome_as_here():
    with pair() as both:
        commands = [c.Enqueue(QUEUE, (c.NewTask(1, "k"),)), c.Cancel(UNKNOWN),
                    c.Enqueue(QUEUE, (c.NewTask(2, "k"),)), c.Sweep()]  # fmt: skip
        outcomes = both.fp.execute(commands)
        assert [o.issues for o in outcomes] == [(), ("not_found",), ("key_conflict",), ()]
        assert both.stub.seen[0].path[-1] == "batch" and len(both.stub.seen) == 1
        assert both.fp.execute([]) == []


def test_a_long_batch_goes_in_slices_and_in_order(monkeypatch):
    monkeypatch.setattr(paths, "MAX_BATCH", 7)
    with pair() as both:
        outcomes = both.fp.execute([c.Enqueue(QUEUE, (c.NewTask(n),)) for n in range(30)])
        assert [both.here.task(o.task_ids[0]).payload for o in outcomes] == list(range(30))
        assert len(both.stub.seen) == 5
        monkeypatch.setattr(paths, "MAX_BATCH_BYTES", 1_000)
        both.fp.execute([c.Enqueue(QUEUE, (c.NewTask("x" * 400),)) for n in range(4)])
        assert len(both.stub.seen) == 9


def test_bytes_that_a_batch_could_not_keep_go_alone():
    """Space around an object is part of a command's bytes, and a batch would lose it."""
    with pair() as both:
        body = b' {"verb":"enqueue","queue":"q","tasks":[{"payload":1}]}\n'
        spaced = c.Request.read(body, "k1")
        found = both.fp.execute(
            [c.Enqueue(QUEUE, (c.NewTask(1),)), spaced, c.Request.of(c.Purge())]
        )
        assert all(outcome.accepted for outcome in found)
        assert [seen.path[-1] for seen in both.stub.seen] == ["tasks", "tasks", "purge"]
        assert both.stub.seen[1].body == body
        assert both.here.execute([spaced])[0].replayed


def test_many_tasks_are_enqueued_and_one_refusal_stops_it():
    with pair() as both:
        receipts = both.fp.enqueue_many(QUEUE, ({"payload": n} for n in range(1_100)))
        assert [len(receipt.task_ids) for receipt in receipts] == [250, 250, 250, 250, 100]
        both.here.revoke()
        with pytest.raises(fencepost.ScopeRevoked):
            both.fp.enqueue_many(QUEUE, [{"payload": 1}])


def test_a_claim_has_a_key_of_its_own_so_that_its_leases_come_again():
    with pair() as both:
        both.fp.enqueue_many(QUEUE, [{"payload": n} for n in range(3)])
        both.stub.script.extend([stub.lost, stub.cut(0.5)])
        leases = both.fp.claim(QUEUE, worker_id="w", limit=3)
        assert [lease.payload for lease in leases] == [0, 1, 2]
        assert {task.attempt for task in both.here.tasks()} == {1}
        keys = {
            seen.headers["idempotency-key"] for seen in both.stub.seen if "claims" in seen.target
        }
        assert len(keys) == 1


@pytest.mark.parametrize(("claim", "path"), [
    ({"queues": QUEUE}, "/v1/s/queues/q/claims"), ({"queues": ["q", "r"]}, "/v1/s/claims"),
    ({"task_id": UNKNOWN}, "/v1/s/claims"),
])  # fmt: skip
def test_a_claim_goes_to_the_path_of_what_it_names(claim, path):
    with pair() as both:
        try:
            both.fp.claim(worker_id="w", **claim)
        except NotFound:
            assert "task_id" in claim
        assert both.stub.seen[0].target == path


def test_what_is_sent_without_waiting_is_answered_in_a_future():
    with pair() as both:
        futures = [both.fp.send([c.Enqueue(QUEUE, (c.NewTask(n),))]) for n in range(20)]
        ids = [future.result(20)[0].task_ids[0] for future in futures]
        assert sorted(both.here.task(i).payload for i in ids) == list(range(20))
        names = [t.name for t in threading.enumerate() if t.name == "fencepost-remote"]
        assert len(names) == 8
        both.fp.close()
        assert not [t for t in threading.enumerate() if t.name == "fencepost-remote"]
        with pytest.raises(Unavailable, match="closed"):
            both.fp.send([c.Sweep()])


def test_a_future_tells_what_went_wrong_and_goes_with_asyncio():
    with pair() as both:

        async def main():
            one = asyncio.wrap_future(both.fp.send([c.Cancel(UNKNOWN)]))
            two = asyncio.to_thread(both.fp.enqueue, QUEUE, 2)
            return await asyncio.gather(one, two)

        (refused,), receipt = asyncio.run(main())
        assert refused.issues == ("not_found",) and both.here.task(receipt.task_id).payload == 2
        both.stub.close()
        with pytest.raises(Unavailable):
            both.fp.send([c.Sweep()]).result(20)


def test_threads_share_a_handle_and_its_connections():
    with pair() as both:

        def work(number):
            def call():
                for turn in range(10):
                    both.fp.enqueue(QUEUE, [number, turn])

            return call

        at_once(*[work(number) for number in range(6)])
        assert sorted(both.here.task(t.task_id).payload for t in both.here.tasks()) == [
            [n, m] for n in range(6) for m in range(10)
        ]
        assert both.stub.connections <= 6


def test_connections_are_kept_and_the_last_one_is_used_first():
    with pair() as both:
        for _ in range(5):
            both.fp.scope()
        assert both.stub.connections == 1
        both.fp.close()
        both.fp.scope()
        assert both.stub.connections == 2, "a closed handle opens anew when it is asked"


# -- proofs are checked by whoever asks for them


def test_a_proof_of_another_entry_or_one_that_does_not_hold_is_not_believed():
    with pair() as both:
        receipt = both.fp.enqueue(QUEUE, 1)
        other = both.fp.enqueue(QUEUE, 2)
        good = both.here.prove(receipt)
        bad = Proof(
            good.number, good.entry.replace(b"q", b"r"), good.size, good.path, good.checkpoint
        )
        for told in (bad, both.here.prove(other)):
            both.stub.script.append(
                lambda x, told=told: (x.send(x.stub.told(told.to_json())), 1)[1]
            )
            with pytest.raises(JournalBroken):
                both.fp.prove(receipt.number if told is bad else receipt)
        assert both.fp.prove(receipt) == good


def test_a_journal_that_does_not_go_on_from_a_kept_checkpoint_is_found_out():
    with pair() as both, pair() as other:
        both.fp.enqueue(QUEUE, 1)
        kept = both.fp.seal()
        both.fp.enqueue(QUEUE, 2)
        both.fp.seal()
        assert both.fp.prove_consistency(kept) == both.here.prove_consistency(kept)
        forged = Checkpoint(kept.origin, kept.size, bytes(32))
        with pytest.raises(JournalBroken, match="does not go on"):
            both.fp.prove_consistency(forged)
        other.fp.seal()
        with pytest.raises(JournalBroken, match="another one, or was cut"):
            other.fp.prove_consistency(Checkpoint(kept.origin, 7, bytes(32)))
        with pytest.raises(NotFound):
            both.fp.prove_consistency(1_000)
        bad = ConsistencyProof(kept.text(), kept.text(), (bytes(32),))
        both.stub.script.append(lambda x: (x.send(x.stub.told(bad.to_json())), True)[1])
        with pytest.raises(JournalBroken):
            both.fp.prove_consistency(kept.size)


def test_an_entry_that_is_not_under_its_leaf_hash_is_not_shown():
    with pair() as both:
        both.fp.enqueue(QUEUE, 1)
        (view,) = both.here.entries()
        told = {**view.to_json(), "leaf_hash": "ab" * 32}
        answer = {"entries": [told], "next_page_token": ""}
        both.stub.script.append(lambda x: (x.send(x.stub.told(answer)), True)[1])
        with pytest.raises(JournalBroken, match="entry 1"):
            list(both.fp.entries())


def test_a_receipt_that_does_not_open_its_entry_is_not_believed():
    with pair() as both:
        receipt = both.fp.enqueue(QUEUE, 1, idempotency_key="k")
        told = receipt._replace(salt=bytes(len(receipt.salt))).to_json()
        both.stub.script.append(lambda x: (x.send(x.stub.told(told)), True)[1])
        with pytest.raises(JournalBroken):
            both.fp.receipt("k")


def test_pages_that_go_in_a_circle_end():
    with pair() as both:
        task = both.here.task(both.stand.task()).to_json()
        both.stub.default = lambda x: (
            x.send(x.stub.told({"tasks": [task], "next_page_token": "again"})), True
        )[1]  # fmt: skip
        with pytest.raises(Unavailable, match="circle"):
            list(both.fp.tasks())


def test_the_scope_of_the_handle_is_in_every_path():
    with pair(scope="a:b@c") as both:
        both.fp.claim(QUEUE, worker_id="w")
        assert both.stub.seen[0].target == "/v1/a:b@c/queues/q/claims"
        assert SCOPE not in both.stub.seen[0].path
