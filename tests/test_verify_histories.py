"""Whatever history the product itself makes, verify finds it clean: no false alarm."""

from __future__ import annotations

import json
import random

import pytest
from helpers.histories import History
from helpers.lab import START
from helpers.workload import opened

from fencepost.clock import FakeClock
from fencepost.fields import MAX_INTEGER


@pytest.mark.parametrize("seed", range(6))
def test_any_history_is_clean_with_and_without_a_kept_checkpoint(seed):
    print("seed", seed)
    clock = FakeClock(START)
    with opened(":memory:", clock, seed=seed) as fp:
        history = History(fp, clock, random.Random(seed))
        kept = []
        accepted = 0
        for _ in range(4):
            accepted += history.live(100)
            kept.append(fp.seal())
            assert fp.verify().problems == ()
        for head in kept:
            assert fp.verify(head).problems == ()
            assert fp.prove_consistency(head).verify()
        verbs = {json.loads(view.body)["verb"] for view in fp.entries() if view.body}
        print(accepted, sorted(verbs))
        assert accepted > 200
        assert {"complete", "fail", "release", "sweep", "purge", "clock.reset"} <= verbs


def test_a_new_epoch_within_a_claim_is_clean():
    with opened(":memory:") as fp:
        for number in range(4):
            fp.enqueue("q", number)
        fp._store._write.execute("update fencepost_store set last_fence = ?", ((1 << 32) - 3,))
        fences = [lease.fence for lease in fp.claim("q", worker_id="w", limit=4)]
        assert fences == [(1 << 32) - 2, (1 << 32) - 1, 1 << 32, (1 << 32) + 1]
        assert fp.about()["epoch"] == 1
        found = fp.verify()
        assert [(p.code, p.place) for p in found.problems] == [("fence", "entry 5")]  # the jump
        assert max(fences) < MAX_INTEGER


def test_a_purge_keeps_the_word_on_what_still_lives_and_drops_it_when_the_last_is_gone():
    clock = FakeClock(START)
    with opened(":memory:", clock) as fp:
        fp.queue_set("q", retain_seconds=1, destinations=["out"])
        fp.queue_set("next", retain_seconds=100)
        fp.enqueue("q", 1)
        (lease,) = fp.claim("q", worker_id="w")
        done = lease.complete("r", followups=[{"queue": "next", "payload": 2}])
        clock.advance(10)
        fp.purge("q")

        def body():
            (view,) = (view for view in fp.entries() if view.number == done.number)
            return view.body

        assert body() == done.body  # a follow-up and an obligation rest on it
        (follow,) = fp.claim("next", worker_id="w")
        follow.complete()
        fp.set_policy(retain_seconds=50)
        (owed,) = fp.claim("out", worker_id="w")
        owed.complete()
        clock.advance(60)
        fp.purge("out")
        assert body() == done.body  # the follow-up is kept for longer
        clock.advance(60)
        fp.purge("next")
        assert body() is None
        found = fp.verify()
        assert (found.problems, found.tasks, found.purged) == ((), 0, 3)


def test_a_completion_that_adds_nothing_is_clean_though_the_result_before_it_is_purged():
    """Its bytes outlive those of the submit that had handed the result in, for a follow-up's sake:
    whether it has stepped the revision itself, and so owes a message, is not known any more."""
    with opened(":memory:", FakeClock(START)) as fp:
        fp.queue_set("q", retain_seconds=0, destinations=["out"])
        fp.queue_set("out", retain_seconds=0)
        fp.enqueue("q", 1)
        (lease,) = fp.claim("q", worker_id="w")
        submitted = lease.submit("r")
        done = lease.complete("r", followups=[{"queue": "next", "payload": 2}])
        (owed,) = fp.tasks("out")
        fp.cancel(owed.task_id)
        fp.purge()
        bodies = {view.number: view.body for view in fp.entries()}
        assert bodies[submitted.number] is None and bodies[done.number] == done.body
        assert fp.verify().problems == ()
