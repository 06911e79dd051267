"""No password of a URL is shown by anything, whatever goes wrong; and each failure says what to do.

One server with passwords: roles that may everything, nothing, and read alone; later a standby.
"""

from __future__ import annotations

import logging
import subprocess
import sys
from contextlib import contextmanager

import psycopg
import pytest
from helpers.postgres import DURABLE, Server
from helpers.shell import ROOT, Shell

import fencepost
from fencepost.storage.address import address_of, without_password

SECRETS = ("s3cret/wörd", "s3cret%2Fw%C3%B6rd", "s3cret")
PASSWORD = SECRETS[1]


@pytest.fixture(scope="module")
def server():
    made = Server([*DURABLE, "fsync=off"], tcp=True)
    rules = made.data / "pg_hba.conf"
    rules.write_text(
        "local all all trust\nhost all postgres 127.0.0.1/32 trust\n"
        "host all all 127.0.0.1/32 scram-sha-256\n"
    )
    with made:
        with psycopg.connect(made.url(), autocommit=True) as connection:
            for role in ("owner", "reader", "nobody"):
                connection.execute(f"create role {role} login password '{SECRETS[0]}'")
            connection.execute("create database work owner owner")
        fencepost.open(address(made, "owner"), create=True).close()
        with psycopg.connect(made.url("work"), autocommit=True) as connection:
            connection.execute("grant select on all tables in schema public to reader")
            connection.execute("grant select on all sequences in schema public to reader")
        yield made


def address(server, role="owner", password=PASSWORD, database="work"):
    return f"postgresql://{role}:{password}@127.0.0.1:{server.port}/{database}"


@pytest.fixture
def shell(tmp_path, capsys, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    return Shell(tmp_path, capsys, monkeypatch)


@pytest.fixture
def told(shell, caplog):
    """Runs a command line as text and with --json: exit code and all that was said; no secret."""

    def run(*words, secrets=SECRETS):
        shown = ""
        for flags in ((), ("--json",)):
            ran = shell(*flags, *words)
            shown += ran.out + ran.err
        shown += caplog.text
        for secret in secrets:
            assert secret not in shown, shown
        return ran.code, shown

    return run


SITUATIONS = {
    # name: (what of the URL is wrong, exit code, what is said)
    "wrong password": ({"password": "s3cret-wrong"}, 6, "password authentication failed"),
    "no such role": ({"role": "ghost"}, 6, "password authentication failed"),
    "wrong database": ({"database": "nowhere"}, 6, 'database "nowhere" does not exist'),
    "no rights": ({"role": "nobody"}, 6, "docs/postgres.md"),
    "no store": ({"role": "owner", "database": "postgres"}, 6, "fencepost --store URL init"),
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_failure_is_told_without_the_password(name, server, told):
    wrong, code, words = SITUATIONS[name]
    ended, shown = told("--store", address(server, **wrong), "stats")
    assert (ended, words in shown) == (code, True), shown


MALFORMED = (
    "postgresql://u:s3cret/x@127.0.0.1/db", "postgresql://u:s3cret@x@127.0.0.1/db",
    "postgresql://u:s3cret?x@127.0.0.1/db", "postgresql://u:s3cret#x@127.0.0.1/db",
    "postgresql://u:s3cret%zz@127.0.0.1/db", "postgresql://u:s3 cret@127.0.0.1/db",
    "postgresql://u:s3cret", "postgresql://u:s3cret@127.0.0.1:99999/db",
    "postgresql://u:s3cret@127.0.0.1/db?nonsense=1", "postgresql://u@127.0.0.1/db?password",
    "postgresql://u:s3cret@127.0.0.1/db?pooled=2", "postgres://u:s3cret%00@127.0.0.1/db",
)  # fmt: skip


@pytest.mark.parametrize("url", MALFORMED)
def test_a_malformed_url_is_refused_without_the_password(url, told):
    code, shown = told("--store", url, "stats", secrets=("s3cret", "s3 cret"))
    assert code == 2 and "the URL" in shown


def test_a_server_that_is_not_there_is_told_without_the_password(told):
    code, shown = told("--store", f"postgresql://u:{PASSWORD}@127.0.0.1:1/db", "stats")
    assert code == 6 and "postgresql://127.0.0.1:1/db cannot be reached" in shown


def test_what_is_to_be_pasted_has_no_password(server, told):
    url = address(server)
    _, shown = told("--store", url, "init")
    assert f"fencepost --store postgresql://owner@127.0.0.1:{server.port}/work enqueue" in shown
    told("--store", url, "enqueue", "q", "1")
    told("--store", url, "claim", "q", "--worker", "w")
    told("--store", url, "doctor")
    told("--store", url, "migrate", "--show")
    told("--store", url, "offline", "take", "q", "--lease-seconds", "60", "--worker", "w")
    code, shown = told("--store", url, "uninstall")
    assert code == 2 and f"owner@127.0.0.1:{server.port}/work would be gone" in shown


def test_a_role_that_may_only_read_is_told_so_and_reads(server, told):
    url = address(server, "reader")
    assert told("--store", url, "stats")[0] == 0
    code, shown = told("--store", url, "enqueue", "q", "1")
    assert code == 6 and "the role may not do this" in shown
    code, shown = told("--store", url, "doctor")
    assert code == 6 and "this role may not use: fencepost_checkpoint, " in shown


def test_a_store_of_a_newer_schema_is_left_alone(server, told):
    with newer(server):
        code, shown = told("--store", address(server), "stats")
        assert code == 5 and "has schema 99; this program knows up to 1" in shown
        for words in (("migrate",), ("migrate", "--show"), ("init",)):
            assert told("--store", address(server), *words)[0] == 5, words


@contextmanager
def newer(server):
    change = "update fencepost_store set schema_version = %s"
    with psycopg.connect(server.url("work"), autocommit=True) as connection:
        connection.execute(change, [99])
        try:
            yield
        finally:
            connection.execute(change, [1])


def test_a_row_of_an_older_schema_asks_for_migrate(server, told):
    change = "update fencepost_store set schema_version = %s"
    with psycopg.connect(server.url("work"), autocommit=True) as connection:
        connection.execute(change, [0])
        try:
            code, shown = told("--store", address(server), "stats")
        finally:
            connection.execute(change, [1])
    assert code == 5 and "migrate (to 1)" in shown


def test_without_its_driver_the_command_to_install_it_is_told():
    program = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from fencepost.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    for words in (["stats"], ["init"], ["migrate"], ["copy", "x.db"]):
        ran = subprocess.run(
            [sys.executable, "-c", program, "--store", f"postgresql://u:{PASSWORD}@h/db", *words],
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert ran.returncode == 6 and "pip install 'fencepost[postgres]'" in ran.stderr
        assert "s3cret" not in ran.stderr + ran.stdout


def test_a_standby_is_refused_and_its_primary_found_among_several(server, told):
    url = address(server)
    with fencepost.open(url) as fp:
        fp.enqueue("q", 1)
    server.stop()
    (server.data / "standby.signal").touch()
    server.start()
    try:
        code, shown = told("--store", url, "stats")
        assert code == 6 and "is a standby, which takes no work; name the primary" in shown
        several = url.replace("@", "@127.0.0.1:1,")
        code, shown = told("--store", several, "stats")
        assert code == 6 and "none of these servers takes writes" in shown
    finally:
        server.stop()
        (server.data / "standby.signal").unlink(missing_ok=True)
        server.start()
    assert told("--store", url.replace("@", "@127.0.0.1:1,"), "stats")[0] == 0


def test_the_address_of_a_handle_is_the_same_whoever_asks_and_shows_no_password(server):
    with (
        fencepost.open(address(server)) as one,
        fencepost.open(f"{address(server)}?application_name=x&sslmode=prefer") as other,
    ):
        assert one.address == other.address == f"postgresql://127.0.0.1:{server.port}/work"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:pw@db.example/work", "postgresql://db.example:5432/work"),
        ("postgres://me@db.example:5433", "postgresql://db.example:5433/me"),
        ("postgresql:///work?host=/run/pg", "postgresql:///run/pg:5432/work"),
        ("postgresql://[::1]:5/work", "postgresql://[::1]:5/work"),
        ("postgresql://a,b:6/work", "postgresql://a:5432,b:6/work"),
        ("postgresql://b:6,a:5432/work", "postgresql://a:5432,b:6/work"),
        (
            "postgresql://a/w?options=-csearch_path%3Dapp&password=pw",
            "postgresql://a:5432/w?options=-csearch_path=app",
        ),
    ],
)
def test_an_address_is_told_in_one_way(url, shown):
    assert address_of(url).shown == shown
    assert "pw" not in without_password(url)


def test_an_option_goes_to_libpq_as_it_was_written():
    found = address_of("postgresql:///w?options=-c%20search_path%3Dapp&application_name=a+b&pooled=1")
    assert found.pooled
    assert found.conninfo.startswith(
        "postgresql:///w?options=-c%20search_path%3Dapp&application_name=a+b&connect_timeout=10&"
    )
    given = address_of("postgresql://h/w?connect_timeout=3").conninfo
    assert given.count("connect_timeout") == 1 and "tcp_user_timeout=25000" in given


@pytest.mark.parametrize("path", ["work.db", "https://x:y@host/", ":memory:", "a@b/work.db"])
def test_another_address_is_told_as_it_is(path):
    assert without_password(path) == path
