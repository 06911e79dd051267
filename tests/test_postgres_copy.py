"""`fencepost copy`: a whole store goes from a file to PostgreSQL, or nothing does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from uuid import UUID

import psycopg
import pytest
from helpers import postgres
from helpers.lab import START, raw
from helpers.shell import ROOT, Shell
from helpers.workload import SCOPE, every_verb, opened

import fencepost
from fencepost.clock import FakeClock
from fencepost.issues import (
    InvalidRequest,
    JournalBroken,
    OutcomeUnknown,
    StaleEpoch,
    Unavailable,
)
from fencepost.journal import verify as verifying
from fencepost.lineage import UNHEARD
from fencepost.operate import moving
from fencepost.operate.moving import copy
from fencepost.storage.leaving import TABLES
from fencepost.storage.postgres import arriving
from fencepost.storage.sqlite import leaving

# What is the store's own and not its rows'.
OWN = {"fencepost_store", "fencepost_migration"}


@pytest.fixture
def clock():
    return FakeClock(START)


@pytest.fixture
def path(tmp_path, clock):
    """A closed store that has lived through everything, sealed half way."""
    path = tmp_path / "work.db"
    with opened(path, clock) as fp:
        every_verb(fp, clock)
        fp.seal()
        task = fp.enqueue("intake", {"after": "the seal"}, key="after-the-seal").task_id
        (lease,) = fp.claim(worker_id="w", task_id=task)
        lease.release(progress={"line": 4}, log="so far")
    return path


@pytest.fixture
def url():
    with postgres.database() as url:
        yield url


def ours(connection):
    return {
        name for (name,) in connection.execute(
            "select relname from pg_class where starts_with(relname, 'fencepost_') "
            "and relkind in ('r', 'S')"
        )
    }  # fmt: skip


def nothing_is_there(url):
    with psycopg.connect(url) as connection:
        return not ours(connection)


def plain(row):
    kinds = {memoryview: bytes, UUID: str}
    return tuple(kinds.get(type(value), lambda same: same)(value) for value in row)


def test_every_table_and_column_comes_along(path, url):
    copy(str(path), url)
    with raw(path) as file, psycopg.connect(url) as database:
        names = {name for (name,) in file.execute("select name from sqlite_master where "
                                                  "type = 'table'") if "fencepost" in name}
        assert names - OWN == {f"fencepost_{name.removeprefix('all_')}" for name in TABLES
                               if name != "all_unsealed"}
        for name in sorted(names - OWN):
            columns = [row[1] for row in file.execute(f"pragma table_info({name})")]
            listed = ", ".join(columns)
            ended = ""
            if name == "fencepost_task":  # leases end with the old epoch
                ended = "where place <> 2"
            if name == "fencepost_destination":  # stopped there
                listed = ", ".join(column for column in columns if column != "stopped")
            if name == "fencepost_writer":  # which file it was; and a writer more in the database
                listed, ended = "epoch, incarnation, why, recognised_at", "where epoch = 0"
            here = [tuple(row) for row in file.execute(f"select {listed} from {name} {ended}")]
            found = database.execute(f"select {listed} from {name} {ended}")
            there = [plain(row) for row in found]
            assert sorted(map(repr, here)) == sorted(map(repr, there)), name
            assert here, f"{name} is empty: the history does not show that it comes along"
        numbers = database.execute("select number from fencepost_node where level = 0 order by 1")
        assert [number for (number,) in numbers] == [
            number for (number,) in file.execute("select number from fencepost_entry order by 1")
        ]


def told(fp):
    """All that can be asked of the journal: entries with their receipts, leaves, and proofs."""
    entries = [entry.to_json() for entry in fp.entries()]
    numbers = [entry["number"] for entry in entries if entry["entry"] is not None]
    return entries, [fp.prove(number).to_json() for number in numbers]


def test_receipts_proofs_and_checkpoints_are_the_same_bytes(path, url, clock):
    with opened(path, clock) as fp:
        kept = fp.seal()
        here = told(fp)
        about = fp.about()
        keys = [f"key-{name}" for name in ("done", "two", "late")]
        tasks = [fp.task_by_key("intake", key) for key in keys]
        tokens = fp.tokens()
    done = copy(str(path), url)
    assert (done["writer_id"], done["entries"]) == (about["writer_id"], len(here[1]))
    with opened(url, clock) as fp:
        assert told(fp) == here
        assert fp.seal().text() == kept.text()
        assert fp.verify(kept).problems == ()
        assert [fp.task_by_key("intake", key) for key in keys] == tasks
        assert fp.tokens() == tokens
        fp.enqueue("intake", "what comes after")
        assert fp.verify(kept).clean and fp.seal().size == kept.size + 1


def test_what_was_erased_stays_erased_and_no_key_is_free_again(path, url, clock):
    refused = {}
    for store in (path, url):
        if store == url:
            copy(str(path), url)
        with opened(store, clock) as fp:
            refused[store] = []
            for queue, key in (("intake", "key-erased"), ("intake", "key-purged")):
                try:
                    found = fp.enqueue(queue, {"name": "again"}, key=key).task_id
                except fencepost.FencepostError as error:
                    found = error.code
                refused[store].append(found)
    assert refused[path] == refused[url] and "receipt_erased" in refused[url]


def test_a_lease_of_before_is_stale_and_fences_go_on_above_all_others(path, url, clock):
    with opened(path, clock) as fp:
        fp.enqueue("fresh", 1)
        (lease,) = fp.claim("fresh", worker_id="w9", lease_seconds=900)
        before, lineage = fp.about(), fp.writers()
    done = copy(str(path), url)
    assert done["epoch"] == before["epoch"] + UNHEARD
    with opened(url, clock) as fp:
        with pytest.raises(StaleEpoch):
            fp.lease(lease.task_id, worker_id="w9", fence=lease.fence).complete({})
        (again,) = fp.claim(worker_id="w9", task_id=lease.task_id)
        assert again.fence > max(before["last_fence"], lease.fence)
        assert again.complete({"of": "the new epoch"}).task_id == lease.task_id
        about = fp.examined()
        assert (about["epoch"], about["floor"]) == (done["epoch"], done["epoch"])
        assert about["writers"] == (*lineage, about["writers"][-1]), "it goes on"
        assert (about["writers"][-1].why, about["writers"][-1].epoch) == ("copied", done["epoch"])
        assert fp.verify().clean
    with opened(path, clock) as fp:  # the file knows nothing of it
        assert fp.about()["epoch"] == before["epoch"]
        fp.lease(lease.task_id, worker_id="w9", fence=lease.fence).complete({})


def test_a_token_of_the_file_is_known_in_the_database(tmp_path, url):
    path = tmp_path / "work.db"
    with fencepost.open(path, create=True) as fp:
        receipt, token = fp.token_create("laptop-3", "worker")
    copy(str(path), url)
    with fencepost.open(url) as fp:
        (found,) = fp.tokens()
        assert found.token_id == receipt.entry["note"]["token_id"]
    import hashlib

    with psycopg.connect(url) as connection:
        ((digest,),) = connection.execute("select sha256 from fencepost_token").fetchall()
    assert bytes(digest) == hashlib.sha256(token.encode()).digest()


def test_a_store_that_was_made_and_never_used_is_taken_and_a_used_one_is_not(path, url):
    with fencepost.open(url, create=True):
        pass
    copy(str(path), url)
    with fencepost.open(url, scope=SCOPE) as fp:
        size = fp.seal().size
        with pytest.raises(InvalidRequest, match="a store that is in use"):
            copy(str(path), url)
        assert fp.seal().size == size


@pytest.mark.parametrize("use", ["enqueue", "policy", "token"])
def test_any_use_of_a_store_keeps_it(use, path, url):
    with fencepost.open(url, create=True) as fp:
        if use == "enqueue":
            fp.enqueue("q", 1)
        elif use == "policy":
            fp.set_policy(3)
        else:
            fp.token_create("w", "worker")
    with pytest.raises(InvalidRequest, match="in use"):
        copy(str(path), url)


def test_an_applications_tables_stay_beside_it(path, url):
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("create table notes as select 'mine' as text")
        copy(str(path), url)
        assert connection.execute("select text from notes").fetchall() == [("mine",)]


@pytest.mark.parametrize(
    ("source", "target", "why"),
    [
        ("work.db", "other.db", "fencepost backup"),
        ("postgresql://h/db", "postgresql://h/db", "source is the file"),
        (":memory:", "postgresql://h/db", "source is the file"),
        ("http://h", "postgresql://h/db", "source is the file"),
    ],
)
def test_what_copy_is_not_for_is_refused(source, target, why):
    with pytest.raises(InvalidRequest, match=why):
        copy(source, target)


def test_a_file_that_is_not_there_is_not_made(tmp_path, url):
    with pytest.raises(Unavailable, match="there is no store"):
        copy(str(tmp_path / "none.db"), url)
    assert not (tmp_path / "none.db").exists() and nothing_is_there(url)


# -- interrupted


class Stop(Exception):
    """The run ends here."""


@pytest.mark.parametrize("what", ["rows", "verify entries"])
def test_a_run_that_is_broken_off_leaves_nothing_and_may_be_repeated(what, path, url, monkeypatch):
    monkeypatch.setattr(arriving, "EVERY", 1)
    monkeypatch.setattr(verifying, "EVERY", 1)
    seen = []

    def tell(now, done, total):
        seen.append(now)
        if now == what and ("rows" in seen):
            raise Stop

    with pytest.raises(Stop):
        copy(str(path), url, tell)
    assert nothing_is_there(url)
    copy(str(path), url)
    with fencepost.open(url, scope=SCOPE) as fp:
        assert fp.verify().clean


def test_a_connection_that_breaks_leaves_nothing(path, url, monkeypatch):
    monkeypatch.setattr(arriving, "EVERY", 1)
    broken = []

    def tell(what, done, total):
        if what == "rows" and not broken:
            broken.append(done)
            postgres.admin(
                "select pg_terminate_backend(pid, 20000) from pg_stat_activity "
                f"where datname = '{postgres.name_of(url)}'"
            )

    with pytest.raises(Unavailable):
        copy(str(path), url, tell)
    assert broken and nothing_is_there(url)


KILLED = """
import sys, time
from fencepost.operate.moving import copy
from fencepost.storage.postgres import arriving
arriving.EVERY = 1
def tell(what, done, total):
    if what == sys.argv[3]:
        print("now", flush=True)
        time.sleep(60)
copy(sys.argv[1], sys.argv[2], tell)
"""


def test_a_process_that_is_killed_leaves_nothing(path, url):
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(path), url, "rows"], cwd=ROOT, text=True,
        stdout=subprocess.PIPE,
    )  # fmt: skip
    with process:
        assert process.stdout is not None and process.stdout.readline() == "now\n"
        os.kill(process.pid, signal.SIGKILL)
    copy(str(path), url)  # waits for the lock of the other, which the server undoes
    with fencepost.open(url, scope=SCOPE) as fp:
        assert fp.verify().clean


def test_a_commit_that_nobody_answered_is_told_as_unknown_and_the_next_run_tells(
    path, url, monkeypatch
):
    real = arriving.commit

    def lost(connection, seconds):
        real(connection, seconds)
        raise psycopg.OperationalError("the answer was lost")

    monkeypatch.setattr(arriving, "commit", lost)
    with pytest.raises(OutcomeUnknown, match="run it again, and it tells"):
        copy(str(path), url)
    with pytest.raises(InvalidRequest, match="in use"):
        copy(str(path), url)


# -- what is wrong is noticed


def test_a_file_that_is_not_what_its_journal_says_is_not_copied(path, url):
    with raw(path) as connection:
        connection.execute("update fencepost_result set body = x'7b7d' where body is not null")
        connection.commit()
    with pytest.raises(JournalBroken, match="the source is not what its journal says"):
        copy(str(path), url)
    assert nothing_is_there(url)


@pytest.mark.parametrize("table", [name for name in TABLES if name not in (
    "all_writer", "all_tombstone", "all_refused", "all_naming", "all_remark",  # bound by no entry
)])  # fmt: skip
def test_a_row_that_is_lost_on_the_way_is_noticed(table, path, url, monkeypatch):
    real = leaving.leaving

    def lossy(where):
        manager = real(where)
        found = manager.__enter__()

        def rows(name):
            yield from list(found.rows(name))[: -1 if name == table else None]

        return closing_of(manager, type(found)(found.whole, found.total, rows, found.read))

    if table == "all_unsealed":
        monkeypatch.setattr(fencepost.Handle, "seal", lambda fp: None)
    monkeypatch.setattr(moving, "leaving", lossy)
    with pytest.raises(JournalBroken):
        copy(str(path), url)
    assert nothing_is_there(url)


class closing_of:  # noqa: N801  # used as a function
    """A context manager that gives another value."""

    def __init__(self, manager, value):
        self.manager, self.value = manager, value

    def __enter__(self):
        return self.value

    def __exit__(self, *what):
        return self.manager.__exit__(*what)


def test_nothing_is_acknowledged_by_the_file_while_it_is_copied(path, url):
    refused = []
    with opened(path, wait_seconds=0.05) as fp:

        def tell(what, done, total):
            if what == "rows" and not refused:
                with pytest.raises(Unavailable, match="the turn to write did not come"):
                    fp.enqueue("intake", "meanwhile")
                refused.append(what)

        copy(str(path), url, tell)
        assert refused == ["rows"]
    with opened(path) as fp:
        fp.enqueue("intake", "afterwards")


# -- from the command line


def test_the_command_line_copies_to_the_store_that_it_names(tmp_path, capsys, monkeypatch, url):
    shell = Shell(tmp_path, capsys, monkeypatch)
    shell("init")
    task = shell.task()
    ran = shell("--store", url, "copy", "fencepost.db")
    assert ran.code == 0, ran
    assert "1 entries, 1 tasks, 0 results, checked on both sides" in ran.out
    assert "leases of before have ended; use fencepost.db no more" in ran.out
    assert shell("--store", url, "show", task).code == 0
    again = shell("copy", "fencepost.db", url)
    assert again.code == 2 and "in use" in again.err
    assert shell("copy", "fencepost.db").code == 2
