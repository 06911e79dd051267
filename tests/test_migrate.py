"""Care of a store's file: made, migrated after a backup, taken out; what is not ours stays."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from contextlib import closing

import pytest
from helpers.lab import START, raw
from helpers.workload import every_verb, opened

from fencepost.clock import FakeClock
from fencepost.issues import InvalidRequest, SchemaMismatch, Unavailable
from fencepost.operate.care import init, migrate, uninstall
from fencepost.storage.migrate import Migration, migrations
from fencepost.storage.sqlite import schema

SECOND = Migration(
    2,
    "0002_notes.sql",
    "alter table fencepost_scope add column note text;\n"
    "create table fencepost_note (id integer primary key, text text not null) strict;\n"
    "insert into fencepost_note (text) values ('made by the migration; with a semicolon');\n",
)
WRONG = "create table fencepost_third (id);\ninsert into fencepost_third values (1, 2);\n"
BROKEN = Migration(3, "0003_broken.sql", WRONG)
STEPS = [*schema.MIGRATIONS, SECOND]


@pytest.fixture
def clock():
    return FakeClock(START)


@pytest.fixture
def path(tmp_path, clock):
    """A closed store with a history."""
    path = tmp_path / "work.db"
    with opened(path, clock) as fp:
        every_verb(fp, clock)
        fp.seal()
    return path


def definition(path):
    with raw(path) as connection:
        return schema.definition(connection)


def version(path):
    with raw(path) as connection:
        return schema.version_of(connection)


def dump(path):
    with raw(path) as connection:
        return list(connection.iterdump())


def fresh(steps):
    """What a store looks like that was made by these steps at once."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for step in steps:
            connection.executescript(step.sql)
        return schema.definition(connection)


# -- migrate


def test_a_migrated_store_is_as_a_fresh_one(path, clock):
    done = migrate(str(path), STEPS, clock=clock)
    assert (done["from"], done["to"], done["applied"]) == (1, 2, ["0002_notes.sql"])
    assert definition(path) == fresh(STEPS)
    assert version(path) == 2


def test_the_released_schema_is_what_a_new_store_has(path):
    assert definition(path) == fresh(schema.MIGRATIONS)
    assert version(path) == schema.LATEST == len(migrations(schema.PACKAGE))


def test_a_migration_takes_a_backup_first_that_is_the_store_as_it_was(path, clock):
    before = dump(path)
    done = migrate(str(path), STEPS, clock=clock)
    assert done["backup"] == f"{path}.schema-1.db"
    assert dump(done["backup"]) == before
    with opened(done["backup"], clock) as fp:  # this program still reads it
        assert fp.verify().clean


def test_a_migration_keeps_every_row_and_records_itself(path, clock):
    with raw(path) as connection:
        before = connection.execute("select * from fencepost_task order by id").fetchall()
    migrate(str(path), STEPS, clock=clock)
    with raw(path) as connection:
        assert connection.execute("select * from fencepost_task order by id").fetchall() == before
        assert connection.execute("select text from fencepost_note").fetchall() == [
            ("made by the migration; with a semicolon",)
        ]
        recorded = connection.execute(
            "select version, sha256, applied_at from fencepost_migration order by version"
        ).fetchall()
    assert recorded[1] == (2, hashlib.sha256(SECOND.sql.encode()).hexdigest(), clock.wall())


def test_a_store_that_is_up_to_date_is_left_alone(path, clock):
    before = dump(path)
    done = migrate(str(path), clock=clock)
    assert (done["from"], done["to"], done["applied"], done["backup"]) == (1, 1, [], None)
    assert dump(path) == before
    assert not [name for name in os.listdir(path.parent) if "schema-" in name]


def test_a_second_backup_gets_a_name_of_its_own(path, clock):
    (path.parent / "work.db.schema-1.db").write_bytes(b"something dear")
    done = migrate(str(path), STEPS, clock=clock)
    assert done["backup"] == f"{path}.schema-1-2.db"
    assert (path.parent / "work.db.schema-1.db").read_bytes() == b"something dear"


def test_a_migration_that_fails_is_undone_whole_and_the_backup_stays(path, clock):
    before = definition(path)
    with pytest.raises(Unavailable, match="2 values"):
        migrate(str(path), [*schema.MIGRATIONS, Migration(2, BROKEN.name, BROKEN.sql)], clock=clock)
    assert (definition(path), version(path)) == (before, 1)
    assert (path.parent / "work.db.schema-1.db").exists()
    with opened(path, clock) as fp:
        assert fp.verify().clean


def test_steps_before_the_one_that_fails_stay(path, clock):
    with pytest.raises(Unavailable):
        migrate(str(path), [*STEPS, BROKEN], clock=clock)
    assert (definition(path), version(path)) == (fresh(STEPS), 2)


def test_a_store_that_is_newer_is_refused_and_left_alone(path, clock):
    migrate(str(path), STEPS, clock=clock)
    before = dump(path)
    with pytest.raises(SchemaMismatch, match="has schema 2; this program knows up to 1"):
        migrate(str(path), clock=clock)
    with pytest.raises(SchemaMismatch, match="has schema 2; this program knows up to 1"):
        opened(path, clock)
    assert dump(path) == before


def test_a_store_that_is_older_is_refused_with_the_command_to_run(path, clock, monkeypatch):
    monkeypatch.setattr(schema, "LATEST", 2)
    with pytest.raises(SchemaMismatch, match=r"has schema 1; run: fencepost --store .* migrate"):
        opened(path, clock)


def test_what_is_no_store_is_not_migrated(tmp_path):
    with pytest.raises(Unavailable, match="there is no file"):
        migrate(str(tmp_path / "nothing.db"))
    other = tmp_path / "other.db"
    with raw(other) as connection:
        connection.execute("create table dishes (name text)")
    with pytest.raises(Unavailable, match="not a Fencepost store"):
        migrate(str(other))
    other.write_bytes(b"no database at all" * 100)
    with pytest.raises(Unavailable, match="not a SQLite database"):
        migrate(str(other))


# -- init


def test_init_makes_a_store_and_says_so_once(tmp_path):
    path = tmp_path / "new.db"
    first = init(str(path))
    again = init(str(path))
    assert (first["created"], again["created"]) == (True, False)
    assert first["writer_id"] == again["writer_id"]
    assert first["schema_version"] == schema.LATEST


def test_init_leaves_a_store_and_its_tasks_alone(path, clock):
    before = dump(path)
    assert init(str(path), clock=clock)["created"] is False
    assert dump(path) == before


def application(path):
    """A database of somebody else's, with an identity of its own."""
    with raw(path) as connection:
        connection.execute("pragma application_id = 252006673")
        connection.execute("pragma user_version = 41")
        connection.execute("create table dishes (name text primary key, price integer)")
        connection.execute("create index dishes_price on dishes (price)")
        connection.execute("insert into dishes values ('soup', 4), ('bread', 1)")


def theirs(path):
    """Everything in the file that is not ours."""
    with raw(path) as connection:
        identity = [
            connection.execute(f"pragma {name}").fetchone()
            for name in ("application_id", "user_version")
        ]
        objects = connection.execute(
            "select type, name, sql from sqlite_master where name not glob 'fencepost_*' "
            "and tbl_name not glob 'fencepost_*' order by name"
        ).fetchall()
        return identity, objects, connection.execute("select * from dishes").fetchall()


def test_init_into_an_application_leaves_its_tables_and_identity_alone(tmp_path):
    path = tmp_path / "app.db"
    application(path)
    before = theirs(path)
    assert init(str(path), into=True)["created"] is True
    assert theirs(path) == before
    with opened(path) as fp:
        fp.enqueue("q", 1)
        assert fp.verify().clean
    assert theirs(path) == before
    assert init(str(path), into=True)["created"] is False


def test_without_into_an_applications_database_is_refused_whatever_the_force(tmp_path):
    path = tmp_path / "app.db"
    application(path)
    before = path.read_bytes()
    with pytest.raises(Unavailable, match="init --into"):
        init(str(path))
    with pytest.raises(Unavailable, match=r"tables that are not ours \(dishes\)"):
        init(str(path), force=True)
    assert path.read_bytes() == before


def test_into_needs_a_database_that_is_there(tmp_path):
    with pytest.raises(Unavailable, match="no database at"):
        init(str(tmp_path / "nothing.db"), into=True)
    assert os.listdir(tmp_path) == []


def test_init_with_force_puts_a_new_store_in_the_place_of_an_old_one(path, clock):
    with opened(path, clock) as fp:
        before = fp.about()["writer_id"]
    done = init(str(path), force=True, clock=clock)
    assert done["created"] is True
    assert done["writer_id"] != before
    with opened(path, clock) as fp:
        assert (list(fp.tasks()), fp.about()["entries"]) == ([], 0)
        assert fp.verify().clean


def test_force_and_into_exclude_each_other(path):
    with pytest.raises(InvalidRequest, match="one of the two"):
        init(str(path), into=True, force=True)


def test_a_file_that_is_no_database_is_not_replaced(tmp_path):
    path = tmp_path / "letter.txt"
    path.write_bytes(b"dear all, " * 200)
    for force in (False, True):
        with pytest.raises(Unavailable, match="not a SQLite database"):
            init(str(path), force=force)
    assert path.read_bytes() == b"dear all, " * 200


# -- uninstall


def test_uninstall_drops_ours_and_nothing_else(tmp_path):
    path = tmp_path / "app.db"
    application(path)
    before = theirs(path)
    init(str(path), into=True)
    with opened(path) as fp:
        fp.enqueue("q", "a secret that must go")
    tables = [name for kind, name, *_ in definition(path) if kind == "table"]
    done = uninstall(str(path))
    assert theirs(path) == before
    assert definition(path) == []
    assert done["dropped"] == tables and {"fencepost_task", "fencepost_writer"} <= set(tables)
    assert not [name for name in os.listdir(tmp_path) if "turn" in name]


def test_after_uninstall_no_byte_of_content_is_left(tmp_path):
    path = tmp_path / "app.db"
    application(path)
    init(str(path), into=True)
    with opened(path) as fp:
        fp.enqueue("q", "a secret that must go")
        fp.claim("q", worker_id="w")[0].complete("another secret that must go")
    uninstall(str(path))
    for file in tmp_path.iterdir():
        assert b"secret that must go" not in file.read_bytes(), file.name


def test_every_table_of_the_schema_is_one_that_uninstall_knows(path):
    uninstall(str(path))
    with raw(path) as connection:
        assert connection.execute("select name from sqlite_master").fetchall() == []


def test_uninstall_of_what_is_no_store_does_nothing(tmp_path):
    path = tmp_path / "app.db"
    application(path)
    before = theirs(path)
    with pytest.raises(Unavailable, match="nothing was done"):
        uninstall(str(path))
    assert theirs(path) == before


def test_it_can_be_installed_again(tmp_path):
    path = tmp_path / "app.db"
    application(path)
    init(str(path), into=True)
    uninstall(str(path))
    assert init(str(path), into=True)["created"] is True
    with opened(path) as fp:
        assert fp.enqueue("q", 1).number == 1
