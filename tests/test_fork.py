"""A forked child can neither use its parent's handle nor harm its parent's file."""

from __future__ import annotations

import os

import pytest
from helpers.forked import run_forking
from helpers.lab import QUEUE, raw

import fencepost

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "work.db"
    fencepost.open(str(path), create=True).close()
    return path


def sound(path):
    """The number of tasks, in a file that SQLite finds nothing wrong with."""
    with raw(path) as connection:
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
        return connection.execute("select count(*) from fencepost_task").fetchone()[0]


def test_a_handle_of_before_a_fork_says_so_and_the_parent_goes_on(path):
    program = """
fp = fencepost.open(path)
task_id = fp.enqueue("q", 1).task_id
child = os.fork()
if child == 0:
    refused(lambda: fp.enqueue("q", 2))
    refused(lambda: fp.task(task_id))
    refused(lambda: fp.changed())
    refused(lambda: fp.stats())
    refused(lambda: list(fp.tasks("q")))
    fp.close()
    sys.exit(0)
wait(child)
assert [lease.task_id for lease in fp.claim("q", worker_id="w")] == [task_id]
fp.close()
"""
    run_forking(program, path)
    assert sound(path) == 1


def test_a_child_may_open_the_store_again_and_work_beside_its_parent(path):
    program = """
fp = fencepost.open(path)
fp.enqueue("q", 1)
child = os.fork()
if child == 0:
    with fencepost.open(path) as own:
        for number in range(50): own.enqueue("q", number)
    sys.exit(0)
for number in range(50): fp.enqueue("q", number)
wait(child)
fp.close()
"""
    run_forking(program, path)
    assert sound(path) == 101


@pytest.mark.parametrize("end", ["sys.exit(0)", "del fp, store; gc.collect(); os._exit(0)"])
def test_a_child_that_drops_an_inherited_transaction_spoils_nothing_of_its_parents(path, end):
    """Without `Connection.kept` the file is corrupt after this: SQLite in the child rolls back
    the transaction of before the fork, and wipes the index of what the parent writes by then.
    (A writer thread would hide it: its frame, lost in the child, keeps the connections too.)"""
    program = f"""
fp = fencepost.open(path)
store = fp._store
with store.turn():
    write = store._write
    write.execute("pragma cache_size = 10")
    write.execute("begin immediate")
    write.execute("update fencepost_store set mark = mark + 1")
    del write
    ready, go = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(ready, 1)
        {end}
    store._write.execute("commit")
    store._write.execute("begin immediate")
    fill = "insert into fencepost_tombstone (lookup) values (randomblob(800))"
    for _ in range(300): store._write.execute(fill)
    os.write(go, b"x")
    wait(child)
    store._write.execute("commit")
fp.enqueue("q", 1)
fp.close()
"""
    run_forking(program, path)
    assert sound(path) == 1
    with raw(path) as connection:
        assert connection.execute("select count(*) from fencepost_tombstone").fetchone() == (300,)


def test_children_that_come_and_go_while_threads_write_spoil_nothing(path):
    program = """
import threading, time
fp = fencepost.open(path)
stop = threading.Event()
done = []
def work():
    count = 0
    while not stop.is_set():
        fp.enqueue("q", "x" * 3000); count += 1
    done.append(count)
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads: thread.start()
for number in range(25):
    child = os.fork()
    if child == 0:
        refused(lambda: fp.enqueue("q", 1))
        if number % 2:
            fp.close(); del fp; gc.collect()
        sys.exit(0)
    wait(child)
stop.set()
for thread in threads: thread.join()
fp.close()
print(sum(done))
"""
    written = int(run_forking(program, path))
    assert sound(path) == written > 0


def test_a_child_that_outlives_its_parent_leaves_the_file_and_the_turn_alone(path, tmp_path):
    """The parent ends while the child still has its connections; others go on meanwhile."""
    ready = tmp_path / "go"
    os.mkfifo(ready)
    program = f"""
fp = fencepost.open(path)
fp.enqueue("q", 1)
if os.fork() == 0:
    os.close(1); os.close(2)
    open({str(ready)!r}).read()
    sys.exit(0)
fp.enqueue("q", 2)
os._exit(0)
"""
    run_forking(program, path)
    with fencepost.open(str(path), wait_seconds=5) as fp:
        for number in range(20):
            fp.enqueue(QUEUE, number)
        with open(ready, "w") as go:
            go.write("now")
        for number in range(20):
            fp.enqueue(QUEUE, number)
    assert sound(path) == 42
