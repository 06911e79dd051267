"""Workers that die, stand still or are told to stop: each task has one accepted result, and no
process outlives its lease by more than the grace."""

from __future__ import annotations

import os
import signal
import sys
import time

import pytest
from helpers.lossy import Fault, Lossy
from helpers.service import Service
from helpers.work_life import ENDS, HOSTILE, SAYS, Life, lines, one_result_each
from helpers.working import comes_true

import fencepost
from fencepost import tokens

SH = ("sh", "-c")


@pytest.fixture
def fp(tmp_path):
    with fencepost.open(tmp_path / "fencepost.db", create=True) as handle:
        handle.queue_set("q", backoff_seconds=0, max_attempts=50, lease_seconds=3)
        yield handle


def fill(fp, number):
    fp.enqueue_many("q", ({"payload": n} for n in range(number)))


def test_a_worker_that_is_killed_again_and_again_gets_each_task_done_once(fp, tmp_path):
    fill(fp, 120)
    for _ in range(4):
        with Life(tmp_path, *SH, SAYS + "sleep 0.05; " + ENDS, flags=("-j", "4")) as life:
            have = len(lines(tmp_path, "begun"))
            comes_true(lambda have=have: len(lines(tmp_path, "begun")) >= have + 15)
            life.signal(signal.SIGKILL)
    flags = ("-j", "8", "--exit-when-empty", "--max-seconds", "40")
    with Life(tmp_path, *SH, SAYS + ENDS, flags=flags) as life:
        assert life.ends(50)[0] == 0
    one_result_each(fp, 120)
    assert life.processes() == []


def test_what_a_killed_worker_had_in_hand_is_taken_up_at_once_by_its_next_life(fp, tmp_path):
    fp.queue_set("q", lease_seconds=600)
    fill(fp, 3)
    with Life(tmp_path, *SH, SAYS + "sleep 600", flags=("-j", "3")) as life:
        comes_true(lambda: len(lines(tmp_path, "begun")) == 3)
        life.signal(signal.SIGKILL)
    began = time.monotonic()
    with Life(tmp_path, *SH, SAYS + ENDS, flags=("--exit-when-empty", "--max-seconds", "20")) as l2:
        assert l2.ends()[1]["tasks"] == {"complete": 3, "retry": 3}
    assert time.monotonic() - began < 10
    one_result_each(fp, 3)
    assert {task.attempt for task in fp.tasks("q")} == {2}


def test_a_worker_of_the_name_that_remembers_elsewhere_leaves_the_others_processes_alone(
    fp, tmp_path
):
    """It holds another lock, so what runs may be alive: it is not its own to end."""
    fp.queue_set("q", lease_seconds=600)
    fill(fp, 2)
    once = SAYS + 'if [ ! -e "$OUT/again" ]; then touch "$OUT/again"; sleep 600; fi; ' + ENDS
    with Life(tmp_path, *SH, once, flags=("-j", "1")) as life:
        comes_true((tmp_path / "again").exists)
        before = life.processes()
        assert before
        with Life(tmp_path, *SH, once, state="elsewhere", flags=("--exit-when-empty",)) as other:
            assert other.ends()[1]["tasks"] == {"complete": 1}
        assert set(before) <= set(life.processes())
        life.signal(signal.SIGKILL)
    flags = ("--exit-when-empty", "--max-seconds", "20")
    with Life(tmp_path, *SH, once, flags=flags) as life:
        assert life.ends()[1]["tasks"] == {"complete": 1, "retry": 1}
        assert life.processes() == []


def test_a_worker_that_stood_still_past_its_leases_ends_their_trees_and_goes_on(fp, tmp_path):
    fill(fp, 2)
    slow = SAYS + 'trap "" TERM; if [ ! -e "$OUT/again" ]; then sleep 600; fi; ' + ENDS
    with Life(tmp_path, *SH, slow, flags=("-j", "2", "--max-tasks", "2")) as life:
        comes_true(lambda: len(lines(tmp_path, "begun")) == 2)
        life.signal(signal.SIGSTOP)
        stopped = time.monotonic()
        comes_true(lambda: life.processes() == [], 10)  # nobody but the shims can have ended them
        assert time.monotonic() - stopped < 3 + 1
        (tmp_path / "again").touch()
        comes_true(lambda: sum(row["lapsed"] for row in fp.stats()["queues"]) == 2)
        with Life(tmp_path, *SH, slow, worker="other", flags=("--exit-when-empty",)) as other:
            assert other.ends()[1]["tasks"] == {"complete": 2}
        life.signal(signal.SIGCONT)
        assert life.ends() == (0, {"ended": "done", "tasks": {"lost": 2}})
    one_result_each(fp, 2)


def test_a_worker_that_wakes_judges_its_leases_before_it_claims(fp, tmp_path):
    fill(fp, 3)
    gate = SAYS + '[ -e "$OUT/again" ] || sleep 600; ' + ENDS
    with Life(tmp_path, *SH, gate, flags=("--exit-when-empty",)) as life:
        comes_true(lambda: len(lines(tmp_path, "begun")) == 1)
        life.signal(signal.SIGSTOP)
        time.sleep(3.2)  # the lease itself: it has to be over by the real clock
        (tmp_path / "again").touch()
        life.signal(signal.SIGCONT)
        code, told = life.ends()
    assert (code, told["tasks"]) == (0, {"complete": 3, "lost": 1})
    one_result_each(fp, 3)


def test_a_hostile_tree_does_not_outlive_a_lost_lease_nor_its_worker(fp, tmp_path):
    fill(fp, 2)
    with Life(tmp_path, sys.executable, "-c", HOSTILE, flags=("-j", "2")) as life:
        comes_true(lambda: len(lines(tmp_path, "begun")) == 2)
        comes_true(lambda: len(life.processes()) == 6)
        first, second = (task.task_id for task in fp.tasks("q"))
        fp.cancel(first)
        comes_true(lambda: len(life.processes()) == 3, 5)
        life.signal(signal.SIGKILL)
        comes_true(lambda: life.processes() == [], 5)
    assert fp.task(second).state in ("leased", "ready")


def test_the_first_signal_lets_tasks_end_and_the_exit_code_is_0(fp, tmp_path):
    fill(fp, 5)
    with Life(tmp_path, *SH, SAYS + "sleep 1; " + ENDS, flags=("-j", "2")) as life:
        comes_true(lambda: len(lines(tmp_path, "begun")) == 2)
        life.signal(signal.SIGTERM)
        assert life.ends() == (0, {"ended": "done", "tasks": {"complete": 2}})
    assert sorted(t.state for t in fp.tasks("q")) == ["done", "done", "ready", "ready", "ready"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_after_the_grace_what_is_unfinished_is_given_back_with_its_mark(fp, tmp_path, number):
    fp.queue_set("q", lease_seconds=600)
    fill(fp, 1)
    program = "echo '{\"page\": 9}' >&3; " + SAYS + "sleep 600"
    with Life(tmp_path, *SH, program, flags=("--grace", "1")) as life:
        comes_true(lambda: lines(tmp_path, "begun"))
        life.signal(number)
        assert life.ends() == (0, {"ended": "done", "tasks": {"cut": 1}})
        assert life.processes() == []
    (lease,) = fp.claim("q", worker_id="other")
    assert (lease.progress, lease.attempt) == ({"page": 9}, 1)


def test_a_hangup_that_was_ignored_before_stays_ignored(fp, tmp_path):
    """As under `nohup`: whoever started it has gone, and it works on."""
    fill(fp, 1)
    with Life(tmp_path, *SH, SAYS + "sleep 600", hangup=signal.SIG_IGN) as life:
        comes_true(lambda: lines(tmp_path, "begun"))
        life.signal(signal.SIGHUP)
        fill(fp, 1)
        fp.cancel(next(fp.tasks("q", state="leased")).task_id)
        comes_true(lambda: len(lines(tmp_path, "begun")) == 2)
        assert life.child.poll() is None


def test_a_task_that_kills_its_worker_runs_out_of_attempts_and_harms_no_other(fp, tmp_path):
    """Each next life fails what had been begun, so the poison is dead after its attempts."""
    fp.queue_set("q", max_attempts=3, lease_seconds=600)
    fill(fp, 3)
    kills = 'read n; echo "$n" >> "$OUT/begun"; [ "$n" != 1 ] || '
    kills += 'kill -9 $(cut -d" " -f4 "/proc/$PPID/stat"); echo 1'  # the parent of its shim
    ended = []
    for _ in range(5):
        with Life(tmp_path, *SH, kills, flags=("--exit-when-empty",)) as life:
            ended.append(life.child.wait(30))
    assert ended == [-9, -9, -9, 0, 0]
    assert lines(tmp_path, "begun").count("1") == 3
    poison = next(fp.tasks("q", state="dead"))
    assert (poison.attempt, fp.task(poison.task_id).payload) == (3, 1)
    assert "died" in poison.reason and list(fp.results(poison.task_id)) == []
    assert [task.attempt for task in fp.tasks("q", state="done")] == [1, 1]


def test_a_command_that_ends_well_because_it_was_told_to_end_has_completed_nothing(fp, tmp_path):
    fill(fp, 1)
    with Life(tmp_path, *SH, SAYS + "trap 'exit 0' TERM; while :; do sleep 0.05; done",
              flags=("--grace", "0")) as life:  # fmt: skip
        comes_true(lambda: lines(tmp_path, "begun"))
        life.signal(signal.SIGTERM)
        assert life.ends() == (0, {"ended": "done", "tasks": {"cut": 1}})
    assert [task.state for task in fp.tasks("q")] == ["ready"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_second_signal_ends_it_at_once(fp, tmp_path, number, code):
    fill(fp, 1)
    with Life(tmp_path, *SH, SAYS + 'trap "" TERM; sleep 600') as life:
        comes_true(lambda: lines(tmp_path, "begun"))
        life.signal(number)
        time.sleep(0.1)  # two of one kind that wait together are one
        began = time.monotonic()
        life.signal(number)
        assert life.ends()[0] == code
        assert time.monotonic() - began < 3
        assert life.processes() == []


def test_a_worker_that_waits_stops_at_once(fp, tmp_path):
    with Life(tmp_path, "true") as life:
        comes_true(lambda: "claim" in _memory(tmp_path))
        began = time.monotonic()
        life.signal(signal.SIGTERM)
        assert life.ends() == (0, {"ended": "done", "tasks": {}})
        assert time.monotonic() - began < 3


def _memory(folder):
    file = folder / "state-w" / "worker.jsonl"
    return file.read_text() if file.exists() else ""


def test_a_service_that_is_killed_and_started_again_costs_no_result(tmp_path):
    with Service(tmp_path) as web:
        token, port, path = web.token("worker", "w"), web.port, web.path
        with fencepost.open(path) as fp:
            fp.queue_set("q", backoff_seconds=0, max_attempts=50, lease_seconds=6)
            fill(fp, 60)
        flags = ("-j", "4", "--exit-when-empty", "--max-seconds", "45")
        life = Life(tmp_path, *SH, SAYS + "sleep 0.05; " + ENDS, flags=flags,
                    store=f"http://127.0.0.1:{port}", FENCEPOST_TOKEN=token)  # fmt: skip
        comes_true(lambda: len(lines(tmp_path, "ended")) >= 10)
        web.child.kill()
        web.child.wait()
    with life, Service(tmp_path, "--port", str(port)):
        assert life.ends(50)[0] == 0
    with fencepost.open(path) as fp:
        one_result_each(fp, 60)


def test_a_network_that_is_cut_for_longer_than_the_lease_ends_the_work_in_time(tmp_path):
    with Service(tmp_path) as web:
        token, path = web.token("worker", "w"), web.path
        with fencepost.open(path) as fp:
            fp.queue_set("q", backoff_seconds=0, max_attempts=50, lease_seconds=3)
            fill(fp, 2)
        cut = [False]
        with Lossy(web.port, lambda raw: Fault("request cut", "before") if cut[0] else None) as way:
            gate = SAYS + '[ -e "$OUT/again" ] || sleep 600; ' + ENDS
            flags = ("-j", "2", "--max-tasks", "4", "--max-seconds", "45")
            with Life(tmp_path, *SH, gate, flags=flags, store=f"http://127.0.0.1:{way.port}",
                      FENCEPOST_TOKEN=token) as life:  # fmt: skip
                comes_true(lambda: len(lines(tmp_path, "begun")) == 2)
                cut[0], began = True, time.monotonic()
                comes_true(lambda: life.processes() == [], 10)
                assert time.monotonic() - began < 3 + 0.5
                (tmp_path / "again").touch()
                cut[0] = False
                code, told = life.ends(50)
        assert (code, told["tasks"]) == (0, {"lost": 2, "complete": 2})
        with fencepost.open(path) as fp:
            one_result_each(fp, 2)


def test_answers_that_get_lost_double_no_result(tmp_path):
    with Service(tmp_path) as web:
        token, path = web.token("worker", "w"), web.path
        with fencepost.open(path) as fp:
            fp.queue_set("q", backoff_seconds=0, max_attempts=50)
            fill(fp, 40)
        count = [0]

        def plan(raw):
            count[0] += 1
            return Fault("answer cut", "in the head") if count[0] % 4 == 0 else None

        with Lossy(web.port, plan) as way, Life(
            tmp_path, *SH, SAYS + ENDS, flags=("-j", "4", "--exit-when-empty"),
            store=f"http://127.0.0.1:{way.port}", FENCEPOST_TOKEN=token,
        ) as life:  # fmt: skip
            assert life.ends(50)[1]["tasks"] == {"complete": 40}
        assert way.done["answer cut"] > 5
        with fencepost.open(path) as fp:
            one_result_each(fp, 40)
            assert {task.attempt for task in fp.tasks("q")} == {1}


def test_a_revoked_token_ends_the_worker_with_3(tmp_path):
    with Service(tmp_path) as web:
        with fencepost.open(web.path) as fp:
            receipt, token = fp.token_create("w", "worker")
            token_id = receipt.entry["note"]["token_id"]
            fp.token_revoke(token_id)
        with Life(tmp_path, "true", store=f"http://127.0.0.1:{web.port}", FENCEPOST_TOKEN=token,
                  flags=("--give-up-seconds", "1")) as life:  # fmt: skip
            assert life.ends()[0] == 3


def test_a_service_that_is_not_there_ends_the_worker_with_6(tmp_path):
    with Life(tmp_path, "true", store="http://127.0.0.1:9", flags=("--give-up-seconds", "1"),
              FENCEPOST_TOKEN=tokens.make()) as life:  # fmt: skip
        assert life.ends(100)[0] == 6


def test_over_http_too_a_worker_that_waits_stops_at_once(tmp_path):
    with Service(tmp_path) as web:
        token = web.token("worker", "w")
        with Life(tmp_path, "true", store=f"http://127.0.0.1:{web.port}",
                  FENCEPOST_TOKEN=token) as life:  # fmt: skip
            comes_true(lambda: "claim" in _memory(tmp_path))
            time.sleep(0.5)  # the first, which does not wait, is over
            assert "claim" in _memory(tmp_path)
            began = time.monotonic()
            life.signal(signal.SIGTERM)
            assert life.ends() == (0, {"ended": "done", "tasks": {}})
            assert time.monotonic() - began < 3


def test_a_second_worker_of_one_name_is_refused(fp, tmp_path):
    with Life(tmp_path, "true") as life:
        comes_true(lambda: "claim" in _memory(tmp_path))
        with Life(tmp_path, "true") as second:
            assert second.ends()[0] == 2
        assert f"process {life.child.pid}" in (tmp_path / "w.err").read_text()
        assert os.path.exists(tmp_path / "state-w")
