"""The outbox at the shell, in several processes at once, behind a lossy network, and its memory."""

from __future__ import annotations

import shlex
import sqlite3
import subprocess
import sys
import threading

import pytest
from helpers.field import DAY, WORKER, Field, Laptop, Wire
from helpers.lab import QUEUE
from helpers.lossy import Lossy, seeded
from helpers.shell import ROOT, Shell, environment
from helpers.web import Served

import fencepost
from fencepost import offline
from fencepost.cli.subcommands import SUBCOMMANDS
from fencepost.issues import InvalidRequest, NotFound, OutcomeUnknown, Unavailable

KIB_IN_MIB = 1024
LEASE = ("--lease-seconds", 432_000)


@pytest.fixture
def shell(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("FENCEPOST_OUTBOX", raising=False)
    made = Shell(tmp_path, capsys, monkeypatch)
    made("init")
    made("queue-set", "q", "max_lease_seconds=500000", "max_hold_seconds=500000")
    return made


def test_the_way_of_a_task_at_the_shell(shell):
    for number in (1, 2, 3):
        shell.task(f'{{"n":{number}}}', "q", "--task-key", f"k{number}")
    took = shell("offline", "take", "q", "-n", 2, "--worker", "w", *LEASE)
    assert took.code == 0 and took.out.startswith("2 tasks in offline.db; the first lease ends 20")
    assert shell.json("offline", "next")["payload"] == {"n": 1}
    assert "then    fencepost offline record" in shell("offline", "next").out
    assert shell.json("offline", "record", "k1", '{"x": 1}')["new"] is True
    assert shell.json("offline", "record", "k1", "-", stdin=b'{"x":1}')["new"] is False
    assert shell("offline", "record", "k2", "--text", "row", "--row").code == 0
    assert shell("offline", "record", "k2", "--end").code == 0
    ended = shell("--json", "offline", "next")
    assert ended.code == 4 and ended.issues == ["not_found"]
    told = shell.json("offline", "sync")
    assert (told["status"], told["accepted"], told["issues"]) == ("accepted", 3, [])
    status = shell.json("offline", "status")
    assert (status["settled"], status["to_send"], status["worker_id"]) == (2, 0, "w")
    assert shell.json("offline", "verify")["head"] == status["head"]
    assert shell("offline", "verify", "--head", status["head"]).code == 0
    assert [task["state"] for task in shell("--json", "list").lines] == ["done", "done", "ready"]


def test_the_page_s_shell_lines_run_as_they_are_written(shell):
    page = (ROOT / "docs" / "offline.md").read_text(encoding="utf-8")
    lines = page.split("```\n", 2)[1].splitlines()
    shell.task('{"page": 17}', "pages")
    for line in lines:
        words = shlex.split(line, comments=True)
        assert words.pop(0) == "fencepost"
        if "TASK" in words:
            words[words.index("TASK")] = shell.json("offline", "next")["task_id"]
        ran = shell(*words)
        assert ran.code == 0, (line, ran)
    assert [task["state"] for task in shell("--json", "list").lines] == ["done"]
    verbs = {name.removeprefix("offline-") for name in SUBCOMMANDS if name.startswith("offline-")}
    told = {row.strip("| `").split("`")[0].split()[0] for row in page.splitlines()
            if row.startswith("| `")}  # fmt: skip
    assert told == verbs


def test_a_conflict_at_the_shell_shows_both_sides_and_how_to_decide(shell):
    one, two = shell.task("1"), shell.task("2")
    shell("offline", "take", "q", "--worker", "w", *LEASE)
    shell("offline", "record", one, '"ours\\u001b[2J"')
    shell("offline", "record", two, "2")
    shell("cancel", one)
    shell("cancel", two)
    synced = shell("offline", "sync")
    assert synced.code == 3 and "2 tasks have moved on" in synced.err
    told = shell("offline", "conflicts")
    assert told.code == 0 and f"fencepost offline sync --again {one}" in told.out
    assert 'ours    "ours\\u001b[2J"' in told.out and "\x1b" not in told.out
    assert "theirs  cancelled at revision 0" in told.out
    assert {line["code"] for line in shell("--json", "offline", "conflicts").lines} == {
        "task_cancelled"
    }
    assert shell("offline", "conflicts", "--theirs", two).code == 0
    shell("requeue", one)
    again = shell("--json", "offline", "sync", "--again", one)
    assert again.code == 0 and again.json["accepted"] == 1
    assert len(shell("--json", "offline", "conflicts", "--all").lines) == 2


@pytest.mark.parametrize(
    ("words", "code", "issue", "told"),
    [
        (("next",), 6, "store_unavailable", "offline take QUEUE"),
        (("sync",), 6, "store_unavailable", "there is no outbox"),
        (("take", "q", *LEASE), 2, "invalid_request", "--worker"),
        (("take", "q", "--worker", "w"), 2, "invalid_request", "--lease-seconds"),
        (("take", "q", "--worker", "w", "--lease-seconds", 500_001), 3, "lease_too_long",
         "max_lease_seconds is 500000"),
        (("take", "q", "--worker", "w", "-n", 0, *LEASE), 2, "invalid_request", "limit"),
        (("take", "q", "--worker", "w w", *LEASE), 2, "invalid_request", "worker_id"),
        ((), 2, "invalid_request", "it goes on with one of: take, next, record"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_code_and_what_to_do(shell, words, code, issue, told):
    ran = shell("offline", *words)
    assert ran.code == code and f"fencepost: {issue}:" in ran.err and told in ran.err


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_of_the_word_alone_lists_its_verbs(shell, flag):
    ran = shell("offline", flag)
    assert (ran.code, ran.err) == (0, "")
    for verb in ("take", "next", "record", "give-back", "sync", "status", "conflicts", "verify"):
        assert f"  offline {verb} " in ran.out


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("record", "k1"), 2, "give a RESULT"),
        (("record", "k1", "{bad"), 2, "JSON"),
        (("record", "nobody", "1"), 4, "the outbox has no task nobody"),
        (("record", "k1", "1", "--row", "--end"), 2, "--row"),
        (("take", "q", "--worker", "other", *LEASE), 2, "outbox of worker w, not of other"),
        (("conflicts", "--theirs", "k1"), 4, "no conflict that waits"),
        (("sync", "--again", "k1"), 4, "no conflict that waits"),
        (("verify", "--head", "0000000000000000"), 7, "the hash of no link"),
    ],
)  # fmt: skip
def test_an_outbox_that_is_there_says_what_it_cannot_do(shell, words, code, told):
    shell.task("1", "q", "--task-key", "k1")
    shell("offline", "take", "q", "--worker", "w", *LEASE)
    before = shell.json("offline", "status")["tasks"]
    ran = shell("offline", *words)
    assert ran.code == code and told in ran.err, ran
    assert shell.json("offline", "status")["tasks"] == before == 1


def test_a_file_that_is_no_outbox_is_left_alone(shell):
    ran = shell("offline", "take", "q", "--worker", "w", *LEASE, "--outbox", "fencepost.db")
    assert ran.code == 6 and "is not an outbox" in ran.err
    (shell.folder / "text").write_text("x" * 600)
    ran = shell("offline", "next", "--outbox", "text")
    assert ran.code == 6 and (shell.folder / "text").read_text() == "x" * 600
    with sqlite3.connect(shell.folder / "fencepost.db") as db:
        assert (
            db.execute("select count(*) from sqlite_master where name = 'outbox'").fetchone()[0]
            == 0
        )
    db.close()


def test_an_outbox_can_be_read_by_its_owner_alone(shell):
    shell("offline", "take", "q", "--worker", "w", *LEASE)
    assert (shell.folder / "offline.db").stat().st_mode & 0o077 == 0


def test_ctrl_c_in_a_sync_says_that_it_may_be_run_again(shell, monkeypatch):
    shell.task("1")
    shell("offline", "take", "q", "--worker", "w", *LEASE)
    shell("offline", "record", shell.json("offline", "next")["task_id"], "1")

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(fencepost.Handle, "execute", interrupted)
        ran = shell("offline", "sync")
    assert ran.code == 130 and "run it again for the rest" in ran.err
    assert shell.json("offline", "sync")["accepted"] == 1


def test_a_library_that_asks_wrongly_is_told(tmp_path):
    with pytest.raises(Unavailable):
        offline.open(tmp_path / "none.db")
    with pytest.raises(InvalidRequest, match="belongs to one worker"):
        offline.open(tmp_path / "new.db", create=True)
    with offline.open(tmp_path / "a.db", create=True, worker_id="w", scope="s") as box:
        with (
            fencepost.open(":memory:", create=True) as fp,
            pytest.raises(InvalidRequest, match="scope"),
        ):
            box.sync(fp)
        with pytest.raises(NotFound):
            box.record("00000000-0000-7000-8000-000000000000", 1)
        with pytest.raises(InvalidRequest):
            box.record("00000000-0000-7000-8000-000000000000", close=False)
    with pytest.raises(Unavailable, match="closed"):
        box.next()
    with pytest.raises(InvalidRequest, match="scope s, not of t"):
        offline.open(tmp_path / "a.db", scope="t")


def test_a_failed_commit_is_unknown_and_the_next_call_looks_what_is_there(tmp_path, monkeypatch):
    with Field(tmp_path) as field:
        (task_id,) = field.offer("S1")
        lap = field.laptop()
        lap.take()

        class Failing:
            def __init__(self, db):
                self._db = db

            def __getattr__(self, name):
                return getattr(self._db, name)

            def execute(self, sql, *values):
                if sql == "commit":
                    raise sqlite3.OperationalError("disk I/O error")
                return self._db.execute(sql, *values)

        lap.box._file._db = Failing(lap.box._file._db)
        with pytest.raises(OutcomeUnknown, match="do the same again"):
            lap.box.record(task_id, "x")
        assert lap.box.counts()["results"] == 0
        assert lap.box.record(task_id, "x").new
        assert lap.sync()["accepted"] == 1


def test_threads_that_record_and_sync_one_outbox_at_once_lose_and_double_nothing(tmp_path):
    with Field(tmp_path) as field:
        ids = field.offer(*(f"k{number}" for number in range(24)))
        lap = field.laptop()
        lap.take(lease_seconds=DAY)
        found: list[BaseException] = []

        def work(which: int) -> None:
            try:
                box = offline.open(lap.folder / "offline.db")
                for place, task_id in enumerate(ids):
                    box.record(task_id, place)  # all of them record all of it
                    if place % 6 == which:
                        box.sync(Wire(field.handle(WORKER, field.clock)))
                box.close()
            except BaseException as error:  # noqa: BLE001  told below
                found.append(error)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(50)
        assert found == []
        lap.sync()
        assert [field.results(task_id) for task_id in ids] == [[place] for place in range(24)]
        assert lap.box.verify().results == 24


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_through_a_network_that_cuts_repeats_and_delays_all_is_brought_in_the_end(tmp_path, seed):
    print(f"seed {seed}")
    with Field(tmp_path, "http") as field, Lossy(field.web.port, seeded(seed, 0.4)) as lossy:
        ids = field.offer(*"abcdefgh")

        def hurt(lap: Laptop) -> Wire:
            return Wire(field.stack.enter_context(fencepost.open(
                f"http://127.0.0.1:{lossy.port}", token=field.tokens[WORKER],
                max_skew_seconds=None, deadline_seconds=0.3, try_seconds=2,
                sleep=lambda seconds: None,
            )))  # fmt: skip

        lap = field.laptop()
        lap.wire = hurt(lap)
        retried(lambda: lap.take(lease_seconds=DAY), lambda: lap.box.counts()["tasks"] == 8)
        for task_id in ids:
            lap.box.record(task_id, "row", close=False)
            lap.box.record(task_id, "end")
        retried(lap.sync, lambda: lap.box.counts()["settled"] == 8)
        assert [field.results(task_id) for task_id in ids] == [["row", "end"]] * 8
        assert sum(lossy.done.values()) >= 5


def retried(ask, done):
    """Ask until it is done; a bad network may break it off each time."""
    for _ in range(200):
        try:
            ask()
        except (Unavailable, OutcomeUnknown):
            continue
        if done():
            return
    raise AssertionError("it never came to its end")


PAYLOAD = '{"text":"' + "x" * 100_000 + '"}'


# VmHWM is of this program alone; what wait4 tells begins with the memory of who forked it.
MEASURED = (
    "import sys\n"
    "from fencepost.cli import main\n"
    "code = main(sys.argv[1:])\n"
    "(line,) = [line for line in open('/proc/self/status') if line.startswith('VmHWM')]\n"
    "print(code, line.split()[1], file=sys.stderr)\n"
)


def peak(folder, *words, stdin=b"", **variables):
    """The peak of memory (MiB) of one command line, as a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *words], cwd=folder, input=stdin,
        capture_output=True, env=environment(**variables), check=True,
    )  # fmt: skip
    code, kib = done.stderr.split()[-2:]
    assert code == b"0", done.stderr
    return int(kib) / KIB_IN_MIB


@pytest.mark.parametrize("where", ["local", "http"])
def test_all_of_it_runs_within_40_mib(tmp_path, where):
    """Fifty tasks of 100 KB each, and results as long."""
    with Served(path=str(tmp_path / "fencepost.db")) as web:
        web.fp.queue_set(QUEUE, max_lease_seconds=DAY, max_hold_seconds=DAY)
        ids = [web.fp.enqueue(QUEUE, {"text": "x" * 100_000}).task_id for _ in range(50)]
        given = {}
        if where == "http":
            given = {"FENCEPOST_STORE": f"http://127.0.0.1:{web.port}",
                     "FENCEPOST_TOKEN": web.token("worker", "w")}  # fmt: skip
        took = peak(tmp_path, "offline", "take", QUEUE, "--worker", "w", "--lease-seconds",
                    str(DAY), **given)  # fmt: skip
        peaks = {"take": took, "next": peak(tmp_path, "offline", "next")}
        with offline.open(tmp_path / "offline.db") as box:
            assert box.counts()["tasks"] == 50
            for task_id in ids[25:]:
                box.record(task_id, {"text": "y" * 100_000})
        record = "offline", "record", ids[0], "-"
        peaks["record"] = peak(tmp_path, *record, stdin=PAYLOAD.encode())
        peaks["work"] = peak(tmp_path, "work", "--offline", "offline.db", "-j", "4", "--", "cat")
        peaks["sync"] = peak(tmp_path, "offline", "sync", **given)
        for verb in ("status", "conflicts", "verify"):
            peaks[verb] = peak(tmp_path, "offline", verb)
        assert all(task.state == "done" for task in web.fp.tasks(QUEUE))
    print({verb: round(mib, 1) for verb, mib in peaks.items()})
    assert max(peaks.values()) <= 40
