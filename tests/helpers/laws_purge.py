"""What a purge closes and what it leaves: a receipt stays as long as what it is about."""

from __future__ import annotations

import json
from typing import Any

from fencepost import commands as c
from fencepost.model import Outcome
from helpers.laws import law
from helpers.stand import QUEUE, WORKER, Make, Stand, binding

HORIZON_SECONDS = 31 * 86_400
Sent = tuple[c.Request, str]


def over(stand: Stand, *task_ids: str) -> None:
    """These tasks are ended, and all that has ended by now is purged; `verify` agrees."""
    for task_id in task_ids:
        if stand.fp.task(task_id).state in ("ready", "leased", "blocked"):
            stand.fp.cancel(task_id)
    stand.fp.seal()
    assert set(task_ids) <= set(stand.ask(c.Purge()).task_ids)
    stand.fp.seal()
    assert stand.fp.verify().clean


def answers(stand: Stand, sent: Sent, first: Outcome) -> bool:
    """Whether the same bytes get the very receipt of the first time; else that it is gone."""
    again = stand.ask(*sent)
    if again.accepted:
        assert again.replayed and again.receipt is not None and first.receipt is not None
        assert again.receipt.to_json() == first.receipt.to_json()
    else:
        assert again.issues == ("receipt_erased",), again.issues
    return again.accepted


def row_of(stand: Stand, number: int) -> dict[str, Any]:
    """The entry as it lies in the store."""
    names = ("number", "key", "task", "request_id", "body", "salt", "request", "result")
    rows = stand.dump()["fencepost_entry"]
    return dict(zip(names, next(row for row in rows if row[0] == number), strict=True))


def enqueued(stand: Stand, key: str, *tasks: c.NewTask) -> tuple[Sent, Outcome]:
    """An enqueue of these, and what was answered."""
    sent = c.Request.of(c.Enqueue(QUEUE, tasks), key), "local"
    return sent, stand.ask(*sent)


def completed(stand: Stand, key: str | None) -> tuple[Sent, Outcome, list[str]]:
    """A completion on a queue that is kept, what was answered, and what is purged at once: a known
    task that it named, a follow-up and an obligation."""
    stand.fp.queue_set(QUEUE, destinations=["out"], retain_seconds=1_000)
    stand.fp.set_policy(retain_seconds=0)
    stand.task("known", queue="next", key="known")
    new, named = {"queue": "next", "payload": 1}, {"queue": "next", "payload": "known"}
    follow = (new, {**named, "key": "known"})
    done = c.Complete(**binding(stand.leased()), result=1, followups=follow)
    sent = c.Request.of(done, key), WORKER
    first = stand.ask(*sent)
    return sent, first, [task.task_id for task in stand.fp.tasks() if task.queue != QUEUE]


@law
def a_purge_leaves_the_receipt_of_the_completion_that_owed_what_it_takes(make: Make) -> None:
    """Under its key, and without one. It goes with the completed task, and its key is refused."""
    for key in ("op-1", None):
        with make() as stand:
            sent, first, brought = completed(stand, key)
            for task_id in brought:
                over(stand, task_id)
                assert answers(stand, sent, first)
            assert len(brought) == 3 and first.receipt is not None
            stand.clock.advance(1_000)
            over(stand, *first.task_ids)
            left = row_of(stand, first.receipt.number)
            assert [left[n] for n in ("key", "body", "salt", "request", "result")] == [None] * 5
            assert stand.ask(*sent).issues == ("not_found",)
            if key is not None:
                assert stand.ask(c.Sweep(), WORKER, key=key).issues == ("receipt_erased",)


@law
def the_receipt_of_an_enqueue_goes_with_the_last_of_its_tasks(make: Make) -> None:
    """Brought about by it or known to it, in whatever order they go; others' tasks count not."""
    with make() as stand:
        _, before = enqueued(stand, "before", c.NewTask(0, key="known"))
        sent, first = enqueued(stand, "op-1", c.NewTask(1), c.NewTask(0, key="known"), c.NewTask(2))
        _, other = enqueued(stand, "op-2", c.NewTask(3))
        stand.fp.set_policy(retain_seconds=0)
        assert first.receipt is not None and first.task_ids[1] == before.task_ids[0]
        for task_id in first.task_ids[:2]:
            over(stand, task_id)
            assert answers(stand, sent, first)
        over(stand, first.task_ids[2])
        assert not answers(stand, sent, first)
        left = row_of(stand, first.receipt.number)
        assert [left[n] for n in ("key", "request_id", "salt", "request")] == [None] * 4
        assert other.receipt is not None and row_of(stand, other.receipt.number)["salt"]
        assert stand.dump()["fencepost_naming"] == []


@law
def of_what_was_purged_nothing_stays_once_the_horizon_is_over(make: Make) -> None:
    """No key and no opening of what was about its tasks, and after a while no tombstone."""
    with make() as stand:
        stand.fp.queue_set(QUEUE, destinations=["out"])
        _, told = enqueued(stand, "op-1", *(c.NewTask(n, key=f"k{n}") for n in range(3)))
        for number, task_id in enumerate(told.task_ids):
            lease = stand.claim_of(task_id)
            done = c.Complete(**binding(lease), result=number, log="said")
            stand.ask(done, WORKER, key=f"done-{number}")
        stand.fp.set_policy(retain_seconds=0)
        over(stand, *(task.task_id for task in stand.fp.tasks()))
        buried = 1 + 3 + 3 + 3  # the enqueue, its tasks, their completions, the cancels of messages
        assert len(stand.dump()["fencepost_tombstone"]) == buried
        stand.clock.advance(HORIZON_SECONDS + 1)
        over(stand, stand.task())
        rows = stand.dump()
        assert len(rows["fencepost_tombstone"]) == 2, "of the last enqueue and its cancel"
        for table in ("task", "payload", "remark", "result", "refused", "naming"):
            assert rows[f"fencepost_{table}"] == [], table
        opened = [json.loads(view.body)["verb"] for view in stand.fp.entries() if view.receipt]
        assert set(opened) == {"queue.set", "claim", "scope.set_policy", "purge"}


def at_once(stand: Stand, *commands: c.Command | c.Request) -> list[Outcome]:
    """Their outcomes in one batch, sealed before, which is not tried again one by one where it
    fails."""
    stand.fp.seal()
    requests = [c.Request.of(one) if isinstance(one, c.Command) else one for one in commands]
    sent = [(stand.fp.as_caller("local").caller, request) for request in requests]
    with stand.store.transaction() as transaction:
        return list(stand.fp._writer.transactor.run(transaction, sent).outcomes)


@law
def a_batch_that_purges_answers_the_rest_of_it_as_every_later_one(make: Make) -> None:
    """The same commands in the batch of the purge, and after it."""
    with make() as stand:
        stand.fp.set_policy(retain_seconds=0)
        whole, _ = enqueued(stand, "whole", c.NewTask(1), c.NewTask(2, key="k2"))
        part, first = enqueued(stand, "part", c.NewTask(3), c.NewTask(4))
        named, _ = enqueued(stand, "named", c.NewTask(2, key="k2"))
        tasks = [task.task_id for task in stand.fp.tasks()]
        for task_id in tasks[:3]:
            stand.fp.cancel(task_id)
        afresh = c.Enqueue(QUEUE, (c.NewTask(2, key="k2"),))
        asked = [whole[0], part[0], named[0], afresh]
        purged, *told = at_once(stand, c.Purge(limit=3), *asked)
        erased = ("receipt_erased",)
        assert set(purged.task_ids) == set(tasks[:3])
        assert [o.issues for o in told] == [erased, (), erased, erased]
        assert told[1].receipt == first.receipt
        assert [o.issues for o in stand.fp.execute(asked)] == [o.issues for o in told]
        stand.ask(c.Cancel(tasks[3]), key="cancel")
        reused = c.Request.of(c.Sweep(), "cancel")
        purged, *told = at_once(stand, c.Purge(), reused, part[0])
        assert purged.task_ids == (tasks[3],) and [o.issues for o in told] == [erased, erased]
        assert [o.issues for o in stand.fp.execute([reused, part[0]])] == [erased, erased]
