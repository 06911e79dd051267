"""The service, workers, the outbox and the demo with a PostgreSQL URL in place of a path."""

from __future__ import annotations

import json
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from helpers import postgres
from helpers.service import Service
from helpers.shell import Shell, run

import fencepost

PATIENCE = 30.0


@pytest.fixture
def url():
    with postgres.database() as url:
        yield url


@pytest.fixture
def shell(tmp_path, capsys, monkeypatch, url):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    made = Shell(tmp_path, capsys, monkeypatch)
    monkeypatch.setenv("FENCEPOST_STORE", url)
    made("init")
    return made


@pytest.fixture
def services(tmp_path, url):
    """Two processes that serve one database."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(Service(tmp_path, store=url, log=tmp_path / f"{name}.err"))
            for name in ("one", "two")
        ]


class Waiting(threading.Thread):
    """A claim that waits at one service."""

    def __init__(self, web: Service, queue: str = "q", seconds: int = 25) -> None:
        super().__init__(name="w")
        self.token = web.token("worker", actor="w")
        self.web, self.queue, self.seconds = web, queue, seconds
        self.leases: list[fencepost.Lease] = []
        self.waited = 0.0
        self.start()

    def run(self) -> None:
        began = time.monotonic()
        with fencepost.open(self.web.url, token=self.token) as fp:
            self.leases = fp.claim(
                self.queue, worker_id=self.name, wait_seconds=self.seconds, lease_seconds=60
            )
        self.waited = time.monotonic() - began


def until(true, what):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if true():
            return
        time.sleep(0.01)
    raise AssertionError(what)


def test_who_waits_at_one_service_is_woken_by_a_commit_at_the_other(services):
    one, two = services
    producer = one.token("producer")
    for number in range(3):
        waiting = Waiting(two)
        time.sleep(0.2)  # most likely it waits by then; if not, it finds the task at once
        with fencepost.open(one.url, token=producer) as fp:
            fp.enqueue("q", number)
        waiting.join(PATIENCE)
        (lease,) = waiting.leases
        assert lease.payload == number
        assert waiting.waited < 20, "it was not woken: its time was over"


def test_of_many_who_wait_at_both_each_has_one_task(services):
    producer = services[0].token("producer")
    waiting = [Waiting(web) for web in services for _ in range(4)]
    with fencepost.open(services[0].url, token=producer) as fp:
        for number in range(8):
            fp.enqueue("q", number)
    for each in waiting:
        each.join(PATIENCE)
    got = [lease.payload for each in waiting for lease in each.leases]
    assert sorted(got) == list(range(8))


def test_a_task_that_comes_due_wakes_who_waits(services, url):
    with fencepost.open(url) as fp:
        fp.enqueue("q", "later", due_at=_later(fp.now(), 1.5))
    waiting = Waiting(services[1])
    waiting.join(PATIENCE)
    assert [lease.payload for lease in waiting.leases] == ["later"] and waiting.waited < 20


def _later(now, seconds):
    from fencepost.clock import SECOND, to_rfc3339

    return to_rfc3339(now + int(seconds * SECOND))


def test_who_waits_in_vain_leaves_nothing(url):
    with fencepost.open(url, create=True) as fp:
        assert fp.claim("q", worker_id="w", wait_seconds=1) == []
        assert list(fp.entries()) == []


def test_the_number_of_changes_misses_no_commit(url):
    """What a service looks at, to tell those who wait: another number after each commit of
    anybody's, however its beginning and its end lie around the looks."""
    write = (
        "insert into fencepost_scope values ('s', 0, 0) on conflict (scope) do update set "
        "policy_version = fencepost_scope.policy_version + 1"
    )
    with (
        fencepost.open(url, create=True) as fp, psycopg.connect(url) as other,
        psycopg.connect(url) as third, psycopg.connect(url) as fourth,
    ):  # fmt: skip
        for begun_before in (False, True):
            for beside in (False, True):
                for _ in range(20):
                    if beside:  # others have begun before and after it, and outlive it
                        third.execute("select pg_current_xact_id()")
                    before = fp.changed()
                    other.execute(write)
                    if beside:
                        fourth.execute("select pg_current_xact_id()")
                    before = fp.changed() if begun_before else before
                    other.commit()
                    assert fp.changed() != before, (begun_before, beside)
                    third.rollback()
                    fourth.rollback()


def test_a_look_at_the_store_is_one_question_and_writes_nothing(url):
    with fencepost.open(url, create=True) as fp:
        fp.changed()
        with psycopg.connect(url, autocommit=True) as other:
            before = other.execute("select pg_current_xact_id_if_assigned()").fetchone()
            xids = "select pg_snapshot_xmax(pg_current_snapshot())::text"
            first = other.execute(xids).fetchone()
            for _ in range(50):
                fp.changed()
            assert other.execute(xids).fetchone() == first
            assert before == (None,)


# -- readiness


def test_a_service_is_ready_while_its_server_takes_writes(tmp_path):
    with postgres.Server() as server:
        with Service(tmp_path, store=server.url()) as web:
            assert (web.get("/readyz").status, web.get("/livez").status) == (200, 200)
            server.stop()
            until(lambda: web.get("/readyz").status == 503, "it says that it is ready")
            assert web.get("/livez").status == 200
            server.start()
            until(lambda: web.get("/readyz").status == 200, "it does not find its server again")
            with psycopg.connect(server.url(), autocommit=True) as connection:
                connection.execute("alter system set default_transaction_read_only = on")
                connection.execute("select pg_reload_conf()")
                until(lambda: web.get("/readyz").status == 503, "nothing can be written")
            code, _ = web.ended()
        assert code == 0
        assert "s3cret" not in web.said()


def test_a_service_tells_its_own_facts_and_no_password(tmp_path, url):
    secret = f"{url}&password=s3cret-pass"
    with Service(tmp_path, store=secret) as web:
        auditor = web.token("auditor", every_scope=True)
        about = web.get("/v1/default/about", token=auditor)
        metrics = web.get("/metrics", token=auditor)
        assert (about.status, metrics.status) == (200, 200)
        told = about.body + metrics.body + web.said().encode()
    assert b"s3cret-pass" not in told and b"fencepost_epoch 0" in metrics.body


# -- workers, the outbox, the demo


def test_a_worker_runs_a_command_for_each_task(tmp_path, url, shell):
    for number in range(3):
        shell.task(json.dumps({"n": number}), "work")
    program = (
        "import json, os, sys; sys.stdin.read(); "
        "print(json.dumps([name for name, value in os.environ.items() if 's3cret' in value]))"
    )
    command = [sys.executable, "-c", program]
    words = ["work", "work", "--worker", "w", "--exit-when-empty", "--", *command]
    ran = run(tmp_path, *words, FENCEPOST_STORE=f"{url}&password=s3cret-pass")
    assert ran.code == 0, ran.err
    (line,) = [row for row in shell("stats").out.splitlines() if row.startswith("work")]
    assert line.split()[:3] == ["work", "done", "3"]
    for task in shell("--json", "list", "--queue", "work").lines:
        (result,) = shell("--json", "results", task["task_id"]).lines
        assert result["value"] == [], "the command was given the password"
    found = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert all(b"s3cret-pass" not in path.read_bytes() for path in found)


def test_an_outbox_is_filled_from_a_database_and_brought_back(shell, tmp_path, monkeypatch, url):
    monkeypatch.setenv("FENCEPOST_STORE", f"{url}&password=s3cret-pass")
    for number in range(3):
        shell.task(json.dumps({"n": number}), "trip", "--task-key", f"s{number}")
    take = ("offline", "take", "trip", "-n", "3", "--lease-seconds", "600", "--worker", "lap")
    assert len(shell.json(*take)["task_ids"]) == 3
    for number in range(3):
        assert shell("offline", "record", f"s{number}", '{"ok":1}').code == 0
    assert shell("offline", "sync").code == 0
    assert shell("offline", "sync").code == 0
    assert shell.json("offline", "status")["settled"] == 3
    for number in range(3):
        assert shell.json("show", f"trip/s{number}")["state"] == "done"
    outbox = (tmp_path / "offline.db").read_bytes()
    assert b"s3cret-pass" not in outbox and b"postgresql" not in outbox
    assert shell("verify").code == 0


def schemas(url):
    with psycopg.connect(url) as connection:
        return {
            name for (name,) in connection.execute(
                "select nspname from pg_namespace where nspname !~ '^pg_|^information_schema$'"
            )
        }  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "src"
    folder.mkdir()
    for number in range(30):
        (folder / f"f{number}.py").write_text("x\n" * number)
    return folder


@pytest.mark.parametrize("way", ["environment", "after"])
def test_the_demo_holds_in_a_database_and_leaves_nothing_there(way, folder, url, tmp_path):
    secret = f"{url}&password=s3cret-pass"
    words = ["demo", folder, "--seed", "1", "--json"]
    words = [*words, "--store", secret] if way == "after" else words
    variables = {"FENCEPOST_STORE": secret} if way == "environment" else {}
    ran = run(tmp_path, *words, **variables)
    assert ran.code == 0, ran.err
    told = json.loads(ran.out)
    assert all(check["holds"] for check in told["checks"])
    assert "s3cret-pass" not in ran.out + ran.err
    assert schemas(url) == {"public"}


def test_the_demo_shows_no_password_to_who_looks_at_processes(folder, url, tmp_path, monkeypatch):
    from fencepost.operate.demo.crew import Crew

    secret = f"{url}&password=s3cret-pass"
    fencepost.open(url, create=True).close()
    with Crew(secret, folder, tmp_path) as crew:
        pid = crew.hire().process.pid
        shown = Path(f"/proc/{pid}/cmdline").read_bytes()
        assert b"s3cret" not in shown and str(folder).encode() in shown


@pytest.mark.parametrize(
    ("flags", "why"),
    [(["--store", "work.db"], "is a PostgreSQL URL"),
     (["--store", "postgresql://h/db", "--keep", "x.db"], "goes with its schema")],
)
def test_the_demo_refuses_what_it_cannot_do(flags, why, folder, tmp_path):
    ran = run(tmp_path, "demo", folder, *flags)
    assert ran.code == 2 and why in ran.err
