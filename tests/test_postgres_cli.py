"""The command line on PostgreSQL: the same verbs, with one URL in place of a path."""

from __future__ import annotations

import subprocess
import sys

import psycopg
import pytest
from helpers import postgres
from helpers.shell import ROOT, Shell

from fencepost.cli.subcommands import SUBCOMMANDS

TASK = "{task}"
# (words, and what is remembered of the answer); {task} and {fence} are those of the last claim.
STEPS = [
    ("queue-set", "q", "keep_refused=5"),
    ("enqueue", "q", '{"n":1}', "--task-key", "k-1", "--key", "sent-1"),
    ("enqueue", "q", '{"n":1}', "--task-key", "k-1", "--key", "sent-1"),
    ("claim", "q", "--worker", "w"),
    ("renew", TASK, "--worker", "w", "--fence", "{fence}", "--progress", '{"line":4}'),
    ("submit", TASK, "--worker", "w", "--fence", "{fence}", '{"a":1}'),
    ("complete", TASK, "--worker", "w", "--fence", "{fence}", "--revision", "1", '{"a":2}'),
    ("complete", TASK, "--worker", "w", "--fence", "{fence}", "--revision", "1", '{"a":2}'),
    ("complete", TASK, "--worker", "w", "--fence", "{fence}", '{"a":3}'),
    ("review", TASK, "2", "accepted", "--actor", "ana"),
    ("show", TASK), ("show", "q/k-1"), ("list", "--queue", "q"), ("results", TASK),
    ("refused", TASK), ("receipt", "sent-1"), ("receipt", "sent-1", "--prove"),
    ("requeue", TASK), ("claim", "q", "--worker", "w"),
    ("fail", TASK, "--worker", "w", "--fence", "{fence}", "--then", "block", "--reason", "torn"),
    ("resolve", TASK, "--to", "retry"), ("cancel", TASK, "--reason", "twice"),
    ("erase", TASK, "--reason", "asked"), ("complete", TASK, "--worker", "w", "--fence", "9"),
    ("enqueue", "q", "2"), ("claim", "q", "--worker", "w"),
    ("release", TASK, "--worker", "w", "--fence", "{fence}"),
    ("sweep", "q"), ("purge", "q"), ("claim", "nothing", "--worker", "w"),
    ("scope-set-policy", "3"), ("scope-revoke",), ("stats",), ("scope-revoke", "--lift"),
    ("token", "create", "laptop-3", "--kind", "worker"), ("token", "list"), ("clock-reset",),
    ("import", "-"), ("import", "-"), ("erasures",), ("writers",), ("adopt", "--folder", "."),
    ("destination", "set", "out", "https://h.example", "--class", "fenced"),
    ("destination", "secret", "out"), ("destination", "stop", "out", "--reason", "full"),
    ("destination", "advance", "out", "--expected-sequence", "0", "--sequence", "0"),
    ("destination", "show", "out"), ("destination", "start", "out"), ("destination", "list"),
    ("stats",), ("queues",), ("journal",), ("journal", "--task", TASK), ("seal",), ("verify",),
    ("show", "nobody/knows"), ("migrate",), ("migrate", "--show"), ("uninstall",), ("init",),
    ("uninstall", "--force"), ("stats",),
]  # fmt: skip
GROUPS = ("token", "destination")
ACCEPTED = """{{"task_id": "{task}", "revision": 1, "epoch": 0, "fence": {fence}, "final": true,
"result": 3, "evidence": {{"receiver": "archive"}}}}"""  # what a receiver has, for `import`
ELSEWHERE = {
    "backup": "a file is copied; a database has tools of its own",
    "copy": "tests/test_postgres_copy.py",
    "doctor": "looks at other things: tests/test_postgres_doctor.py",
    "serve": "tests/test_postgres_serve.py", "work": "tests/test_postgres_serve.py",
    "deliver": "tests/test_deliver_faces.py",
    "restore": "makes a file of a file; a database is restored by its own tools, and adopted",
    "demo": "makes its store itself", "bench": "the same", "conform": "the same",
    "drill": "the same",
    "completion": "knows no store", "token-revoke": "needs the token's own name",
}  # fmt: skip


@pytest.fixture
def shell(tmp_path, capsys, monkeypatch):
    return Shell(tmp_path, capsys, monkeypatch)


def shape(value):
    """What is the same of an answer on every store: names and kinds, and words of the contract."""
    if isinstance(value, dict):
        return {
            name: inner if name in ("status", "issues", "state", "verb", "replayed") else
            shape(inner) for name, inner in value.items() if name not in ("path", "message")
        }  # fmt: skip
    if isinstance(value, list):
        plain = {type(inner).__name__ for inner in value if not isinstance(inner, dict | list)}
        return sorted(plain) or [shape(inner) for inner in value]
    return type(value).__name__


def story(shell, store):
    """The exit code and the shape of each step's answer."""
    shell("--store", store, "init")
    seen, task, fence = [], "", ""
    for words in STEPS:
        given = [word.format(task=task, fence=fence) if "{n" not in word and '{"' not in word
                 else word for word in words]  # fmt: skip
        sent = ACCEPTED.format(task=task, fence=fence).replace("\n", " ").encode()
        ran = shell("--store", store, "--json", *given, stdin=sent)
        seen.append((words, ran.code, shape(ran.lines)))
        if words[0] == "claim" and ran.lines and ran.json["leases"]:
            (grant,) = ran.json["leases"]
            task, fence = grant["task_id"], str(grant["fencing_token"])
    return seen


def test_every_verb_answers_on_a_database_as_it_does_on_a_file(shell):
    told = {f"{step[0]}-{step[1]}" if step[0] in GROUPS else step[0] for step in STEPS}
    missing = {name for name in SUBCOMMANDS if not name.startswith("offline-")} - told
    assert missing == set(ELSEWHERE)
    with postgres.database() as url:
        here, there = story(shell, "work.db"), story(shell, url)
    for file, database in zip(here, there, strict=True):
        assert file == database


def test_a_store_is_named_by_the_environment_as_a_file_is(shell, monkeypatch):
    with postgres.database() as url:
        monkeypatch.setenv("FENCEPOST_STORE", url)
        assert shell.json("init")["created"] is True
        assert shell.json("init")["created"] is False
        task = shell.task()
        assert shell.json("show", task)["state"] == "ready"
        assert shell("init", "--force").code == 0
        assert shell("show", task).code == 4


def test_a_backup_says_what_to_do_instead(shell):
    with postgres.database() as url:
        shell("--store", url, "init")
        ran = shell("--store", url, "backup", "b.db")
    assert ran.code == 2 and "pg_dump" in ran.err


def test_init_goes_beside_an_applications_tables_only_where_it_is_told_to(shell):
    with postgres.database() as url, psycopg.connect(url, autocommit=True) as connection:
        connection.execute("create table notes (text text)")
        connection.execute("create table fencepost_notes (text text)")  # the application's too
        connection.execute("insert into notes values ('mine')")
        refused = shell("--store", url, "init")
        assert refused.code == 6 and "fencepost_notes, notes" in refused.err
        assert "init --into" in refused.err
        assert shell.json("init", "--into", url)["created"] is True
        assert shell("--store", url, "enqueue", "q", "1").code == 0
        dropped = shell.json("--store", url, "uninstall", "--force")["dropped"]
        assert "fencepost_task" in dropped and "fencepost_notes" not in dropped
        left = connection.execute(
            "select relname from pg_class where relnamespace = 'public'::regnamespace order by 1"
        ).fetchall()
        assert left == [("fencepost_notes",), ("notes",)]


def test_two_schemas_hold_two_stores_and_one_is_taken_out_alone(shell):
    with postgres.database() as url, psycopg.connect(url, autocommit=True) as connection:
        connection.execute('create schema "Field 7"')
        other = f"{url}&options=-csearch_path%3D%22Field%5C%207%22%2Cpublic"
        for store in (url, other):
            assert shell.json("--store", store, "init")["created"] is True
        task = shell.json("--store", url, "enqueue", "q", "1")["task_ids"][0]
        assert shell("--store", other, "show", task).code == 4
        assert "Field" in shell.json("--store", other, "init")["path"]
        assert shell("--store", other, "uninstall", "--force").code == 0
        gone = shell("--store", other, "uninstall", "--force")
        assert gone.code == 6 and "no Fencepost store" in gone.err
        assert shell("--store", url, "show", task).code == 0


BEGIN = """
import sys
import fencepost
from fencepost.storage.postgres import open_store
print("ready", flush=True)
sys.stdin.readline()
with fencepost.open(sys.argv[1], create=True) as fp:
    fp.enqueue("q", {"from": sys.argv[2]})
    print(fp.about()["writer_id"], flush=True)
"""


def test_ten_processes_begin_one_store_at_once():
    with postgres.database() as url:
        started = [
            subprocess.Popen(
                [sys.executable, "-c", BEGIN, url, str(number)], cwd=ROOT, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            ) for number in range(10)
        ]  # fmt: skip
        try:
            for process in started:
                assert process.stdout.readline() == "ready\n", process.stderr.read()
            for process in started:
                process.stdin.write("go\n")
                process.stdin.flush()
            told = [process.communicate(timeout=50) for process in started]
        finally:
            for process in started:
                process.kill()
        assert [err for _, err in told] == [""] * 10
        assert len({out for out, _ in told}) == 1
        with psycopg.connect(url) as connection:
            for table, number in (("store", 1), ("writer", 1), ("migration", 1), ("task", 10)):
                query = f"select count(*) from fencepost_{table}"
                assert connection.execute(query).fetchone() == (number,), table
