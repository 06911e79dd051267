"""The benchmark's own arithmetic, its checks and its refusals. Nothing here asks how fast."""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
from contextlib import closing
from statistics import median

import pytest

from fencepost.operate.bench import checks, drain, floor, goals, main, options, peers, report, run
from fencepost.operate.bench import slow as slow_phase
from fencepost.operate.bench.goals import ROWS, Goal, Row
from fencepost.operate.bench.growth import multiply
from fencepost.operate.bench.lab import (
    QUEUE,
    CheckFailed,
    Lab,
    NotHere,
    drain_batch,
    fill,
    new_store,
    reopen,
)
from fencepost.operate.bench.plain import Naive

TINY = options.Sizes(
    reps=2, commits=5, tasks=230, naive=4, peer_tasks=3,
    callers=4, naive_lives=3, batched_lives=2, thread_lives=2,
    slow_naive_lives=2, slow_batched_lives=1, slow_thread_lives=1,
    few_done=50, many_done=500, grown_batches=1, grown_singles=3,
    future=20, future_claims=3,
    processes=2, process_seconds=0.2, latencies=4,
    journal_batches=1, starts=1, memory_tasks=150, memory_verify=True, http_tasks=100, commands=2,
    deliveries=200,
)  # fmt: skip
HERE = ("drain", "callers", "growth", "journal")
ELSEWHERE = ("processes", "latency", "start", "memory")


@pytest.fixture
def bench(tmp_path, monkeypatch, capfd):
    """Runs the benchmark at tiny sizes: (exit code, its JSON, its stderr)."""
    monkeypatch.setitem(options.PROFILES, "quick", TINY)
    monkeypatch.setattr(peers, "FOLDER", tmp_path / "peers")
    place = tmp_path / "place"
    place.mkdir()

    def go(*arguments):
        code = main(["--dir", str(place), "--json", *arguments])
        out, err = capfd.readouterr()
        assert list(place.iterdir()) == [], "the work folder was left behind"
        return code, json.loads(out), err

    return go


def rows_of(document, phase):
    return {(row["name"], row["over"]): row for row in document["rows"] if row["phase"] == phase}


@pytest.fixture
def drained(tmp_path):
    """A store of 200 tasks, drained, and a copy of it as it was before."""
    path = tmp_path / "store.db"
    with new_store(path) as handle:
        fill(handle, 200)
    shutil.copyfile(path, tmp_path / "before.db")
    with reopen(path) as handle:
        assert drain_batch(handle) + drain_batch(handle) == 200
    return path


# -- a whole run


@pytest.mark.parametrize("phases", [HERE, ELSEWHERE], ids=["here", "elsewhere"])
def test_every_figure_is_measured_and_ratios_are_taken_within_a_repetition(bench, phases):
    code, document, _ = bench("--only", *phases)
    assert code == 0
    assert document["phases"] == [name for name in goals.PHASES if name in phases]
    assert document["reasons"] == [
        f"drain: {name} is unavailable: not measured"
        for name in ("huey", "persist-queue")
        if "drain" in phases
    ]
    for phase in phases:
        found = rows_of(document, phase)
        assert set(found) == {(row.name, row.over or None) for row in ROWS if row.phase == phase}
        for (name, over), row in found.items():
            if "huey" in (name, over) or "persist-queue" in (name, over):
                continue
            assert len(row["values"]) == (1 if phase == "memory" else 2)
            assert row["median"] == median(row["values"])
            assert row["min"] == min(row["values"]) and row["max"] == max(row["values"])
            assert (row["verdict"] in ("ok", "missed")) == (row["target"] is not None)
            if over:
                pairs = zip(found[name, None]["values"], found[over, None]["values"], strict=True)
                assert row["values"] == [value / base for value, base in pairs]


def test_the_head_says_what_machine_it_was(bench):
    _, document, _ = bench("--only", "start", "--reps", "1")
    about = document["machine"]
    assert about["python"] == ".".join(map(str, sys.version_info[:3]))
    assert about["sqlite"] == sqlite3.sqlite_version
    assert about["syncs_per_second"] > 0 and about["cores"] >= 1
    assert about["filesystem"] and about["cpu"] and about["system"]
    assert document["repetitions"] == 1


def test_a_disk_that_hides_fsync_is_told():
    about = {"syncs_per_second": 2_001, "load_before": 0.0, "cores": 2}
    assert "hides the cost of fsync" in run.machine.warnings(about)[0]
    assert run.machine.warnings({**about, "syncs_per_second": 2_000}) == []
    assert "busy" in run.machine.warnings({**about, "syncs_per_second": 1, "load_before": 1.1})[0]


# -- refusals


def test_an_unknown_phase_is_refused_with_the_known_ones(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--only", "drain", "warp"])
    assert ended.value.code == 2
    message = capsys.readouterr().err
    assert "warp" in message and "callers" in message


@pytest.mark.parametrize(
    ("arguments", "mention"),
    [
        (["--reps", "0"], "at least 1"),
        (["--slow-fsync", "-1"], "milliseconds"),
        (["--only", "slow", "--slow-fsync", "0"], "nothing is left"),
        (["--dir", "/nowhere/at/all"], "/nowhere/at/all"),
        (["--peers", "huey,nonesuch"], "nonesuch"),
        (["--profile", "medium"], "medium"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_measured(arguments, mention, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert mention in capsys.readouterr().err


def test_a_report_that_is_there_is_not_overwritten_unless_forced(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(run.MEASURES, "start", lambda lab: iter_of({"bare": 1.0}))
    report_file = tmp_path / "figures.json"
    report_file.write_text("mine")
    arguments = ["--only", "start", "--dir", str(tmp_path), "--json", str(report_file)]
    with pytest.raises(SystemExit):
        main(arguments)
    assert report_file.read_text() == "mine"
    assert main([*arguments, "--force"]) == 0
    assert json.loads(report_file.read_text())["phases"] == ["start"]
    assert "a bare interpreter" in capsys.readouterr().out


def iter_of(*repetitions):
    """A phase that gives these figures."""
    yield from repetitions


# -- checks come before rates


@pytest.mark.parametrize(
    ("tampering", "named"),
    [
        ("delete from fencepost_result where task = (select max(task) from fencepost_result)",
         "results"),
        ("update fencepost_result set revision = 2 where task = 7", "results"),
        ("update fencepost_entry set task = null where task = 8", "receipts"),
        ("update fencepost_entry set task = 7 where task = 8", "receipts"),
        ("update fencepost_task set parent = null where parent = 7", "obligations"),
        ("update fencepost_task set parent = 8 where parent = 7", "obligations"),
        ("update fencepost_task set state = 'ready' where id = 7", "not"),
        ("delete from fencepost_entry where number = 1", "entries stand"),
    ],
)  # fmt: skip
def test_a_store_that_does_not_add_up_is_found(drained, tampering, named):
    checks.check(drained, 200)
    with closing(sqlite3.connect(drained)) as connection, connection:
        assert connection.execute(tampering).rowcount == 1
    with pytest.raises(CheckFailed, match=named):
        checks.check(drained, 200)


def test_a_completion_that_was_told_and_is_not_there_is_found(drained):
    with pytest.raises(CheckFailed, match="199 completions were acknowledged"):
        checks.check(drained, 200, told=199)


def test_a_journal_that_does_not_verify_is_found(drained):
    checks.check_journal(drained)
    with closing(sqlite3.connect(drained)) as connection, connection:
        connection.execute("update fencepost_task set priority = 5 where id = 7")
    checks.check(drained, 200)
    with pytest.raises(CheckFailed, match="verify"):
        checks.check_journal(drained)


def test_a_phase_whose_check_fails_shows_no_rate_and_fails_the_run(bench, monkeypatch, capfd):
    real = drain.finish

    def lose_one(handle, leases):
        real(handle, leases[:-1])

    monkeypatch.setattr(drain, "finish", lose_one)
    code, document, _ = bench("--only", "drain", "callers", "--reps", "1")
    assert code == 1
    for row in rows_of(document, "drain").values():
        assert row["verdict"] == "refused" and "product.db" in row["reason"]
        assert row["values"] == [] and row["median"] is row["min"] is row["max"] is None
    assert all(row["values"] for row in rows_of(document, "callers").values())
    assert any("REFUSED" in reason for reason in document["reasons"])


def test_a_check_that_fails_late_takes_back_the_figures_before_it():
    row = Row("drain", "naive", "naive")
    (line,) = report.lines(
        ["drain"], [{("drain", "naive"): 5.0}], {}, {"drain": "one is missing"}, [row]
    )
    assert line.values == () and line.median is None and line.verdict == "refused"
    assert "5" not in "".join(report.table_rows([line])[0][2:])


# -- the arithmetic


def test_a_ratio_is_the_median_of_ratios_not_the_ratio_of_medians():
    repetitions = [
        {("drain", "drain"): 10.0, ("drain", "naive"): 2.0},
        {("drain", "drain"): 30.0, ("drain", "naive"): 3.0},
        {("drain", "drain"): 90.0, ("drain", "naive"): 90.0},
    ]
    row = Row("drain", "drain", "over naive", goals.TIMES, "naive", Goal(">=", 8))
    (line,) = report.lines(["drain"], repetitions, {}, {}, [row])
    assert line.values == (5.0, 10.0, 1.0)
    assert line.median == 5.0 and line.verdict == "missed"
    assert report.table_rows([line]) == [
        ("drain", "over naive", "5.00×", "1.00× – 10.00×", "≥ 8.00×", "missed")
    ]


def test_a_repetition_that_lacks_one_of_the_two_gives_no_ratio():
    row = Row("drain", "drain", "over huey", goals.TIMES, "huey", Goal(">=", 3))
    missing = {("drain", "huey"): "not installed"}
    (line,) = report.lines(["drain"], [{("drain", "drain"): 5.0}], missing, {}, [row])
    assert line.verdict == "unavailable" and line.missing == "not installed"
    assert report.reasons([line]) == ["drain: huey is unavailable: not installed"]


def test_the_longest_wait_counts_in_its_worst_repetition():
    row = next(row for row in ROWS if row.name == "wait_max")
    repetitions = [{("processes", "wait_max"): value} for value in (20.0, 501.0, 30.0)]
    (line,) = report.lines(["processes"], repetitions, {}, {}, [row])
    assert line.median == 30.0 and line.verdict == "missed"


@pytest.mark.parametrize(
    ("goal", "value", "met"),
    [
        (Goal(">=", 8), 8.0, True), (Goal(">=", 8), 7.99, False),
        (Goal("<=", 3), 3.0, True), (Goal("<=", 3), 3.01, False),
    ],
)  # fmt: skip
def test_a_target_is_met_at_its_bound(goal, value, met):
    assert goal.met(value) is met


def test_every_ratio_names_a_figure_of_its_own_phase():
    figures = {(row.phase, row.name) for row in ROWS if not row.over}
    assert {(row.phase, row.over) for row in ROWS if row.over} <= figures
    assert {(row.phase, row.name) for row in ROWS if row.over} <= figures
    assert {row.phase for row in ROWS} == set(goals.PHASES) == set(run.MEASURES)


def test_a_missed_target_changes_the_exit_code_only_when_asked(bench, monkeypatch):
    slow_start = {"bare": 10.0, "import": 41.0, "version": 1.0, "stats": 1.0}
    monkeypatch.setitem(run.MEASURES, "start", lambda lab: iter_of(slow_start, slow_start))
    code, document, _ = bench("--only", "start")
    assert code == 0
    assert rows_of(document, "start")["import", None]["verdict"] == "missed"
    assert bench("--only", "start", "--check")[0] == 1


# -- the contenders


def test_the_floor_writes_the_very_rows_that_the_product_wrote(drained, tmp_path):
    again = tmp_path / "before.db"
    floor.write_again(again, floor.written_since(drained, checks.before(again)))
    checks.check(again, 200)
    with closing(sqlite3.connect(drained)) as one, closing(sqlite3.connect(again)) as other:
        for table in ("task", "payload", "result", "entry"):
            query = f"select * from fencepost_{table} order by 1"
            assert one.execute(query).fetchall() == other.execute(query).fetchall(), table


def test_the_naive_queue_does_the_same_work_and_keeps_the_fence(tmp_path):
    path = tmp_path / "store.db"
    new_store(path).close()
    queue = Naive(path)
    with closing(queue):
        task_id = queue.enqueue({"n": 1})
        assert queue.claim("one") == (task_id, 1)
        assert queue.claim("two") is None
        with pytest.raises(CheckFailed):
            queue.complete(task_id, "one", 2, {"ok": True})
        queue.complete(task_id, "one", 1, {"ok": True})
    checks.check(path, 1)


def test_a_store_made_large_in_bulk_still_works_and_seals(tmp_path):
    path = tmp_path / "store.db"
    with new_store(path) as handle:
        fill(handle, 100)
        drain_batch(handle)
    multiply(path, 1_000)
    before = checks.before(path)
    with reopen(path) as handle:
        assert handle.stats()["queues"][-1]["tasks"] == 1_100
        fill(handle, 5)
        assert drain_batch(handle) == 5
        assert handle.seal().size == before.entry + 7
    checks.check(path, 5, since=before)


def adapter(folder, name, body):
    (folder / name).mkdir(parents=True)
    (folder / name / "adapter.py").write_text(body)


def test_a_peer_that_cannot_be_imported_is_named_unavailable(bench, tmp_path):
    adapter(tmp_path / "peers", "huey", "import sys\nsys.exit('no huey here') if 0 else None\n"
            "print('No module named huey', file=sys.stderr)\nsys.exit(3)")  # fmt: skip
    code, document, _ = bench("--only", "drain", "--reps", "1")
    assert code == 0
    assert rows_of(document, "drain")["huey", None]["verdict"] == "unavailable"
    assert "drain: huey is unavailable: No module named huey" in document["reasons"]
    assert document["peers"]["huey"] == {"unavailable": "No module named huey"}


@pytest.mark.parametrize(("handled", "distinct", "pending"), [(3, 2, 0), (2, 2, 0), (3, 3, 1)])
def test_a_peer_that_does_not_do_each_task_once_shows_no_rate(
    tmp_path, monkeypatch, handled, distinct, pending
):
    monkeypatch.setattr(peers, "FOLDER", tmp_path)
    answer = {"rate": 9.0, "handled": handled, "distinct": distinct, "pending": pending}
    adapter(tmp_path, "odd", f"print({json.dumps(json.dumps(answer))})")
    with pytest.raises(CheckFailed, match="odd handled"):
        peers.run("odd", tmp_path, 3, {"n": 0})


def test_without_a_compiler_the_slow_phase_is_named_unavailable(bench, monkeypatch):
    monkeypatch.setattr(slow_phase.shutil, "which", lambda name: None)
    code, document, _ = bench("--only", "slow", "--reps", "1")
    assert code == 0
    for row in rows_of(document, "slow").values():
        assert row["verdict"] == "unavailable"
        assert "no C compiler" in row["reason"] or "on Linux only" in row["reason"]


def test_a_delay_that_is_not_felt_gives_no_figure(tmp_path, monkeypatch):
    monkeypatch.setattr(slow_phase, "compiled", lambda folder: tmp_path / "nothing.so")
    monkeypatch.setattr(slow_phase.child, "run", lambda *given: {"fdatasync": 501.0, "naive": 1.0})
    with pytest.raises(NotHere, match="not felt"):
        next(slow_phase.slow(Lab(tmp_path, TINY, slow_ms=2.0)))


def test_a_queue_of_the_benchmark_owes_one_obligation_for_each_result(tmp_path):
    with new_store(tmp_path / "store.db") as handle:
        assert handle.queue(QUEUE).destinations == ("out",)
