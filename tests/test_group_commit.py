"""Concurrent callers share commits; what one of them does wrong or gives up is its own affair."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial

import pytest
from helpers.lab import QUEUE, ask
from helpers.together import at_once

from fencepost import commands as c
from fencepost.clock import SystemClock
from fencepost.engine import SystemDraw, Writer
from fencepost.engine.call import Call
from fencepost.issues import Unavailable
from fencepost.machine import fold
from fencepost.record import replace
from fencepost.storage.sqlite.transaction import SqliteTransaction

THREADS, EACH = 32, 10


@pytest.fixture
def commits(monkeypatch):
    """Counts the commits of every store from now on."""
    counted = []
    honest = SqliteTransaction.commit

    def commit(transaction):
        counted.append(transaction)
        honest(transaction)

    monkeypatch.setattr(SqliteTransaction, "commit", commit)
    return counted


def enqueue(payload, key=None):
    return c.Request.of(c.Enqueue(QUEUE, (c.NewTask(payload),)), key)


def payloads(lab):
    return sorted(lab.fp.task(task.task_id).payload for task in lab.fp.tasks(QUEUE))


def test_threads_share_commits(lab, commits):
    def calls(thread):
        return [lab.fp.enqueue(QUEUE, thread * EACH + n).task_id for n in range(EACH)]

    with ThreadPoolExecutor(THREADS) as pool:
        ids = [task_id for taken in pool.map(calls, range(THREADS)) for task_id in taken]
    print(f"{THREADS * EACH} commands in {len(commits)} commits")
    assert len(set(ids)) == THREADS * EACH
    assert payloads(lab) == list(range(THREADS * EACH))
    assert len(commits) < THREADS * EACH / 2


def test_what_gathers_while_the_turn_is_held_is_one_commit(lab, commits):
    with lab.open()._store.turn():
        futures = [lab.fp.send([enqueue(n), enqueue(-n)]) for n in range(1, 21)]
        assert not any(future.done() for future in futures)
        assert commits == []
    for n, future in enumerate(futures, start=1):
        outcomes = future.result(30)
        found = [lab.fp.task(outcome.task_ids[0]).payload for outcome in outcomes]
        assert found == [n, -n], "each caller gets its own answers, in its own order"
    entries = [o.receipt.number for f in futures for o in f.result(30)]
    assert entries == sorted(entries), "what was sent first stands first"
    assert len(commits) <= 3


@pytest.mark.parametrize("error", [AssertionError, LookupError, ValueError, "guard"])
def test_a_poisoned_command_fails_alone(lab, monkeypatch, error):
    honest = fold.VERBS["enqueue"]

    def spoil(batch, caller, request, task):
        verdict = honest(batch, caller, request, task)
        if b"poison" in request.body:
            if error != "guard":
                raise error("poisoned")
            # the write is guarded with what was loaded, and this never was
            batch.loaded.store = replace(batch.loaded.store, last_entry=-1)
        return verdict

    monkeypatch.setitem(fold.VERBS, "enqueue", spoil)
    with lab.open()._store.turn():
        futures = [lab.fp.send([enqueue(n)]) for n in range(5)]
        poisoned = lab.fp.send([enqueue("poison")])
        futures += [lab.fp.send([enqueue(n)]) for n in range(5, 10)]
    (outcome,) = poisoned.result(30)
    assert (outcome.status, outcome.issues) == ("failed", ("guard_tripped",))
    assert [future.result(30)[0].status for future in futures] == ["accepted"] * 10
    assert payloads(lab) == list(range(10))
    assert lab.fp.verify().clean


def test_a_caller_that_gives_up_leaves_nothing_done(lab):
    impatient = lab.open(wait_seconds=0.05)
    with lab.fp._store.turn(), ThreadPoolExecutor(1) as pool:
        given_up = pool.submit(lambda: caught(impatient))
        assert "nothing was done" in str(given_up.result(30))
        patient = impatient.send([enqueue("patient")])
    assert patient.result(30)[0].accepted
    assert payloads(lab) == ["patient"]


def caught(handle):
    with pytest.raises(Unavailable) as raised:
        handle.execute([enqueue("impatient")])
    return raised.value


def test_close_commits_what_is_waiting(lab):
    other = lab.open()
    with lab.fp._store.turn():
        futures = [other.send([enqueue(n)]) for n in range(10)]
        closing = threading.Thread(target=other.close)
        closing.start()
    closing.join(30)
    assert [future.result(0)[0].accepted for future in futures] == [True] * 10
    assert payloads(lab) == list(range(10))
    with pytest.raises(Unavailable, match="closed"):
        other.send([enqueue("late")])
    other.close()


def test_a_cancelled_future_is_not_told_but_its_commands_are_carried_out(lab):
    """As the docs of `send` say: what was handed in is not taken back."""
    with lab.open()._store.turn():
        first, second = lab.fp.send([enqueue(1)]), lab.fp.send([enqueue(2)])
        assert second.cancel()
    assert first.result(30)[0].accepted
    assert ask(lab.fp, enqueue(3)).accepted
    assert second.cancelled()
    assert payloads(lab) == [1, 2, 3]


def test_two_handles_in_one_process_are_two_writers_on_one_truth(lab):
    other = lab.open()
    lab.fp.queue_set(QUEUE, max_attempts=99)
    for number in range(40):
        lab.offer(number)
    taken = at_once(*[
        lambda handle=handle, n=n: [
            lease.complete(n).task_id
            for _ in range(5)
            for lease in handle.claim(QUEUE, worker_id=f"w{n}")
        ]
        for n, handle in enumerate([lab.fp, other] * 4)
    ])  # fmt: skip
    ids = [task_id for part in taken for task_id in part]
    assert len(ids) == len(set(ids)) == 40
    request = enqueue("once", "one-key")
    first, second = at_once(lambda: ask(lab.fp, request), lambda: ask(other, request))
    assert first.receipt == second.receipt
    assert sorted((first.replayed, second.replayed)) == [False, True]


def test_a_batch_of_one_caller_stays_in_order_and_sees_itself(lab):
    task_id = lab.offer("x")
    claimed, again, cancelled = lab.fp.execute([
        c.Claim("w1", (QUEUE,)), c.Claim("w2", (QUEUE,)), c.Cancel(task_id),
    ])  # fmt: skip
    assert claimed.task_ids == (task_id,)
    assert again.task_ids == ()
    assert cancelled.accepted
    assert lab.fp.task(task_id).state == "cancelled"
    assert claimed.grants == (), "a claim tells of leases that live at its commit"


class Alone:
    """As much of a store as a writer needs whose batches are only counted."""

    turn_microseconds = 50_000
    company_microseconds = 1_000_000

    def turn(self):
        return nullcontext()


class Counting(Writer):
    """Answers what it has gathered, as if each batch took a long time."""

    def __init__(self, clock):
        super().__init__(Alone(), clock, SystemDraw())
        self.sizes = []

    def _commit(self, batch):
        self.sizes.append(len(batch))
        self._taken = 40_000_000
        threading.Event().wait(0.02)  # who is not in it comes meanwhile
        for call in batch:
            call.answer([])


def test_a_commit_waits_for_who_comes_back_from_the_last_one():
    writer = Counting(SystemClock())

    def calls(after):
        for _ in range(25):
            writer.send(Call([])).wait(50)
            threading.Event().wait(after)  # each comes back in a moment, and none with another

    at_once(*[partial(calls, n * 0.003) for n in range(4)])
    writer.close()
    assert sum(writer.sizes) == 100
    # once they have met all four stay together; at the end some are done before others
    assert writer.sizes.count(4) >= 15, writer.sizes


def test_a_lone_caller_is_kept_waiting_by_nobody():
    writer = Counting(SystemClock())
    began = writer.transactor.clock.steady()
    for _ in range(5):
        writer.send(Call([])).wait(50)
    writer.close()
    assert writer.sizes == [1] * 5
    assert writer.transactor.clock.steady() - began < 1_000_000 * 5
