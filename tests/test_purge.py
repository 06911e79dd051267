"""Retention: what a purge takes, and what stays provable without it."""

from __future__ import annotations

from helpers.lab import OUTBOX, QUEUE, Lab, ask, completion
from helpers.leftovers import files_of

import fencepost
from fencepost import commands as c
from fencepost.clock import FakeClock


def test_a_purge_in_a_batch_drops_the_bytes_of_entries_that_were_about_its_task_alone(tmp_path):
    clock = FakeClock(1_795_000_000_000_000)
    with fencepost.open(str(tmp_path / "q.db"), create=True, clock=clock) as fp:
        fp.queue_set("q", retain_seconds=60)
        fp.enqueue("q", "gone")
        (lease,) = fp.claim("q", worker_id="w1")
        done = lease.complete("result")
        kept = fp.prove(done)
        clock.advance(61)

        (outcome,) = fp.execute([c.Purge("q")])

        assert outcome.task_ids == (lease.task_id,)
        bodies = {view.number: view.body for view in fp.entries()}
        assert bodies[done.number] is None
        assert bodies[outcome.receipt.number] == outcome.receipt.body
        assert fp.verify().problems == ()
        assert kept.verify()


def test_a_sweep_or_a_purge_that_finds_nothing_leaves_nothing():
    with fencepost.open(":memory:", create=True) as fp:
        fp.enqueue("q", 1)
        before = [view.number for view in fp.entries()]

        assert fp.sweep().receipt is None
        assert fp.purge("q").receipt is None
        assert [view.number for view in fp.entries()] == before


def test_the_retention_of_a_scope_can_be_lifted_again():
    clock = FakeClock(1_795_000_000_000_000)
    with fencepost.open(":memory:", create=True, clock=clock) as fp:
        task_id = fp.enqueue("q", 1).task_id
        fp.cancel(task_id)
        fp.set_policy(retain_seconds=60)
        fp.set_policy(retain_seconds=None)
        clock.advance(1_000_000)

        assert fp.purge().task_ids == ()
        assert fp.scope().retain_seconds is None
        assert fp.verify().problems == ()


def answer(lab, sent):
    """What it gets when it is sent again: its receipt, or the code that leads."""
    outcome = ask(lab.fp, sent)
    return outcome.receipt or outcome.issues[0]


def purge_one(lab, task_id):
    """End this task and purge it alone."""
    lab.fp.set_policy(retain_seconds=0)
    lab.fp.cancel(task_id)
    assert lab.fp.purge().task_ids == (task_id,)
    lab.fp.seal()
    assert lab.fp.verify().clean


def test_a_completion_is_answered_again_though_what_it_owed_has_been_purged(tmp_path):
    lab = Lab(tmp_path / "work.db")
    lab.fp.queue_set(QUEUE, retain_seconds=1_000)
    lease = lab.lease()
    done = c.Request.of(completion(lease, "answer", followups=({"queue": "q", "payload": 1},)))
    first = ask(lab.fp, done).receipt
    for task in [*lab.fp.tasks("q"), *lab.fp.tasks(OUTBOX)]:
        purge_one(lab, task.task_id)
        assert answer(lab, done) == first
    assert lab.fp.task(lease.task_id).state == "done"
    lab.close()


def test_an_enqueue_is_answered_again_until_the_last_of_its_tasks_is_purged(tmp_path):
    lab = Lab(tmp_path / "work.db")
    sent = c.Request.of(c.Enqueue(QUEUE, tuple(c.NewTask(n) for n in range(3))), "three")
    first = ask(lab.fp, sent)
    for number, task_id in enumerate(first.task_ids, start=1):
        purge_one(lab, task_id)
        assert answer(lab, sent) == (first.receipt if number < 3 else "receipt_erased")
    lab.clock.advance(32 * 86_400)
    purge_one(lab, lab.offer())
    assert ask(lab.fp, sent).task_ids != first.task_ids, "after the horizon the key is free"
    lab.close()


def test_a_damaged_entry_does_not_stop_a_purge_and_is_named_still(tmp_path):
    lab = Lab(tmp_path / "work.db", obligations=False)
    lab.fp.set_policy(retain_seconds=0)
    task_id = lab.offer()
    lab.fp.cancel(task_id)
    with lab.sql() as connection:
        connection.execute("update fencepost_entry set body = x'7b00' where number = 2")
    assert lab.fp.purge().task_ids == (task_id,)
    assert "entry 2" in {problem.place for problem in lab.fp.verify().problems}
    lab.close()


def test_an_erase_closes_what_a_purge_of_its_neighbour_has_left_open(tmp_path):
    lab = Lab(tmp_path / "work.db")
    sent = c.Request.of(c.Enqueue(QUEUE, (c.NewTask("a"), c.NewTask("b"))), "two")
    first = ask(lab.fp, sent)
    purge_one(lab, first.task_ids[0])
    salt, digest = (bytes.fromhex(first.receipt.to_json()["opening"][n])
                    for n in ("salt", "request_sha256"))  # fmt: skip
    assert salt in files_of(lab.path) and digest in files_of(lab.path)
    lab.fp.erase(first.task_ids[1])
    assert answer(lab, sent) == "receipt_erased"
    assert salt not in files_of(lab.path) and digest not in files_of(lab.path)
    assert lab.fp.verify().clean
    lab.close()
