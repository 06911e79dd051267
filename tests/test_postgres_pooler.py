"""Behind a pooler in transaction mode (pgbouncer) with `?pooled=1`: the whole flow, and nothing of
ours stays in a session that the next client is given."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from helpers.bouncer import bouncer
from helpers.pg_app import KINDS, App, laboratory
from helpers.together import at_once

import fencepost
from fencepost.issues import FencepostError, Unavailable

ROOT = Path(__file__).parent.parent
THREADS, EACH = 8, 12
# What one process does: eight threads enqueue, claim and complete, and say which fences they had.
FLOW = f"""
import sys, threading
import fencepost
name, url = sys.argv[1:]
with fencepost.open(url, scope="lab") as fp:
    def work(number):
        for n in range({EACH}):
            fp.enqueue("q", [name, number, n], key=f"{{name}}-{{number}}-{{n}}")
            for lease in fp.claim("q", worker_id=f"{{name}}-{{number}}", limit=3):
                lease.renew(progress=n)
                after = [{{"queue": "next", "payload": 1}}]
                lease.complete({{"done": lease.payload}}, followups=after)
                fences.append(lease.fence)
    fences = []
    threads = [threading.Thread(target=work, args=(n,)) for n in range({THREADS})]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    while leases := fp.claim("q", worker_id=name, limit=9):
        for lease in leases:
            lease.complete("late")
            fences.append(lease.fence)
print(*fences)
"""
STATE = """
    select 'setting ' || name || '=' || setting from pg_settings where source = 'session'
    union all select 'prepared ' || name from pg_prepared_statements
    union all select 'lock ' || locktype from pg_locks
        where pid = pg_backend_pid() and locktype = 'advisory'
    union all select 'table ' || relname from pg_class where relpersistence = 't'
    order by 1
"""


@pytest.fixture(scope="module")
def lab():
    with laboratory(clock=False) as made:
        yield made


def pooled(url):
    return f"{url}?pooled=1"


def state(url):
    """What the sessions of the pooler hold that a new client would meet."""
    with psycopg.connect(url, prepare_threshold=None, autocommit=True) as client:
        return {row for (row,) in client.execute(STATE)}


def test_the_whole_flow_from_two_processes_of_eight_threads_with_three_sessions(lab):
    with bouncer(lab.url) as url:
        running = [
            subprocess.Popen(
                [sys.executable, "-c", FLOW, name, pooled(url)], cwd=ROOT, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )
            for name in ("one", "two")
        ]  # fmt: skip
        told = [process.communicate(timeout=50) for process in running]
    assert [process.returncode for process in running] == [0, 0], told
    fences = [int(line) for out, _ in told for line in out.split()]
    assert len(fences) == len({*fences}) == 2 * THREADS * EACH
    states = [task.state for task in lab.fp.tasks("q")]
    assert states == ["done"] * len(fences)
    assert len(list(lab.fp.tasks("next"))) <= len(fences)


def test_what_a_handle_does_leaves_nothing_in_the_sessions(lab):
    with bouncer(lab.url, sessions=1) as url:
        before = state(url)
        with fencepost.open(pooled(url), scope="lab") as fp:
            fp.queue_set("r", destinations=["out"])
            fp.enqueue_many("r", ({"payload": n} for n in range(20)))
            (lease,) = fp.claim("r", worker_id="w")
            lease.complete("x")
            fp.seal()
            assert not fp.verify().problems
            fp.erase(lease.task_id)
            assert len(list(fp.entries())) >= 5
            fp.stats()
        assert state(url) == before


def test_nothing_is_left_by_a_block_in_an_applications_transaction_either(lab):
    with bouncer(lab.url, sessions=1) as url, fencepost.open(pooled(url), scope="lab") as fp:
        before = state(url)
        for number, kind in enumerate(KINDS):
            app = App(url, kind, prepare_threshold=None)
            with app.within(fp) as tx:
                tx.enqueue("s", kind)
                app.pay(f"{number}")
            app.settle()
            app.close()
        assert state(url) == before
    assert [lab.fp.task(task.task_id).payload for task in lab.fp.tasks("s")] == [*KINDS]
    assert lab.sql("select count(*) from account") == [(len(KINDS),)]


def test_without_the_switch_the_answer_names_it(lab):
    """A session that has what another handle has prepared, or has not what this one has."""
    with bouncer(lab.url, sessions=2) as url:

        def flow(number):
            with fencepost.open(url, scope="lab") as fp:
                for n in range(10):
                    fp.enqueue("t", [number, n])
                return

        def tried(number):
            try:
                return flow(number)
            except FencepostError as error:
                return error

        told = [error for error in at_once(*(lambda n=n: tried(n) for n in range(6))) if error]
        assert [left for left in state(url) if left.startswith("prepared fencepost_")]
    assert told
    assert {type(error) for error in told} == {Unavailable}
    assert [error for error in told if "pooled=1" not in str(error)] == []


def test_an_asynchronous_block_behind_the_pooler(lab):
    async def story(url):
        async with (
            await psycopg.AsyncConnection.connect(
                url, autocommit=True, prepare_threshold=None
            ) as app,
            lab.fp.within_async(app) as tx,
        ):
            return (await tx.enqueue("u", 1)).task_id

    with bouncer(lab.url) as url:
        task_id = asyncio.run(story(url))
    assert lab.fp.task(task_id).state == "ready"
