"""More laws: attempts, claims, results and what follows from them."""

from __future__ import annotations

import pytest

from fencepost import commands as c
from fencepost.rules import fence as fences
from helpers.faults import replace_function
from helpers.laws import law, refused_by
from helpers.stand import QUEUE, SECOND, WORKER, Make, Stand, binding

ONE, TWO = {"row": 1}, {"row": 2}


def results(stand: Stand, task_id: str) -> list[tuple[int, int, str]]:
    """(revision, round, commitment) of each accepted result."""
    return [(r.revision, r.round, r.commitment) for r in stand.fp.results(task_id)]


# --- attempts and lapses ----------------------------------------------------------------------


@law
def a_killed_worker_counts_as_an_attempt_and_a_poison_task_runs_out(make: Make) -> None:
    with make() as stand:
        stand.fp.queue_set(QUEUE, max_attempts=2)
        task_id = stand.task()
        for attempt in (1, 2):
            assert stand.claim().attempt == attempt
            stand.clock.advance(60)
        assert stand.fp.claim(QUEUE, worker_id=WORKER) == []
        assert stand.fp.task(task_id).state == "dead"


@law
def a_failed_task_waits_at_least_half_and_at_most_all_of_its_back_off(make: Make) -> None:
    for seed in range(6):
        with make() as stand:
            stand.fp.queue_set(QUEUE, backoff_seconds=10, max_backoff_seconds=15)
            for number in range(seed):
                stand.task(number, "other")  # moves the draw on
            lease = stand.leased()
            for longest in (10, 15):
                lease.fail()
                wait = stand.fp.task(lease.task_id).due_at - stand.fp.now()
                assert longest * SECOND / 2 <= wait <= longest * SECOND
                stand.clock.advance(wait / SECOND - 1 / SECOND)
                assert stand.fp.claim(QUEUE, worker_id=WORKER) == []
                stand.clock.advance(1 / SECOND)
                lease = stand.claim()


@law
def a_failure_leads_to_ready_dead_or_blocked_as_it_says(make: Make) -> None:
    for then, attempts, state in (("retry", 2, "ready"), ("retry", 1, "dead"),
                                  ("give_up", 2, "dead"), ("block", 1, "blocked")):  # fmt: skip
        with make() as stand:
            lease = stand.leased(max_attempts=attempts)
            lease.fail("why", then=then)
            task = stand.fp.task(lease.task_id)
            assert (task.state, task.reason) == (state, "why")


@law
def a_lapse_leads_where_the_queue_says(make: Make) -> None:
    for settle in ("sweep", "claim"):
        for on_lapse, attempts, state in (("retry", 2, "ready"), ("retry", 1, "dead"),
                                          ("reconcile", 2, "blocked")):  # fmt: skip
            with make() as stand:
                stand.fp.queue_set(QUEUE, on_lapse=on_lapse)
                lease = stand.leased(max_attempts=attempts)
                stand.clock.advance(60)
                if settle == "sweep":
                    assert stand.fp.sweep().task_ids == (lease.task_id,)
                    assert stand.fp.task(lease.task_id).state == state
                else:
                    taken = stand.fp.claim(QUEUE, worker_id="v")
                    assert len(taken) == (state == "ready")
                    after = "leased" if taken else state
                    assert stand.fp.task(lease.task_id).state == after


@law
def a_sweep_leaves_live_leases_alone(make: Make) -> None:
    with make() as stand:
        lease = stand.leased()
        stand.clock.advance(59)
        assert stand.ask(c.Sweep()).task_ids == ()
        lease.complete()


# --- claims -----------------------------------------------------------------------------------


@law
def claims_go_by_priority_and_then_by_age_and_never_before_the_time(make: Make) -> None:
    with make() as stand:
        old, young = stand.task("old"), stand.task("young")
        high = stand.task("high", priority=5)
        later = stand.task("later", priority=9, due_at="2026-01-01T00:00:10Z")
        stand.task("elsewhere", "other")
        taken = [lease.task_id for lease in stand.fp.claim(QUEUE, worker_id=WORKER, limit=9)]
        assert taken == [high, old, young]
        stand.clock.advance(10 - 1 / SECOND)
        assert stand.fp.claim(QUEUE, worker_id=WORKER) == []
        stand.clock.advance(1 / SECOND)
        assert stand.claim().task_id == later


@law
def a_live_lease_is_never_given_twice(make: Make) -> None:
    with make() as stand:
        lease = stand.leased()
        claim = c.Claim("v", (QUEUE,), limit=5)
        told = stand.fp.execute([claim, c.Claim("v", task_id=lease.task_id), claim])
        assert [o.task_ids for o in told] == [(), (), ()]
        stand.task()
        told = stand.fp.execute([claim, claim])
        assert [len(o.task_ids) for o in told] == [1, 0]


@law
def a_paused_queue_is_skipped_beside_others_and_refuses_alone(make: Make) -> None:
    with make() as stand:
        stand.task(queue="a")
        stand.task(queue="b")
        stand.fp.queue_set("a", paused=True)
        (lease,) = stand.fp.claim(("a", "b"), worker_id=WORKER, limit=5)
        assert lease.queue == "b"
        assert refused_by(lambda: stand.fp.claim("a", worker_id=WORKER)) == ("queue_paused",)


@law
def a_lease_of_another_scope_or_queue_is_not_claimed(make: Make) -> None:
    with make() as stand:
        stand.task()
        assert stand.fp.as_caller("x", scope="t").claim(QUEUE, worker_id=WORKER) == []
        assert stand.fp.claim("other", worker_id=WORKER) == []


# --- results ----------------------------------------------------------------------------------


@law
def each_result_is_one_revision_and_its_commitment_is_open(make: Make) -> None:
    with make() as stand:
        lease = stand.leased()
        assert lease.submit(ONE, expected_revision=0).revision == 1
        assert lease.submit(TWO, expected_revision=1).revision == 2
        assert lease.complete(expected_revision=2).revision == 2
        assert results(stand, lease.task_id) == [(1, 1, "open"), (2, 1, "open")]


@law
def a_result_counts_once_in_a_round_and_afresh_in_the_next(make: Make) -> None:
    with make() as stand:
        stand.fp.queue_set(QUEUE, destinations=["out"])
        lease = stand.leased()
        first = lease.submit(ONE)
        told = stand.ask(c.Submit(**binding(lease), result=ONE, epoch=0))
        assert told.issues == ("duplicate_result",) and told.facts["receipt"] == first.number
        lease.complete(ONE)
        assert results(stand, lease.task_id) == [(1, 1, "open")]
        stand.fp.requeue(lease.task_id)
        stand.claim().submit(ONE)
        assert results(stand, lease.task_id) == [(1, 1, "open"), (2, 2, "open")]
        assert len(list(stand.fp.tasks("out"))) == 2


@law
def a_result_is_told_to_be_recorded_to_its_worker_and_fence_alone(make: Make) -> None:
    """Who does not hold the lease cannot learn whether what he guesses has been handed in."""
    with make() as stand:
        stand.task()
        stand.claim().release()  # so that there is a fence below
        lease = stand.claim()
        first = lease.submit(ONE)
        for right, code in (
            ({"worker_id": "v"}, "wrong_worker"), ({"fence": lease.fence + 1}, "unknown_fence"),
            ({"fence": lease.fence - 1}, "stale_fence"),
        ):  # fmt: skip
            for result in (ONE, TWO):
                told = stand.ask(c.Submit(**binding(lease, **right), result=result, epoch=0))
                assert (told.issues, "receipt" in told.facts) == ((code,), False)
        stand.clock.advance(60)
        late = stand.ask(c.Submit(**binding(lease), result=ONE, epoch=0))
        assert late.issues == ("lease_expired", "duplicate_result")
        assert late.facts["receipt"] == first.number


@law
def the_same_result_of_two_tasks_is_two_results(make: Make) -> None:
    with make() as stand:
        for worker in ("w", "v"):
            lease = stand.leased(worker)
            lease.submit(ONE)
            assert results(stand, lease.task_id) == [(1, 1, "open")]


@law
def every_accepted_result_owes_one_message_to_each_destination(make: Make) -> None:
    with make() as stand:
        stand.fp.queue_set(QUEUE, destinations=["out", "audit"])
        lease = stand.leased()
        lease.submit(ONE)
        lease.complete(TWO)
        for queue in ("out", "audit"):
            owed = [stand.fp.task(task.task_id) for task in stand.fp.tasks(queue)]
            assert [task.payload["result"] for task in owed] == [ONE, TWO]
            assert [task.payload["revision"] for task in owed] == [1, 2]
            assert {task.payload["fencing_token"] for task in owed} == {lease.fence}
        none = stand.leased()
        none.complete()
        assert len(list(stand.fp.tasks("out"))) == 2


@law
def followups_come_with_their_completion_and_a_known_key_gives_the_known_task(make: Make) -> None:
    with make() as stand:
        known = stand.task(1, "next", key="k")
        lease = stand.leased()
        new = ({"queue": "next", "payload": 1, "key": "k"}, {"queue": "next", "payload": 2})
        stand.ask(c.Complete(**binding(lease), followups=new))
        tasks = list(stand.fp.tasks("next"))
        assert len(tasks) == 2 and tasks[0].task_id == known
        assert tasks[1].parent == lease.task_id


@law
def a_known_task_key_gives_the_task_and_adds_none(make: Make) -> None:
    with make() as stand:
        first = stand.task(ONE, key="k")
        assert stand.task(ONE, key="k") == first
        told = stand.ask(c.Enqueue(QUEUE, ({"payload": TWO, "key": "k"},)))
        assert told.issues == ("key_conflict",)
        assert stand.task(ONE, "other", key="k") != first
        assert stand.task(ONE, key="l") != first
        assert len(list(stand.fp.tasks())) == 3


@law
def a_late_result_is_kept_aside_and_a_forged_one_is_not(make: Make) -> None:
    with make() as stand:
        stand.fp.queue_set(QUEUE, keep_refused=2)
        lease = stand.leased()
        stand.ask(c.Submit(**binding(lease, fence=9), result=ONE))
        stand.clock.advance(60)
        stand.ask(c.Submit(**binding(lease, worker_id="v"), result=ONE))  # never had this fence
        assert list(stand.fp.refused(lease.task_id)) == []
        for number in range(4):
            stand.ask(c.Submit(**binding(lease), result=number))
        kept = [(r.value, r.issues) for r in stand.fp.refused(lease.task_id)]
        assert kept == [(2, ("lease_expired",)), (3, ("lease_expired",))]


@law
def the_guard_compares_with_what_was_presented(make: Make) -> None:
    """With the rule gone the second lock alone must hold, for a fence and for a revision."""
    with pytest.MonkeyPatch.context() as patch, make() as stand:
        old = stand.leased()
        old.release()
        lease = stand.claim()
        lease.submit(ONE)
        replace_function(patch, fences.stale_fence, lambda *_: None)
        told = stand.ask(c.Submit(**binding(old), result=TWO))
        assert told.issues == ("guard_tripped",)
        assert results(stand, lease.task_id) == [(1, 1, "open")]
