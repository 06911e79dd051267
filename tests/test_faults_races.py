"""Faults of races (9, 11, 24, 50, 60, 90): two who do it at once, on independent handles."""

from __future__ import annotations

import json
import random
import threading
import time
from functools import partial

import pytest
from helpers.children import results_of, start
from helpers.lab import OUTBOX, QUEUE, ask, completion, raw, submission
from helpers.together import at_once
from helpers.work import churn, init

import fencepost
from fencepost import InvalidRequest, Unavailable
from fencepost import commands as c
from fencepost.storage.sqlite import connect

# 9: a transaction begun as a reader gets "database is locked" at once


def test_processes_on_one_file_never_meet_a_lock_and_neither_lose_nor_double_a_task(lab):
    ids = [i for r in lab.fp.enqueue_many(QUEUE, [{"payload": n} for n in range(120)])
           for i in r.task_ids]  # fmt: skip
    children = [start(churn, str(lab.path), f"w{n}") for n in range(4)]
    done = [task_id for taken in results_of(children) for task_id in taken]
    assert sorted(done) == sorted(ids)
    assert lab.counts() == (120, 120, 120)
    assert {task.state for task in lab.fp.tasks(QUEUE)} == {"done"}


def test_a_foreign_write_transaction_is_waited_for(lab):
    lab.offer()
    with lab.sql() as foreign:
        foreign.execute("begin immediate")
        waiting = lab.fp.send([c.Claim("w1", (QUEUE,))])
        with pytest.raises(TimeoutError):
            waiting.result(0.3)
        foreign.execute("commit")
        assert len(waiting.result(30)[0].grants) == 1


def test_a_foreign_write_transaction_that_lasts_too_long_gives_a_clear_retryable_answer(
    lab, monkeypatch
):
    monkeypatch.setattr(connect, "BUSY_SECONDS", 0.1)
    handle = lab.open()
    task_id = lab.offer()
    with lab.sql() as foreign:
        foreign.execute("begin immediate")
        with pytest.raises(Unavailable, match="another program holds the file locked"):
            handle.claim(QUEUE, worker_id="w1")
        foreign.execute("rollback")
    assert fencepost.ISSUES["store_unavailable"].retry
    assert [lease.task_id for lease in handle.claim(QUEUE, worker_id="w1")] == [task_id]


# 11: a late finish overwrites "cancelled", or a late cancel overwrites "completed"


def test_of_cancel_and_complete_exactly_one_wins_and_the_loser_is_told_500_times(lab):
    lab.fp.queue_set(QUEUE, lease_seconds=900)
    list(lab.fp.enqueue_many(QUEUE, [{"payload": n} for n in range(500)]))
    leases = [lease for _ in range(5) for lease in lab.fp.claim(QUEUE, worker_id="w1", limit=100)]
    cancels = [c.Cancel(lease.task_id) for lease in leases]
    completes = [completion(lease, 1) for lease in leases]
    random.Random(11).shuffle(cancels)  # so that each side is first about half the time
    one, other = lab.open(), lab.open()
    cancelled, completed = at_once(
        partial(one_by_one, one, cancels), partial(one_by_one, other, completes)
    )
    for lease in leases:
        pair = {cancelled[lease.task_id], completed[lease.task_id]}
        task = lab.fp.task(lease.task_id)
        if task.state == "cancelled":
            assert pair == {(), ("task_cancelled",)} and completed[lease.task_id]
            assert list(lab.fp.results(lease.task_id)) == []
        else:
            assert task.state == "done"
            assert pair == {(), ("task_done",)} and cancelled[lease.task_id]
    done = [issues for issues in completed.values() if not issues]
    assert 0 < len(done) < 500
    assert lab.counts() == (len(done),) * 3
    assert endings(lab) == {lease.task_id: 1 for lease in leases}


def one_by_one(handle, commands):
    return {command.task_id: ask(handle, command).issues for command in commands}


def endings(lab):
    """How often the journal says that each task of the queue came to an end."""
    found = {}
    with lab.sql() as own:
        for (body,) in own.execute("select body from fencepost_entry order by number"):
            for item in json.loads(body)["tasks"]:
                if item["state"] in ("done", "dead", "cancelled"):
                    found[item["task_id"]] = found.get(item["task_id"], 0) + 1
    return found


def test_a_worker_learns_of_the_cancellation_at_its_next_renewal(lab):
    lease = lab.lease()
    lab.open().cancel(lease.task_id)
    assert ask(lab.fp, c.Renew(lease.task_id, "w1", lease.fence)).issues == ("task_cancelled",)


# 24: a key not bound to task, operation and tenant gives the wrong receipt back


def test_a_key_never_gives_another_commands_receipt(lab):
    first, second = lab.lease(), lab.lease()
    first.complete(1, key="K")
    worker = lab.fp.as_caller("w1")
    for command in (
        completion(second, 1), c.Fail(second.task_id, "w1", second.fence),
        c.Cancel(second.task_id), c.Enqueue(QUEUE, (c.NewTask(1),)), c.Claim("w1", (QUEUE,)),
        c.Requeue(first.task_id),
    ):  # fmt: skip
        outcome = ask(worker, c.Request.of(command, "K"))
        assert (outcome.issues, outcome.receipt) == (("idempotency_key_reused",), None)
    assert lab.fp.task(second.task_id).state == "leased"


def test_another_actor_or_scope_learns_nothing_of_a_key(lab):
    lab.lease().complete(1, key="K")
    for handle in (lab.fp.as_caller("ann"), lab.open(scope="other")):
        outcome = ask(handle, c.Request.of(c.Enqueue("elsewhere", (c.NewTask("own"),)), "K"))
        assert outcome.accepted and not outcome.replayed
        assert outcome.receipt.entry["verb"] == "enqueue"


# 50: a finished task is later marked failed by the sweeper


def test_around_the_end_of_a_lease_no_task_ends_twice_though_a_sweeper_never_rests(lab):
    lab.fp.queue_set(QUEUE, max_attempts=1)
    list(lab.fp.enqueue_many(QUEUE, [{"payload": n} for n in range(200)]))
    leases = [lease for _ in range(2) for lease in lab.fp.claim(QUEUE, worker_id="w1", limit=100)]
    sweeper, worker = lab.open(), lab.open()
    over = threading.Event()

    def sweep():
        while not over.is_set():
            sweeper.sweep(QUEUE, limit=7)

    def finish():
        verdicts = {}
        for place, lease in enumerate(leases):
            if place == 100:
                lab.clock.advance(60)  # the instant at which all leases end
            verdicts[lease.task_id] = ask(worker, completion(lease, 1)).issues
        over.set()
        return verdicts

    _, verdicts = at_once(sweep, finish)
    while lab.fp.sweep(QUEUE).task_ids:
        pass
    tasks = {task.task_id: task for task in lab.fp.tasks(QUEUE)}
    for place, lease in enumerate(leases):
        issues, task = verdicts[lease.task_id], tasks[lease.task_id]
        assert (issues == ()) == (place < 100)
        assert task.state == ("done" if place < 100 else "dead")
        assert len(list(lab.fp.results(lease.task_id))) == (place < 100)
    assert lab.counts() == (100, 100, 100)
    assert endings(lab) == dict.fromkeys(tasks, 1)


# 60: an offline client sends the same again and again while the server is slow


def test_copies_sent_while_the_store_is_busy_have_one_effect_and_one_receipt(lab):
    lease = lab.lease()
    handles = [lab.open() for _ in range(3)]
    request = c.Request.of(submission(lease, "form"), "K")
    threads = threading.active_count()
    with lab.fp._store.turn():
        answers = [handle.send([request]) for _ in range(10) for handle in handles]
        busy = threading.active_count()
    outcomes = [answer.result(30)[0] for answer in answers]
    assert busy - threads <= 2 * len(handles)  # a writer each, and one that waits at the gate
    assert {o.status for o in outcomes} == {"accepted"}
    assert len({o.receipt.body for o in outcomes}) == 1
    assert sum(not o.replayed for o in outcomes) == 1
    assert lab.counts() == (1, 1, 1)


def test_a_caller_that_gave_up_waiting_has_done_nothing_and_may_send_again(lab):
    lease = lab.lease()
    hasty = lab.open(wait_seconds=0.05)
    with lab.fp._store.turn():
        for _ in range(5):
            with pytest.raises(Unavailable, match="nothing was done"):
                ask(hasty, submission(lease, "form"))
    assert lab.counts() == (0, 0, 0)
    assert not ask(lab.open(), submission(lease, "form")).replayed
    assert lab.counts() == (1, 1, 1)


# 90: two processes start on a new database at once


@pytest.mark.parametrize("number", range(3))
def test_ten_processes_that_begin_a_store_at_once_all_come_up_on_one_schema(tmp_path, number):
    path, gate = tmp_path / "new.db", tmp_path / "gate"
    children = [start(init, str(path), str(gate), f"task-{n}") for n in range(10)]
    while len(list(tmp_path.glob("gate.*"))) < 10:
        time.sleep(0.01)
    gate.touch()
    assert len(set(results_of(children))) == 10
    with raw(path) as own:
        assert own.execute("select count(*) from fencepost_store").fetchall() == [(1,)]
        versions = own.execute("select version, count(*) from fencepost_migration group by 1")
        assert {count for _, count in versions.fetchall()} == {1}
        assert own.execute("select count(*) from fencepost_task").fetchall() == [(10,)]
        assert own.execute("pragma integrity_check").fetchall() == [("ok",)]


def test_a_key_is_checked_before_it_is_sent_anywhere(lab):
    with pytest.raises(InvalidRequest):
        lab.lease().complete(1, key="two words")
    assert lab.counts() == (0, 0, 0) and list(lab.fp.tasks(OUTBOX)) == []
