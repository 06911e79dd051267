"""The benchmark's PostgreSQL phases: every figure is there, what does not add up shows none, and a
server that is not durable is not measured. Nothing here asks how fast."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace

import psycopg
import pytest
from helpers import postgres

from fencepost.operate.bench import goals, main, options, pg_peers
from fencepost.operate.bench.lab import QUEUE, CheckFailed, Lab, NotHere, drain_batch, fill
from fencepost.operate.bench.pg_long import multiply
from fencepost.operate.bench.pg_place import Server, server_of
from fencepost.operate.bench.pg_plain import Naive, check, check_journal

TINY = replace(
    options.PROFILES["quick"], reps=1, tasks=230, naive=16, callers=4, batched_lives=2,
    thread_lives=2, latencies=4, grown_batches=1, pg_singles=32, pg_held=500, pg_done=200,
    pg_lives=2,
)  # fmt: skip


@pytest.fixture(scope="module")
def server():
    """A server as durable as the benchmark asks for."""
    with postgres.Server(postgres.DURABLE, tcp=True) as started:
        yield Server(started.url())


@pytest.fixture
def bench(server, tmp_path, monkeypatch, capfd):
    monkeypatch.setitem(options.PROFILES, "quick", TINY)
    monkeypatch.setattr(pg_peers, "FOLDER", tmp_path / "peers")
    place = tmp_path / "place"
    place.mkdir()

    def go(*arguments):
        code = main(["--dir", str(place), "--json", "--postgres", server.url, *arguments])
        assert list(place.iterdir()) == []
        return code, json.loads(capfd.readouterr().out)

    return go


@pytest.mark.timeout(180)  # every phase of the benchmark, once
def test_every_figure_is_measured_and_no_database_is_left(bench, server):
    phases = ("postgres", "postgres-latency", "postgres-held", "postgres-growth")
    code, document = bench("--only", *phases)
    assert code == 0, document["reasons"]
    assert document["phases"] == list(phases)
    assert document["machine"]["postgres_fsync"] == "on"
    peers = tuple(goals.PG_PEERS)
    for row in document["rows"]:
        measured = not (row["name"].startswith(peers) or (row["over"] or "").startswith(peers))
        assert len(row["values"]) == measured, row
    with server.asking(server.url) as ask:
        assert ask("select datname from pg_database where datname ~ '^fencepost_bench'") == []


def test_a_server_that_is_not_durable_is_not_measured():
    with postgres.database() as url, pytest.raises(NotHere, match="fsync=off"):
        Server(url)


def test_without_a_server_to_reach_the_phases_are_named_unavailable(tmp_path):
    lab = Lab(tmp_path, TINY, postgres="postgresql://nobody@127.0.0.1:1/none")
    with pytest.raises(NotHere, match="cannot be reached"):
        server_of(lab)


@pytest.mark.parametrize(
    ("tampering", "named"),
    [
        ("delete from fencepost_result where task = (select max(task) from fencepost_result)",
         "results"),
        (("update fencepost_entry set task = null where number = "
          "(select max(number) from fencepost_entry where task is not null)"), "receipts"),
        ("update fencepost_task set parent = null where id = (select max(id) from fencepost_task)",
         "obligations"),
        (("update fencepost_task set state = 'ready' where id = "
          "(select min(id) from fencepost_task)"), "done"),
    ],
)  # fmt: skip
def test_a_store_that_does_not_add_up_is_found(server, tampering, named):
    with server.store() as (url, handle):
        fill(handle, 3)
        assert drain_batch(handle) == 3
        check(server, url, 3, told=3)
        check_journal(url)
        with pytest.raises(CheckFailed, match="2 completions were acknowledged"):
            check(server, url, 3, told=2)
        with psycopg.connect(url, autocommit=True) as connection:
            assert connection.execute(tampering).rowcount == 1
        with pytest.raises(CheckFailed, match=named):
            check(server, url, 3)


def test_the_naive_queue_does_the_same_work_and_keeps_the_fence(server):
    with server.store() as (url, handle):
        handle.queue_set("out", paused=False)
        with closing(Naive(url, "one")) as one, closing(Naive(url, "two")) as two:
            one.enqueue({"n": 1})
            task_id, fence = one.claim()
            assert two.claim() is None
            for queue, presented in ((two, fence), (one, fence + 1)):
                with pytest.raises(CheckFailed):
                    queue.complete(task_id, presented, {"ok": True})
            one.complete(task_id, fence, {"ok": True})
        check(server, url, 1)


def test_a_store_made_large_in_bulk_still_works(server):
    with server.store() as (url, handle):
        fill(handle, 3)
        drain_batch(handle)
        handle.seal()
        multiply(server, url, 50)
        fill(handle, 5)
        assert drain_batch(handle) == 5
        found = {queue["queue"]: queue["tasks"] for queue in handle.stats()["queues"]}
        assert found[QUEUE] == 58


PEER = """
import json, signal, sys, time, psycopg
what, *rest = sys.argv[1:]
if what == "worker":
    def end(*_):
        print(json.dumps({"first": time.monotonic() - 1, "handled": HANDLED}), flush=True)
        sys.exit()
    signal.signal(signal.SIGTERM, end)
    psycopg.connect(rest[0], autocommit=True).execute("create table if not exists ready ()")
    time.sleep(60)
pending = "select to_regclass('ready') is null"
told = {"version": "1", "scale": 1.0, "pending": pending, "rate": 5.0}
print(json.dumps(told))
"""


def test_a_peer_that_does_not_do_each_task_once_shows_no_rate(server, tmp_path, monkeypatch):
    monkeypatch.setattr(pg_peers, "FOLDER", tmp_path)
    (tmp_path / "odd").mkdir()
    adapter = tmp_path / "odd" / "adapter.py"
    adapter.write_text(PEER.replace("HANDLED", "7"))
    with pytest.raises(CheckFailed, match="odd handled 7 of 8 tasks"):
        pg_peers.measure("odd", server, 8, 16)
    adapter.write_text("import sys\nprint('No module named odd', file=sys.stderr)\nsys.exit(3)")
    with pytest.raises(NotHere, match="No module named odd"):
        pg_peers.about("odd")
