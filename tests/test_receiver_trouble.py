"""Trouble below and beside a receiver: commits of unknown outcome, full disks, deadlocks, cut
connections. What was said stays true, and the next delivery goes through."""

from __future__ import annotations

import logging
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from helpers import postgres
from helpers.receiving import Place, Sender, incarnation, place_of, task
from helpers.working import comes_true

from fencepost.receiver.postgres import PostgresStore

PATIENCE_SECONDS = 40.0


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    with place_of(request.param, tmp_path) as made:
        yield made


@pytest.fixture
def sender(place):
    made = Sender()
    assert place.send(made.hello()).code == "ok"
    return made


def once(place, method, action):
    """The next call of a method of the store is this, and then it is itself again."""
    store = place.receiver.desk._store
    plain = getattr(store, method)

    def instead(*args):
        setattr(store, method, plain)
        return action(plain, *args)

    setattr(store, method, instead)


def test_a_commit_that_was_done_and_not_told_is_found_and_its_receipt_given(place, sender):
    """Its error means that nobody knows: the receipt tells."""

    def commit(plain):
        plain()
        raise sqlite3.OperationalError("disk I/O error")

    once(place, "commit", commit)
    said = place.send(sender.event())
    assert said.code == "replayed"
    assert place.effects() == [f"{task(1)}:1"]
    assert place.send(sender.event()).body == said.body


def test_a_commit_that_was_not_done_is_done_again(place, sender):
    def commit(plain):
        raise sqlite3.OperationalError("disk I/O error")

    once(place, "commit", commit)
    assert place.send(sender.event()).code == "accepted"
    assert place.effects() == [f"{task(1)}:1"]


def test_a_store_that_fails_every_time_is_unavailable_and_nothing_is_there(place, sender, caplog):
    store = place.receiver.desk._store
    plain = store.commit

    def commit():
        raise sqlite3.OperationalError("disk I/O error")

    store.commit = commit
    refused = place.send(sender.event())
    assert (refused.status, refused.headers["retry-after"]) == (503, "1")
    assert "disk I/O error" in caplog.text
    store.commit = plain
    assert place.effects() == []
    assert place.send(sender.event()).value["position"] == 1


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_an_effect_that_wants_to_end_the_program_ends_nothing(place, sender, error):
    def leave(connection, event):
        raise error

    place.after = leave
    assert place.send(sender.event()).code == "effect_failed"
    place.after = lambda connection, event: None
    assert place.send(sender.event()).code == "accepted"


def test_a_full_disk_loses_nothing_that_was_said(tmp_path, caplog):
    with place_of("sqlite", tmp_path) as place:
        sender = Sender()
        place.send(sender.hello())
        place.before = lambda connection, event: connection.execute("PRAGMA max_page_count=1")
        codes = [place.send(sender.event(number, value="x" * 20_000)).code for number in range(3)]
        assert set(codes) <= {"effect_failed", "unavailable"}, codes
        assert "database or disk is full" in caplog.text
        assert place.effects() == []
        place.before = lambda connection, event: connection.execute("PRAGMA max_page_count=100000")
        for number in range(3):
            said = place.send(sender.event(number, value="x" * 20_000))
            assert (said.code, said.value["position"]) == ("accepted", number + 1)
        with place.eyes() as eyes:
            assert eyes.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_an_effect_whose_own_statement_fails_leaves_the_transaction_usable(place, sender):
    """PostgreSQL spoils the whole transaction for it: the savepoint does not."""
    place.after = lambda connection, event: connection.execute("select nonsense from nowhere")
    assert place.send(sender.event(1)).code == "effect_failed"
    place.after = lambda connection, event: None
    assert place.send(sender.event(2)).value["position"] == 1


# -- PostgreSQL


@pytest.fixture
def server():
    with postgres.database() as url:
        yield url


def rows_of_the_application(url):
    with psycopg.connect(url) as connection:
        connection.execute("create table account (id int primary key, n int not null)")
        connection.execute("insert into account values (1, 0), (2, 0)")


def both_are_done(server, effect):
    """Two receivers with a stream each, and a delivery to each at once; the effects are these."""
    places = [Place("postgres", server), Place("postgres", server)]
    senders = [Sender(), Sender(stream="22222222-2222-7222-8222-222222222222/default/out")]
    try:
        for which, (place, sender) in enumerate(zip(places, senders, strict=True)):
            place.send(sender.hello())
            place.after = effect(which)
        with ThreadPoolExecutor(2) as pool:
            said = [
                pool.submit(place.send, sender.event())
                for place, sender in zip(places, senders, strict=True)
            ]
            assert [future.result(PATIENCE_SECONDS).code for future in said] == ["accepted"] * 2
    finally:
        for place in places:
            place.close()


def test_deadlocked_effects_are_both_done(server):
    """Each effect takes the rows in the other's order."""
    rows_of_the_application(server)
    barrier, called = threading.Barrier(2), [0, 0]

    def effect(which):
        def run(connection, event):
            called[which] += 1
            for number in ((1, 2), (2, 1))[which]:
                connection.execute("update account set n = n + 1 where id = %s", (number,))
                if called[which] == 1 and number == which + 1:
                    barrier.wait(PATIENCE_SECONDS)

        return run

    both_are_done(server, effect)
    assert sum(called) >= 3  # one was undone, and called again, until they did not meet
    with psycopg.connect(server) as eyes:
        assert eyes.execute("select n from account order by id").fetchall() == [(2,), (2,)]


def test_serialization_failures_are_tried_again(server):
    """A database whose transactions are serializable unless somebody says otherwise."""
    rows_of_the_application(server)
    name = psycopg.conninfo.conninfo_to_dict(server)["dbname"]
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"alter database {name} set default_transaction_isolation=serializable")
    barrier, called = threading.Barrier(2), [0, 0]

    def effect(which):
        def run(connection, event):
            called[which] += 1
            connection.execute("select sum(n) from account").fetchone()
            if called[which] == 1:
                barrier.wait(PATIENCE_SECONDS)
            connection.execute("update account set n = n + 1 where id = %s", (which + 1,))

        return run

    both_are_done(server, effect)
    assert sum(called) > 2
    with psycopg.connect(server) as eyes:
        assert eyes.execute("select n from account order by id").fetchall() == [(1,), (1,)]


def test_of_two_siblings_whose_first_hellos_meet_one_holds_the_stream(server):
    """The other's row is there, not committed yet, when ours is judged: ours waits, and is judged
    again."""
    place = Place("postgres", server)
    try:
        place.send(Sender(stream="22222222-2222-7222-8222-222222222222/default/out").hello())
        columns = (
            "receiver, stream, epoch, incarnation, sequence, head, position, heard, forgotten, "
            "emptied, floor"
        )
        with psycopg.connect(server) as other, psycopg.connect(server, autocommit=True) as eyes:
            other.execute(
                f"insert into fencepost_receiver_stream ({columns}) "
                f"select receiver, %s, 1, %s, 0, head, 0, 0, 0, 0, '' "
                "from fencepost_receiver_stream limit 1",
                (Sender().stream, incarnation(9)),
            )
            with ThreadPoolExecutor(1) as pool:
                said = pool.submit(place.send, Sender().hello())
                waiting = "select 1 from pg_locks where not granted"
                comes_true(lambda: eyes.execute(waiting).fetchall(), PATIENCE_SECONDS)
                other.commit()
                refused = said.result(PATIENCE_SECONDS)
        assert refused.code == "fork"
        assert refused.value["incarnation"] == incarnation(9)
    finally:
        place.close()


def cut(url):
    """End every other connection to this database."""
    with psycopg.connect(url, autocommit=True) as eyes:
        eyes.execute(
            "select pg_terminate_backend(pid, 20000) from pg_stat_activity "
            "where datname = current_database() and pid <> pg_backend_pid()"
        )


def test_a_connection_that_was_cut_is_made_anew_between_deliveries_and_in_an_effect(server):
    place = Place("postgres", server)
    try:
        sender = Sender()
        place.send(sender.hello())
        cut(server)
        assert place.send(sender.event(1)).code == "accepted"
        cuts = [True]

        def effect(connection, event):
            if cuts.pop() if cuts else False:
                cut(server)

        place.before = effect
        assert place.send(sender.event(2)).code == "accepted"
        assert place.effects() == [f"{task(1)}:1", f"{task(2)}:1"]
    finally:
        place.close()


def test_a_server_that_is_away_is_unavailable_and_its_password_is_told_nowhere(server, caplog):
    caplog.set_level(logging.DEBUG)
    place = Place("postgres", server)
    away = PostgresStore("postgresql://me:hunter2@127.0.0.1:1/db?connect_timeout=2")
    receiver = place.open()
    receiver.desk._store = away
    try:
        refused = place.send(Sender().hello(), receiver)
        assert (refused.code, refused.headers["retry-after"]) == ("unavailable", "1")
        assert "hunter2" not in caplog.text and "hunter2" not in refused.body.decode()
    finally:
        receiver.close()
        place.close()


def test_a_commit_waits_for_the_disk_though_the_database_says_it_need_not(server):
    name = psycopg.conninfo.conninfo_to_dict(server)["dbname"]
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"alter database {name} set synchronous_commit = off")
    asked = []
    place = Place("postgres", server)
    try:
        place.before = lambda connection, event: asked.append(
            connection.execute("show synchronous_commit").fetchone()
        )
        place.send(Sender().hello())
        assert place.send(Sender().event()).code == "accepted"
        assert asked == [("on",)]
    finally:
        place.close()


def test_many_who_make_the_tables_at_once_make_them_once(server):
    stores = [PostgresStore(server) for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda store: store.open(), stores))
    for store in stores:
        assert store.rows("get_version") == [(1,)]
        store.close()


def test_a_seal_is_left_by_nobody(server):
    place = Place("postgres", server)
    try:
        sender = Sender(3, incarnation(3))
        place.send(sender.hello())
        for number in range(3):
            place.send(sender.event(number))
        place.send(sender.event(7, revision=9, value="x"))
        assert place.count("fencepost_receiver_seal") == 0
    finally:
        place.close()
