"""Blocks of several applications side by side: who races is never told a database's error."""

from __future__ import annotations

import asyncio
import inspect
import threading

import psycopg
import pytest
from helpers.pg_app import KINDS, App, laboratory
from helpers.pg_side import outcomes

import fencepost
from fencepost import commands as c
from fencepost.handle.verbs import Verbs
from fencepost.handle.within_async import AsyncTransaction
from fencepost.issues import FencepostError, InvalidRequest, OutcomeUnknown, Unavailable
from fencepost.storage.postgres import borrowing


@pytest.fixture
def lab():
    with laboratory() as made:
        yield made


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


def sent(lab, kind, *commands, key=None):
    """The outcomes of these in a block of an application of its own, committed."""
    app = App(lab.url, kind)
    try:
        with app.within(lab.fp) as tx:
            app.pay(f"{key}-{id(app)}")
            found = tx.execute([c.Request.of(command, key) for command in commands])
        app.settle()
        return found
    finally:
        app.close()


def enqueued(payload, key=None):
    return c.Enqueue("q", (c.NewTask(payload, key=key),))


def test_racing_commands_of_one_key_end_in_one_task_and_one_receipt(lab, kind):
    with lab.holding_key("same"):
        racing = [lab.go(sent, lab, kind, enqueued(1), key="same") for _ in range(4)]
        racing.append(lab.go(lab.fp.execute, [c.Request.of(enqueued(1), "same")]))
        lab.waiting(5)
    found = [outcome for outcomes_ in outcomes(racing) for outcome in outcomes_]
    assert {outcome.issues for outcome in found} == {()}
    assert len({outcome.receipt for outcome in found}) == 1
    assert len(list(lab.fp.tasks("q"))) == 1
    assert lab.sql("select count(*) from account") == [(4,)], "the rest of each block stands"


def test_without_a_savepoint_a_command_the_law_of_racing_keys_does_not_hold(lab, monkeypatch):
    monkeypatch.setattr(borrowing.Lent, "again", lambda self, error: False)
    with pytest.raises((AssertionError, FencepostError)):
        test_racing_commands_of_one_key_end_in_one_task_and_one_receipt(lab, "autocommit")


def test_racing_tasks_of_one_key_and_first_tasks_of_a_new_queue_do_not_clash(lab, kind):
    racing = [lab.go(sent, lab, kind, enqueued(n // 2, key=f"t{n // 2}")) for n in range(8)]
    found = [outcome for (outcome,) in outcomes(racing)]
    assert {outcome.issues for outcome in found} == {()}
    assert sorted(lab.fp.task(task.task_id).payload for task in lab.fp.tasks("q")) == [0, 1, 2, 3]


def test_a_block_that_waits_for_a_row_waits_no_longer_than_it_may_last(lab, kind):
    lease = lab.lease()
    complete = c.Complete(lease.task_id, "w1", lease.fence, result="x")
    app = App(lab.url, kind)
    told = pytest.raises(Unavailable, match="held a row")
    with lab.holding_task(lease.task_id), told, app.within(lab.fp, seconds=0.2) as tx:
        tx.execute([complete])
    app.close()
    assert lab.fp.task(lease.task_id).state == "leased"


def test_of_two_blocks_that_lock_each_other_out_one_is_undone_whole_and_one_stands(lab, kind):
    leases = [lab.lease(), lab.lease()]
    done = [c.Complete(one.task_id, "w1", one.fence, result="x") for one in leases]
    ((name,),) = lab.sql("select current_database()")
    lab.sql(f"alter database {name} set deadlock_timeout = 50")

    def block(name, first, second):
        app = App(lab.url, kind)
        try:
            with app.within(lab.fp) as tx:
                app.pay(name)
                tx.execute([first])
                gate.wait()
                tx.execute([second])
            app.settle()
        except Unavailable as error:
            return str(error)
        finally:
            app.close()
        return name

    gate = threading.Barrier(2, timeout=30)
    told = outcomes([lab.go(block, "a", *done), lab.go(block, "b", *reversed(done))])
    lab.sql(f"alter database {name} reset deadlock_timeout")
    stands = [name for name in told if name in ("a", "b")]
    assert len(stands) == 1
    assert [text for text in told if "again and again" in text]
    assert lab.sql("select owner from account") == [(stands[0],)]
    assert [lab.fp.task(one.task_id).state for one in leases] == ["done", "done"]


@pytest.mark.parametrize("begun", [False, True])
def test_another_server_is_recognised_before_a_block_draws_a_fence(lab, kind, begun):
    lab.fp.enqueue("q", 1)
    lab.sql("update fencepost_store set started_at = started_at - interval '1 hour'")
    app = App(lab.url, kind)
    if begun and not app.own:
        app.sql("begin")
    with app.within(lab.fp) as tx:
        app.pay("ann")
        (lease,) = tx.claim("q", worker_id="w")
        assert lease.fence >> 32 == 1
    app.commit()
    app.close()
    assert lab.sql("select epoch, why from fencepost_writer order by 1")[1:] == [(1, "started")]
    assert lab.sql("select owner from account") == [("ann",)]


@pytest.mark.parametrize("kind", ["autocommit", "async autocommit"])
def test_a_commit_that_is_not_answered_is_unknown_and_the_receipt_tells(lab, monkeypatch, kind):
    """The connection is lost with the COMMIT on its way. (Elsewhere it is the application's.)"""
    app = App(lab.url, kind)
    release = borrowing.Lent.release

    def lost(self):
        yield from release(self)
        self.connection.pgconn.send_query(b"commit")
        self.connection.pgconn.finish()

    monkeypatch.setattr(borrowing.Lent, "release", lost)
    with pytest.raises(OutcomeUnknown, match="may have happened"), app.within(lab.fp) as tx:
        tx.enqueue("q", 1, idempotency_key="k")
    app.close()
    assert lab.fp.enqueue("q", 1, idempotency_key="k").task_id


# -- what only an asynchronous application has


def awaited(lab, story):
    async def run():
        async with await psycopg.AsyncConnection.connect(lab.url, autocommit=True) as app:
            return await story(app)

    return asyncio.run(run())


def test_verbs_of_several_tasks_in_one_block_take_turns(lab):
    async def story(app):
        async with lab.fp.within_async(app) as tx:
            receipts = await asyncio.gather(*(tx.enqueue("q", n) for n in range(20)))
        return [receipt.task_id for receipt in receipts]

    ids = awaited(lab, story)
    assert [lab.fp.task(task_id).payload for task_id in ids] == list(range(20))


def test_a_verb_that_waits_for_a_row_does_not_hold_up_the_loop(lab):
    lease = lab.lease()

    async def story(app):
        async with lab.fp.within_async(app) as tx:
            mine = tx.lease(lease.task_id, worker_id="w1", fence=lease.fence)
            verb = asyncio.ensure_future(mine.complete("x"))
            await asyncio.to_thread(lab.waiting, 1)
            assert not verb.done()
            free()
            await verb

    with lab.holding_task(lease.task_id) as free:
        awaited(lab, story)
    assert lab.fp.task(lease.task_id).state == "done"


def test_a_verb_that_is_cancelled_rolls_the_block_back_and_leaves_the_connection_usable(lab):
    lease = lab.lease()

    async def block(app):
        async with lab.fp.within_async(app) as tx:
            await tx.enqueue("q", 1)
            await tx.lease(lease.task_id, worker_id="w1", fence=lease.fence).complete("x")

    async def story(app):
        task = asyncio.ensure_future(block(app))
        await asyncio.to_thread(lab.waiting, 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert app.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        async with lab.fp.within_async(app) as tx:
            await tx.enqueue("q", 2)

    with lab.holding_task(lease.task_id):
        awaited(lab, story)
    assert [lab.fp.task(task.task_id).payload for task in lab.fp.tasks("q")] == [2]


def test_an_asynchronous_block_has_every_verb_of_the_handle_and_no_other():
    own = {name for name in dir(Verbs) if not name.startswith("_")}
    assert own <= {*dir(AsyncTransaction(None, None))}
    block = AsyncTransaction(None, None)
    for name in own:
        assert inspect.signature(getattr(block, name)) is not None
    with pytest.raises(AttributeError, match="no verb"):
        block.dequeue  # noqa: B018


def test_a_store_of_another_kind_has_no_asynchronous_block():
    with fencepost.open(":memory:", create=True) as fp, pytest.raises(InvalidRequest, match="use"):
        fp.within_async(None)
