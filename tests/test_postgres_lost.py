"""Answers of PostgreSQL that are lost, sessions that are ended, commits that nobody waited for."""

from __future__ import annotations

import re
from contextlib import contextmanager

import psycopg
import pytest
from helpers import postgres
from helpers.lab import QUEUE
from helpers.pg_proxy import Proxy
from helpers.pg_side import Sides, until

import fencepost
from fencepost import commands as c
from fencepost.commands import Request
from fencepost.issues import OutcomeUnknown, Unavailable
from fencepost.model import Outcome
from fencepost.storage.postgres import commit as committing
from fencepost.storage.postgres import store as stores
from fencepost.storage.postgres import talk

# Nobody else may begin a transaction: a vacuum's would end after the one that is looked at.
LASTING = ("fsync=off", "shared_buffers=32MB", "max_connections=60", "autovacuum=off")


@pytest.fixture(scope="module")
def server():
    """One of this module's own: what is set here is set for all of it."""
    with postgres.Server(LASTING, tcp=True) as own:
        yield own


@contextmanager
def far_from(server):
    """A store that is reached through a network, and eyes that see it directly."""
    with Proxy(server) as proxy, Sides(server.url(), clock=False) as near:
        with fencepost.open(proxy.url(), scope="lab") as fp:
            near.far, near.proxy = fp, proxy
            yield near
        near.sound()


@pytest.fixture
def far(server):
    with far_from(server) as made:
        yield made


def test_an_answer_to_a_commit_that_is_lost_is_found_in_the_receipts(far):
    far.proxy.at_commit("cut after")
    receipt = far.far.enqueue(QUEUE, {"n": 1}, key="k", idempotency_key="lost")
    assert [fault for fault, _ in far.proxy.done] == ["cut after"]
    assert receipt.body == far.fp.enqueue(QUEUE, {"n": 1}, key="k", idempotency_key="lost").body


def test_a_commit_that_never_came_to_the_server_is_told_as_not_done(far):
    far.proxy.at_commit("cut before")
    with pytest.raises(Unavailable, match="nothing was done, try again"):
        far.far.enqueue(QUEUE, {"n": 2}, idempotency_key="never")
    again = far.far.enqueue(QUEUE, {"n": 2}, idempotency_key="never")
    assert far.fp.task(again.task_id).payload == {"n": 2}


def test_what_has_not_ended_at_the_server_is_never_told_as_not_done(far, monkeypatch):
    """Its session waits in the COMMIT for a standby that does not come, our line is cut, and no
    later transaction has ended: the very one that a snapshot does not show as begun."""
    monkeypatch.setattr(stores, "UNDECIDED_SECONDS", 0.3)
    with no_standby(far):
        far.proxy.at_commit("hold")
        sending = far.go(far.far.enqueue, QUEUE, {"n": 3}, idempotency_key="slow")
        until(lambda: far.sql(SYNC_WAIT) != [], "the commit to wait for a standby")
        far.proxy.cut()
        with pytest.raises(OutcomeUnknown):
            sending.result(40)
    receipt = far.far.enqueue(QUEUE, {"n": 3}, idempotency_key="slow")
    assert receipt.entry["verb"] == "enqueue"
    ((count,),) = far.sql("select count(*) from fencepost_entry where key = 'lab local slow'")
    assert count == 1


SYNC_WAIT = "select pid from pg_stat_activity where wait_event = 'SyncRep'"


@contextmanager
def no_standby(far):
    """Each commit waits for a standby that is not there."""
    wait_for(far, "nobody")
    yield
    wait_for(far, "")


def wait_for(far, standby):
    far.sql(f"alter system set synchronous_standby_names = '{standby}'")
    far.sql("select pg_reload_conf()")
    shown = "select 1 where current_setting('synchronous_standby_names') = %s"
    until(lambda: far.sql(shown, standby) != [], "the setting")


@pytest.mark.parametrize("how", ["pg_cancel_backend", "pg_terminate_backend"])
def test_a_wait_for_a_standby_that_is_cancelled_is_no_success(far, monkeypatch, how):
    """The server says COMMIT and a warning. It stands there, and a standby may lack it for ever."""
    monkeypatch.setattr(committing, "COMMIT_SECONDS", 1.0)
    with no_standby(far):
        sending = far.go(far.far.enqueue, QUEUE, {"n": 4}, idempotency_key=how)
        until(lambda: far.sql(SYNC_WAIT) != [], "the commit to wait for a standby")
        far.sql(f"select {how}(pid) from ({SYNC_WAIT}) waiting")
        with pytest.raises(OutcomeUnknown):
            sending.result(40)
        found = far.sql("select 1 from fencepost_entry where key = %s", f"lab local {how}")
        assert found, "the server has told a success that was none"
    assert far.far.enqueue(QUEUE, {"n": 4}, idempotency_key=how).entry["verb"] == "enqueue"


def test_a_stored_receipt_is_told_again_only_when_a_standby_has_it(far, monkeypatch):
    """Whoever asks for it, from whichever process: it may be there by a cancelled wait."""
    monkeypatch.setattr(committing, "COMMIT_SECONDS", 0.5)
    monkeypatch.setattr(stores, "UNDECIDED_SECONDS", 0.3)
    receipt = far.fp.enqueue(QUEUE, {"n": 5}, idempotency_key="stored")
    with no_standby(far), pytest.raises(OutcomeUnknown):
        far.far.enqueue(QUEUE, {"n": 5}, idempotency_key="stored")
    assert far.far.enqueue(QUEUE, {"n": 5}, idempotency_key="stored").body == receipt.body


def test_a_commit_that_is_not_answered_in_time_is_unknown_and_its_line_is_dropped(far, monkeypatch):
    monkeypatch.setattr(committing, "COMMIT_SECONDS", 0.5)
    monkeypatch.setattr(stores, "UNDECIDED_SECONDS", 0.3)
    before = far.far._store._main.connection
    far.proxy.at_commit("hold")
    receipt = far.far.enqueue(QUEUE, {"n": 6}, idempotency_key="held")  # it had been carried out
    assert before.closed
    assert receipt.body == far.fp.enqueue(QUEUE, {"n": 6}, idempotency_key="held").body


def test_a_warning_on_a_commit_is_never_taken_for_a_success(far):
    """Such as: there was no transaction in progress. It says COMMIT all the same."""
    warned = pytest.raises(psycopg.OperationalError, match="no transaction in progress")
    with psycopg.connect(far.url, autocommit=True) as connection, warned:
        committing.commit(connection)
    assert connection.closed


def test_a_session_that_is_ended_at_any_moment_of_a_batch_leaves_all_of_it_or_nothing(far):
    """At each turn of the conversation, with each fault: what is told is what is there, and asking
    again gives one effect each."""
    met = set()
    for fault in ("terminate", "cut before", "cut after"):
        number = 0
        while True:
            number += 1
            far.fp.enqueue("work", {"n": number}, key=f"{fault} {number}".replace(" ", "-"))
            batch = _batch(f"{fault}-{number}".replace(" ", "-"))
            far.proxy.at(number, fault)
            told = _told(far.far, batch)
            if not far.proxy.done:
                break
            far.proxy.arm(lambda turn: None)
            met.update(outcome.issues[:1] for outcome in told if not outcome.accepted)
            sure = [outcome.accepted for outcome in told]
            again = far.far.execute(batch)
            assert all(outcome.accepted for outcome in again)
            for known, first, second in zip(sure, told, again, strict=True):
                assert not known or first.receipt.body == second.receipt.body
        assert number > 3
    assert met <= {("store_unavailable",), ("outcome_unknown",)}
    ((tasks, entries),) = far.sql(
        "select (select count(*) from fencepost_task t join fencepost_queue q on q.id = t.queue_id "
        "where q.queue = 'made'), (select count(distinct key) from fencepost_entry "
        "where key like 'lab local made-%')"
    )
    assert tasks == entries > 0


def _batch(name):
    new = c.NewTask({"made": name}, f"task-{name}")
    return [
        Request.of(c.Enqueue("made", (new,)), f"made-{name}"),
        Request.of(c.Claim("w1", ("work",), None, 1, 60), f"claim-{name}"),
    ]


def _told(fp, batch):
    """The outcomes, whether they are told one by one or for all."""
    try:
        return fp.execute(batch)
    except (Unavailable, OutcomeUnknown) as error:
        return [Outcome("failed", (error.code,))] * len(batch)


def test_a_server_that_was_started_again_between_two_commands_is_no_failure(server):
    with Sides(server.url(), clock=False) as near:
        before = near.fp.enqueue(QUEUE, 1)
        server.stop()
        server.start()
        assert near.fp.task(before.task_id).payload == 1
        assert near.fp.enqueue(QUEUE, 2).entry["epoch"] == before.entry["epoch"] + 1


def _settings(before, after):
    text = talk.STATEMENTS["settings"]
    assert before in text
    return talk._statement("settings_of_a_test", text.replace(before, after))


def test_a_row_that_others_hold_is_waited_for_until_there_is_an_end_to_it(far, monkeypatch):
    """Nothing was done, and it is told so."""
    lease = far.lease()
    monkeypatch.setitem(talk._KNOWN, "settings", _settings("15s", "200ms"))
    with far.holding_task(lease.task_id):
        completing = far.go(lease.complete, {"answer": 1})
        with pytest.raises(Unavailable, match="has held a row for too long"):
            completing.result(40)
    assert lease.complete({"answer": 1}).entry["verb"] == "complete"


def test_who_has_to_be_alone_waits_until_there_is_an_end_to_it_and_says_for_whom(far, monkeypatch):
    """Nothing was done, and everybody else goes on."""
    monkeypatch.setitem(talk._KNOWN, "settings", _settings("15s", "200ms"))
    touched = "select 1 from fencepost_store where false for key share"
    with far.holding("set application_name = 'the importer'", touched):
        changing = far.go(far.fp.set_policy, 2)
        with pytest.raises(Unavailable) as told:
            changing.result(40)
        assert re.search(
            r"scope\.set_policy waits for all transactions .*: backend \d+ \(the importer, idle in "
            r"transaction, since \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\); end them",
            str(told.value),
        )
        assert far.fp.enqueue(QUEUE, 1).entry["verb"] == "enqueue"
    assert far.fp.set_policy(2).entry["note"]["policy_version"] == 2


def test_many_who_meet_a_server_that_was_started_anew_begin_one_epoch(server):
    """All find at once that it is not the one they know, and one after the other looks again."""
    with Sides(server.url(), clock=False) as near:
        before = near.fp.enqueue(QUEUE, 1).entry["epoch"]
        handles = [near.open() for _ in range(6)]
        server.stop()
        server.start()
        alone = "lock table fencepost_store in exclusive mode"
        with Sides(server.url(), clock=False) as fresh:
            with fresh.holding(alone):
                sending = [near.go(fp.enqueue, QUEUE, n) for n, fp in enumerate(handles)]
                fresh.waiting(len(handles))
            assert {each.result(30).entry["epoch"] for each in sending} == {before + 1}
            since = fresh.sql("select why from fencepost_writer where epoch > %s", before)
            assert since == [("started",)]
