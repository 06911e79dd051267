"""A batch is its commands one after another: same answers, same rows, same entries.

Group commit puts commands of callers that know nothing of one another into one transaction, so
what a command meets must not depend on who else was in its batch.
"""

from __future__ import annotations

import logging

import pytest
from helpers.batches import Deck, world
from helpers.stand import QUEUE, Stand, binding

from fencepost import commands as c
from fencepost.clock import to_rfc3339

SEEDS = range(120)


def answers(stand, sent, *, at_once):
    """What each command was told. The commands go through the engine as they are."""
    parts = [sent] if at_once else [[one] for one in sent]
    outcomes = [outcome for part in parts for outcome in stand.batch(part)]
    return [
        ((o.status, o.issues, o.task_ids, o.replayed, o.receipt and o.receipt.body,
          dict(o.facts)), [(g.task_id, g.fence, g.payload) for g in o.grants])
        for o in outcomes
    ]  # fmt: skip


@pytest.mark.parametrize("part", range(4))
def test_a_batch_ends_as_its_commands_one_by_one(part, caplog):
    caplog.set_level(logging.WARNING, logger="fencepost")
    for seed in SEEDS[part::4]:
        print("seed", seed)
        together, ids = world(seed)
        apart, same = world(seed)
        assert ids == same
        deck = Deck(seed, ids)
        sent = [deck.request() for _ in range(deck.draws.randint(2, 8))]
        with together, apart:
            told = [request.body for _, request in sent]
            one_batch = answers(together, sent, at_once=True)
            for place, (answer, leases) in enumerate(answers(apart, sent, at_once=False)):
                assert one_batch[place][0] == answer, (place, told[place], told)
                # a claim's leases are shown as they stand when the batch is over
                assert set(one_batch[place][1]) <= set(leases), (place, told)
            alone = apart.dump()
            for table, rows in together.dump().items():
                assert rows == alone[table], (table, told)
    assert not caplog.records, "no batch had to be undone"


# --- what this law has found, each in small ---------------------------------------------------


def outcomes(stand, *commands):
    """One batch; (status, issues) of each."""
    return [(o.status, o.issues) for o in stand.fp.execute(list(commands))]


ACCEPTED = ("accepted", ())


def test_an_erase_takes_along_what_a_completion_of_the_same_batch_owes():
    with Stand() as stand:
        stand.fp.queue_set(QUEUE, destinations=["out"])
        lease = stand.leased()
        done = c.Complete(**binding(lease), result={"secret": "zxq"})
        assert outcomes(stand, done, c.Erase(lease.task_id)) == [ACCEPTED, ACCEPTED]
        assert [task.erased for task in stand.fp.tasks("out")] == [True]
        assert "zxq" not in str(stand.dump())


def test_an_erased_task_answers_no_receipt_to_the_rest_of_its_batch():
    with Stand() as stand:
        lease = stand.leased(key="t")
        request = c.Request.of(c.Complete(**binding(lease), result=1))
        first = c.Request.of(c.Enqueue(QUEUE, ({"payload": 1},)), "K")
        task_id = stand.ask(first).task_ids[0]
        stand.ask(request)
        gone = ("failed", ("receipt_erased",))
        told = outcomes(
            stand, c.Erase(lease.task_id), request, c.Erase(task_id), first,
            c.Enqueue(QUEUE, ({"payload": "work", "key": "t"},)),
        )  # fmt: skip
        assert told == [ACCEPTED, gone, ACCEPTED, gone, gone]


def test_a_clock_reset_ends_a_lease_that_was_claimed_in_its_batch():
    with Stand() as stand:
        task_id = stand.task()
        assert outcomes(stand, c.Claim("w", (QUEUE,)), c.ClockReset()) == [ACCEPTED] * 2
        lease = stand.claim("v")
        assert (lease.task_id, lease.fence) == (task_id, (1 << 32) + 1)


def test_what_a_clock_reset_made_due_later_stands_in_no_claims_way():
    with Stand() as stand:
        timed = {"payload": 1, "due_at": to_rfc3339(stand.clock.wall() - 1)}
        for _ in range(3):
            stand.fp.execute([c.Enqueue(QUEUE, (timed,) * 60)])
        stand.clock.jump_wall(-3600)
        stand.fp.clock_reset()
        task_id = stand.task("new")
        assert stand.claim().task_id == task_id


def test_two_sweeps_or_purges_of_a_batch_settle_twice_as_much_as_one():
    with Stand() as stand:
        stand.fp.set_policy(retain_seconds=0)
        for _ in range(4):
            stand.leased()
        stand.clock.advance(60)
        told = stand.fp.execute([c.Sweep(limit=1), c.Sweep(limit=1), c.Sweep(limit=5)])
        assert [len(o.task_ids) for o in told] == [1, 1, 2]
        for task in stand.fp.tasks():
            stand.fp.cancel(task.task_id)
        told = stand.fp.execute([c.Purge(limit=1), c.Purge(limit=1), c.Purge(limit=5)])
        assert [len(o.task_ids) for o in told] == [1, 1, 2]


def test_a_sweep_or_purge_finds_what_the_others_of_its_batch_have_left():
    """One of the whole scope may come after one of the queue, a claim, a command on a task."""
    with Stand() as stand:
        stand.fp.set_policy(retain_seconds=0)
        leases = [stand.leased() for _ in range(6)]
        stand.clock.advance(60)
        told = stand.fp.execute([
            c.Cancel(leases[0].task_id), c.Claim("w2", (QUEUE,)), c.Sweep(QUEUE, 1),
            c.Sweep(limit=1), c.Sweep(QUEUE, 1), c.Sweep(limit=1),
        ])  # fmt: skip
        assert [len(o.task_ids) for o in told] == [1] * 6
        ids = [task.task_id for task in stand.fp.tasks()]
        for task_id in ids[1:]:
            stand.fp.cancel(task_id)
        told = stand.fp.execute([c.Requeue(ids[0]), c.Purge(QUEUE, 1), c.Purge(limit=1)])
        assert [len(o.task_ids) for o in told] == [1, 1, 1]


def test_a_late_result_may_be_set_aside_in_the_batch_that_purges_its_task(caplog):
    with Stand() as stand:
        stand.fp.queue_set(QUEUE, keep_refused=2)
        stand.fp.set_policy(retain_seconds=0)
        lease = stand.leased()
        lease.complete(1)
        late = c.Complete(**binding(lease), result=2)
        told = outcomes(stand, late, c.Purge())
        assert told == [("failed", ("task_done",)), ACCEPTED]
        assert not caplog.records
        assert list(stand.dump()["fencepost_refused"]) == []


def test_a_claim_settles_no_more_lapses_than_its_entry_can_name():
    with Stand() as stand:
        queues = tuple(f"q{number}" for number in range(16))
        for queue in queues:
            stand.fp.queue_set(queue, max_attempts=1)
            stand.fp.execute([c.Enqueue(queue, tuple({"payload": n} for n in range(20)))])
            stand.fp.claim(queue, worker_id="w", limit=20)
        stand.clock.advance(60)
        assert outcomes(stand, c.Claim("w", queues)) == [ACCEPTED]
        settled = [t.state for t in stand.fp.tasks() if t.state != "leased"]
        assert (set(settled), len(settled)) == ({"dead"}, 200)


def test_evidence_that_is_a_result_of_this_round_already_ends_the_task_and_is_not_added():
    with Stand() as stand:
        lease = stand.leased()
        lease.submit({"row": 1})
        lease.fail("stuck", then="block")
        stand.fp.resolve(lease.task_id, "done", evidence={"row": 1})
        task = stand.fp.task(lease.task_id)
        assert (task.state, task.revision, len(list(stand.fp.results(lease.task_id)))) == (
            "done", 1, 1,
        )  # fmt: skip


@pytest.mark.parametrize("followed", [False, True])
def test_one_key_with_two_payloads_in_one_command_is_a_conflict(followed):
    new = [{"payload": number, "key": "k"} for number in (1, 2)]
    with Stand() as stand:
        lease = stand.leased()
        command = c.Enqueue(QUEUE, tuple(new))
        if followed:
            more = tuple({**task, "queue": "next"} for task in new)
            command = c.Complete(**binding(lease), followups=more)
        before = stand.dump()
        assert outcomes(stand, command) == [("failed", ("key_conflict",))]
        assert stand.dump() == before


@pytest.mark.parametrize("kind", ["worker", "operator"])
def test_a_worker_enqueues_no_followup_on_a_destination_and_an_operator_may(kind):
    with Stand() as stand:
        stand.fp.queue_set("other", destinations=["out"])
        lease = stand.leased()
        command = c.Complete(**binding(lease), followups=({"queue": "out", "payload": 1},))
        outcome = stand.ask(command, "w", kind)
        assert outcome.issues == (() if kind == "operator" else ("forbidden",))
