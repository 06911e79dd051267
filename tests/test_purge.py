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
