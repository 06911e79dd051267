"""Who forgets, sweeps, seals and gives back, beside others on PostgreSQL."""

from __future__ import annotations

import pytest
from helpers.lab import QUEUE
from helpers.pg_side import WAITING, outcomes, two_sides, until

from fencepost import commands as c
from fencepost.commands import Request
from fencepost.issues import Unavailable
from fencepost.storage import sealing
from fencepost.storage.port import Conflict


@pytest.fixture
def two():
    with two_sides() as made:
        yield made


def test_a_receipt_goes_with_the_last_of_its_tasks_though_two_purge_at_once(two):
    """Each sees the other's task as long as that has not committed: the second has to wait."""
    sent = c.Enqueue("brief", (c.NewTask(1), c.NewTask(2)))
    two.fp.execute([Request.of(sent, "both")])
    for lease in two.fp.claim("brief", worker_id="w1", limit=2):
        lease.complete({"answer": 1})
    two.fp.queue_set("brief", retain_seconds=0)
    two.fp.seal()
    with two.holding("select 1 from fencepost_entry where task is not null for update"):
        first = two.go(two.fp.purge, "brief", limit=1)
        two.waiting(1)
        second = two.go(two.other.purge, "brief", limit=1)
        until(lambda: second.done() or len(two.sql(WAITING)) > 1, "the second to go on")
    assert sorted(len(told.task_ids) for told in outcomes([first, second])) == [1, 1]
    (told,) = two.other.execute([Request.of(sent, "both")])
    assert told.issues == ("receipt_erased",)
    closed = two.sql("select count(*) from fencepost_entry where request_sha256 is null")
    assert closed == [(3,)]  # the enqueue and the two completions


def test_a_purge_leaves_what_has_ended_since_the_journal_was_sealed_for_it(two, monkeypatch):
    """Its bytes could not go with it, and nobody would come back for them."""
    two.fp.queue_set(QUEUE, retain_seconds=0)
    before, since = two.lease(), two.lease()
    before.complete({"answer": 1})
    writer = two.fp._writer
    seal = writer._seal_for_purge

    def then_another_ends():
        seal()
        two.other.lease(since.task_id, worker_id="w1", fence=since.fence).complete({"answer": 2})

    with monkeypatch.context() as patch:
        patch.setattr(writer, "_seal_for_purge", then_another_ends)
        assert two.fp.purge(QUEUE).task_ids == (before.task_id,)
    assert two.fp.purge(QUEUE).task_ids == (since.task_id,)
    kept = two.sql(
        "select e.number from fencepost_entry e where e.body is not null and e.task is not null "
        "and not exists (select 1 from fencepost_task t where t.id = e.task)"
    )
    assert kept == []


def test_erase_purge_and_sweep_beside_claims_leave_a_sound_store(two):
    """Who claims passes over what they hold, and who names it waits."""
    two.fp.queue_set(QUEUE, retain_seconds=0, max_attempts=1)
    done, lapsed = two.lease(), two.lease(seconds=1)
    done.complete({"answer": 1})
    two.clock.advance(2)
    open_id = two.fp.enqueue(QUEUE, "open").task_id
    two.fp.seal()
    with two.holding_task(done.task_id), two.holding_task(lapsed.task_id):
        purging = two.go(two.fp.purge, QUEUE)
        assert purging.result(30).task_ids == ()
        sweeping = two.go(two.fp.sweep, QUEUE)
        assert sweeping.result(30).task_ids == ()
        erasing = two.go(two.other.erase, done.task_id)
        two.waiting(1)
        (lease,) = two.fp.claim(QUEUE, worker_id="w2", limit=10)
        assert lease.task_id == open_id
    erasing.result(30)
    assert two.fp.purge(QUEUE).task_ids == (done.task_id,)
    assert two.fp.sweep(QUEUE).task_ids == (lapsed.task_id,)


# -- numbers


def test_what_a_batch_gives_back_it_may_claim_again(two, caplog):
    """Numbers are drawn before it is decided: there have to be enough for all that may come."""
    leases = [two.lease() for _ in range(3)]
    batch = [c.Release(lease.task_id, "w1", lease.fence) for lease in leases]
    told = two.fp.execute([*batch, c.Claim("w2", (QUEUE,), None, 5, 60)])
    assert [outcome.accepted for outcome in told] == [True] * 4
    assert len({grant.fence for grant in told[-1].grants}) == 3
    assert "was undone" not in caplog.text


def test_a_sealer_that_is_broken_off_leaves_the_writer_alive(two, monkeypatch):
    receipt = two.fp.enqueue(QUEUE, 1)

    def conflict(*_):
        raise Conflict("another came in between")
        yield

    with monkeypatch.context() as patch:
        patch.setattr(sealing, "seal", conflict)
        with pytest.raises(Unavailable, match="could not be sealed"):
            two.fp.seal()
        two.fp._writer._seal()
    assert two.fp.enqueue(QUEUE, 2).number > receipt.number
