"""How `work --offline` ends: killed, stopped, refused, on a full disk; one at a time."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

import pytest
from helpers.field import DAY, Field
from helpers.lab import QUEUE
from helpers.offline_life import KILLS, SAYS, SH, Life, taken, worked
from helpers.shell import command, environment
from helpers.work_life import HOSTILE, lines
from helpers.working import comes_true

from fencepost import offline
from fencepost.commands import Request
from fencepost.issues import InvalidRequest, Unavailable
from fencepost.offline.file import File
from fencepost.worker import OfflineWorker


@pytest.fixture
def field(tmp_path):
    with Field(tmp_path) as made:
        yield made


def test_a_worker_that_is_killed_again_and_again_brings_each_result_once(field):
    keys = [f"k{n}" for n in range(40)]
    lap = taken(field, *keys)
    program = SAYS + 'sleep 0.05; echo "\\"$FENCEPOST_KEY\\""'
    for _ in range(3):
        with Life(lap, *SH, program, flags=("-j", "4")) as life:
            have = len(lines(lap.folder, "begun"))
            comes_true(lambda have=have: len(lines(lap.folder, "begun")) >= have + 6)
            life.signal(signal.SIGKILL)
    with Life(lap, *SH, program, flags=("-j", "4")) as life:
        assert life.ends(60)[0] == 0
    comes_true(lambda: life.processes() == [])
    lap.box.verify()
    assert lap.box.counts()["results"] == 40
    assert lap.sync()["accepted"] == 40
    for task in field.fp.tasks(QUEUE):
        assert field.results(task.task_id) == [task.key]
    assert len(lines(lap.folder, "begun")) <= 40 + 3 * 4  # what was in hand, and no more


@pytest.mark.parametrize("reconcile", [False, True])
def test_a_task_that_kills_its_worker_runs_out_of_tries_or_waits_for_a_person(tmp_path, reconcile):
    settings = {"on_lapse": "reconcile"} if reconcile else {}
    with Field(tmp_path, **settings) as field:
        field.fp.enqueue(QUEUE, 1, key="poison", max_attempts=2)
        lap = field.laptop()
        lap.take()
        for _ in range(4):
            with Life(lap, *SH, SAYS + KILLS) as life:
                if life.ends()[0] != -signal.SIGKILL:
                    break
            comes_true(lambda life=life: life.processes() == [])
        begun = len(lines(lap.folder, "begun"))
        assert begun == (1 if reconcile else 2)
        lap.sync()
        (task,) = field.fp.tasks(QUEUE)
        assert task.state == ("blocked" if reconcile else "ready")


def test_a_hostile_tree_dies_with_its_worker_and_by_the_next_start(field):
    lap = taken(field, "a")
    with Life(lap, sys.executable, "-c", HOSTILE) as life:
        comes_true(lambda: len(life.processes()) == 3)
        life.signal(signal.SIGKILL)
        comes_true(lambda: life.processes() == [], 10)


def test_a_signal_stops_it_well_and_the_next_start_goes_on_with_the_mark(field):
    lap = taken(field, "a", "b")
    slow = SAYS + 'echo 4 >&3; [ -e "$OUT/again" ] || sleep 600; echo $FENCEPOST_PROGRESS'
    with Life(lap, *SH, slow, flags=("--grace", "0")) as life:
        comes_true(lambda: lap.box.task("a").progress == b"4")
        life.signal(signal.SIGTERM)
        code, told = life.ends()
    assert (code, told) == (0, {"ended": "done", "tasks": {"cut": 1}})
    assert life.processes() == []
    (lap.folder / "again").touch()
    with Life(lap, *SH, slow) as life:
        assert life.ends()[1]["tasks"] == {"complete": 2}
    assert lines(lap.folder, "begun") == ["a", "a", "b"]
    assert lap.sync()["accepted"] == 2
    first = next(task.task_id for task in field.fp.tasks(QUEUE) if task.key == "a")
    assert field.results(first) == [4]


def test_a_second_signal_ends_it_at_once_and_nothing_is_noted(field):
    lap = taken(field, "a")
    with Life(lap, *SH, SAYS + "trap '' TERM; sleep 600") as life:
        comes_true(lambda: lines(lap.folder, "begun") == ["a"])
        life.signal(signal.SIGTERM)
        life.signal(signal.SIGINT)
        assert life.ends()[0] in (130, 143)
    comes_true(lambda: life.processes() == [])
    assert lap.box.counts()["to_send"] == 0 and lap.box.task("a").tries == 1


def test_two_workers_of_one_outbox_are_refused_with_the_process_that_runs(field):
    lap = taken(field, "a", "b")
    with Life(lap, *SH, SAYS + "sleep 600", flags=("-j", "1")) as life:
        comes_true(lambda: lines(lap.folder, "begun") == ["a"])
        with Life(lap, *SH, SAYS) as other:
            code, told = other.ends()
        assert code == 2 and f"process {life.child.pid}" in str(told)
        with pytest.raises(InvalidRequest, match="a worker works from"):
            worked(lap, lambda work: 1)
        with pytest.raises(InvalidRequest, match="a worker works from"):
            lap.box.give_back()
        assert lines(lap.folder, "begun") == ["a"]
        life.signal(signal.SIGKILL)
        life.child.wait()
    assert worked(lap, lambda work: 1) == ("done", {"complete": 2})  # the lock died with it
    lap.sync()


def test_tasks_are_not_given_back_while_a_worker_works_on_them(tmp_path):
    with Field(tmp_path) as field:
        lap = taken(field, "a")

        def handler(work):
            with pytest.raises(InvalidRequest, match="a worker works from"):
                lap.box.give_back()
            return 1

        assert worked(lap, handler) == ("done", {"complete": 1})
        lap.sync()


def test_no_more_than_so_many_are_begun_and_no_more_at_once(field):
    lap = taken(field, *"abcdef")
    at_once, most, lock = set(), [], threading.Lock()

    def handler(work):
        with lock:
            at_once.add(work.key)
            most.append(len(at_once))
        work.lost.wait(0.02)
        with lock:
            at_once.remove(work.key)

    assert worked(lap, handler, concurrency=2, max_tasks=5) == ("done", {"complete": 5})
    assert max(most) <= 2 and lap.box.counts()["without_result"] == 1
    lap.sync()


def test_other_queues_are_left_alone(field):
    field.fp.queue_set("more", max_lease_seconds=DAY, max_hold_seconds=DAY)
    field.fp.enqueue("more", 2, key="z")
    lap = taken(field, "a")
    lap.box.take(lap.wire, "more", lease_seconds=DAY)
    assert worked(lap, lambda work: work.key, queues="more") == ("done", {"complete": 1})
    assert lap.box.next().key == "a"
    with pytest.raises(InvalidRequest, match="no task of queue other"):
        OfflineWorker(lap.box, lambda work: 1, queues="other")
    lap.sync()


def test_what_is_done_by_hand_or_has_an_end_is_not_begun(field):
    ids = field.offer("row", "done", "open")
    lap = field.laptop()
    lap.take()
    lap.box.record(ids[0], 1, close=False)
    lap.box.record(ids[1], 1)
    seen = []
    worked(lap, lambda work: seen.append(work.key))
    assert seen == ["open"]
    lap.sync()


@pytest.mark.parametrize("words", [
    ("--lease-seconds", "5"), ("--give-up-seconds", "5"), ("--state", "x"), ("--worker", "other"),
    ("nowhere",),
])  # fmt: skip
def test_what_belongs_to_a_store_is_refused_offline(field, words):
    lap = taken(field, "a")
    with Life(lap, *SH, SAYS, flags=words) as life:
        assert life.ends()[0] == 2
    assert lines(lap.folder, "begun") == [] and lap.box.task("a").tries == 0


def test_a_full_disk_holds_a_result_back_and_loses_none(field, monkeypatch):
    """Each write fails for a while, of the start, of the mark and of the result."""
    lap = taken(field, "a", "b")
    commit, left, runs = File._commit, [3], []

    def full(file, db):
        if left[0]:
            left[0] -= 1
            db.execute("rollback")
            raise Unavailable("the disk is full")
        commit(file, db)

    monkeypatch.setattr(File, "_commit", full)

    def handler(work):
        runs.append(work.key)
        left[0] = 3
        return work.key

    assert worked(lap, handler) == ("done", {"complete": 2})
    assert runs == ["a", "b"]  # begun only once that was on the disk
    monkeypatch.setattr(File, "_commit", commit)
    assert lap.sync()["accepted"] == 2


def test_a_handler_has_no_receipts_without_a_store_and_is_told_so(field):
    lap = taken(field, "a")
    assert worked(lap, lambda work: work.submit(1)) == ("done", {"retry": 1})
    (sending,) = lap.box._notes.commands(1)
    assert "has no receipt to give" in Request.read(sending.body).command.reason
    lap.sync()


def test_give_back_releases_what_nobody_worked_on_with_the_next_sync(field):
    ids = field.offer("done", "row", "open", "begun")
    lap = field.laptop()
    lap.take()
    lap.box.record(ids[0], 1)
    lap.box.record(ids[1], 1, close=False)
    lap.box.working.begin(lap.box.task("begun"))
    assert lap.box.give_back() == ids[2:]
    assert lap.box.give_back() == []
    assert lap.box.give_back([ids[1]]) == [ids[1]]
    assert lap.box.counts()["verdicts"] == 3
    assert lap.sync()["accepted"] == 5
    states = {task.key: (task.state, task.attempt) for task in field.fp.tasks(QUEUE)}
    assert states == {"done": ("done", 1), "row": ("ready", 0), "open": ("ready", 0),
                      "begun": ("ready", 0)}  # fmt: skip


def test_an_outbox_that_is_not_there_is_told_and_none_is_made(tmp_path):
    words = command("work", "--offline", "none.db", "--", "true")
    done = subprocess.run(words, cwd=tmp_path, env=environment(), capture_output=True, check=False)
    assert done.returncode == 6 and b"there is no outbox" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_outbox_of_a_run_can_be_read_and_synced_while_it_goes_on(field):
    lap = taken(field, *"abcdefgh")
    gate = threading.Event()

    def handler(work):
        if work.key == "e":
            gate.wait(20)
        return work.key

    worker = OfflineWorker(lap.box, handler, max_seconds=40)
    thread = threading.Thread(target=worker.run)
    thread.start()
    with offline.open(lap.folder / "offline.db") as box:
        comes_true(lambda: box.counts()["results"] >= 4)
        assert box.sync(lap.wire).accepted == 4
        box.verify()
    gate.set()
    thread.join(30)
    assert worker.counts == {"complete": 8}
    assert lap.sync()["accepted"] == 4
