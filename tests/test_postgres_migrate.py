"""Migrations on PostgreSQL: shown, applied a transaction each, and the same in the end as a fresh
store; a store is replaced or left whole."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from helpers import postgres

import fencepost
from fencepost.issues import InvalidRequest, SchemaMismatch, Unavailable
from fencepost.operate.care import init, migrate, pending, uninstall
from fencepost.storage.migrate import Migration
from fencepost.storage.postgres import schema

SECOND = Migration(
    2,
    "0002_notes.sql",
    "alter table fencepost_scope add column note text;\n"
    "create table fencepost_note (id bigint primary key, text text not null);\n"
    "create index fencepost_note_text on fencepost_note (text);\n"
    "insert into fencepost_note values (1, 'made by the migration; with a semicolon');\n",
)
BROKEN = Migration(
    3, "0003_broken.sql",
    "create table fencepost_third (id bigint);\ninsert into fencepost_fourth values (1);\n",
)  # fmt: skip
STEPS = [*schema.MIGRATIONS, SECOND]


@pytest.fixture
def url():
    with postgres.database() as url:
        init(url)
        with fencepost.open(url) as fp:
            fp.enqueue("q", "from before")
        yield url


def definition(url):
    with psycopg.connect(url) as connection:
        return schema.definition(connection)


def version(url):
    with psycopg.connect(url) as connection:
        return schema.version_of(connection)


def test_a_fresh_store_is_the_same_as_a_migrated_one(url, monkeypatch):
    assert migrate(url, STEPS)["applied"] == ["0002_notes.sql"]
    monkeypatch.setattr(schema, "MIGRATIONS", STEPS)
    monkeypatch.setattr(schema, "LATEST", 2)
    with postgres.database() as fresh:
        init(fresh)
        assert definition(fresh) == definition(url)
        assert version(fresh) == version(url) == 2
    with fencepost.open(url) as fp:
        assert fp.examined()["schema_changed"] == []
        assert [task.queue for task in fp.tasks()] == ["q"] and fp.verify().clean


def test_what_is_pending_is_shown_and_nothing_is_done(url):
    before = definition(url)
    shown = pending(url, STEPS)
    assert (shown["from"], shown["to"]) == (1, 2)
    assert [(step["name"], step["sha256"]) for step in shown["pending"]] == [
        ("0002_notes.sql", SECOND.sha256)
    ]
    assert "create table fencepost_note" in shown["pending"][0]["sql"]
    assert (definition(url), version(url)) == (before, 1)
    assert pending(url)["pending"] == []


def test_a_migration_that_fails_is_undone_and_those_before_it_stay(url):
    with pytest.raises(SchemaMismatch):
        migrate(url, [*STEPS, BROKEN])
    assert version(url) == 2
    assert not [name for _, name, _ in definition(url) if name == "fencepost_third"]
    assert migrate(url, STEPS)["applied"] == []


def test_a_migration_is_recorded_with_what_it_was(url):
    done = migrate(url, STEPS)
    assert (done["from"], done["to"], done["backup"]) == (1, 2, None)
    with psycopg.connect(url) as connection:
        rows = connection.execute("select version, sha256 from fencepost_migration order by 1")
        assert rows.fetchall() == [(step.version, step.sha256) for step in STEPS]


def test_of_many_that_migrate_at_once_one_does_it(url):
    ready = threading.Barrier(6)

    def run(_):
        ready.wait()
        return migrate(url, STEPS)["applied"]

    with ThreadPoolExecutor(6) as pool:
        applied = list(pool.map(run, range(6)))
    assert sorted(applied) == [[]] * 5 + [["0002_notes.sql"]]
    assert version(url) == 2


def test_a_newer_store_is_left_alone(url):
    migrate(url, STEPS)
    for run in (migrate, pending):
        with pytest.raises(SchemaMismatch, match="has schema 2; this program knows up to 1"):
            run(url)
    with pytest.raises(SchemaMismatch):
        fencepost.open(url)


def test_force_begins_anew_in_one_transaction(url):
    with fencepost.open(url) as fp:
        before = fp.about()["writer_id"]
    made = init(url, force=True)
    assert made["created"] is True and made["writer_id"] != before
    with fencepost.open(url) as fp:
        assert list(fp.tasks()) == [] and fp.about()["entries"] == 0


def test_a_handle_that_was_open_while_its_store_was_replaced_goes_on_with_the_new_one(url):
    with fencepost.open(url) as fp:
        for number in range(4):  # its statements are prepared by now
            fp.enqueue("q", number)
        init(url, force=True)
        assert fp.enqueue("q", "into the new one").number == 1
        assert [task.queue for task in fp.tasks()] == ["q"]


def test_force_and_into_exclude_each_other(url):
    with pytest.raises(InvalidRequest, match="one of the two"):
        init(url, into=True, force=True)


def test_a_database_without_a_store_has_nothing_to_migrate_or_drop():
    with postgres.database() as url:
        for run in (migrate, pending, uninstall):
            with pytest.raises(Unavailable, match="holds no Fencepost store"):
                run(url)


def test_a_store_that_began_on_a_server_goes_by_its_clock(monkeypatch):
    from fencepost import clock

    monkeypatch.setattr(clock.SystemClock, "wall", lambda self: 4_000_000_000_000_000)
    with postgres.database() as url:
        init(url)
        with fencepost.open(url) as fp:
            assert fp.about()["mark"] < 3_000_000_000_000_000
            assert fp.now() < 3_000_000_000_000_000
            fp.enqueue("q", 1)
            (lease,) = fp.claim("q", worker_id="w", lease_seconds=60)
            assert 50 < lease.remaining() <= 60
            assert lease.lease_expires_at < 3_000_000_000_000_000
