"""`fencepost work`: a command a task. What it is given, what it gives back, what it may not see."""

from __future__ import annotations

import json
import sys

import pytest
from helpers.shell import run

import fencepost
from fencepost.parts import NOTHING
from fencepost.worker import verdicts
from fencepost.worker.command import ADDED, ENVIRONMENT, result_of
from fencepost.worker.verdicts import EXIT_CODES

STATE_OF = {"complete": "done", "retry": "ready", "give_up": "dead", "release": "ready",
            "block": "blocked"}  # fmt: skip


@pytest.fixture
def fp(tmp_path):
    with fencepost.open(tmp_path / "fencepost.db", create=True) as handle:
        handle.queue_set("q", backoff_seconds=900)
        yield handle


def work(folder, *command, flags=(), code=0, **variables):
    """Run a worker until the queue is empty; what it told."""
    ran = run(
        folder, "--json", "work", "q", "--worker", "w", "--exit-when-empty", "--state",
        folder / "state", *flags, "--", *command, **variables,
    )  # fmt: skip
    assert ran.code == code, ran
    return ran


def python(program, *words):
    return sys.executable, "-c", program, *words


def only(fp):
    (task,) = fp.tasks("q")
    return fp.task(task.task_id)


def result(fp):
    (found,) = fp.results(only(fp).task_id)
    return found.value


def test_the_payload_comes_on_standard_input_and_the_result_goes_out(fp, tmp_path):
    payload = {"é": [1, 2, None], "text": "a\nb" * 50_000}
    fp.enqueue("q", payload)
    ran = work(tmp_path, "cat")
    assert result(fp) == payload
    assert ran.json == {"ended": "done", "tasks": {"complete": 1}}


@pytest.mark.parametrize("code", [*EXIT_CODES, 1, 2, 127, 255])
def test_an_exit_code_means_what_the_table_says(fp, tmp_path, code):
    fp.enqueue("q", 1)
    work(tmp_path, "sh", "-c", f"exit {code}", flags=("--max-tasks", "1"))
    row, task = verdicts.of_exit_code(code), only(fp)
    assert task.state == STATE_OF[row.verdict]
    assert task.attempt == (0 if row.verdict == "release" else 1)
    if row.verdict not in ("complete", "release"):
        assert task.reason == f"the command ended with {code}"


def test_a_command_that_was_killed_is_tried_again_and_the_signal_is_named(fp, tmp_path):
    fp.enqueue("q", 1)
    work(tmp_path, "sh", "-c", "kill -SEGV $$")
    assert (only(fp).state, only(fp).reason) == ("ready", "the command was killed by SIGSEGV")


@pytest.mark.parametrize(
    ("output", "value"),
    [(b"", NOTHING), (b" \n", NOTHING), (b'{"a": 1}\n', {"a": 1}), (b"null", None), (b'"x"', "x")],
)
def test_a_result_is_json_or_nothing(output, value):
    found = result_of(output)
    assert found is value or found == value


@pytest.mark.parametrize(
    "output", [b"done", b"{", b"\xff", b'{"a":1,"a":2}', b"NaN", b"1 2", b"\x00", None]
)
def test_what_is_no_result_is_none(output):
    with pytest.raises(fencepost.InvalidRequest):
        result_of(output)


@pytest.mark.parametrize("program", ["echo nonsense", "head -c 5000 /dev/zero | tr '\\0' 1"])
def test_a_command_whose_output_is_no_result_is_tried_again_with_the_reason(fp, tmp_path, program):
    fp.enqueue("q", 1)
    work(tmp_path, "sh", "-c", program, flags=("--output-bytes", "4000"))
    assert only(fp).state == "ready" and "is no result" in only(fp).reason


def test_the_file_for_the_result_comes_before_standard_output(fp, tmp_path):
    fp.enqueue("q", 1)
    work(tmp_path, "sh", "-c", 'echo "talk"; echo "[1]" > "$FENCEPOST_RESULT"')
    assert result(fp) == [1]


def test_the_environment_tells_of_the_task_and_of_nothing_else_of_ours(fp, tmp_path):
    fp.enqueue("q", 1, key="k-1")
    program = "import json,os; print(json.dumps({k: v for k, v in os.environ.items()}))"
    secrets = {"FENCEPOST_TOKEN": "fp_secret", "FENCEPOST_FUTURE": "x", "OWN": "kept"}
    work(tmp_path, *python(program), **secrets)
    found, task = result(fp), only(fp)
    ours = {name: value for name, value in found.items() if name.startswith("FENCEPOST_")}
    assert set(ours) == {*ENVIRONMENT, *ADDED}
    assert found["OWN"] == "kept" and "fp_secret" not in json.dumps(found)
    told = {
        "FENCEPOST_TASK": task.task_id, "FENCEPOST_FENCE": str(task.fence), "FENCEPOST_KEY": "k-1",
        "FENCEPOST_QUEUE": "q", "FENCEPOST_ATTEMPT": "1", "FENCEPOST_MAX_ATTEMPTS": "5",
        "FENCEPOST_REVISION": "0", "FENCEPOST_SCOPE": "default", "FENCEPOST_WORKER": "w",
        "FENCEPOST_PROGRESS": "null",
    }  # fmt: skip
    assert {name: ours[name] for name in told} == told


def test_the_last_of_standard_error_is_the_task_s_log_and_stands_nowhere_else(fp, tmp_path):
    fp.enqueue("q", 1)
    program = "import sys; sys.stderr.write('x' * 40_000 + '\\x1b[31mlast words')"
    ran = work(tmp_path, *python(program))
    log = only(fp).log
    assert log.endswith("\x1b[31mlast words") and len(log.encode()) <= 16_384
    assert "last words" not in ran.out + ran.err
    assert not any(b"last words" in entry.body for entry in fp.entries())
    shown = run(tmp_path, "show", only(fp).task_id).out
    assert "last words" in shown and "\x1b" not in shown


def test_marks_on_fd_3_are_kept_and_given_to_the_next_attempt(fp, tmp_path):
    fp.queue_set("q", backoff_seconds=0)
    fp.enqueue("q", 1)
    program = """echo "{\\"page\\": $FENCEPOST_ATTEMPT}" >&3; echo nonsense >&3
        [ "$FENCEPOST_ATTEMPT" = 2 ] && echo "$FENCEPOST_PROGRESS" || exit 1"""
    work(tmp_path, "sh", "-c", program)
    assert result(fp) == {"page": 1}


def test_a_command_that_reads_nothing_and_writes_without_end_is_bounded(fp, tmp_path):
    fp.queue_set("q", max_attempts=1)
    fp.enqueue("q", "x" * 500_000)
    work(tmp_path, "sh", "-c", "exec yes", flags=("--task-seconds", "1"))
    assert only(fp).state == "dead" and "ran longer" in only(fp).reason


def test_what_a_command_leaves_behind_holds_nobody_up_and_does_not_live_on(fp, tmp_path):
    fp.enqueue("q", 1)
    left = "setsid sleep 987 & setsid sleep 987 & echo 1"
    work(tmp_path, "sh", "-c", left)
    assert result(fp) == 1


def test_a_poison_command_runs_out_of_attempts(fp, tmp_path):
    fp.queue_set("q", backoff_seconds=0, max_attempts=3)
    for n in range(4):
        fp.enqueue("q", n)
    work(tmp_path, "sh", "-c", 'read n; [ "$n" = 2 ] && kill -9 $$; echo "$n"', flags=("-j", "2"))
    assert sorted(task.state for task in fp.tasks("q")) == ["dead", "done", "done", "done"]


def test_a_task_that_runs_longer_than_its_lease_is_done_once(fp, tmp_path):
    fp.enqueue("q", 1)
    work(tmp_path, "sh", "-c", "sleep 4; echo 1", flags=("--lease-seconds", "3"))
    assert (result(fp), only(fp).attempt) == (1, 1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("q", "--worker", "w"), "say what is to be run, behind --"),
        (("q", "--worker", "w", "--"), "say what is to be run, behind --"),
        (("q", "--worker", "w", "--", "/no/such/command"), "there is no command"),
        (("q", "--worker", "w", "-j", "0", "--", "true"), "jobs"),
        (("q", "--", "true"), "--worker"),
        (("--worker", "w", "--", "true"), "QUEUE"),
    ],
)
def test_bad_usage_is_told_and_claims_nothing(fp, tmp_path, words, said):
    fp.enqueue("q", 1)
    ran = run(tmp_path, "work", *words)
    assert (ran.code, said in ran.err) == (2, True), ran
    assert only(fp).attempt == 0


def test_flags_of_the_command_are_its_own(fp, tmp_path):
    fp.enqueue("q", 1)
    work(tmp_path, "sh", "-c", 'echo "\\"$0 $1\\""', "--json", "--worker")
    assert result(fp) == "--json --worker"


def test_a_handler_in_a_process_of_its_own_has_the_same_verdicts(fp, tmp_path, monkeypatch):
    (tmp_path / "handlers_here.py").write_text(
        "import os\n"
        "from fencepost.worker import GiveUp\n"
        "def handler(work):\n"
        "    work.progress({'by': os.getpid()})\n"
        "    if work.payload == 2:\n"
        "        raise GiveUp('never')\n"
        "    if work.payload == 3:\n"
        "        os._exit(9)\n"
        "    work.enqueue('next', work.key)\n"
        "    return [work.payload, work.attempt, os.getpid()]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    from handlers_here import handler

    for n in (1, 2, 3):
        fp.enqueue("q", n, key=f"k{n}", max_attempts=1)
    worker = fencepost.Worker(
        fp, "q", handler, worker_id="w", concurrency=3, processes=True, exit_when_empty=True,
        state=tmp_path / "state", max_seconds=20,
    )  # fmt: skip
    assert (worker.run(), worker.counts) == ("done", {"complete": 1, "give_up": 1, "retry": 1})
    done, given_up, died = fp.tasks("q")
    (found,) = fp.results(done.task_id)
    assert found.value[:2] == [1, 1] and found.value[2] != fp.task(done.task_id).progress
    assert (given_up.reason, died.reason) == ("never", "the command ended with 9")
    assert [fp.task(t.task_id).payload for t in fp.tasks("next")] == ["k1"]


def test_a_handler_that_no_module_has_is_refused_for_processes(fp, tmp_path):
    with pytest.raises(fencepost.InvalidRequest, match="stands in a module"):
        fencepost.Worker(fp, "q", lambda work: None, worker_id="w", processes=True,
                         state=tmp_path / "state")  # fmt: skip
    fp.enqueue("q", 1)
    assert only(fp).attempt == 0
