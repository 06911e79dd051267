"""Deliveries into a table: the row of a task and the receipt of its effect in one transaction, by
the rules of the receiver kit, in a real PostgreSQL and a real SQLite file."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import sys
import threading
import time
from contextlib import closing, contextmanager

import psycopg
import pytest
from helpers.deliver_life import SINK_STEPS, Life
from helpers.delivering import Depot, depot
from helpers.forked import run_forking
from helpers.postgres import database
from helpers.sinks import TASK, VOICE, event, execute, rows, sender
from helpers.working import comes_true
from test_docs import rows as table_rows

import fencepost
from fencepost.clock import SystemClock
from fencepost.deliveries import table as tables
from fencepost.deliveries.event import Voice
from fencepost.deliveries.hello import hello
from fencepost.issues import InvalidRequest
from fencepost.model import Writer
from fencepost.operate.backup import backup
from fencepost.operate.restore import restore
from fencepost.operate.restoring.steps import Wishes

BOTH = pytest.mark.parametrize("kind", ["sqlite", "postgresql"])


@pytest.fixture
def place(tmp_path):
    with depot(tmp_path, clock=SystemClock()) as made:
        yield made


@pytest.fixture
def address(kind, tmp_path):
    """A table that nobody has made yet."""
    if kind == "sqlite":
        yield f"sqlite:{tmp_path}/their own.db#effect"
    else:
        with database() as url:
            yield f"{url}#effect"


def destined(place, address, **options):
    place.destination(address, "fenced", secret=None, allow_private=None, **options)


def greeted(made, voice=VOICE, *, lineage=None, **also):
    """Say who writes now, and hear the answer."""
    writers = lineage or (Writer(voice.epoch, voice.incarnation, "created", 0),)
    return made.greet(hello(voice, writers, 0, None, **also), 5)


def states(place):
    return [each.state for each in place.obligations()]


@pytest.fixture
def made(kind, address):
    """A sender whose table was greeted."""
    one = sender(address, "fenced")
    assert greeted(one).status == 200
    yield one
    one.close()


# -- what arrives


@BOTH
def test_every_result_has_its_row_once_and_the_kits_receipt_as_evidence(place, address):
    destined(place, address)
    tasks = place.results({"n": 1}, "zwei \u2028 %(x)s :x ' \"", [1.5, None])
    assert place.deliver().counts == {"complete": 3}
    found = rows(address, "task_id, outcome, queue, epoch, fence, revision, operation, data")
    assert [row[:3] for row in found] == [(each, "result", "pages") for each in tasks]
    for row, task in zip(found, place.obligations(), strict=True):
        about = json.loads(row[7])
        assert about == task.payload
        assert row[3:6] == (about["epoch"], about["fencing_token"], about["revision"])
        receipt = json.loads(place.evidence(task.task_id)["receipt"])
        assert receipt["operation"] == row[6] == f"{row[0]}:1" and receipt["receiver"] == "effect"
    assert place.fp.destination("out").heard == 3


@BOTH
def test_a_task_has_one_row_which_is_its_latest_result(place, address):
    destined(place, address)
    place.fp.queue_set("pages", destinations=["out"])
    task = place.fp.enqueue("pages", 1).task_id
    (lease,) = place.fp.claim("pages", worker_id="w")
    for part in range(3):
        lease.submit({"part": part})
    lease.complete({"part": "last"})
    place.deliver()
    ((task_id, outcome, revision, data),) = rows(address)
    assert (task_id, outcome, revision) == (task, "result", 4)
    assert json.loads(data)["result"] == {"part": "last"} and states(place) == ["done"] * 4


@BOTH
def test_an_ordered_table_has_the_head_that_the_store_has(place, address):
    destined(place, address, ordered=True)
    place.results(*range(6))
    place.deliver()
    row = place.fp.destination("out")
    ((sequence, head),) = execute(address, "select sequence, head from fencepost_receiver_stream")
    assert (row.sequence, row.head) == (6, bytes(head).hex()) and sequence == 6


@BOTH
def test_a_table_that_is_there_with_more_columns_is_filled_as_it_is(place, address):
    execute(address, "create table effect (task_id text, outcome text, queue text, epoch bigint, "
            "fence bigint, revision bigint, operation text, data text, "
            "seen text default 'no', primary key (task_id, outcome))")  # fmt: skip
    destined(place, address)
    place.results(1)
    place.deliver()
    assert rows(address, "seen") == [("no",)]


def test_a_table_stands_in_the_schema_and_under_the_very_name_that_the_address_says(place):
    with database() as url:
        execute(url, "create schema theirs")
        destined(place, f"{url}#theirs.Order")
        place.results(1)
        place.deliver()
        assert len(execute(url, 'select * from theirs."Order"')) == 1


def test_two_destinations_in_one_database_keep_their_streams_apart(place, tmp_path):
    file = f"sqlite:{tmp_path}/both.db"
    for queue in ("out", "also"):
        place.destination(f"{file}#effect", "fenced", queue=queue, secret=None, allow_private=None)
    place.results(1)
    place.results(2, queue="others", out="also")
    place.deliver()
    assert len(rows(f"{file}#effect")) == 2
    assert len(execute(file, "select * from fencepost_receiver_stream")) == 2


# -- the fence


@BOTH
def test_an_effect_again_is_answered_with_its_receipt_and_changes_nothing(made, address):
    first = made.send(event(), 5)
    assert first.word == "delivered"
    made.send(event(revision=2), 5)
    before = rows(address)
    assert made.send(event(), 5).evidence == first.evidence and rows(address) == before


@BOTH
@pytest.mark.parametrize("older", [{"epoch": 0, "fence": 9}, {"fence": 6}, {"revision": 1}])
def test_a_result_that_is_older_than_what_is_there_changes_nothing(made, address, older):
    made.send(event(epoch=1, fence=7, revision=2), 5)
    before = rows(address)
    tried = made.send(event(**{"epoch": 1, "fence": 7, "revision": 3, **older}), 5)
    assert tried.word == "stale_result" and "revision 2" in tried.told
    assert rows(address) == before


@BOTH
def test_other_data_under_a_known_operation_is_a_conflict(made, address):
    made.send(event(result="a"), 5)
    before = rows(address)
    assert made.send(event(result="b"), 5).word == "effect_conflict"
    assert rows(address) == before


@BOTH
def test_the_guard_of_the_statement_keeps_what_is_later_by_itself(made, address):
    """Should the rules ever let an older result through, the row stays."""
    made.send(event(epoch=1, fence=7, revision=2), 5)
    before = rows(address)
    for older in ({"epoch": 0, "fence": 9, "revision": 3}, {"epoch": 1, "fence": 7, "revision": 1}):
        execute(address, "delete from fencepost_receiver_subject")
        execute(address, "delete from fencepost_receiver_receipt")
        assert made.send(event(**older), 5).word == "delivered"
        assert rows(address) == before


@BOTH
def test_a_writer_that_was_replaced_writes_no_more(made, address):
    later = Voice(VOICE.stream, 1, "01930000-0000-7000-8000-000000000000")
    lineage = tuple(Writer(v.epoch, v.incarnation, "started", 0) for v in (VOICE, later))
    other = sender(address, "fenced")
    assert other.send(event(2, voice=later), 5).word == "hello_needed"
    assert greeted(other, later, lineage=lineage).status == 200
    before = rows(address)
    assert made.send(event(3), 5).word == "old_epoch"
    assert rows(address) == before
    assert other.send(event(2, voice=later), 5).word == "delivered"
    other.close()


@BOTH
def test_of_two_copies_of_a_writer_the_first_to_come_is_the_only_one(made, address):
    copy = Voice(VOICE.stream, 0, "01930000-0000-7000-8000-000000000000")
    other = sender(address, "fenced")
    assert other.send(event(2, voice=copy), 5).word == "fork"
    assert greeted(other, copy).said["code"] == "fork"
    assert made.send(event(2), 5).word == "delivered" and len(rows(address)) == 1
    other.close()


@BOTH
def test_two_dispatchers_at_once_leave_each_effect_once(place, address):
    """One stands still until its leases have lapsed, and goes on with what it had in hand, which
    the other has taken over."""
    destined(place, address, concurrency=4)
    place.fp.queue_set("out", lease_seconds=1, max_attempts=50, backoff_seconds=0)
    tasks = place.results(*range(40))
    lives = [Life(place.folder, "--worker", name, "--state", place.folder / name) for name in "ab"]
    with lives[0], lives[1]:
        comes_true(lambda: _there(address) and len(rows(address)) > 4, 30)
        lives[1].child.send_signal(signal.SIGSTOP)
        comes_true(lambda: not _held_by(place, "b"), 30)
        lives[1].child.send_signal(signal.SIGCONT)
        comes_true(lambda: states(place) == ["done"] * 40, 50)
        for life in lives:
            life.child.send_signal(signal.SIGTERM)
            assert life.ends()[0] == 0
    assert sorted(row[0] for row in rows(address)) == sorted(tasks)
    found = execute(address, "select operation from fencepost_receiver_receipt")
    assert sorted(row[0] for row in found) == sorted(f"{each}:1" for each in tasks)


def _held_by(place, worker):
    """Its leases that have not lapsed."""
    leased = [each for each in place.obligations() if each.state == "leased"]
    now = place.fp.wall()
    return [each for each in leased if each.worker_id == worker and each.lease_expires_at > now]


def _there(address):
    try:
        rows(address)
    except Exception:  # noqa: BLE001  # whatever the driver says of a table that is not made yet
        return False
    return True


@pytest.mark.parametrize(("kind", "step"), [
    *(("sqlite", step) for step in SINK_STEPS["table"]),
    *(("postgresql", step) for step in ("effect", "committed")),
])  # fmt: skip
def test_a_dispatcher_killed_at_any_step_leaves_each_row_once(place, address, step):
    destined(place, address, concurrency=1)
    place.fp.queue_set("out", lease_seconds=600, max_attempts=1)
    tasks = place.results(*range(4))
    with Life(
        place.folder, "--exit-when-empty", step=step, after=SINK_STEPS["table"][step]
    ) as life:
        assert life.ends()[0] == -signal.SIGKILL, (place.folder / "deliver.err").read_text()
    with Life(place.folder, "--exit-when-empty", "--max-seconds", "30") as life:
        assert life.ends()[0] == 0, (place.folder / "deliver.err").read_text()
    assert states(place) == ["done"] * 4
    assert all(each.attempt == 1 for each in place.obligations())
    assert sorted(row[0] for row in rows(address)) == sorted(tasks)
    ((position,),) = execute(address, "select position from fencepost_receiver_stream")
    assert position == 4


# -- what goes wrong


@BOTH
def test_a_table_that_was_made_in_a_transaction_that_was_undone_is_made_again(address, monkeypatch):
    """The first of all effects fails after its table was made: the second finds a table."""
    one = sender(address, "fenced")
    greeted(one)
    real, failed = one._receiver._effect, []

    def fails(connection, told):
        real(connection, told)
        if not failed:
            failed.append(told)
            raise OSError("not now")

    monkeypatch.setattr(one._receiver, "_effect", fails)
    assert one.send(event(), 5).word == "failed"
    assert one.send(event(), 5).word == "delivered" and len(rows(address)) == 1
    one.close()


@BOTH
def test_a_table_that_somebody_drops_is_a_failure_and_is_there_again_for_the_next_dispatcher(
    made, address
):
    made.send(event(), 5)
    execute(address, "drop table effect")
    assert made.send(event(2), 5).word == "failed"
    again = sender(address, "fenced")
    assert again.send(event(2), 5).word == "delivered" and len(rows(address)) == 1
    again.close()


def test_a_server_that_has_cut_the_connection_is_connected_to_again():
    with database() as url:
        one = sender(f"{url}#effect", "fenced")
        greeted(one)
        one.send(event(), 5)
        mine = "pid <> pg_backend_pid() and datname = current_database()"
        execute(url, f"select pg_terminate_backend(pid) from pg_stat_activity where {mine}")
        comes_true(lambda: one.send(event(2), 5).word == "delivered", 20)
        assert len(rows(f"{url}#effect")) == 2
        one.close()


def test_a_database_that_is_away_costs_no_attempt(place, tmp_path, caplog):
    folder = tmp_path / "not yet"
    address = f"sqlite:{folder}/their.db#effect"
    destined(place, address)
    place.fp.queue_set("out", max_attempts=1)
    place.results(1)
    place.deliver(max_seconds=1)
    (task,) = place.obligations()
    assert (task.state, task.attempt) == ("ready", 0)
    folder.mkdir()
    place.deliver()
    assert states(place) == ["done"] and len(rows(address)) == 1


def test_no_password_stands_in_a_reason_or_a_log(place, caplog):
    destined(place, "postgresql://u:hidden-word@127.0.0.1:9/d?sslpassword=hidden-word#effect")
    place.results(1)
    place.deliver(max_seconds=1)
    (task,) = place.obligations()
    assert (task.state, task.attempt) == ("ready", 0)
    told = json.dumps(task.to_json()) + "".join(
        each.getMessage() + str(each.exc_info) + str(each.exc_text) for each in caplog.records
    )
    assert caplog.records and "hidden-word" not in told


def test_a_store_of_fencepost_is_not_written_to_as_a_table(place, caplog):
    destined(place, f"sqlite:{place.folder}/store.db#effect")
    place.results(1)
    place.deliver(max_seconds=1)
    assert states(place) == ["ready"] and place.obligations()[0].attempt == 0
    assert any("a store of Fencepost's" in each.getMessage() for each in caplog.records)
    with pytest.raises(Exception, match="no such table"):
        rows(f"sqlite:{place.folder}/store.db#effect")


@BOTH
def test_a_database_that_hangs_is_not_waited_for_longer_than_it_may_take(made, address):
    """Somebody holds the stream: nobody is told that anything was done, and what was handed in is
    still judged by the fence when it gets through."""
    made.send(event(), 5)
    with held(address):
        begun = time.monotonic()
        assert made.send(event(2), 0.3).word == "unanswered"
        assert time.monotonic() - begun < 4
    comes_true(lambda: made.send(event(2), 5).word == "delivered", 20)
    assert sorted(row[0] for row in rows(address)) == [TASK.format(1), TASK.format(2)]


@BOTH
def test_one_that_is_aborted_waits_for_no_database(made, address):
    made.send(event(), 5)
    came = []
    with held(address):
        thread = threading.Thread(target=lambda: came.append(made.send(event(2), 60)))
        thread.start()
        time.sleep(0.1)  # so that most often it is waiting already; the law holds if it is not
        threading.Thread(target=made.close).start()
        thread.join(4)
        assert not thread.is_alive() and came[0].word == "unanswered"


@BOTH
def test_a_second_signal_ends_a_dispatcher_whose_database_hangs(place, address):
    destined(place, address, timeout_seconds=600)
    place.fp.queue_set("out", lease_seconds=600)
    place.results(1)
    place.deliver()
    place.results(2)
    with held(address), Life(place.folder) as life:
        comes_true(lambda: states(place)[-1] == "leased", 30)
        life.child.send_signal(signal.SIGTERM)
        life.child.send_signal(signal.SIGINT)
        _, said = life.ends()
        assert said["ended"] == "aborted" and len(rows(address)) == 1


@contextmanager
def held(address):
    """Another transaction holds the stream's row, until the block ends."""
    where = address.partition("#")[0]
    if where.startswith("sqlite:"):
        own = sqlite3.connect(where.removeprefix("sqlite:"), isolation_level=None)
        own.execute("begin immediate")
    else:
        own = psycopg.connect(where)
        own.execute("select * from fencepost_receiver_stream for update")
    with closing(own):
        yield
        own.rollback()


def test_without_psycopg_the_others_are_delivered_to_and_it_is_said_what_is_missing(
    place, tmp_path, monkeypatch, caplog
):
    """An operator may set a destination on a machine that does not deliver: it is told where it is
    delivered, and harms nobody."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "fencepost.receiver.postgres", raising=False)
    address = f"sqlite:{tmp_path}/their.db#effect"
    destined(place, address)
    place.destination(
        "postgresql://u@h/d#effect", "fenced", queue="odd", secret=None, allow_private=None
    )
    place.results(1, queue="others", out="odd")
    place.results(1)
    assert place.dispatcher().run() == "left"
    assert states(place) == ["done"] and len(rows(address)) == 1
    assert place.obligations("odd")[0].attempt == 0
    assert any("fencepost[postgres]" in each.getMessage() for each in caplog.records)


@pytest.mark.parametrize("table", ['a"b', "a b", "", "a;drop table b", "a.b c", "a" * 64])
def test_a_table_has_a_plain_name(table):
    with pytest.raises(InvalidRequest, match="letters, digits"):
        tables.quoted(table)


def test_a_pooler_is_refused_where_a_session_is_needed():
    with pytest.raises(InvalidRequest, match="session of its own"):
        sender("postgresql://u@h/d?pooled=1#t", "fenced")


def test_what_is_older_than_it_has_to_be_kept_is_dropped_by_whoever_delivers(tmp_path, monkeypatch):
    address = f"sqlite:{tmp_path}/their.db#effect"
    one = sender(address, "fenced")
    greeted(one)
    tidied = threading.Event()
    monkeypatch.setattr(one._receiver, "tidy", tidied.set)
    one.send(event(), 5)
    assert tidied.wait(20)
    tidied.clear()
    one.send(event(2), 5)
    assert not tidied.is_set()  # once an hour
    one._tidied -= tables.TIDY_SECONDS * 1_000_000
    one.send(event(3), 5)
    assert tidied.wait(20)
    one.close()


FORKING = """
sys.path.insert(0, "tests")
from helpers.sinks import VOICE, event, rows, sender
from fencepost.deliveries.hello import hello
from fencepost.model import Writer
address = f"sqlite:{path}#effect"
one = sender(address, "fenced")
one.greet(hello(VOICE, (Writer(VOICE.epoch, VOICE.incarnation, "created", 0),), 0, None), 5)
assert one.send(event(), 5).word == "delivered"
child = os.fork()
if child == 0:
    print("child", one.send(event(2), 5).word)
    sys.exit(0)
wait(child)
print("parent", one.send(event(3), 5).word, len(rows(address)))
one.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_that_was_forked_sends_nothing_and_the_parent_goes_on(tmp_path):
    said = run_forking(FORKING, tmp_path / "their.db")
    assert sorted(said.splitlines()) == ["child unanswered", "parent delivered 2"]


def test_the_columns_are_the_pages_on_both():
    page = [(row[0].strip("`"), row[1]) for row in table_rows("docs/deliveries.md", "## Tables")]
    for kind, number in (("sqlite", "integer"), ("postgresql", "bigint")):
        made = re.findall(r"^    (\w+) (\w+) not null", tables.SQL[f"make_{kind}"], re.MULTILINE)
        told = {name: number if type_ == "bigint" else type_ for name, type_ in page}
        assert dict(made) == told


# -- a store that was restored


@BOTH
def test_a_restored_store_learns_from_the_table_what_it_has_accepted(place, address, tmp_path):
    """Results that came after the backup are in the table: they are imported, not sent again, and
    the old store's dispatcher writes there no more."""
    destined(place, address)
    place.fp.queue_set("pages", destinations=["out"])
    first, second = (place.fp.enqueue("pages", n).task_id for n in range(2))
    _completed(place, first)
    place.deliver()
    backup(place.fp, tmp_path / "kept.db")
    _completed(place, second)
    place.deliver()
    before = rows(address)
    assert len(before) == 2
    (tmp_path / "new").mkdir()
    done = restore(tmp_path / "kept.db", tmp_path / "new" / "store.db", Wishes())
    told = json.loads(done.receipt)
    assert done.complete, told
    (receiver,) = told["receivers"]
    assert receiver["answered"] and receiver["imported"] == [f"{second}:1"]
    with fencepost.open(tmp_path / "new" / "store.db") as fp:
        new = Depot(fp, tmp_path / "new")
        assert [each.revision for each in fp.results(second)] == [1]
        new.deliver()
        assert rows(address) == before
        place.results("too late")
        place.deliver()
        assert place.fp.destination("out").stopped.startswith("old_epoch: ")
        assert rows(address) == before
        new.results("in time")
        new.deliver()
        assert len(rows(address)) == 3


def _completed(place, task_id):
    (lease,) = place.fp.claim(worker_id="w", task_id=task_id)
    lease.complete({"of": task_id})
