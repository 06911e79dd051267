"""The offline outbox against its store: who leaves, works and comes back loses nothing and doubles
nothing, whatever has happened meanwhile. Each scenario is played beside the store and over HTTP;
what must hold in all of them is judged by helpers/field.py when the block ends.
"""

from __future__ import annotations

import shutil

import pytest
from helpers.field import DAY, OTHER, WORKER, YEAR, Field, losing
from helpers.lab import QUEUE

import fencepost
from fencepost.issues import (
    Forbidden,
    LeaseTooLong,
    OutcomeUnknown,
    PayloadTooLarge,
    ScopeRevoked,
    TaskDone,
    Unauthenticated,
    Unavailable,
)


@pytest.fixture(params=["local", "http"])
def wire(request):
    return request.param


@pytest.fixture
def field(tmp_path, wire):
    with Field(tmp_path, wire) as made:
        yield made


def done(field, task_id):
    return field.fp.task(task_id).state == "done"


def test_tasks_are_taken_along_worked_on_and_brought_back_in_order(field):
    ids = field.offer("S1", "S2", "S3")
    lap = field.laptop()
    assert lap.take() == ids
    field.clock.advance(3_600)
    seen = []
    while kept := lap.box.next():
        seen.append(kept.payload["snapshot"])
        assert lap.box.record(kept.task_id, {"of": kept.payload}).new
    assert seen == ["S1", "S2", "S3"]
    told = lap.sync()
    assert (told["status"], told["accepted"], told["claimed"]) == ("accepted", 3, 0)
    assert all(done(field, task_id) for task_id in ids)
    assert lap.sync()["accepted"] == 0


def test_expired_and_untaken_work_is_claimed_again_and_accepted(field):
    (task_id,) = field.offer("S1")
    lap = field.laptop()
    lap.take(lease_seconds=60)
    lap.box.record(task_id, "first", close=False)
    lap.box.record(task_id, "last")
    field.clock.advance(3 * DAY)
    told = lap.sync()
    assert (told["accepted"], told["claimed"], told["status"]) == (2, 1, "accepted")
    assert field.results(task_id) == ["first", "last"] and done(field, task_id)


def test_work_retaken_by_another_waits_while_he_holds_it_and_is_a_conflict_when_he_is_done(field):
    (task_id,) = field.offer("S1")
    lap = field.laptop()
    lap.take(lease_seconds=60)
    lap.box.record(task_id, "ours")
    field.clock.advance(61)
    theirs = field.by_other(task_id, lease_seconds=600)
    told = lap.sync()
    assert told["waiting"] == [{"task_id": task_id, "code": "task_leased"}]
    assert lap.box.status()["waits"][0]["code"] == "task_leased"
    assert [request.command.verb for request in lap.wire.sent] == ["claim", "complete"]
    theirs.complete("theirs")
    assert lap.sync()["conflicts"] == 1 == lap.sync()["conflicts"]
    (conflict,) = lap.box.conflicts()
    assert conflict.code == "task_done"
    assert [row["value"] for row in conflict.ours] == ["ours"]
    assert [row["value"] for row in conflict.theirs["results"]] == ["theirs"]
    assert conflict.theirs["task"]["worker_id"] == OTHER
    assert field.results(task_id) == ["theirs"]
    lap.box.theirs(task_id)
    assert list(lap.box.conflicts()) == [] and len(list(lap.box.conflicts(every=True))) == 1
    assert lap.sync()["status"] == "accepted"


def test_the_same_result_by_another_is_recognised(field):
    (task_id,) = field.offer("S1")
    lap = field.laptop()
    lap.take(lease_seconds=60)
    lap.box.record(task_id, "row", close=False)
    lap.box.record(task_id, {"n": 1})
    field.clock.advance(61)
    lease = field.by_other(task_id)
    lease.submit("row")
    lease.complete({"n": 1})
    told = lap.sync()
    assert (told["recognised"], told["accepted"], told["conflicts"]) == (2, 0, 0)
    assert field.results(task_id) == ["row", {"n": 1}]


def test_work_retaken_by_another_who_gave_up_is_claimed_again(field):
    (task_id,) = field.offer("S1")
    lap = field.laptop()
    lap.take(lease_seconds=60)
    lap.box.record(task_id, "ours")
    field.clock.advance(61)
    field.by_other(task_id)
    field.clock.advance(61)
    assert lap.sync()["claimed"] == 1
    assert field.results(task_id) == ["ours"]


def test_a_failed_try_of_another_is_waited_out(field):
    (task_id,) = field.offer("S1")
    lap = field.laptop()
    lap.take(lease_seconds=60)
    lap.box.record(task_id, "ours")
    field.clock.advance(61)
    field.by_other(task_id).fail("no luck", retry_seconds=100)
    assert lap.sync()["waiting"] == [{"task_id": task_id, "code": "task_ready"}]
    field.clock.advance(100)
    assert lap.sync()["accepted"] == 1


def test_a_row_of_another_is_a_conflict_and_what_was_claimed_for_it_is_given_back(field):
    (task_id,) = field.offer("S1")
    lap = field.laptop()
    lap.take(lease_seconds=60)
    lap.box.record(task_id, "ours")
    field.clock.advance(61)
    field.by_other(task_id).submit("theirs")
    field.clock.advance(61)
    assert lap.sync()["conflicts"] == 1
    (conflict,) = lap.box.conflicts()
    assert conflict.code == "stale_revision" and field.results(task_id) == ["theirs"]
    lap.box.again(lap.wire, task_id)  # a human says: ours on top of it
    assert lap.sync()["accepted"] == 1
    assert field.results(task_id) == ["theirs", "ours"] and done(field, task_id)


def test_a_row_that_comes_in_between_reading_and_claiming_is_seen(field):
    (task_id,) = field.offer("S1")
    lap = field.laptop()
    lap.take(lease_seconds=60)
    lap.box.record(task_id, "ours")
    field.clock.advance(61)

    def meddle(point, sent):
        if point == "ask" and sent[0].command.verb == "claim":
            field.by_other(task_id).submit("theirs")
            field.clock.advance(61)

    lap.wire.at = meddle
    assert lap.sync()["conflicts"] == 1
    task = field.fp.task(task_id)
    assert (task.state, task.worker_id, field.results(task_id)) == ("ready", WORKER, ["theirs"])


def steps(field, folder_name):
    """A laptop with two tasks to bring: one in time, one expired, with rows."""
    ids = field.offer("S1", "S2")
    lap = field.laptop(folder_name)
    lap.take(limit=1, lease_seconds=DAY)
    lap.take(limit=1, lease_seconds=60)
    lap.box.record(ids[0], "a1", close=False)
    lap.box.record(ids[1], "b1", close=False)
    lap.box.record(ids[0], "a2")
    lap.box.record(ids[1], "b2")
    field.clock.advance(61)
    return lap, ids


@pytest.mark.parametrize("point", ["ask", "told"])
def test_a_network_that_ends_at_any_exchange_costs_nothing(tmp_path, wire, point):
    which, broken = 0, True
    while broken:
        which += 1
        folder = tmp_path / str(which)
        folder.mkdir()
        with Field(folder, wire) as field:
            lap, ids = steps(field, "laptop")
            lap.wire.at = losing(which, point)
            try:
                lap.sync()
                broken = False
            except (Unavailable, OutcomeUnknown):
                lap.wire.at = losing(0, point)
                assert lap.sync()["status"] == "accepted"
            assert field.results(ids[0]) == ["a1", "a2"]
            assert field.results(ids[1]) == ["b1", "b2"]
            assert done(field, ids[0]) and done(field, ids[1])
    assert which == 7  # four commands, one of them refused and sent again, a claim, and none


def test_a_lost_answer_is_heard_again_as_the_same_receipt(field):
    (task_id,) = field.offer("S1")
    lap = field.laptop()
    lap.take()
    lap.box.record(task_id, "x")
    lap.wire.at = losing(1, "told")
    with pytest.raises(OutcomeUnknown):
        lap.sync()
    field.clock.advance(30 * DAY)  # long after the lease
    lap.wire.at = losing(0, "told")
    told = lap.sync()
    assert (told["accepted"], told["claimed"]) == (1, 0)
    first, second = (request.body for request in lap.wire.sent[-2:])
    assert first == second


def test_a_take_whose_answer_was_lost_brings_the_same_tasks(field):
    ids = field.offer(*"abcdef")
    lap = field.laptop()
    lap.wire.at = losing(1, "told")
    with pytest.raises(OutcomeUnknown):
        lap.take(limit=4)
    assert lap.box.counts()["open_claims"] == 1 and lap.box.next() is None
    lap.wire.at = losing(0, "told")
    assert lap.take(limit=4) == ids[:4]
    assert [field.fp.task(task_id).fence for task_id in ids] == [1, 2, 3, 4, 0, 0]


def test_a_take_whose_answer_was_lost_is_heard_at_the_sync_too(field):
    ids = field.offer("a", "b")
    lap = field.laptop()
    lap.wire.at = losing(1, "told")
    with pytest.raises(OutcomeUnknown):
        lap.take()
    lap.wire.at = losing(0, "told")
    lap.sync()
    assert lap.box.counts()["tasks"] == 2
    assert [field.fp.task(task_id).fence for task_id in ids] == [1, 2]


def test_a_take_that_never_arrived_is_not_sent_by_a_sync(field):
    field.offer("a", "b")
    lap = field.laptop()
    lap.wire.at = losing(1, "ask")
    with pytest.raises(Unavailable):
        lap.take()
    lap.wire.at = losing(0, "ask")
    lap.sync()
    assert lap.box.counts() | {"tasks": 0, "open_claims": 0} == lap.box.counts()
    assert len(lap.take()) == 2


@pytest.mark.parametrize("moment", ["before the take", "before the record", "before the sync"])
@pytest.mark.parametrize("again", ["the same", "another"])
def test_a_laptop_restored_from_a_backup_loses_and_doubles_nothing(field, moment, again):
    ids = field.offer("S1", "S2")
    lap = field.laptop()
    copies = {"before the take": lap.kept("0")}
    lap.take(limit=1)
    copies["before the record"] = lap.kept("1")
    lap.box.record(ids[0], "x")
    copies["before the sync"] = lap.kept("2")
    assert lap.sync()["accepted"] == 1
    lap.restored(copies[moment])
    if moment == "before the take":
        assert lap.take(limit=5) == ids[1:]
        return
    if moment == "before the record":
        lap.box.record(ids[0], "x" if again == "the same" else "y")
    told = lap.sync()
    other = moment == "before the record" and again == "another"
    assert told["conflicts"] == int(other)
    assert told["accepted"] + told["recognised"] == int(not other)
    assert field.results(ids[0]) == ["x"]


@pytest.mark.parametrize("lapsed", [False, True])
def test_two_laptops_with_the_same_outbox_end_with_one_result_each(field, lapsed):
    ids = field.offer("same", "other", "only-one")
    lap = field.laptop()
    lap.take(lease_seconds=60)
    twin = field.twin(lap)
    for each, word in ((lap, "a"), (twin, "b")):
        each.box.record(ids[0], "agreed")
        each.box.record(ids[1], word)
    twin.box.record(ids[2], "c")
    if lapsed:
        field.clock.advance(61)
    assert lap.sync()["accepted"] == 2
    told = twin.sync()
    assert told["accepted"] + told["recognised"] == 2 and told["conflicts"] == 1
    assert [field.results(task_id) for task_id in ids] == [["agreed"], ["a"], ["c"]]
    (conflict,) = twin.box.conflicts()
    assert [r["value"] for r in conflict.ours] == ["b"]
    assert [r["value"] for r in conflict.theirs["results"]] == ["a"]


@pytest.mark.parametrize("wrong", [-YEAR, YEAR])
def test_a_clock_that_is_wrong_by_a_year_changes_nothing(field, wrong):
    ids = field.offer("S1", "S2")
    lap = field.laptop(wrong=wrong)
    lap.take(limit=1, lease_seconds=DAY)
    lap.take(limit=1, lease_seconds=60)
    for task_id in ids:
        lap.box.record(task_id, "x")
    lap.clock.jump_wall(-2 * wrong)
    field.clock.advance(61)
    told = lap.sync()
    assert (told["accepted"], told["claimed"], told["status"]) == (2, 1, "accepted")


def test_a_raised_policy_is_a_conflict_until_a_human_has_spoken(field):
    (task_id,) = field.offer("S1")
    lap = field.laptop()
    lap.take()
    lap.box.record(task_id, "x")
    field.fp.set_policy(1)
    assert lap.sync()["conflicts"] == 1
    (conflict,) = lap.box.conflicts()
    assert (conflict.code, conflict.theirs["policy_version"]) == ("stale_policy", 1)
    field.clock.advance(2 * DAY)  # nor does the end of the lease change that
    assert lap.sync()["conflicts"] == 1 and field.results(task_id) == []
    lap.box.again(lap.wire, task_id)
    told = lap.sync()
    assert (told["accepted"], told["conflicts"]) == (1, 0)
    assert field.results(task_id) == ["x"]


def test_a_policy_raised_behind_anothers_lapsed_claim_is_seen_too(field):
    (task_id,) = field.offer("S1")
    lap = field.laptop()
    lap.take(lease_seconds=60)
    lap.box.record(task_id, "x")
    field.clock.advance(61)
    field.fp.set_policy(1)
    field.by_other(task_id)
    field.clock.advance(61)
    lap.sync()
    (conflict,) = lap.box.conflicts()
    assert conflict.code == "stale_policy" and field.results(task_id) == []


@pytest.mark.parametrize("end", ["cancelled", "dead", "blocked"])
def test_a_task_that_has_ended_otherwise_is_a_conflict(field, end):
    (task_id,) = field.offer("S1")
    lap = field.laptop()
    lap.take(lease_seconds=60)
    lap.box.record(task_id, "x")
    if end == "cancelled":
        field.fp.cancel(task_id, reason="not needed")
    else:
        field.clock.advance(61)
        field.by_other(task_id).fail("no", then="give_up" if end == "dead" else "block")
    lap.sync()
    (conflict,) = lap.box.conflicts()
    assert conflict.code == f"task_{end}" == f"task_{conflict.theirs['task']['state']}"
    if end == "blocked":
        field.fp.resolve(task_id, "retry")
    else:
        field.fp.requeue(task_id)
    lap.box.again(lap.wire, task_id)
    assert lap.sync()["accepted"] == 1 and field.results(task_id) == ["x"]


def test_a_revoked_scope_learns_nothing_and_all_goes_on_when_it_is_lifted(field):
    ids = field.offer("S1", "S2")
    lap = field.laptop()
    lap.take()
    for task_id in ids:
        lap.box.record(task_id, "x")
    field.fp.revoke()
    with pytest.raises(ScopeRevoked):
        lap.sync()
    with pytest.raises(ScopeRevoked):
        lap.take()
    field.fp.revoke(revoked=False)
    assert lap.sync()["accepted"] == 2


def test_a_scope_revoked_in_the_middle_is_noted_and_stops_the_sync(field):
    ids = field.offer("S1", "S2")
    lap = field.laptop()
    lap.take()
    for task_id in ids:
        lap.box.record(task_id, "x")

    def revoke(point, sent):
        if point == "told":
            field.fp.revoke()

    lap.wire.at = revoke
    with pytest.raises(ScopeRevoked):
        lap.sync()
    lap.wire.at = losing(0, "ask")
    assert lap.box.report.accepted == 1
    assert list(lap.box.links())[-1][1].endswith("scope_revoked")
    field.fp.revoke(revoked=False)
    assert lap.sync()["accepted"] == 1


def test_a_revoked_token_stops_all_and_a_new_one_of_the_same_worker_goes_on(tmp_path):
    with Field(tmp_path, "http") as field:
        (task_id,) = field.offer("S1")
        lap = field.laptop()
        lap.take()
        lap.box.record(task_id, "x")
        lap.wire.at = losing(1, "told")
        with pytest.raises(OutcomeUnknown):
            lap.sync()
        for token in field.fp.tokens():
            field.fp.token_revoke(token.token_id)
        with pytest.raises(Unauthenticated):
            lap.sync()
        lap.wire = type(lap.wire)(field.handle(WORKER, lap.clock))
        assert lap.sync()["accepted"] == 1


def test_an_erased_task_is_a_conflict_and_its_work_is_kept(field):
    ids = field.offer("open", "done")
    lap = field.laptop()
    lap.take()
    lap.box.record(ids[0], "x")
    lap.box.record(ids[1], "y")
    lap.wire.at = losing(2, "told")
    with pytest.raises(OutcomeUnknown):
        lap.sync()
    lap.wire.at = losing(0, "told")
    for task_id in ids:
        field.fp.erase(task_id)
    assert lap.sync()["conflicts"] == 1  # the first had been heard of
    (conflict,) = lap.box.conflicts()
    assert conflict.code == "receipt_erased" and conflict.ours[0]["value"] == "y"


def test_a_reset_clock_ends_the_leases_and_the_work_is_claimed_again(field):
    ids = field.offer("S1", "S2")
    lap = field.laptop()
    lap.take()
    for task_id in ids:
        lap.box.record(task_id, "x")
    field.fp.clock_reset()
    told = lap.sync()
    assert (told["accepted"], told["claimed"]) == (2, 2)
    assert field.fp.task(ids[0]).epoch == 1


def test_anothers_lease_that_a_reset_clock_has_ended_is_not_waited_for(field):
    (task_id,) = field.offer("S1")
    lap = field.laptop()
    lap.take(lease_seconds=60)
    lap.box.record(task_id, "x")
    field.clock.advance(61)
    field.by_other(task_id, lease_seconds=DAY)
    field.fp.clock_reset()
    assert lap.sync()["accepted"] == 1


def test_a_token_revoked_in_the_middle_stops_the_sync_and_makes_no_conflict(tmp_path):
    with Field(tmp_path, "http") as field:
        ids = field.offer("S1", "S2", "S3")
        lap = field.laptop()
        lap.take()
        for task_id in ids:
            lap.box.record(task_id, "x")

        def revoke(point, sent):
            if point == "told":
                for token in field.fp.tokens():
                    field.fp.token_revoke(token.token_id)

        lap.wire.at = revoke
        with pytest.raises(Unauthenticated):
            lap.sync()
        assert [step.split()[0] for _, step, _ in lap.box.links()][-2:] == ["accepted", "refused"]
        lap.wire = type(lap.wire)(field.handle(WORKER, lap.clock))
        assert lap.sync()["accepted"] == 2


def test_who_sends_as_another_worker_is_told_so_and_nothing_comes_of_it(field):
    (task_id,) = field.offer("S1")
    lap = field.laptop()
    lap.take()
    lap.box.record(task_id, "x")
    with pytest.raises(Forbidden):
        lap.box.sync(field.handle("stranger", lap.clock))
    assert list(lap.box.conflicts()) == [] and lap.box.status()["waits"] == []
    assert lap.sync()["accepted"] == 1


def test_attempts_used_up_by_lapses_are_a_conflict_that_names_it(tmp_path, wire):
    with Field(tmp_path, wire) as field:
        (task_id,) = (field.fp.enqueue(QUEUE, 1, max_attempts=1).task_id,)
        lap = field.laptop()
        lap.take(lease_seconds=60)
        lap.box.record(task_id, "x")
        field.clock.advance(61)
        lap.sync()
        (conflict,) = lap.box.conflicts()
        assert conflict.code == "task_dead"


def test_a_paused_queue_takes_results_and_lets_expired_work_wait(field):
    ids = field.offer("S1", "S2")
    lap = field.laptop()
    lap.take(limit=1, lease_seconds=60)
    lap.take(limit=1)
    for task_id in ids:
        lap.box.record(task_id, "x")
    field.clock.advance(61)
    field.fp.queue_set(QUEUE, paused=True)
    told = lap.sync()
    assert told["accepted"] == 1
    assert told["waiting"] == [{"task_id": ids[0], "code": "queue_paused"}]
    field.fp.queue_set(QUEUE, paused=False)
    assert lap.sync()["accepted"] == 1


def test_a_result_that_a_new_limit_forbids_is_a_conflict_that_names_it(field):
    (task_id,) = field.offer("S1")
    lap = field.laptop()
    lap.take()
    lap.box.record(task_id, "x" * 200)
    field.fp.queue_set(QUEUE, max_result_bytes=100)
    lap.sync()
    (conflict,) = lap.box.conflicts()
    assert conflict.code == "payload_too_large"
    field.fp.queue_set(QUEUE, max_result_bytes=1_000)
    lap.box.again(lap.wire, task_id)
    assert lap.sync()["accepted"] == 1


def test_a_result_that_stood_before_the_take_is_recognised_and_the_closing_still_fits(field):
    (task_id,) = field.offer("S1")
    field.by_other(task_id).submit("row")
    field.clock.advance(61)
    lap = field.laptop()
    lap.take()
    assert lap.box.task(task_id).base_revision == 1
    lap.box.record(task_id, "row", close=False)
    lap.box.record(task_id, "end")
    told = lap.sync()
    assert (told["recognised"], told["accepted"], told["claimed"]) == (1, 1, 0)
    assert field.results(task_id) == ["row", "end"]


def test_a_store_that_does_not_know_the_task_makes_no_conflict_of_it(tmp_path, wire):
    with Field(tmp_path, wire) as field:
        (task_id,) = field.offer("S1")
        lap = field.laptop()
        lap.take()
        lap.box.record(task_id, "x")
        with fencepost.open(":memory:", create=True) as wrong:
            told = lap.box.sync(wrong.as_caller(WORKER, "worker")).to_json()
        assert told["waiting"] == [{"task_id": task_id, "code": "not_found"}]
        assert lap.sync()["accepted"] == 1


@pytest.mark.parametrize("known", [False, True])
def test_a_store_rolled_back_behind_what_it_acknowledged_is_noticed(tmp_path, known):
    """Its file is put back to before the claim, or to before the second row."""
    with Field(tmp_path, "local") as field:
        (task_id,) = field.offer("S1")
        lap = field.laptop()
        if known:
            lap.take()
            lap.box.record(task_id, "a", close=False)
            lap.sync()
            lap.box.record(task_id, "b", close=False)
        field.fp.close()
        shutil.copy(tmp_path / "store.db", tmp_path / "old.db")
        field.fp = field.stack.enter_context(
            fencepost.open(tmp_path / "store.db", clock=field.clock)
        )
        lap.wire = type(lap.wire)(field.fp.as_caller(WORKER, "worker"))
        if not known:
            lap.take()
        lap.sync()
        lap.box.record(task_id, "end")
        field.fp.close()
        shutil.copy(tmp_path / "old.db", tmp_path / "store.db")
        field.fp = field.stack.enter_context(
            fencepost.open(tmp_path / "store.db", clock=field.clock)
        )
        lap.wire = type(lap.wire)(field.fp.as_caller(WORKER, "worker"))
        told = lap.sync()
        if not known:  # the claim is gone; the task is open at the same revision
            assert (told["accepted"], told["claimed"]) == (1, 1)
            return
        (conflict,) = lap.box.conflicts()
        assert conflict.code == "stale_revision"  # row b was acknowledged, and is not there
        field.clock.advance(2 * DAY)
        lap.box.again(lap.wire, task_id)
        assert lap.sync()["status"] == "accepted"
        assert field.results(task_id) == ["a", "b", "end"]


def test_a_task_that_comes_back_in_a_new_round_is_worked_on_anew(field):
    (task_id,) = field.offer("S1")
    lap = field.laptop()
    lap.take()
    lap.box.record(task_id, "x")
    lap.sync()
    field.fp.requeue(task_id)
    assert lap.take() == [task_id]
    assert lap.box.next().base_revision == 1
    assert lap.box.record(task_id, "x").new  # a new round: the same result is another thing
    assert lap.sync()["accepted"] == 1
    assert field.results(task_id) == ["x", "x"] and lap.box.counts()["tasks"] == 2


def test_what_is_recorded_twice_is_kept_once_and_another_closing_is_refused(field):
    (task_id,) = field.offer("S1")
    lap = field.laptop()
    lap.take()
    box = lap.box
    assert box.record(task_id, {"a": 1, "b": 2}, close=False).new
    assert not box.record(task_id, {"b": 2, "a": 1}, close=False).new
    assert box.record(task_id, {"a": 1, "b": 2}).new  # the row closes the task, once kept
    assert not box.record(task_id, {"a": 1, "b": 2}).new
    assert not box.record(task_id, {"a": 1, "b": 2}, close=False).new
    for close in (True, False):
        with pytest.raises(TaskDone):
            box.record(task_id, "another", close=close)
    with pytest.raises(TaskDone):
        box.record(task_id)
    assert len(list(box._file.rows("results_of", taking=1))) == 1
    assert [step.split()[0] for _, step, _ in box.links()] == [
        "take", "record", "again", "close", "again", "again", "refused", "refused", "refused",
    ]  # fmt: skip
    assert lap.sync()["accepted"] == 2 and field.results(task_id) == [{"a": 1, "b": 2}]


def test_a_lease_that_is_too_long_is_refused_with_the_setting_that_is_in_the_way(tmp_path, wire):
    for setting in ("max_lease_seconds", "max_hold_seconds"):
        folder = tmp_path / setting
        folder.mkdir()
        with Field(folder, wire, **{setting: 1_000}) as field:
            field.offer("S1")
            lap = field.laptop()
            with pytest.raises(LeaseTooLong, match=setting) as found:
                lap.take(lease_seconds=1_001)
            assert "queue-set intake" in str(found.value)
            assert lap.wire.sent == [] and lap.box.counts()["open_claims"] == 0
            assert lap.take(lease_seconds=1_000) != []


def test_a_result_longer_than_the_queue_allows_is_refused_before_anybody_leaves(tmp_path, wire):
    with Field(tmp_path, wire, max_result_bytes=100) as field:
        (task_id,) = field.offer("S1")
        lap = field.laptop()
        lap.take()
        with pytest.raises(PayloadTooLarge, match="max_result_bytes"):
            lap.box.record(task_id, "x" * 99)
        assert lap.box.record(task_id, "x" * 98).new
        assert lap.sync()["accepted"] == 1


def test_a_closing_names_the_revision_it_builds_on_and_a_row_none(field):
    (task_id,) = field.offer("S1")
    lap = field.laptop()
    lap.take(lease_seconds=60)
    for row in ("a", "b"):
        lap.box.record(task_id, row, close=False)
    lap.box.record(task_id, "end")
    field.clock.advance(61)
    assert lap.sync()["claimed"] == 1
    told = [request.command for request in lap.wire.sent if request.command.verb != "claim"]
    rows = [command for command in told if command.verb == "submit"]
    assert {command.expected_revision for command in rows} == {None}
    (closing,) = [command for command in told if command.verb == "complete"]
    assert (closing.expected_revision, closing.fence) == (2, 2)


def test_tasks_of_two_queues_with_the_same_key_are_two(field):
    one = field.fp.enqueue(QUEUE, 1, key="S1").task_id
    field.fp.queue_set("more", max_lease_seconds=DAY, max_hold_seconds=DAY)
    two = field.fp.enqueue("more", 2, key="S1").task_id
    lap = field.laptop()
    lap.take()
    assert lap.box.take(lap.wire, "more", lease_seconds=DAY) == [two]
    assert [lap.box.task(name).task_id for name in ("S1", "more/S1", one)] == [one, two, one]
    for task_id in (one, two):
        lap.box.record(task_id, "same")
    assert lap.sync()["accepted"] == 2
