"""What `doctor` finds in PostgreSQL: settings, who keeps dead rows, rights, what was changed."""

from __future__ import annotations

import copy

import psycopg
import pytest
from helpers.postgres import QUICK, Server, name_of
from helpers.shell import Shell

import fencepost
from fencepost.clock import SECOND
from fencepost.operate import doctor as files
from fencepost.operate import doctor_postgres as looks
from fencepost.operate.doctor import doctor
from fencepost.storage.postgres import health

OF_A_FILE = {
    "sqlite", "journal_mode", "synchronous", "filesystem", "disk", "permissions", "wal", "scrub",
    "turn",
}  # fmt: skip


@pytest.fixture(scope="module")
def server():
    with Server([*QUICK, "max_prepared_transactions=2"]) as made:
        yield made


@pytest.fixture
def url(server, request):
    name = f"d{abs(hash(request.node.name))}"
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"create database {name}")
        yield server.url(name)
        connection.execute(f"drop database {name} with (force)")


@pytest.fixture
def store(url):
    with fencepost.open(url, create=True) as fp:
        yield fp


@pytest.fixture
def other(url):
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


def found(fp, name):
    """(level, message) of the findings of a name."""
    return [(f.level, f.message) for f in doctor(fp) if f.name == name]


def level(fp, name):
    ((level, _),) = found(fp, name)
    return level


def altered(facts, **changes):
    """The same facts of a server, with some of them changed."""
    made = copy.deepcopy(facts)
    made["server"].update(changes)
    return made


def test_every_look_is_at_what_there_is_on_a_server(store):
    names = [finding.name for finding in doctor(store)]
    assert not OF_A_FILE & set(names)
    assert [name for name in names if name not in ("settings", "fsync", "full_page_writes")] == [
        "postgres", "commit", "connections", "oldest_xmin", "tables", "rights", "erase", "schema",
        "journal", "leases", "writer", "containment", "clock",
    ]  # fmt: skip


def test_what_an_erasure_does_not_reach_is_always_said(store):
    ((grade, message),) = found(store, "erase")
    assert grade == "note"
    for place in ("dead rows", "write-ahead log", "backup", "standby"):
        assert place in message


def test_settings_that_can_lose_work_are_bad(store, server):
    assert level(store, "fsync") == level(store, "full_page_writes") == "bad"
    assert "fsync is off: a crash" in found(store, "fsync")[0][1]


@pytest.mark.parametrize(
    ("name", "value", "grade"),
    [
        ("fsync", "on", None), ("full_page_writes", "on", None), ("autovacuum", "off", "warn"),
        ("track_counts", "off", "warn"), ("autovacuum", "on", None),
    ],
)  # fmt: skip
def test_each_setting_is_judged_by_itself(name, value, grade, store):
    facts = store.examined()
    settings = {**facts["server"]["settings"], "idle_in_transaction_session_timeout": "1"}
    settings |= {"fsync": "on", "full_page_writes": "on", name: value}
    told = [f.level for f in looks._settings(altered(facts, settings=settings)) if f.name == name]
    assert told == ([] if grade is None else [grade])


@pytest.mark.parametrize(
    ("value", "standbys", "grade", "words"),
    [
        ("on", "", "note", "No standby is waited for"),
        ("off", "", "note", "own transactions wait for the disk"),
        ("on", "ANY 1 (*)", "ok", "for a synchronous standby"),
        ("remote_apply", "s1", "ok", "remote_apply"),
    ],
)
def test_what_a_commit_waits_for_is_told(value, standbys, grade, words, store):
    facts = altered(store.examined(), settings={
        "synchronous_commit": value, "synchronous_standby_names": standbys})  # fmt: skip
    (finding,) = looks._commit(facts)
    assert finding.level == grade and words in finding.message


def test_who_keeps_dead_rows_is_named(store, other, monkeypatch):
    other.execute("set application_name = 'nightly report'")
    other.execute("begin isolation level repeatable read")
    other.execute("select count(*) from fencepost_task")
    for number in range(3):
        store.enqueue("q", number)
    pid = other.info.backend_pid
    ((grade, message),) = found(store, "oldest_xmin")
    assert grade == "ok" and f"session pid {pid}, postgres, nightly report" in message
    monkeypatch.setattr(looks, "OLD_SNAPSHOT_SECONDS", -10)  # ages are told in whole seconds
    assert level(store, "oldest_xmin") == "warn"
    other.execute("rollback")
    assert found(store, "oldest_xmin") == [("ok", "nobody keeps dead rows from being taken away")]


def test_a_prepared_transaction_is_told_even_where_nobody_is_connected(store, other, monkeypatch):
    other.execute("create table notes (text text)")
    other.execute("begin")
    other.execute("insert into notes values ('half done')")
    other.execute("prepare transaction 'left behind'")
    try:
        ((grade, message),) = found(store, "prepared")
        assert grade == "warn" and "left behind of postgres is prepared" in message
        assert "prepared transaction left behind of postgres" in found(store, "oldest_xmin")[0][1]
    finally:
        other.execute("rollback prepared 'left behind'")
    assert found(store, "prepared") == []


@pytest.mark.parametrize(
    ("pin", "grade"),
    [
        (("replication slot", "s1, not in use", 5, None), "warn"),
        (("replication slot", "s1", 5, None), "ok"),
        (("standby", "s1 (hot_standby_feedback)", looks.OLD_SNAPSHOT_AGE + 1, None), "warn"),
        (("session", "pid 7", 3, looks.OLD_SNAPSHOT_SECONDS + 1), "warn"),
        (("session", "pid 7", 3, None), "ok"),
    ],
)
def test_a_pin_is_grave_by_age_or_where_nobody_will_move_it(pin, grade, store):
    (finding,) = looks._pinned(altered(store.examined(), pinned=[pin]))
    assert finding.level == grade and pin[1] in finding.message


def test_a_session_that_idles_inside_a_transaction_is_seen_after_a_minute(store, other):
    store.examined()
    with psycopg.connect(other.info.dsn, autocommit=True) as third:
        now = store.clock.wall()
        other.execute("begin")
        other.execute("select 1")
        assert health.facts(third, now)["idle_inside"] == 0
        assert health.facts(third, now + 120 * SECOND)["idle_inside"] == 1


def test_few_connections_that_are_left_are_told(store):
    facts = store.examined()
    assert facts["server"]["connections"] >= 1
    for used, grade in ((10, "ok"), (95, "warn")):
        (finding,) = looks._connections(
            altered(facts, connections=used, max_connections=100, hidden=0, idle_inside=0)
        )
        assert finding.level == grade
    hidden = altered(facts, hidden=3, idle_inside=2)
    assert [f.name for f in looks._connections(hidden)] == ["connections", "idle", "hidden"]


def test_dead_rows_and_a_table_that_is_never_vacuumed_are_told(store, other):
    other.execute("alter table fencepost_task set (autovacuum_enabled = off)")
    ((grade, message),) = found(store, "autovacuum")
    assert grade == "warn" and "fencepost_task" in message
    facts = store.examined()
    name, size, *_ = facts["server"]["tables"][0]
    heavy = altered(facts, tables=[(name, size, 10, looks.MANY_DEAD + 1, 5, False)])
    assert [(f.name, f.level) for f in looks._tables(heavy)] == [("tables", "warn")]
    old = altered(facts, tables=[(name, size, 10, 0, looks.WRAPAROUND + 1, False)])
    assert [f.name for f in looks._tables(old)] == ["tables", "wraparound"]


CHANGES = {
    "an index is gone": ("drop index fencepost_task_place", "fencepost_task_place"),
    "a column more": ("alter table fencepost_task add column note text", "fencepost_task"),
    "another type": (
        "alter table fencepost_queue alter column settings type varchar", "fencepost_queue"
    ),
    "a check is gone": (
        "alter table fencepost_node drop constraint fencepost_node_hash_check",
        "fencepost_node_hash_check",
    ),
    "null is allowed": (
        "alter table fencepost_task alter column content drop not null", "fencepost_task"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_the_schema_is_named(name, store, other):
    assert level(store, "schema") == "ok"
    sql, changed = CHANGES[name]
    other.execute(sql)
    ((grade, message),) = found(store, "schema")
    assert grade == "bad" and changed in message


def test_to_compare_the_schema_leaves_nothing(store, other):
    store.examined()
    left = other.execute(
        "select count(*) from pg_class where relname like 'fencepost%' and relpersistence = 't'"
    )
    assert left.fetchone() == (0,)


def test_an_index_that_is_not_valid_is_told(store, other):
    other.execute(
        "update pg_index set indisvalid = false "
        "where indexrelid = 'fencepost_task_key'::regclass"
    )
    assert found(store, "indexes") == [("bad", "not valid: fencepost_task_key")]


def test_another_version_of_the_collation_is_told(store):
    facts = altered(store.examined(), collation=("2.31", "2.36"))
    assert [(f.name, f.level) for f in looks._indexes(facts)] == [("collation", "bad")]


def test_a_role_without_rights_is_told_which_it_lacks(store, other, url):
    other.execute("drop role if exists plain")
    other.execute("create role plain login")
    try:
        other.execute(f"revoke temporary on database {name_of(url)} from public")
        other.execute(
            "grant select, insert, update, delete on all tables in schema public to plain"
        )
        other.execute("grant select on all sequences in schema public to plain")
        other.execute("revoke delete on fencepost_task from plain")
        with fencepost.open(url.replace("postgres@", "plain@")) as fp:
            ((grade, message),) = found(fp, "rights")
            assert grade == "bad" and message == (
                "this role may not use: fencepost_entry_number, fencepost_fence_number, "
                "fencepost_queue_number, fencepost_refused_id_seq, fencepost_task, "
                "fencepost_task_number"
            )
            assert found(fp, "schema")[0][0] == "note"
        other.execute("grant delete on fencepost_task to plain")
        other.execute("grant all on all sequences in schema public to plain")
        with fencepost.open(url.replace("postgres@", "plain@")) as fp:
            assert level(fp, "rights") == "ok"
            fp.enqueue("q", 1)
    finally:
        other.execute("drop owned by plain")
        other.execute("drop role plain")


def test_the_writers_that_were_recognised_are_told(store):
    ((grade, message),) = found(store, "writer")
    assert grade == "ok" and message.startswith("epoch 0 (installed, 20")


def test_the_clock_that_counts_is_the_servers(store, monkeypatch):
    from fencepost import clock

    monkeypatch.setattr(clock.SystemClock, "wall", lambda self: 0)
    ((grade, message),) = found(store, "clock")
    assert grade == "ok" and not message.startswith("the wall clock says 1970")


def test_a_backlog_of_the_journal_is_told_as_on_a_file(store, monkeypatch):
    monkeypatch.setattr(files, "UNSEALED", 0)
    store.enqueue("q", 1)
    assert level(store, "journal") == "warn"
    store.seal()
    assert level(store, "journal") == "ok"


def test_the_command_line_tells_what_is_bad_by_its_exit_code(url, tmp_path, capsys, monkeypatch):
    shell = Shell(tmp_path, capsys, monkeypatch)
    shell("--store", url, "init")
    ran = shell("--store", url, "--json", "doctor")
    assert ran.code == 6 and "fsync, full_page_writes" in ran.err
    assert {line["name"] for line in ran.lines} >= {"erase", "oldest_xmin", "tables"}
