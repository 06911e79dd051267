"""Laws of who is told what has come of a task, and of results that were accepted elsewhere."""

from __future__ import annotations

from typing import Any

from fencepost import commands as c
from fencepost.deliveries import event
from helpers.laws import law
from helpers.stand import QUEUE, Make, Stand, binding

STATES = ("done", "dead", "cancelled", "blocked")
ONE, TWO = {"row": 1}, {"row": 2}


def subscribed(stand: Stand, **settings: Any) -> None:
    """A destination for each state, and one of which nothing is said."""
    told = {state: [state] for state in STATES}
    stand.fp.queue_set(QUEUE, destinations=[*STATES, "plain"], outcomes=told, **settings)


def owed(stand: Stand, queue: str) -> list[dict[str, Any]]:
    """What stands on the destination, the oldest first."""
    return [stand.fp.task(task.task_id).payload for task in stand.fp.tasks(queue)]


def told(stand: Stand) -> dict[str, int]:
    """By destination how much it is owed; what is owed nothing is left out."""
    counts = {queue: len(owed(stand, queue)) for queue in (*STATES, "plain")}
    return {queue: number for queue, number in counts.items() if number}


def accepted(task_id: str, **changed: Any) -> c.Import:
    """What a receiver's receipt says of the first revision."""
    given = {"revision": 1, "epoch": 0, "fence": 9, "final": True, "evidence": "there",
             "result": ONE}  # fmt: skip
    return c.Import(task_id, **{**given, **changed})


def restored(stand: Stand) -> Stand:
    """There is an epoch before the store's own."""
    stand.fp.clock_reset()
    return stand


@law
def a_state_obliges_whoever_asked_for_it(make: Make) -> None:
    with make() as stand:
        subscribed(stand)
        stand.leased().complete(ONE)
        assert told(stand) == {"done": 1, "plain": 1}
        stand.leased().fail("torn", then="give_up")
        assert told(stand) == {"done": 1, "dead": 1, "plain": 1}
        stand.fp.cancel(stand.task())
        lease = stand.leased()
        lease.fail(then="block")
        assert told(stand) == dict.fromkeys((*STATES, "plain"), 1)
        stand.fp.resolve(lease.task_id, "give_up")
        assert told(stand)["dead"] == 2 and owed(stand, "dead")[0]["reason"] == "torn"


@law
def a_lapse_obliges_as_any_other_end(make: Make) -> None:
    for by_claim in (False, True):
        with make() as stand:
            subscribed(stand)
            lease = stand.leased(max_attempts=1)
            stand.clock.advance(61)
            if by_claim:
                assert stand.fp.claim(QUEUE, worker_id="v") == []
            else:
                stand.fp.sweep()
            assert told(stand) == {"dead": 1}
            assert owed(stand, "dead")[0]["task_id"] == lease.task_id


@law
def each_outcome_of_a_task_has_a_name_of_its_own(make: Make) -> None:
    with make() as stand:
        subscribed(restored(stand), on_lapse="reconcile", max_attempts=9)
        stand.clock.advance(1)
        task_id = stand.task()
        for _ in range(2):  # never claimed: the rounds tell these apart
            stand.fp.cancel(task_id)
            stand.fp.requeue(task_id)
        for end in ("block", "block", "lapse", "lapse"):  # one round: the leases do
            stand.claim_of(task_id).fail(then=end) if end == "block" else stand.claim_of(task_id)
            stand.clock.advance(61)
            stand.fp.sweep()
            stand.fp.resolve(task_id, "retry")
        for _ in range(2):
            stand.claim_of(task_id).fail(then="block")
            stand.fp.resolve(task_id, "give_up")
            stand.ask(accepted(task_id, revision=stand.fp.task(task_id).revision + 1))
            stand.fp.requeue(task_id)
            stand.claim_of(task_id).complete(ONE)
            stand.fp.requeue(task_id)
        said = {queue: owed(stand, queue) for queue in (*STATES, "plain")}
        assert {queue: len(each) for queue, each in said.items()} == {
            "done": 4, "dead": 2, "cancelled": 2, "blocked": 6, "plain": 4
        }  # fmt: skip
        names = [event.operation_of(each) for queue in said for each in said[queue]]
        assert len(set(names)) == len(names) == 18


@law
def a_sweep_takes_no_more_than_its_entry_can_name(make: Make) -> None:
    with make() as stand:
        names = [f"d{n}" for n in range(8)]
        outcomes = {name: ["dead"] for name in names}
        stand.fp.queue_set(QUEUE, destinations=names, outcomes=outcomes, max_attempts=1)
        stand.fp.enqueue_many(QUEUE, [{"payload": n} for n in range(24)])
        stand.fp.claim(QUEUE, worker_id="w", limit=24)
        stand.clock.advance(61)
        assert [len(stand.fp.sweep(limit=200).task_ids) for _ in range(2)] == [22, 2]


@law
def an_erase_in_the_batch_takes_along_what_a_state_has_brought_about(make: Make) -> None:
    with make() as stand:
        subscribed(stand)
        task_id = stand.task(key="zxq")
        stand.fp.execute([c.Cancel(task_id, reason="zxq"), c.Erase(task_id)])
        assert [task.erased for task in stand.fp.tasks("cancelled")] == [True]


@law
def only_a_destination_of_the_queue_can_be_told(make: Make) -> None:
    with make() as stand:
        before = stand.dump()
        told = stand.ask(c.QueueSet(QUEUE, {"outcomes": {"out": ["dead"]}}))
        assert told.issues == ("invalid_request",)
        assert stand.dump() == before


@law
def a_sweep_with_a_key_is_answered_in_its_batch_as_ever_after(make: Make) -> None:
    for together in (True, False):
        with make() as stand:
            subscribed(stand, retain_seconds=0)
            stand.fp.queue_set("dead", retain_seconds=0)
            stand.leased(max_attempts=1)
            stand.clock.advance(61)
            sweep = c.Request.of(c.Sweep(QUEUE), "S")
            stand.ask(sweep)
            (lease,) = stand.fp.as_caller("d", "dispatcher").claim("dead", worker_id="d")
            lease.complete()
            sent = [c.Purge(), sweep]
            parts = [sent] if together else [[one] for one in sent]
            outcomes = [outcome for part in parts for outcome in stand.fp.execute(part)]
            assert outcomes[-1].issues == ("receipt_erased",)


@law
def an_import_records_the_next_revision_in_any_state(make: Make) -> None:
    with make() as stand:
        task_id = restored(stand).task()
        assert stand.ask(accepted(task_id, final=False)).accepted
        assert stand.fp.task(task_id).state == "ready"
        stand.fp.cancel(task_id)
        assert stand.ask(accepted(task_id, revision=2, result=TWO)).accepted
        assert stand.fp.task(task_id).state == "done"
        assert [r.value for r in stand.fp.results(task_id)] == [ONE, TWO]
        assert stand.fp.verify().problems == ()


@law
def an_import_ends_a_running_lease_and_gives_its_attempt_back(make: Make) -> None:
    with make() as stand:
        lease = restored(stand).leased()
        stand.ask(accepted(lease.task_id, final=False))
        task = stand.fp.task(lease.task_id)
        assert (task.state, task.attempt) == ("ready", 0)
        assert stand.ask(c.Complete(**binding(lease))).issues == ("not_leased",)


@law
def an_import_of_what_is_known_changes_nothing(make: Make) -> None:
    with make() as stand:
        lease = restored(stand).leased()
        lease.complete(ONE)
        before = stand.dump()
        assert stand.ask(accepted(lease.task_id)).facts == {"known": True}
        assert stand.ask(accepted(lease.task_id, result=TWO)).issues == ("result_conflict",)
        assert stand.dump() == before


@law
def an_import_owes_what_was_owed_where_it_was_accepted(make: Make) -> None:
    with make() as stand:
        subscribed(restored(stand))
        task_id = stand.task(key="k")
        at = "2025-12-31T00:00:00.000000Z"
        stand.ask(accepted(task_id, at=at))
        (message,) = owed(stand, "plain")
        assert (message["at"], message["epoch"], message["fencing_token"]) == (at, 0, 9)
        assert (message["final"], message["key"]) == (True, "k")
        assert told(stand) == {"plain": 1, "done": 1}
        digest = stand.task()
        stand.ask(c.Import(digest, 1, 0, 9, final=False, evidence=1, result_sha256="5a" * 32))
        assert told(stand) == {"plain": 1, "done": 1}
        assert stand.fp.verify().problems == ()


@law
def an_import_of_a_result_that_the_round_has_begins_the_next(make: Make) -> None:
    with make() as stand:
        lease = restored(stand).leased()
        lease.renew(progress=[1])
        lease.complete(ONE)
        stand.ask(accepted(lease.task_id, revision=2))
        task = stand.fp.task(lease.task_id)
        assert (task.round, task.attempt, task.progress) == (2, 0, None)
        assert [(r.revision, r.round) for r in stand.fp.results(lease.task_id)] == [(1, 1), (2, 2)]
        assert stand.fp.verify().problems == ()
