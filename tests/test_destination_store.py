"""Where destinations lie: what verify says of their rows, what stays over a restart, a copy and a
backup, and that whoever has nothing to do with them pays nothing for them."""

from __future__ import annotations

import pytest
from helpers import postgres
from helpers.lab import START
from helpers.pg_stand import PgStand
from helpers.stand import QUEUE, Stand
from helpers.wires import SECRET
from helpers.workload import opened

import fencepost
from fencepost import commands as c
from fencepost.clock import FakeClock
from fencepost.operate.backup import backup
from fencepost.operate.doctor import doctor
from fencepost.operate.moving import copy

OUT = "out"
HEAD = "0a" * 32
ADDRESS = "https://h.example/in?key=1"


def set_up(fp):
    """A destination with something in every column."""
    fp.queue_set(QUEUE, destinations=[OUT])
    fp.destination_set(OUT, ADDRESS, class_="fenced", options={"ordered": True})
    fp.destination_secret(OUT, SECRET)
    fp.destination_set(OUT, stopped="no stamps")
    fp.destination_advance(
        OUT, expected_sequence=0, sequence=3, head=HEAD, heard=2,
        announced="01900000-0000-7000-8000-000000000000",
    )  # fmt: skip


def problems(stand):
    stand.fp.seal()
    return {(found.code, found.place) for found in stand.fp.verify().problems}


EDITS = {
    "address": "'https://thief.example/'", "class": "'idempotent'", "options": "'{}'",
    "secrets": "'[]'", "stopped": "null", "sequence": "4", "head": "null", "heard": "0",
    "announced": "null",
}  # fmt: skip
MAKES = [Stand, PgStand]
BOTH = pytest.mark.parametrize("make", MAKES, ids=["sqlite", "postgres"])


@BOTH
@pytest.mark.parametrize("column", EDITS)
def test_verify_names_a_destination_in_which_one_column_was_edited(make, column):
    with make() as stand:
        set_up(stand.fp)
        assert problems(stand) == set()
        stand.connection.execute(f"update fencepost_destination set {column} = {EDITS[column]}")
        assert problems(stand) == {("destination", "destination s/out")}


def test_every_column_of_a_destination_is_edited_in_turn():
    with Stand() as stand:
        found = stand.connection.execute("select * from fencepost_destination")
        assert [name for name, *_ in found.description] == ["queue_id", *EDITS]


@BOTH
def test_verify_names_a_destination_without_its_row_and_one_that_no_entry_has_made(make):
    with make() as stand:
        set_up(stand.fp)
        stand.task(queue="other")
        stand.connection.execute(
            "update fencepost_destination set queue_id = "
            "(select id from fencepost_queue where queue = 'other')"
        )
        assert problems(stand) == {
            ("destination", "destination s/out"), ("destination", "destination s/other"),
        }  # fmt: skip
        stand.connection.execute("delete from fencepost_destination")
        assert problems(stand) == {("destination", "destination s/out")}


@BOTH
def test_verify_names_a_queue_that_is_not_the_destination_that_it_was_made(make):
    with make() as stand:
        stand.fp.destination_set(OUT, 'command:["post"]', class_="unfenced")
        assert problems(stand) == set()
        stand.connection.execute("update fencepost_queue set is_destination = 0")
        assert problems(stand) == {("settings", "queue s/out")}
        stand.connection.execute(
            "update fencepost_queue set is_destination = 1, "
            "settings = replace(settings, 'reconcile', 'retry')"
        )
        assert problems(stand) == {("settings", "queue s/out")}


@BOTH
def test_verify_takes_a_stop_that_no_entry_tells_from_a_later_writer_alone(make):
    """A store that finds itself to be a copy stops its destinations without a word."""
    with make() as stand:
        stand.fp.destination_set(OUT, ADDRESS, class_="fenced")
        stand.connection.execute("update fencepost_destination set stopped = 'copied'")
        assert ("destination", "destination s/out") in problems(stand)
        stand.connection.execute("update fencepost_store set epoch = epoch + 1")
        assert ("destination", "destination s/out") not in problems(stand)
        stand.connection.execute("update fencepost_destination set stopped = 'by hand'")
        assert ("destination", "destination s/out") in problems(stand)


def test_a_destination_is_as_it_was_after_a_restart_in_a_backup_and_gone_after_uninstall(tmp_path):
    clock = FakeClock(START)
    with opened(tmp_path / "work.db", clock) as fp:
        set_up(fp)
        known = fp.destination(OUT)
        assert (known.sequence, known.secrets[0].secret) == (3, SECRET)
    with fencepost.open(tmp_path / "work.db", scope="lab", clock=clock) as fp:
        assert fp.destinations() == [known]
        backup(fp, tmp_path / "backup.db")
        assert fp.verify().problems == ()
    # a store that is opened elsewhere is a copy: it delivers nothing, and says so
    with fencepost.open(tmp_path / "backup.db", scope="lab", clock=clock) as fp:
        (found,) = fp.destinations()
        assert (found.address, found.secrets, found.sequence) == (ADDRESS, known.secrets, 3)
        assert found.stopped == "no stamps"  # what it was stopped for before counts
        assert fp.verify().problems == ()


def test_a_copy_to_a_database_takes_destinations_along_and_delivers_nothing_there(tmp_path):
    clock = FakeClock(START)
    with opened(tmp_path / "work.db", clock) as fp:
        set_up(fp)
        fp.destination_set("open", "http://h.example", class_="idempotent")
        before = fp.destinations()
    with postgres.database() as url:
        copy(str(tmp_path / "work.db"), url)
        with fencepost.open(url, scope="lab") as fp:
            after = fp.destinations()
            assert [one.stopped for one in after] == ["copied", "no stamps"]
            assert [one.to_json() | {"stopped": 0} for one in after] == [
                one.to_json() | {"stopped": 0} for one in before
            ]
            assert fp.verify().problems == ()
            fp.destination_set("open", stopped=None)
            fp.seal()
            assert fp.verify().problems == () and fp.destination("open").stopped is None


def test_doctor_names_what_is_stopped(tmp_path):
    with opened(tmp_path / "work.db", FakeClock(START)) as fp:
        assert not [found for found in doctor(fp) if found.name == "destination"]
        set_up(fp)
        (found,) = [found for found in doctor(fp) if found.name == "destination"]
        assert found.level == "warn" and "nothing is delivered to out: no stamps" in found.message
        fp.destination_set(OUT, stopped=None)
        (found,) = [found for found in doctor(fp) if found.name == "destination"]
        assert (found.level, found.message) == ("ok", "1 with an address, none stopped")


def test_who_delivers_nothing_reads_no_destination():
    """Counted in statements: a completion that owes messages, an enqueue, a claim of work."""
    with Stand() as stand:
        set_up(stand.fp)
        stand.fp.destination_set(OUT, stopped=None)
        stand.task()
        asked = []
        stand.connection.set_trace_callback(asked.append)
        lease = stand.claim()
        lease.complete({"ok": True})
        stand.task("more")
        lease = stand.claim()
        stand.fp.execute([c.Complete(lease.task_id, "w", lease.fence, result=1), c.Sweep(QUEUE)])
        assert len(asked) > 20 and not [sql for sql in asked if "fencepost_destination" in sql]
        stand.ask(c.Claim("d", (OUT,)), "d", "dispatcher")
        assert len([sql for sql in asked if "fencepost_destination" in sql]) == 1
