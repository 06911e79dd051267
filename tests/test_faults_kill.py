"""Faults of sudden death (64, 66, 108, 122): SIGKILL at every step of a command, and at random.

After each kill the store is opened again as it was left. The command has happened as a whole or
not at all, and the same bytes under the same key give its receipt: no state blocks a key.
"""

from __future__ import annotations

import shutil
from collections import Counter

import pytest
from helpers.children import result_of, start
from helpers.killing import sweep, work_under_fire
from helpers.lab import OUTBOX, QUEUE, ask, completion, dump, raw
from helpers.retrying import retries

from fencepost import commands as c

pytestmark = pytest.mark.usefixtures("same_disk")

FOLLOWUPS = (c.Followup("a", queue="next"), c.Followup("b", queue="next", key="b"))


def prepared(lab, verb):
    """A store just before the command, and the command."""
    lease = None if verb == "enqueue" else lab.lease(key="T")
    if verb in ("requeue", "redrive"):
        lease.fail("broken", then="give_up") if verb == "redrive" else lease.complete(1)
    if verb == "claim":
        lab.clock.advance(60)
    bound = () if lease is None else (lease.task_id, lease.worker_id, lease.fence)
    return {
        "enqueue": lambda: c.Enqueue(QUEUE, (c.NewTask(1, "K1"), c.NewTask(2))),
        "claim": lambda: c.Claim("w2", (QUEUE,)),
        "submit": lambda: c.Submit(*bound, result={"n": 1}, expected_revision=0),
        "complete": lambda: completion(lease, {"n": 1}, followups=FOLLOWUPS),
        "fail": lambda: c.Fail(*bound, reason="later", retry_seconds=30),
        "requeue": lambda: c.Requeue(lease.task_id),
        "redrive": lambda: c.Requeue(lease.task_id),
        "erase": lambda: c.Erase(lease.task_id),
    }[verb]()


def shape(tables):
    return {name: len(rows) for name, rows in tables.items()}


VERBS = ["enqueue", "claim", "submit", "complete", "fail", "requeue", "redrive", "erase"]


@pytest.mark.parametrize("verb", VERBS)
def test_killed_at_any_step_a_command_is_there_as_a_whole_or_not_at_all(lab, tmp_path, verb):
    request = c.Request.of(prepared(lab, verb), "op-1")
    before = lab.dump()
    lab.fp.close()
    folder = tmp_path / "killed"
    folder.mkdir()
    now = lab.clock.wall()
    steps = result_of(
        start(sweep, str(lab.path), str(folder), now, request.body.decode(), "op-1")
    )
    assert steps >= 6, "load, save and commit take more steps than that"
    with raw(folder / f"{steps + 1}.db") as own:
        after = shape(dump(own))
    assert after != shape(before)
    for step in range(1, steps + 1):
        path = folder / f"{step}.db"
        with raw(path) as own:
            found = dump(own)
            assert own.execute("pragma integrity_check").fetchall() == [("ok",)]
        committed = step == steps  # the one step that comes after the commit
        if committed:
            assert shape(found) == after, f"step {step}"
        else:
            assert found == before, f"step {step}"
        again_gives_one_receipt(lab, path, request, committed, after)


def again_gives_one_receipt(lab, path, request, committed, after):
    """The key is not stuck: the same bytes are carried out, or answered with their receipt."""
    handle = lab.open(path)
    first, second = ask(handle, request), ask(handle, request)
    if request.command.verb == "erase":  # an erased task gives no receipt, to nobody
        assert first.issues == ("receipt_erased",) if committed else first.accepted
    else:
        assert (first.replayed, second.replayed) == (committed, True)
        assert first.receipt == second.receipt and second.accepted
    with raw(path) as own:
        assert shape(dump(own)) == after
    handle.close()


def test_redriving_a_task_twice_does_not_make_two(lab):
    lease = lab.lease(key="T")
    lease.fail("broken", then="give_up")
    first = lab.fp.requeue(lease.task_id, fence=lease.fence)
    second = ask(lab.fp, c.Request.of(c.Requeue(lease.task_id, lease.fence), "other"))
    assert second.issues == ("task_ready",)
    (task,) = lab.fp.tasks(QUEUE)
    assert (task.task_id, task.round, task.fence) == (lease.task_id, 2, lease.fence)
    assert lab.claim().fence == lease.fence + 1
    assert first.task_ids == (lease.task_id,)


@pytest.mark.parametrize("seed", [1, 2])
def test_under_random_kills_every_task_ends_once_with_one_receipt_and_none_is_lost(lab, seed):
    number = 250
    lab.fp.queue_set(QUEUE, max_attempts=1_000, lease_seconds=60)
    tasks = [c.NewTask({"n": n}, key=str(n)) for n in range(number)]
    ids = [i for r in lab.fp.enqueue_many(QUEUE, tasks) for i in r.task_ids]
    lab.fp.close()
    begins = lab.clock.wall()
    rounds = result_of(start(work_under_fire, str(lab.path), begins, seed, 400))
    print(f"seed {seed}: {rounds} kills")
    lab.clock.advance(100 * (rounds + 1))
    handle = lab.open()
    assert rounds >= 3
    assert Counter(task.state for task in handle.tasks(QUEUE)) == {"done": number}
    for task_id in ids:
        (result,) = handle.results(task_id)
        assert result.value == handle.task(task_id).payload
    owed = [handle.task(task.task_id).payload["task_id"] for task in handle.tasks(OUTBOX)]
    assert sorted(owed) == sorted(ids)
    assert lab.counts() == (number, number, number)


@pytest.mark.parametrize("seed", [1, 2])
def test_who_is_killed_and_asks_again_is_told_the_receipt_that_was_committed(lab, seed):
    lab.fp.close()
    found = result_of(start(retries, str(lab.path), lab.clock.wall(), seed, 40, 60))
    print(f"seed {seed}: {found}")
    assert found["wrong"] == []
    assert found["commands"] == 60
    assert found["killed_between_commit_and_answer"] > 20


def test_a_store_left_by_a_killed_writer_can_be_copied_with_its_log_and_opened(lab, tmp_path):
    """What a crash leaves are the file and its -wal; together they are the store."""
    lease = lab.lease()
    lease.complete("answer")
    for suffix in ("", "-wal"):
        source = lab.path.with_name(lab.path.name + suffix)
        if source.exists():
            shutil.copy(source, tmp_path / f"left.db{suffix}")
    left = lab.open(tmp_path / "left.db")
    assert [result.value for result in left.results(lease.task_id)] == ["answer"]
