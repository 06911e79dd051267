# ruff: noqa: PT012 - what raises here is the whole block, at its end
"""The caller's own transaction: what Fencepost does in it commits and rolls back with it."""

from __future__ import annotations

import sqlite3
import sys
import threading
from contextlib import closing

import pytest
from helpers.lab import OUTBOX, QUEUE, raw
from helpers.leftovers import leftovers
from helpers.together import at_once

import fencepost
from fencepost import commands as c
from fencepost.issues import GuardTripped, InvalidRequest, Refused, Unavailable
from fencepost.machine import fold

KINDS = {
    "legacy": {},
    "none": {"isolation_level": None},
    "immediate": {"isolation_level": "IMMEDIATE"},
    "exclusive": {"isolation_level": "EXCLUSIVE"},
}
if sys.version_info >= (3, 12):
    KINDS["autocommit"] = {"autocommit": True}


@pytest.fixture(params=KINDS)
def app(request, lab):
    """An application's connection to the store's own file, with a table of its own."""
    with closing(sqlite3.connect(lab.path, **KINDS[request.param])) as connection:
        connection.execute("create table account (owner text primary key, balance integer)")
        connection.commit()
        yield connection


@pytest.fixture
def plain(lab):
    with closing(sqlite3.connect(lab.path)) as connection:
        connection.execute("create table account (owner text primary key, balance integer)")
        yield connection


def accounts(lab):
    with lab.sql() as connection:
        return connection.execute("select owner, balance from account").fetchall()


def free(lab, connection):
    """The turn is free, and the connection is in no transaction."""
    assert not connection.in_transaction
    lab.open(wait_seconds=5).enqueue("free", "x")
    return True


def test_ours_and_the_applications_rows_commit_together(lab, app):
    lease = lab.lease()
    with lab.fp.within(app) as tx:
        app.execute("insert into account values ('ann', 7)")
        done = tx.lease(lease.task_id, worker_id="w1", fence=lease.fence).complete({"sum": 7})
        followup = tx.enqueue("next", "payload", key="k").task_id
        assert accounts(lab) == [], "nobody else sees anything yet"
        assert lab.fp.task(lease.task_id).state == "leased"
    assert accounts(lab) == [("ann", 7)]
    assert lab.fp.task(lease.task_id).state == "done"
    assert lab.fp.task(followup).payload == "payload"
    assert lab.counts() == (1, 1, 1)
    assert lease.complete({"sum": 7}) == done, "the retry gets the very receipt"
    assert free(lab, app)


def test_ours_and_the_applications_rows_roll_back_together(lab, app):
    lease = lab.lease()
    before = lab.dump()
    with pytest.raises(ZeroDivisionError), lab.fp.within(app) as tx:
        app.execute("insert into account values ('ann', 7)")
        tx.lease(lease.task_id, worker_id="w1", fence=lease.fence).complete({"sum": 7})
        raise ZeroDivisionError
    assert lab.dump() == before
    assert accounts(lab) == []
    assert free(lab, app)
    assert lease.complete({"sum": 7}).entry["verb"] == "complete"


def test_outcomes_are_pending_until_the_commit(lab, plain):
    with lab.fp.within(plain) as tx:
        (first,) = tx.execute([c.Enqueue("q", (c.NewTask(1, key="k"),))])
        (again,) = tx.execute([c.Enqueue("q", (c.NewTask(1, key="k"),))])
        assert (first.status, again.status) == ("pending", "pending")
        assert first.task_ids == again.task_ids, "commands see what went before in the block"
        (refused,) = tx.execute([c.Enqueue("q", (c.NewTask(2, key="k"),))])
        assert (refused.status, refused.issues) == ("failed", ("key_conflict",))
    assert lab.fp.task(first.task_ids[0]).state == "ready"


def test_a_refusal_inside_leaves_the_rest_of_the_block_standing(lab, plain):
    lease = lab.lease()
    with lab.fp.within(plain) as tx:
        plain.execute("insert into account values ('ann', 1)")
        with pytest.raises(Refused):
            tx.lease(lease.task_id, worker_id="other", fence=lease.fence).complete("x")
    assert accounts(lab) == [("ann", 1)]
    assert lab.fp.task(lease.task_id).state == "leased"


def test_a_connection_with_an_open_transaction_is_refused(lab, app):
    app.execute("begin")
    with pytest.raises(InvalidRequest, match="inside a transaction"), lab.fp.within(app):
        pytest.fail("the block must not begin")
    app.execute("rollback")
    assert free(lab, app)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="autocommit came with Python 3.12")
def test_a_connection_that_is_always_in_a_transaction_is_refused(lab):
    with closing(sqlite3.connect(lab.path, autocommit=False)) as app:
        with pytest.raises(InvalidRequest, match="autocommit=False"), lab.fp.within(app):
            pytest.fail("the block must not begin")
        app.rollback()


@pytest.mark.parametrize("target", [":memory:", "", "other.db"])
def test_a_connection_to_another_file_is_refused(lab, tmp_path, target):
    name = target if target in (":memory:", "") else str(tmp_path / target)
    with closing(sqlite3.connect(name)) as app:
        app.execute("create table t (x)")
        with pytest.raises(InvalidRequest, match="not to"), lab.fp.within(app):
            pytest.fail("the block must not begin")
        assert free(lab, app)


def test_what_is_no_usable_connection_is_refused(lab, tmp_path):
    with pytest.raises(InvalidRequest, match="not a sqlite3"), lab.fp.within("work.db"):
        pytest.fail("the block must not begin")
    app = sqlite3.connect(lab.path)
    app.close()
    with pytest.raises(Unavailable, match="closed"), lab.fp.within(app):
        pytest.fail("the block must not begin")
    with closing(sqlite3.connect(f"file:{lab.path}?mode=ro", uri=True)) as app:
        with pytest.raises(Unavailable, match="read-only"), lab.fp.within(app) as tx:
            tx.enqueue("q", 1)
        assert free(lab, app)


def test_a_store_in_memory_has_no_connection_for_others():
    with fencepost.open(":memory:", create=True) as fp, closing(sqlite3.connect(":memory:")) as app:
        with pytest.raises(InvalidRequest, match="no file"), fp.within(app):
            pytest.fail("the block must not begin")
        assert fp.enqueue("q", 1).task_id


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_transaction_ended_inside_the_block_is_told_and_frees_the_turn(lab, app, end):
    with pytest.raises(InvalidRequest, match="ended inside"), lab.fp.within(app) as tx:
        tx.enqueue("q", 1)
        app.execute(end)  # app.commit() does nothing where the connection is in autocommit
        with pytest.raises(InvalidRequest, match="ended inside"):
            tx.enqueue("q", 2)
    assert len(list(lab.fp.tasks("q"))) == (1 if end == "commit" else 0)
    assert free(lab, app)


def test_a_commit_inside_followed_by_other_work_is_told_too(lab, plain):
    """The connection is in a transaction again, but it is not the one that the block began."""
    with pytest.raises(InvalidRequest, match="ended inside"), lab.fp.within(plain) as tx:
        tx.enqueue("q", 1)
        plain.commit()
        plain.execute("insert into account values ('ann', 1)")
    assert accounts(lab) == []
    assert free(lab, plain)


def test_too_long_a_block_is_rolled_back(lab, plain):
    with pytest.raises(Unavailable, match=r"held the turn for 6\.0 s"), lab.fp.within(plain) as tx:
        tx.enqueue("q", 1)
        lab.clock.advance(6)
        with pytest.raises(Unavailable):
            tx.enqueue("q", 2)
    assert list(lab.fp.tasks("q")) == []
    assert free(lab, plain)
    with lab.fp.within(plain, seconds=10) as tx:
        tx.enqueue("q", 1)
        lab.clock.advance(6)
    assert len(list(lab.fp.tasks("q"))) == 1


def test_a_command_that_breaks_off_spoils_the_block_even_if_it_goes_on(lab, plain, monkeypatch):
    """Some of its rows may be written by then, so nothing of the block may be committed."""
    lease = lab.lease()
    before = lab.dump()
    honest = fold.VERBS["complete"]

    def wrong(batch, caller, request, task):
        verdict = honest(batch, caller, request, task)
        task.guard = (task.fence + 1, None)  # what the rules would never let through
        return verdict

    monkeypatch.setitem(fold.VERBS, "complete", wrong)
    with pytest.raises(Unavailable, match="broke off"), lab.fp.within(plain) as tx:
        plain.execute("insert into account values ('ann', 1)")
        with pytest.raises(GuardTripped):
            tx.lease(lease.task_id, worker_id="w1", fence=lease.fence).complete("x")
    assert lab.dump() == before
    assert accounts(lab) == []
    assert free(lab, plain)


def test_the_applications_way_to_read_rows_is_its_own(lab, plain):
    plain.row_factory = lambda cursor, row: {cursor.description[0][0]: row[0]}
    plain.text_factory = bytes
    plain.execute("pragma foreign_keys = on")
    with lab.fp.within(plain) as tx:
        task_id = tx.enqueue("q", "x").task_id
        (lease,) = tx.claim("q", worker_id="w")
        assert lease.payload == "x"
        lease.complete("y")
        plain.execute("insert into account values ('ann', 1)")
        (row,) = plain.execute("select owner from account").fetchall()
        assert row == {"owner": b"ann"}
        tx.erase(task_id)
    assert lab.fp.task(task_id).erased is True


def test_a_block_makes_the_applications_connection_durable(lab, plain):
    plain.execute("pragma synchronous = off")
    with lab.fp.within(plain) as tx:
        tx.enqueue("q", 1)
    assert plain.execute("pragma synchronous").fetchone() == (2,)


def test_blocks_do_not_nest_and_the_handle_is_not_used_inside(lab, plain):
    with closing(sqlite3.connect(lab.path)) as other, lab.fp.within(plain) as tx:
        with pytest.raises(InvalidRequest, match="already"), lab.fp.within(other):
            pytest.fail("the block must not begin")
        with pytest.raises(InvalidRequest, match="inside a `within`"):
            lab.fp.enqueue("q", 1)
        tx.enqueue("q", 2)
    assert [task.payload for task in map(lab.fp.task, ids(lab))] == [2]


def ids(lab):
    return [task.task_id for task in lab.fp.tasks("q")]


def test_an_ended_block_takes_no_more_commands(lab, plain):
    with lab.fp.within(plain) as tx:
        tx.enqueue("q", 1)
    with pytest.raises(InvalidRequest, match="has ended"):
        tx.enqueue("q", 2)


def test_commands_of_other_threads_wait_until_the_block_ends(lab, plain):
    began, sent = threading.Event(), threading.Event()
    order = []

    def block():
        with closing(sqlite3.connect(lab.path)) as app, lab.fp.within(app) as tx:
            tx.enqueue("q", "inside")
            began.set()
            assert sent.wait(30)
            assert not future[0].done()
            order.append("block")

    def command():
        assert began.wait(30)
        future.append(lab.fp.send([c.Enqueue("q", (c.NewTask("outside"),))]))
        sent.set()
        assert future[0].result(30)[0].accepted
        order.append("command")

    future: list = []
    at_once(block, command)
    assert order == ["block", "command"]
    assert [lab.fp.task(task_id).payload for task_id in ids(lab)] == ["inside", "outside"]


def test_a_block_that_cannot_have_the_turn_in_time_is_unavailable(lab, plain):
    late = lab.open(wait_seconds=0.05)
    with lab.fp._store.turn():
        error = at_once(lambda: caught(late, lab.path))[0]
    assert "no turn" in str(error)
    assert free(lab, plain)


def caught(handle, path):
    with closing(sqlite3.connect(path)) as app, pytest.raises(Unavailable) as raised:
        handle.within(app).__enter__()
    return raised.value


def test_what_the_application_writes_without_a_turn_is_waited_for(lab, plain):
    """The docs call it a risk; within SQLite's busy time (5 s) it is only a wait."""
    plain.execute("insert into account values ('ann', 1)")  # and not committed
    future = lab.fp.send([c.Enqueue("q", (c.NewTask(1),))])
    assert not future.done()
    with raw(lab.path) as reader:
        assert reader.execute("select count(*) from account").fetchone() == (0,)
    plain.commit()
    assert future.result(30)[0].accepted
    assert accounts(lab) == [("ann", 1)]


def test_an_erasure_inside_a_block_leaves_no_byte_behind(lab, plain):
    marker = "bcdfghjklmnpqrstvwxz"
    task_id = lab.offer(marker * 30)
    with lab.fp.within(plain) as tx:
        tx.erase(task_id)
    assert leftovers(lab.path, [marker]) == []
    assert [task.queue for task in lab.fp.tasks(OUTBOX)] == []
    assert lab.fp.queue(QUEUE).destinations == (OUTBOX,)
