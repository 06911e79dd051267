"""Bad input from the command line: refused with a code and a message that names what was wrong."""

from __future__ import annotations

import os
import sqlite3
import stat

import pytest
from helpers.shell import Shell

TASK = "01900000-0000-7000-8000-000000000000"
LEASE = (TASK, "--worker", "w", "--fence", "1")


@pytest.fixture
def shell(tmp_path, capsys, monkeypatch):
    shell = Shell(tmp_path, capsys, monkeypatch)
    assert shell("init").code == 0
    return shell


def refused(shell, *argv, stdin=b""):
    """The message of a command line that must be refused as bad, having changed nothing."""
    before = shell("journal").out
    ran = shell(*argv, stdin=stdin)
    assert (ran.code, ran.out) == (2, ""), ran
    assert ran.err.startswith("fencepost: invalid_request: ") and ran.err.count("\n") == 1, ran
    assert shell("journal").out == before
    return ran.err


@pytest.mark.parametrize(
    ("payload", "wrong"),
    [
        (b'{"a":1,"a":2}', 'member "a" stands more than once'),
        (b"NaN", "not a finite double"),
        (b"-Infinity", "not a finite double"),
        (b'"\\ud800"', "lone surrogate"),
        (b"9007199254740992", "beyond 2**53-1"),
        (b"[" * 65 + b"]" * 65, "nested deeper than 64"),
        (b"1" * 5000, "beyond 2**53-1"),
        (b"0." + b"1" * 5000, "5002 characters"),
        (b'"\x00"', "not JSON"),
        (b"\x00", "not JSON"),
        (b'"\xff"', "not UTF-8 at byte 1"),
        (b"\xef\xbb\xbf1", "byte order mark"),
        (b"", "empty"),
        (b"1 2", "not JSON"),
        (b"{'a': 1}", "not JSON"),
    ],
)
def test_a_payload_that_can_be_read_in_two_ways_is_refused(shell, payload, wrong):
    assert wrong in refused(shell, "enqueue", "q", "-", stdin=payload)


def test_an_argument_that_is_not_utf8_is_refused(shell):
    assert "payload" in refused(shell, "enqueue", "q", os.fsdecode(b'"\xff"'))


def test_a_payload_above_64_mib_is_refused_unread(shell):
    told = refused(shell, "enqueue", "q", "-", stdin=b"1" * (64 * 1024 * 1024 + 1))
    assert "payload is larger than" in told


@pytest.mark.parametrize(
    "name",
    [
        "a/b", "..", "a%20b", "a?b", "a#b", "a\x1b[2J", "a\nb", "", "x" * 65, "ä",
        "caf\u00e9", "cafe\u0301", "a b", "\u202eabc",
    ],
)  # fmt: skip
@pytest.mark.parametrize("where", ["queue", "worker", "scope", "actor"])
def test_a_name_outside_the_alphabet_is_refused(shell, where, name):
    lines = {
        "queue": ("enqueue", name, "1"),
        "worker": ("claim", "q", "--worker", name),
        "scope": ("--scope", name, "list"),
        "actor": ("list", "--actor", name),
    }
    assert "is not a name" in refused(shell, *lines[where])


@pytest.mark.parametrize(
    "argv",
    [("enqueue", "-q", "1"), ("claim", "q", "--worker", "-w"), ("list", "--queue", "-q")],
)
def test_a_name_that_begins_with_a_hyphen_is_refused_and_told_why(shell, argv):
    assert "no name may begin so" in refused(shell, *argv)


def test_a_hyphen_after_two_hyphens_is_judged_as_a_name(shell):
    assert "is not a name" in refused(shell, "enqueue", "--", "-q", "1")


@pytest.mark.parametrize("fence", ["1.0", "0x1", " 1", "1 ", "true", "+1", "1e3", "", "٣", "01"])
def test_a_fence_is_a_decimal_integer(shell, fence):
    told = refused(shell, "complete", TASK, "--worker", "w", "--fence", fence)
    assert "--fence" in told and "not an integer in decimal digits" in told


@pytest.mark.parametrize("fence", [10**15, -1, 0, 10**17])
def test_a_fence_outside_its_range_is_refused_as_in_python(shell, fence):
    told = refused(shell, "complete", TASK, "--worker", "w", f"--fence={fence}")
    assert f"fencing_token: {fence} is outside 1 to 999999999999999" in told


@pytest.mark.parametrize("seconds", [0, -1])
def test_a_lease_has_a_length(shell, seconds):
    told = refused(shell, "claim", "q", "--worker", "w", "--lease-seconds", seconds)
    assert "lease_seconds" in told


def test_a_lease_longer_than_the_queue_allows_is_a_refusal_of_a_rule(shell):
    shell.task()
    ran = shell("claim", "q", "--worker", "w", "--lease-seconds", "901", "--json")
    assert (ran.code, ran.issues) == (3, ["lease_too_long"])


@pytest.mark.parametrize(
    "due_at",
    ["2026-01-31T12:00:00", "2026-01-31", "now", "2026-01-31T12:00:00.123456789Z", "1.5"],
)
def test_a_time_without_zone_or_finer_than_a_microsecond_is_refused(shell, due_at):
    assert "due_at" in refused(shell, "enqueue", "q", "1", "--due-at", due_at)


def test_a_time_with_an_offset_is_kept_as_utc(shell):
    task_id = shell.task("1", "q", "--due-at", "2999-01-31T12:00:00.120000000+05:30")
    assert shell.json("show", task_id)["due_at"] == "2999-01-31T06:30:00.120000Z"


@pytest.mark.parametrize(
    ("argv", "names"),
    [
        ((), "VERB"),
        (("frobnicate",), "'frobnicate'"),
        (("enqeue", "q", "1"), "did you mean enqueue?"),
        (("enqueue",), "QUEUE"),
        (("enqueue", "q"), "PAYLOAD"),
        (("enqueue", "q", "1", "2"), "2"),
        (("enqueue", "q", "1", "--tasks"), "--tasks"),
        (("enqueue", "q", "1", "--key", 'a"b'), "idempotency_key"),
        (("enqueue", "q", "1", "--task-key", "a b"), "key"),
        (("enqueue", "q", "1", "--priority", "1000001"), "priority"),
        (("claim", "q"), "--worker"),
        (("claim", "--worker", "w"), "queues or task_id"),
        (("claim", "q", "q", "--worker", "w"), "queues"),
        (("claim", "q", "--worker", "w", "--limit", "101"), "limit"),
        (("claim", "q", "--worker", "w", "--task", TASK), "queues or task_id"),
        (("complete", TASK, "--worker", "w"), "--fence"),
        (("complete", "x", *LEASE[1:]), "task_id"),
        (("complete", TASK.upper().replace("0", "A"), *LEASE[1:]), "task_id"),
        (("complete", *LEASE, "--text"), "result"),
        (("complete", *LEASE, "--followups", "{}"), "cannot read '{}'"),
        (("complete", *LEASE, "--followups", "[1]"), "followups[0]"),
        (("complete", *LEASE, "--followups", '[{"payload":1}]'), "queue"),
        (("submit", *LEASE), "result"),
        (("fail", *LEASE, "--then", "later"), "retry, give_up, block"),
        (("fail", *LEASE, "--reason", "x" * 4097), "reason"),
        (("resolve", TASK), "--to"),
        (("resolve", TASK, "--to", "done"), "evidence"),
        (("resolve", TASK, "--to", "retry", "--evidence", "1"), "evidence"),
        (("review", TASK, "one", "accepted"), "REVISION"),
        (("review", TASK, "1", "fine"), "accepted, rejected"),
        (("review", TASK, "1", "accepted", "--requeue"), "requeue"),
        (("queue-set", "q"), "NAME=VALUE"),
        (("queue-set", "q", "paused"), "NAME=VALUE"),
        (("queue-set", "q", "pause=true"), "pause"),
        (("queue-set", "q", "paused=1"), "paused"),
        (("queue-set", "q", "lease_seconds=true"), "lease_seconds"),
        (("queue-set", "q", "lease_seconds=60", "lease_seconds=61"), "twice"),
        (("queue-set", "q", "lease_seconds=60.0"), "lease_seconds"),
        (("queue-set", "q", "lease_seconds=901"), "max_lease_seconds"),
        (("scope-set-policy",), "policy_version"),
        (("sweep", "--limit", "0"), "limit"),
        (("list", "--state", "gone"), "state"),
        (("list", "--limit", "0"), "--limit"),
        (("show", "q/a b"), "key"),
        (("receipt", 'a"b'), "key"),
        (("journal", "--after", "-1"), "after"),
        (("verify", "--since", "nowhere"), "cannot read 'nowhere'"),
        (("enqueue", "q", "--from", "nowhere"), "cannot read 'nowhere'"),
        (("enqueue", "q", "--from", "."), "cannot read '.'"),
        (("clock-reset", "--request", "-"), "empty"),
        (("clock-reset", "extra"), "extra"),
        (("completion", "tcsh"), "tcsh"),
    ],
)
def test_wrong_arguments_name_what_was_wrong(shell, argv, names):
    assert names in refused(shell, *argv)


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        (b'{"verb":"sweep","limitt":1}', "unknown member 'limitt'"),
        (b'{"verb":"sweep","limit":null}', "null is not allowed"),
        (b'{"verb":"sweep","limit":1.0}', "not an integer"),
        (b'{"verb":"sweep","limit":true}', "not an integer"),
        (b'{"verb":"sweep","verb":"purge"}', "more than once"),
        (b'[{"verb":"sweep"}]', "give an object"),
        (b'{"verb":"restore"}', "verb must be one of"),
        (b'{"verb":["sweep"]}', "verb must be one of"),
    ],
)
def test_a_raw_command_is_read_as_strictly_as_any(shell, body, wrong):
    assert wrong in refused(shell, "sweep", "--request", "-", stdin=body)


# -- places that are no store


def unusable(shell, path, *verb):
    """The message for a store that cannot be used."""
    ran = shell("--store", path, *(verb or ("list",)))
    assert (ran.code, ran.out) == (6, ""), ran
    assert ran.err.startswith("fencepost: store_unavailable: "), ran
    return ran.err


def test_a_directory_is_no_store(shell):
    assert "is a directory" in unusable(shell, shell.folder)


def test_a_missing_store_is_named_with_the_command_that_creates_it(shell):
    assert "fencepost --store gone.db init" in unusable(shell, "gone.db")
    assert not (shell.folder / "gone.db").exists()
    assert "does not exist" in unusable(shell, "no/folder/x.db", "init")


def test_a_file_that_is_not_sqlite_is_left_as_it_was(shell):
    place = shell.folder / "notes.txt"
    place.write_text("dear diary, " * 100)
    for verb in ("list", "init"):
        assert "notes.txt" in unusable(shell, place, verb)
    assert place.read_text() == "dear diary, " * 100


def test_a_database_of_somebody_elses_is_left_as_it_was(shell):
    place = shell.folder / "app.db"
    connection = sqlite3.connect(place)
    connection.execute("create table notes (x)")
    connection.close()
    before = place.read_bytes()
    for verb in ("list", "init"):
        assert "init --into" in unusable(shell, place, verb)
    assert place.read_bytes() == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_folder_that_cannot_be_written_is_named(shell):
    folder = shell.folder / "locked"
    folder.mkdir()
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    assert "locked" in unusable(shell, folder / "x.db", "init")


def test_a_url_of_an_unknown_kind_is_bad_usage(shell):
    assert "gopher://" in refused(shell, "list", "--store", "gopher://x")


def test_a_newer_schema_is_told_apart(shell):
    connection = sqlite3.connect(shell.folder / "fencepost.db")
    connection.execute("update fencepost_store set schema_version = 999")
    connection.commit()
    connection.close()
    ran = shell("list", "--json")
    assert (ran.code, ran.issues) == (5, ["schema_mismatch"])
