# ruff: noqa: PT012 - what raises here is the whole block, at its end
"""An application's own transaction on PostgreSQL: what Fencepost does in it commits and rolls back
with it, on a connection of every kind."""

from __future__ import annotations

import os

import psycopg
import pytest
from helpers import postgres
from helpers.pg_app import KINDS, App, laboratory

import fencepost
from fencepost import commands as c
from fencepost.issues import GuardTripped, InvalidRequest, Refused, Unavailable
from fencepost.machine import fold


@pytest.fixture
def lab():
    with laboratory() as made:
        yield made


@pytest.fixture(params=KINDS)
def app(request, lab):
    made = App(lab.url, request.param)
    yield made
    made.close()


def accounts(lab):
    return [owner for (owner,) in lab.sql("select owner from account order by 1")]


def queued(lab):
    return [lab.fp.task(task.task_id).payload for task in lab.fp.tasks("q")]


def test_ours_and_the_applications_rows_commit_together(lab, app):
    lease = lab.lease()
    with app.within(lab.fp) as tx:
        app.pay("ann")
        done = tx.lease(lease.task_id, worker_id="w1", fence=lease.fence).complete({"sum": 7})
        followup = tx.enqueue("next", "payload", key="k").task_id
        assert accounts(lab) == [], "nobody else sees anything yet"
        assert lab.fp.task(lease.task_id).state == "leased"
    app.settle()
    assert accounts(lab) == ["ann"]
    assert lab.fp.task(lease.task_id).state == "done"
    assert lab.fp.task(followup).payload == "payload"
    assert lease.complete({"sum": 7}) == done, "the retry gets the very receipt"
    assert app.idle()


def test_ours_and_the_applications_rows_roll_back_together(lab, app):
    lease = lab.lease()
    with pytest.raises(ZeroDivisionError), app.within(lab.fp) as tx:
        app.pay("ann")
        tx.lease(lease.task_id, worker_id="w1", fence=lease.fence).complete({"sum": 7})
        raise ZeroDivisionError
    app.settle()
    assert (accounts(lab), lab.fp.task(lease.task_id).state) == ([], "leased")
    assert app.idle()
    assert lease.complete({"sum": 7}).entry["verb"] == "complete"


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "transactions" in kind])
def test_without_autocommit_the_commit_stays_the_applications_from_the_first_statement(lab, kind):
    """What stands above the driver may believe that its transaction has begun: a commit of ours
    would be half of it."""
    for end, found in (("rollback", []), ("commit", [1])):
        app = App(lab.url, kind)
        with app.within(lab.fp) as tx:
            tx.enqueue("q", 1)
        assert queued(lab) == []
        assert not app.idle()
        getattr(app, end)()
        assert queued(lab) == found
        app.close()


def test_in_an_open_transaction_the_block_is_a_part_of_it(lab, app):
    for end in ("rollback", "commit"):
        if not app.own:
            app.sql("begin")
        app.pay("ann")
        with app.within(lab.fp) as tx:
            tx.enqueue("q", end)
        app.pay("bob")
        assert (accounts(lab), queued(lab)) == ([], [])
        app.sql(end)
    assert (accounts(lab), queued(lab)) == (["ann", "bob"], ["commit"])


def test_what_raises_in_a_part_undoes_that_part_alone(lab, app):
    app.sql("begin") if not app.own else app.pay("first")
    with pytest.raises(ZeroDivisionError), app.within(lab.fp) as tx:
        tx.enqueue("q", 1)
        app.pay("ann")
        raise ZeroDivisionError
    with app.within(lab.fp) as tx:
        tx.enqueue("q", 2)
    app.commit()
    assert ("ann" in accounts(lab), queued(lab)) == (False, [2])


def test_blocks_nest_and_the_inner_one_may_fail_alone(lab, app):
    with app.within(lab.fp) as outer:
        outer.enqueue("q", 1)
        with pytest.raises(ZeroDivisionError), app.within(lab.fp) as inner:
            inner.enqueue("q", 2)
            raise ZeroDivisionError
        with app.within(lab.fp) as inner:
            inner.enqueue("q", 3)
        outer.enqueue("q", 4)
        assert queued(lab) == []
    app.settle()
    assert queued(lab) == [1, 3, 4]


def test_savepoints_of_the_application_and_blocks_hold_each_other(lab, app):
    with app.within(lab.fp) as tx:
        tx.enqueue("q", 1)
        app.sql("savepoint theirs")
        tx.enqueue("q", 2)
        app.sql("rollback to savepoint theirs")
        tx.enqueue("q", 3)
    app.settle()
    assert queued(lab) == [1, 3]


def test_outcomes_are_pending_until_the_commit(lab, app):
    with app.within(lab.fp) as tx:
        (first,) = tx.execute([c.Enqueue("q", (c.NewTask(1, key="k"),))])
        (again,) = tx.execute([c.Enqueue("q", (c.NewTask(1, key="k"),))])
        assert (first.status, again.status) == ("pending", "pending")
        assert first.task_ids == again.task_ids, "commands see what went before in the block"
        (refused,) = tx.execute([c.Enqueue("q", (c.NewTask(2, key="k"),))])
        assert (refused.status, refused.issues) == ("failed", ("key_conflict",))
    app.settle()
    assert lab.fp.task(first.task_ids[0]).state == "ready"


def test_a_refusal_inside_leaves_the_rest_of_the_block_standing(lab, app):
    lease = lab.lease()
    with app.within(lab.fp) as tx:
        app.pay("ann")
        with pytest.raises(Refused):
            tx.lease(lease.task_id, worker_id="other", fence=lease.fence).complete("x")
    app.settle()
    assert (accounts(lab), lab.fp.task(lease.task_id).state) == (["ann"], "leased")


def test_every_verb_that_goes_on_after_its_answer_works_inside(lab, app):
    with app.within(lab.fp) as tx:
        receipts = tx.enqueue_many("q", ({"payload": n} for n in range(600)))
        assert [len(receipt.task_ids) for receipt in receipts] == [250, 250, 100]
        first, second = tx.claim("q", worker_id="w", limit=2, lease_seconds=60)
        assert first.payload == 0
        assert first.renew(90, progress={"line": 4}) == first.lease_expires_at
        assert first.release(progress={"line": 5}).entry["verb"] == "release"
        second.submit("row")
        _, text = tx.token_create("bob", "worker")
        assert tx.erase(second.task_id).entry["verb"] == "erase"
    app.settle()
    assert lab.fp.task(second.task_id).erased is True
    assert text.startswith("fp")
    assert [task.actor for task in lab.fp.tokens()] == ["bob"]


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_transaction_ended_inside_the_block_is_told(lab, app, end):
    with pytest.raises(InvalidRequest, match="ended inside"), app.within(lab.fp) as tx:
        tx.enqueue("q", 1)
        app.sql(end)
        with pytest.raises(InvalidRequest, match="ended inside"):
            tx.enqueue("q", 2)
    assert queued(lab) == ([1] if end == "commit" else [])
    assert app.idle()


def test_a_commit_inside_followed_by_other_work_is_told_too(lab, app):
    with pytest.raises(InvalidRequest, match="ended inside"), app.within(lab.fp) as tx:
        tx.enqueue("q", 1)
        app.sql("commit")
        app.sql("begin") if not app.own else None
        app.pay("ann")
    app.rollback()
    assert (accounts(lab), queued(lab)) == ([], [1])
    assert app.idle()


def test_a_statement_of_the_application_that_fails_spoils_the_block_and_is_told(lab, app):
    with pytest.raises(InvalidRequest, match="has failed"), app.within(lab.fp) as tx:
        tx.enqueue("q", 1)
        with pytest.raises(psycopg.errors.UndefinedTable):
            app.sql("select * from nowhere")
        with pytest.raises(InvalidRequest, match="has failed"):
            tx.enqueue("q", 2)
    app.settle()
    assert queued(lab) == []
    assert app.idle()


def test_too_long_a_block_is_rolled_back(lab, app):
    with pytest.raises(Unavailable, match=r"6\.0 s"), app.within(lab.fp) as tx:
        tx.enqueue("q", 1)
        lab.clock.advance(6)
        with pytest.raises(Unavailable):
            tx.enqueue("q", 2)
    app.settle()
    assert queued(lab) == []
    with app.within(lab.fp, seconds=10) as tx:
        tx.enqueue("q", 1)
        lab.clock.advance(6)
    app.settle()
    assert queued(lab) == [1]


def test_a_command_that_breaks_off_spoils_the_block_even_if_it_goes_on(lab, app, monkeypatch):
    lease = lab.lease()
    honest = fold.VERBS["complete"]

    def wrong(batch, caller, request, task):
        verdict = honest(batch, caller, request, task)
        task.guard = (task.fence + 1, None)  # what the rules would never let through
        return verdict

    monkeypatch.setitem(fold.VERBS, "complete", wrong)
    with pytest.raises(Unavailable, match="broke off"), app.within(lab.fp) as tx:
        app.pay("ann")
        with pytest.raises(GuardTripped):
            tx.lease(lease.task_id, worker_id="w1", fence=lease.fence).complete("x")
    app.settle()
    assert (accounts(lab), lab.fp.task(lease.task_id).state) == ([], "leased")


def test_an_ended_block_takes_no_more_commands(lab, app):
    with app.within(lab.fp) as tx:
        tx.enqueue("q", 1)
    with pytest.raises(InvalidRequest, match="has ended"):
        tx.enqueue("q", 2)
    app.settle()
    assert queued(lab) == [1]


def test_a_connection_that_is_lost_before_the_end_has_done_nothing(lab, app):
    with pytest.raises(Unavailable), app.within(lab.fp) as tx:
        tx.enqueue("q", 1)
        ((pid,),) = app.sql("select pg_backend_pid()")
        lab.sql("select pg_terminate_backend(%s, 10000)", pid)
    assert queued(lab) == []


# -- what it cannot begin on


def test_a_connection_to_another_database_is_refused(lab, app):
    with postgres.database() as url:
        other = App(url, "autocommit")
        with pytest.raises(InvalidRequest, match="not to"), other.within(lab.fp):
            pytest.fail("the block must not begin")
        assert other.idle()
        other.close()


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_a_transaction_that_does_not_see_what_others_commit_is_refused(lab, app, level):
    app.sql(f"set default_transaction_isolation = '{level}'")
    app.settle()
    with pytest.raises(InvalidRequest, match=level), app.within(lab.fp):
        pytest.fail("the block must not begin")
    app.settle()
    assert app.idle()
    app.sql("set default_transaction_isolation = 'read committed'")
    app.settle()
    app.sql(f"{'set transaction' if app.own else 'begin'} isolation level {level}")
    with pytest.raises(InvalidRequest, match=level), app.within(lab.fp):
        pytest.fail("the block must not begin")
    app.sql("select 1")
    app.rollback()
    setting = app.connection.set_isolation_level
    app.now(setting(psycopg.IsolationLevel[level.upper().replace(" ", "_")]))
    with pytest.raises(InvalidRequest, match=level), app.within(lab.fp):
        pytest.fail("the block must not begin")
    assert app.idle()


def test_what_is_no_usable_connection_is_refused(lab, app):
    with pytest.raises(InvalidRequest, match=r"not a psycopg\.Connection"):
        lab.fp.within("work.db").__enter__()
    with pytest.raises(InvalidRequest, match=r"not a psycopg\.AsyncConnection"):
        lab.fp.within_async("work.db")
    app.sql("set default_transaction_read_only = on")
    app.settle()
    with pytest.raises(InvalidRequest, match="read-only"), app.within(lab.fp):
        pytest.fail("the block must not begin")
    app.settle()
    with pytest.raises(psycopg.errors.DivisionByZero):
        app.sql("select 1/0") if app.own else app.sql("begin; select 1/0")
    with pytest.raises(InvalidRequest, match="has failed"), app.within(lab.fp):
        pytest.fail("the block must not begin")
    app.rollback()
    app.now(app.connection.close())
    with pytest.raises(Unavailable, match="closed"), app.within(lab.fp):
        pytest.fail("the block must not begin")


def test_each_kind_of_connection_has_its_own_block(lab, app):
    if app.awaits:
        with pytest.raises(InvalidRequest, match="there is within_async"):
            lab.fp.within(app.connection).__enter__()
    else:
        with pytest.raises(InvalidRequest, match=r"not a psycopg\.AsyncConnection"):
            lab.fp.within_async(app.connection)


def test_a_block_and_transactions_of_psycopg_hold_each_other(lab, app):
    def transaction(fails, inside):
        """`with connection.transaction():`, which is awaited on the other kind."""
        block = app.connection.transaction()
        enter, leave = (
            (block.__aenter__, block.__aexit__) if app.awaits else (block.__enter__, block.__exit__)
        )
        app.now(enter())
        inside()
        error = ZeroDivisionError() if fails else None
        app.now(leave(type(error) if error else None, error, None))

    def one(payload):
        with app.within(lab.fp) as tx:
            tx.enqueue("q", payload)

    def two():
        with app.within(lab.fp) as tx:
            for payload, fails in (("inside", False), ("inside and undone", True)):
                transaction(fails, lambda payload=payload: tx.enqueue("q", payload))

    transaction(False, lambda: one("around"))
    transaction(True, lambda: one("around and undone"))
    two()
    app.settle()
    assert queued(lab) == ["around", "inside"]
    assert app.idle()


@pytest.mark.parametrize("kind", KINDS)
def test_a_store_in_a_schema_of_its_own_and_an_application_of_another_role(kind):
    role = f"app_{os.getpid()}"
    place = '"The Store"'
    rights = f"""
        create role {role} login; grant usage on schema {place} to {role};
        grant select, insert, update, delete on all tables in schema {place} to {role};
        grant usage, select, update on all sequences in schema {place} to {role}
    """
    with postgres.database() as url, psycopg.connect(url, autocommit=True) as admin:
        admin.execute(f"create schema {place}")
        options = "?&"["?" in url] + "options=-csearch_path%3D%22The%5C%20Store%22"
        with fencepost.open(url + options, create=True) as fp:
            admin.execute(rights)
            app = App(url, kind, user=role)
            try:
                with app.within(fp) as tx:
                    task_id = tx.enqueue("q", 1).task_id
                app.settle()
                assert fp.task(task_id).payload == 1
                admin.execute(f"revoke all on all tables in schema {place} from {role}")
                with pytest.raises(Unavailable, match="may not do this"), app.within(fp) as tx:
                    tx.enqueue("q", 2)
            finally:
                app.close()
                admin.execute(f"drop owned by {role}; drop role {role}")
        assert admin.execute("select to_regclass('public.fencepost_task')").fetchone() == (None,)
