"""Whatever an application has set on its connection, our statements read and write as ever; and
nothing that they need is left set for the application's own."""

from __future__ import annotations

import itertools

import psycopg
import pytest
from helpers.pg_app import KINDS, App, laboratory
from psycopg import pq
from psycopg.rows import dict_row
from psycopg.types.numeric import FloatLoader
from psycopg.types.string import StrDumperVarchar

from fencepost.issues import FencepostError
from fencepost.storage.postgres import borrowing, talk
from fencepost.storage.steps import one

HOSTILE = {
    "search_path": "nowhere", "client_encoding": "LATIN1", "DateStyle": "SQL, DMY",
    "IntervalStyle": "sql_standard", "TimeZone": "Asia/Kathmandu", "bytea_output": "escape",
    "standard_conforming_strings": "off", "backslash_quote": "off", "array_nulls": "off",
    "transform_null_equals": "on", "extra_float_digits": "0", "enable_indexscan": "off",
    "synchronous_commit": "off", "plan_cache_mode": "force_generic_plan", "quote_all_identifiers":
    "on", "lock_timeout": "7s", "escape_string_warning": "on",
    "row_security": "off", "enable_seqscan": "on", "jit": "on", "xmloption": "document",
    "idle_in_transaction_session_timeout": "9s",
}  # fmt: skip
SETTINGS = "select name, setting from pg_catalog.pg_settings where source <> 'override' order by 1"
NUMBERS = itertools.count()
TEXT = "żółć ☃ \\ ' {null} NULL"


@pytest.fixture(scope="module")
def lab():
    with laboratory() as made:
        yield made


@pytest.fixture(params=KINDS)
def app(request, lab):
    made = App(lab.url, request.param)
    yield made
    made.close()


def a_life(lab, app):
    """A task from its enqueueing to its erasure, in one block; what of it was read wrong."""
    q = f"q{next(NUMBERS)}"
    with app.within(lab.fp) as tx:
        tx.queue_set(q, destinations=["out"], keep_refused=9)
        receipt = tx.enqueue(q, {"text": TEXT}, key="k")
        assert tx.enqueue(q, {"text": TEXT}, key="k").task_id == receipt.task_id
        (lease,) = tx.claim(q, worker_id="w", lease_seconds=60)
        assert (lease.payload, lease.task_id) == ({"text": TEXT}, receipt.task_id)
        lease.renew(progress={"at": TEXT}, log=TEXT)
        lease.fail(TEXT, then="retry", retry_seconds=0)
        (lease,) = tx.claim(task_id=receipt.task_id, worker_id="w")
        assert (lease.progress, lease.attempt) == ({"at": TEXT}, 2)
        lease.complete([TEXT], followups=[{"queue": "next", "payload": TEXT}])
    app.settle()
    task = lab.fp.task(receipt.task_id)
    (result,) = lab.fp.results(receipt.task_id)
    assert (task.state, result.value) == ("done", [TEXT])
    with app.within(lab.fp) as tx:
        tx.erase(receipt.task_id)
    app.settle()
    assert lab.fp.task(receipt.task_id).erased is True


def test_the_settings_of_a_session_change_nothing_for_us(lab, app):
    for name, value in HOSTILE.items():
        app.sql(f"set {name} = '{value}'")
    app.settle()
    a_life(lab, app)
    assert dict(app.sql(SETTINGS))["TimeZone"] == "Asia/Kathmandu"


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "EUC_JP", "WIN1252"])
def test_no_encoding_of_the_client_changes_what_we_read(lab, app, encoding):
    app.sql(f"set client_encoding = '{encoding}'")
    app.settle()
    a_life(lab, app)
    assert app.connection.info.parameter_status("client_encoding") == encoding


def test_the_ways_in_which_an_application_reads_rows_are_its_own(lab, app):
    """Rows as dicts, cursors that bind at the client, adapters for its own types."""
    app.connection.row_factory = dict_row
    app.connection.cursor_factory = (
        psycopg.AsyncClientCursor if app.awaits else psycopg.ClientCursor
    )
    adapters = app.connection.adapters
    for kind in ("int8", "int4", "int2", "numeric"):
        adapters.register_loader(kind, FloatLoader)
    for kind in ("text", "bytea", "bool", "timestamptz"):
        adapters.register_loader(kind, Shouting)
        adapters.register_loader(kind, ShoutingBinary)
    adapters.register_dumper(str, StrDumperVarchar)
    app.connection.prepare_threshold = 0
    a_life(lab, app)
    ((row),) = app.sql("select 1::int8 as one, 'x'::text as x")
    assert row == {"one": 1.0, "x": "shouted"}


def test_what_an_application_registers_with_psycopg_itself_is_not_for_us(lab, app, monkeypatch):
    """Neither on its connection nor on the store's own."""
    known = psycopg.adapters._loaders
    monkeypatch.setattr(psycopg.adapters, "_loaders", [{**of_format} for of_format in known])
    for kind in ("int8", "int4", "int2", "text", "bytea"):
        psycopg.adapters.register_loader(kind, Shouting)
        psycopg.adapters.register_loader(kind, ShoutingBinary)
    with psycopg.connect(lab.url) as seen:
        assert seen.execute("select 1::int8").fetchone() == ("shouted",)
    a_life(lab, app)


class Shouting(psycopg.adapt.Loader):
    """Reads everything as one word."""

    def load(self, data):
        return "shouted"


class ShoutingBinary(Shouting):
    """The same of what comes in binary."""

    format = pq.Format.BINARY


def test_an_applications_tables_of_our_names_are_not_ours(lab, app):
    """Neither temporary ones nor those of another schema on its search path."""
    lab.sql("create schema if not exists theirs")
    app.sql("create temp table fencepost_store (id int)")
    for place in ("theirs.", "pg_temp."):
        app.sql(f"create table if not exists {place}fencepost_task (id int)")
        app.sql(f"create table if not exists {place}fencepost_entry (id int)")
    app.sql("set search_path = theirs, pg_temp, public")
    app.settle()
    a_life(lab, app)
    assert app.sql("select count(*) from theirs.fencepost_task") == [(0,)]
    app.settle()
    lab.sql("drop schema theirs cascade")


@pytest.mark.parametrize("begun", [False, True])
def test_nothing_that_we_set_is_left_to_the_applications_own_statements(lab, app, begun):
    """Not after a command, not after one that was refused, not in the rest of its transaction:
    only that its commit is durable stays, to its end."""
    app.sql("set synchronous_commit = 'off'")
    app.sql("set search_path = 'public'")
    app.settle()
    if begun and not app.own:
        app.sql("begin")
    app.sql("set local work_mem = '7MB'") if begun else None
    before = app.sql(SETTINGS)
    app.settle() if not begun else None
    with app.within(lab.fp) as tx:
        assert told(app.sql(SETTINGS)) == told(before)
        tx.enqueue("q", 1)
        assert told(app.sql(SETTINGS)) == told(before)
        with pytest.raises(Exception, match="no such thing"):
            tx.cancel("01900000-0000-7000-8000-000000000000")
        assert told(app.sql(SETTINGS)) == told(before)
        (lease,) = tx.claim("q", worker_id="w")
        lease.complete("x")
        assert told(app.sql(SETTINGS)) == told(before)
    if not app.idle():
        after = dict(app.sql(SETTINGS))
        assert after.pop("synchronous_commit") == "on"
        assert after.items() <= dict(before).items()
        app.commit()
    assert dict(app.sql(SETTINGS))["synchronous_commit"] == "off"
    assert dict(app.sql(SETTINGS)) == {**dict(before), "work_mem": "4096"}


def told(settings):
    return dict(settings)


def test_no_lock_of_ours_and_nothing_prepared_outlives_the_transaction(lab, app):
    with app.within(lab.fp) as tx:
        for number in range(12):
            tx.enqueue("q", number)
        (lease,) = tx.claim("q", worker_id="w")
        lease.complete("x")
        locks = "select locktype from pg_locks where pid = pg_backend_pid()"
        assert ("advisory",) not in app.sql(locks)
    app.settle()
    assert app.sql("select name from pg_prepared_statements where name like 'fencepost%'") == []
    app.settle()
    assert ("advisory",) not in app.sql(locks)


def test_the_commit_of_a_block_is_durable_whatever_the_application_has_set(lab):
    """Seen where the block commits by itself: by what holds at the moment of its COMMIT."""
    app = App(lab.url, "autocommit")
    app.sql("create or replace function public.seen() returns trigger language plpgsql as $$ begin "
            "insert into public.account values (current_setting('synchronous_commit')); "
            "return null; end $$")  # fmt: skip
    app.sql("create table public.moment (id int)")
    app.sql("create constraint trigger at_commit after insert on public.moment "
            "deferrable initially deferred for each row execute function seen()")  # fmt: skip
    app.sql("set synchronous_commit = 'off'")
    with app.within(lab.fp) as tx:
        tx.enqueue("q", 1)
        app.sql("set local synchronous_commit = 'local'")
        app.sql("insert into public.moment values (1)")
    assert app.sql("select owner from account") == [("on",)]
    app.sql("drop table moment; drop function seen")
    app.sql("delete from account")
    app.close()


def _search_path_kept(patch):
    mark = borrowing.Lent.mark

    def without(self, seconds):
        self._schema = "nowhere"
        return mark(self, seconds)

    patch.setattr(borrowing.Lent, "mark", without)


def _settings_left(patch):
    def left(self):
        yield one("release_command")

    patch.setattr(borrowing.Lent, "unmark", left)


def _read_as_the_application_does(patch):
    patch.setattr(talk, "_ADAPTERS", psycopg.adapters)


PLANTS = {
    "our tables are looked for in another schema": (
        _search_path_kept, test_the_settings_of_a_session_change_nothing_for_us, ()),
    "what was set is not put back": (
        _settings_left, test_nothing_that_we_set_is_left_to_the_applications_own_statements,
        (True,)),
}  # fmt: skip


@pytest.mark.parametrize("plant", PLANTS)
def test_these_laws_see_what_is_wrong(lab, plant, monkeypatch):
    planted, law, arguments = PLANTS[plant]
    app = App(lab.url, "autocommit")
    planted(monkeypatch)
    with pytest.raises((AssertionError, FencepostError, psycopg.Error)):
        law(lab, app, *arguments)
    app.close()


def test_the_law_of_adapters_sees_what_is_wrong(lab, monkeypatch):
    app = App(lab.url, "autocommit")
    _read_as_the_application_does(monkeypatch)
    with pytest.raises((AssertionError, FencepostError, TypeError, ValueError)):
        test_what_an_application_registers_with_psycopg_itself_is_not_for_us(lab, app, monkeypatch)
    app.close()
