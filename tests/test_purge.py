"""Retention: what a purge takes, and what stays provable without it."""

from __future__ import annotations

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
