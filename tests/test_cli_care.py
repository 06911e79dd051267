"""Care of a store from the command line: init, migrate, uninstall, backup, doctor."""

from __future__ import annotations

import hashlib
import json
import sqlite3

import pytest
from helpers.shell import Shell
from test_terminal import Steady, Stream

from fencepost.cli.terminal import Progress, follow


@pytest.fixture
def shell(tmp_path, capsys, monkeypatch):
    return Shell(tmp_path, capsys, monkeypatch)


def tables(path):
    connection = sqlite3.connect(path)
    try:
        return {name for (name,) in connection.execute("select name from sqlite_master")}
    finally:
        connection.close()


def test_init_creates_a_store_once_and_changes_nothing_after(shell):
    made = shell.json("init")
    assert (made["created"], made["schema_version"]) == (True, 1)
    assert made["path"] == str(shell.folder.resolve() / "fencepost.db")
    task_id = shell.task()
    again = shell("init")
    assert again.code == 0 and "is a store already; nothing was changed" in again.out
    assert shell("show", task_id).code == 0


def test_init_overwrites_with_force_only(shell):
    shell("init")
    task_id = shell.task()
    assert "created" in shell("init", "--force").out
    assert shell("show", task_id).code == 4


def test_init_into_leaves_an_applications_tables_alone(shell):
    connection = sqlite3.connect(shell.folder / "app.db")
    connection.execute("create table notes (text)")
    connection.execute("insert into notes values ('mine')")
    connection.commit()
    connection.close()
    ran = shell("init", "--into", "app.db")
    assert "fencepost --store app.db enqueue QUEUE PAYLOAD" in ran.out
    assert {"notes", "fencepost_task"} <= tables(shell.folder / "app.db")
    assert shell("--store", "app.db", "enqueue", "q", "1").code == 0
    refused = shell("--store", "app.db", "uninstall")
    assert refused.code == 2 and "--force" in refused.err
    dropped = shell.json("--store", "app.db", "uninstall", "--force")["dropped"]
    assert "fencepost_task" in dropped
    assert not {name for name in tables(shell.folder / "app.db") if "fencepost" in name}
    connection = sqlite3.connect(shell.folder / "app.db")
    assert connection.execute("select text from notes").fetchall() == [("mine",)]
    connection.close()


def test_init_into_needs_a_database_and_one_name(shell):
    assert shell("init", "--into", "none.db").code == 6
    ran = shell("init", "--into", "a.db", "--store", "b.db")
    assert ran.code == 2 and "--into" in ran.err
    assert shell("init", "--into", "a.db", "--force").code == 2


def test_migrate_of_a_current_store_does_nothing(shell):
    shell("init")
    assert "schema 1 already; nothing was changed" in shell("migrate").out
    assert shell.json("migrate")["backup"] is None


def test_migrate_tells_what_it_did_and_where_the_old_store_is(shell, monkeypatch):
    done = {"path": "x", "from": 1, "to": 2, "applied": ["0002_more.sql"], "backup": "x.old"}
    monkeypatch.setattr("fencepost.operate.care.migrate", lambda *_, **__: done)
    told = shell("migrate").out
    assert "schema 1 to 2: 0002_more.sql" in told and "as it was before: x.old" in told


def test_backup_copies_what_is_there_and_is_overwritten_with_force_only(shell):
    shell("init")
    task_id = shell.task()
    facts = shell.json("backup", "copy.db")
    copy = shell.folder / "copy.db"
    assert (facts["entries"], facts["tasks"]) == (1, 1)
    assert facts["sha256"] == hashlib.sha256(copy.read_bytes()).hexdigest()
    assert json.loads((shell.folder / "copy.db.manifest.json").read_text()) == facts
    assert shell("--store", "copy.db", "show", task_id).code == 0
    again = shell("backup", "copy.db")
    assert again.code == 2 and "is there already" in again.err
    assert "checked against its journal" in shell("backup", "copy.db", "--force").out


def test_backup_onto_the_store_itself_is_refused(shell):
    shell("init")
    assert shell("backup", "fencepost.db", "--force").code == 2


def test_doctor_names_what_the_store_stands_on(shell):
    shell("init")
    findings = {found["name"]: found for found in shell("doctor", "--json").lines}
    assert findings["journal_mode"]["level"] == "ok"
    assert findings["sqlite"]["message"].startswith(f"SQLite {sqlite3.sqlite_version}")
    assert {"turn", "clock", "wal", "filesystem"} <= set(findings)
    told = shell("doctor")
    assert told.code == 0 and "write-ahead logging" in told.out


def test_doctor_fails_where_the_store_is_not_fit(shell, monkeypatch):
    from fencepost.operate.doctor import Finding

    shell("init")
    bad = Finding("bad", "synchronous", "synchronous is off", "report it")
    monkeypatch.setattr("fencepost.operate.doctor.doctor", lambda handle: [bad])
    ran = shell("doctor")
    assert ran.code == 6 and "bad   synchronous" in ran.out and "-> report it" in ran.out
    assert "not fit to be used: synchronous" in ran.err


def test_a_checkpoint_that_was_kept_is_held_against_the_store(shell):
    shell("init")
    shell.task()
    kept = shell("seal").out
    (shell.folder / "kept").write_text(kept)
    shell.task()
    assert shell("verify", "--since", "kept").code == 0
    assert shell.json("seal")["size"] == 2
    (shell.folder / "kept").write_text("nonsense")
    ran = shell("verify", "--since", "kept")
    assert ran.code == 2 and "is no checkpoint" in ran.err


def test_a_receipt_comes_with_its_proof(shell):
    from fencepost.journal.proof import Proof

    shell("init")
    made = shell.json("enqueue", "q", "1", "--key", "k", "--actor", "ana")
    assert shell("receipt", "k").code == 4
    found = shell.json("receipt", "k", "--prove", "--actor", "ana")
    proof = Proof.from_json(found.pop("proof"))
    assert found == made["receipt"] and proof.verify() is True
    told = shell("receipt", "k", "--actor", "ana", "--prove").out
    assert "proved under this checkpoint:" in told
    lease = shell.lease("r")
    shell("release", *lease)
    digest = json.loads(shell("journal", "--json", "--after", "3").out)["opening"]["request_sha256"]
    assert shell.json("receipt", digest)["number"] == 4


def test_the_journal_is_read_from_a_number_on_and_for_one_task(shell):
    shell("init")
    lease = shell.lease()
    shell("release", *lease)
    numbers = [line["number"] for line in shell("journal", "--json").lines]
    assert numbers == [1, 2, 3]
    assert [line["number"] for line in shell("journal", "--after", "1", "--json").lines] == [2, 3]
    assert [line["number"] for line in shell("journal", "--limit", "1", "--json").lines] == [1]
    (entry,) = shell("journal", "--task", lease[0], "--json").lines
    assert json.loads(entry["entry"])["verb"] == "release"
    assert "  release  default/q  w  " in shell("journal", "--task", lease[0]).out


def test_the_phases_of_a_long_job_share_one_line():
    out, steady = Stream(tty=False), Steady()
    with Progress("verify", None, out=out, steady=steady) as line:
        show = follow(line, "verify")
        for what, done, total in (("entries", 500, 900), ("entries", 900, 900), ("tasks", 2, 5)):
            steady.now += 10
            show(what, done, total)
    assert [text.split(" (")[0] for text in out.getvalue().splitlines()] == [
        "verify entries 500/900", "verify entries 900/900", "verify tasks 2/5",
        "verify tasks done: 2/5",
    ]  # fmt: skip
