"""The parts of the demo, alone: names, plan, measuring, and that each check can fail."""

from __future__ import annotations

import io
import os
from collections import Counter
from dataclasses import replace
from hashlib import sha256

import pytest
from helpers.lab import raw
from hypothesis import given
from hypothesis import strategies as st

import fencepost
from fencepost import fields
from fencepost.operate.demo import checks, files, plan, tally, view
from fencepost.operate.demo.director import Seen
from fencepost.operate.demo.worker import DESTINATION, QUEUE, answer

PATH = st.binary(min_size=1, max_size=300).filter(lambda raw: b"\0" not in raw)


@given(PATH)
def test_a_name_is_a_key_and_leads_back_to_every_byte_of_its_path(raw):
    name = files.to_name(os.fsdecode(raw))
    assert os.fsencode(files.to_path(name)) == raw
    assert fields.key(files.to_key(name), "key") == files.to_key(name)


def test_long_names_that_begin_alike_have_different_keys():
    names = ["d/" * 200 + end for end in ("a.py", "b.py")]
    keys = {files.to_key(name) for name in names}
    assert len(keys) == 2
    assert {len(key) for key in keys} == {255}


def test_an_ordinary_path_is_its_own_name():
    assert files.to_name("email/mime/text_1-2.py") == "email/mime/text_1-2.py"
    assert files.to_name('q"\\%é.py') == "q%22%5C%25%C3%A9.py"


@pytest.mark.parametrize(
    ("content", "lines"),
    [(b"", 0), (b"\n", 1), (b"a", 1), (b"a\n", 1), (b"a\nb", 2), (b"a\r\nb\r\n", 2), (b"\r\r", 1)],
)
def test_workers_and_checker_measure_alike(tmp_path, content, lines):
    path = tmp_path / "a.py"
    path.write_bytes(content)
    expected = {"lines": lines, "sha256": sha256(content).hexdigest()}
    assert files.measure(path) == checks.direct(path) == expected


def test_a_last_line_is_counted_once_where_chunks_meet(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "CHUNK_BYTES", 4)
    path = tmp_path / "a.py"
    for size in range(14):
        path.write_bytes(b"abc\n" * 3 + b"de" if size == 13 else (b"abc\n" * 4)[:size])
        assert files.measure(path) == checks.direct(path)


@given(st.integers(1, 100_000), st.integers(2, 32), st.integers(0, 10**6))
def test_every_plan_has_each_kind_and_leaves_tasks_for_it(tasks, workers, seed):
    planned = plan.misfortunes(tasks, workers, seed)
    assert {each.kind for each in planned} == {"kill", "stop", "lose"}
    held = workers * plan.batch_size(tasks, workers)
    assert all(each.after == 0 or each.after + held < tasks for each in planned)
    assert planned == plan.misfortunes(tasks, workers, seed)
    assert planned == sorted(planned, key=lambda each: each.after)


def test_the_seed_decides_the_order_of_misfortunes():
    orders = {
        tuple(each.kind for each in plan.misfortunes(1_000, 4, seed)) for seed in range(20)
    }
    assert len(orders) > 10


def test_a_plain_line_obeys_the_stream_and_moves_no_cursor():
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii", newline="\n")
    view.write(out, "caf\xe9 \x1b[31m\u202e…\udcff")
    assert raw.getvalue() == b"caf\\xe9 \\x1b[31m\\u202e\\u2026\\udcff\n"


@pytest.fixture
def run(tmp_path):
    """A small run that keeps every promise: two files, one answer lost, nothing else amiss."""
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text(f"# {name}\n")
    with fencepost.open(":memory:", create=True) as fp:
        fp.queue_set(QUEUE, destinations=[DESTINATION])
        names, answers = {}, []
        for name in ("a.py", "b.py"):
            names[fp.enqueue(QUEUE, {"path": name}).task_id] = name
            (lease,) = fp.claim(QUEUE, worker_id="w")
            command = fencepost.commands.Complete(
                lease.task_id, "w", lease.fence, result=files.measure(tmp_path / name)
            )
            answers.append(answer(fp.execute([command])[0]))
        again = answer(fp.execute([command])[0])
        seen = Seen(
            settled=set(names), answers=answers, lost={again["task_id"]: answers[-1]},
            replays=[again], refusals=Counter(task_done=1), killed=[1], stopped=[1], losers=1,
        )  # fmt: skip
        counted = tally.read(fp.entries())
        counted.reclaims = 1
        yield checks.Run(fp, tmp_path, names, seen, counted)


def complaints(run: checks.Run) -> dict[str, tuple[str, ...]]:
    """What each check that fails says, by its first words."""
    return {
        " ".join(check.sentence.split()[:3]): check.complaints
        for check in checks.all_checks(run)
        if not check.holds
    }


def last(run: checks.Run) -> str:
    return list(run.names)[-1]


def test_a_run_that_keeps_the_promise_has_no_complaint(run):
    assert complaints(run) == {}


def test_a_wrong_value_is_seen(run):
    (run.folder / "b.py").write_text("changed")
    found = complaints(run)
    assert list(found) == ["every accepted result"]
    assert found["every accepted result"][0].startswith("b.py: expected")


def test_a_second_result_is_seen(run):
    run.fp.requeue(last(run))
    (lease,) = run.fp.claim(QUEUE, worker_id="w")
    lease.complete(files.measure(run.folder / "b.py"))
    found = complaints(replace(run, tally=tally.read(run.fp.entries())))
    assert found["every accepted result"][0].startswith("b.py: expected")
    assert found["exactly one completing"] == ("b.py: 2 completing receipts",)
    assert found["one obligation for"][0] == "b.py: 2 obligations"


def test_a_missing_receipt_is_seen(run):
    del run.tally.completions[last(run)]
    found = complaints(run)
    assert found["exactly one completing"] == ("b.py: 0 completing receipts",)
    assert len(found["every answer is"]) == 1


def test_a_receipt_of_an_unknown_task_is_seen(run):
    strange = "00000000-0000-7000-8000-000000000000"
    run.tally.completions[strange] = []
    said = f"a receipt completes {strange}, which nobody enqueued"
    assert complaints(run) == {"exactly one completing": (said,)}


def test_an_answer_that_is_not_the_journals_is_seen(run):
    run.seen.answers[0] = {**run.seen.answers[0], "receipt": run.seen.answers[1]["receipt"]}
    assert list(complaints(run)) == ["every answer is"]


def test_a_second_answer_that_differs_by_a_byte_is_seen(run):
    (again,) = run.seen.replays
    entry = again["receipt"]["entry"].replace('"v":1', '"v":2')
    run.seen.replays[0] = {**again, "receipt": {**again["receipt"], "entry": entry}}
    said = f"task {last(run)}: the second answer is not the first"
    assert complaints(run) == {"who asked again": (said,)}


def test_a_replay_that_nobody_asked_for_is_seen(run):
    run.seen.lost.clear()
    said = f"task {last(run)}: replayed, though no answer was lost"
    assert complaints(run) == {"who asked again": (said,)}


def test_a_missing_obligation_is_seen(run):
    (message,) = run.tally.obligations.pop(last(run))
    assert complaints(run) == {
        "one obligation for": (
            "b.py: 0 obligations",
            f"obligation {message} belongs to no accepted result",
        )
    }


def test_an_obligation_of_another_task_is_seen(run):
    first = next(iter(run.names))
    owed = run.tally.obligations
    owed[first], owed[last(run)] = owed[last(run)], owed[first]
    assert complaints(run) == {
        "one obligation for": tuple(
            f"{name}: its obligation says something else" for name in ("a.py", "b.py")
        )
    }


def test_a_late_result_that_was_accepted_is_seen(run):
    run.seen.late_accepted = 1
    assert complaints(run) == {"nothing that a": ("1 late results were accepted",)}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"killed": []}, "no worker was killed"),
        ({"stopped": []}, "no worker was stopped"),
        ({"losers": 0}, "no worker was without an answer"),
        ({"refusals": Counter()}, "no worker was refused"),
    ],
)
def test_a_misfortune_that_did_not_happen_is_seen(run, change, said):
    assert complaints(replace(run, seen=replace(run.seen, **change))) == {
        "every kind of": (said,)
    }


def test_an_edit_behind_the_journals_back_is_seen(tmp_path, run):
    path = tmp_path / "edited.db"
    with fencepost.open(str(path), create=True) as fp:
        fp.enqueue(QUEUE, {"path": "a.py"})
        with raw(path) as connection:
            connection.execute("update fencepost_task set priority = priority + 1")
        found = complaints(replace(run, fp=fp, names={}, tally=tally.read(fp.entries())))
    said = found["the store is"][0]
    assert said.startswith("row_edited: ")
