"""The rehearsal of a restore: it holds, and each fault that is planted in a restore breaks it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from fencepost.cli import main
from fencepost.operate import drill
from fencepost.operate.drilling import checks
from fencepost.operate.restoring import receivers, steps

pytestmark = pytest.mark.timeout(180)  # servers and processes come and go


def test_the_drill_holds_and_its_receipt_names_both_writers_and_what_each_receiver_did(capfd):
    assert main(["drill", "restore", "--json"]) == 0
    done = json.loads(capfd.readouterr().out)
    assert done["status"] == "held" and all(each["holds"] for each in done["checks"])
    receipt = done["receipt"]
    assert receipt["old_writer"]["incarnation"] != receipt["new_writer"]["incarnation"]
    assert receipt["new_writer"]["why"] == "restored"
    told = {each["destination"]: each for each in receipt["receivers"]}
    assert set(told) == {"default/web", "default/table"}
    assert all(each["answered"] and len(each["foreign"]) == 2 for each in told.values())
    assert [len(each["imported"]) for _, each in sorted(told.items())] == [4, 0]
    for name, each in done["old_owner"]["refused"].items():
        assert each["stopped"].startswith("old_epoch: "), name
        assert len(each["open"]) == 4, "one of the lost future, three of afterwards"
    for name, operations in done["effects"].items():
        assert len(operations) == len(set(operations)) == 13, name


def test_the_drill_is_shown_to_people_and_leaves_nothing(capfd, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert main(["drill", "restore"]) == 0
    out = capfd.readouterr().out
    assert "restore-receipt: complete" in out and "BROKEN" not in out
    assert out.count("\nholds ") == 15 and "old owner at web: 4 not taken; old_epoch" in out
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_drill_is_refused(capsys):
    assert main(["drill", "nothing"]) == 2
    assert main(["drill"]) == 2
    assert "usage: fencepost drill" in capsys.readouterr().err


def nothing(*_, **__):
    return []


def no_take_over(talk, *_, **__):
    """Says that all is well, and has told nobody."""
    return {**receivers.described(talk.peer), "imported": [], "foreign": [], "answered": True,
            "taken_over": False, "receiver": "", "held_by": {"epoch": 0, "incarnation": ""},
            "isolation": ""}  # fmt: skip


FAULTS = {
    "nothing is imported": (receivers, "imports", nothing, "what it has accepted"),
    "nobody is told": (steps, "taken_over", no_take_over, "no receiver took anything more"),
    "nothing is erased again": (steps, "erase", nothing, "erased again"),
    "tokens go on": (steps, "revoke", nothing, "every token"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_restore_with_a_fault_planted_does_not_pass_the_drill(fault, tmp_path, monkeypatch):
    owner, name, planted, sentence = FAULTS[fault]
    monkeypatch.setattr(owner, name, planted)
    done = drill.drilled(Path(tmp_path))
    assert done.to_json()["status"] == "broken"
    broken = [each.sentence for each in done.checks if not each.holds]
    assert any(sentence in each for each in broken), broken


def seen_of(effects, *, new, foreign=()):
    """The judgement of the effects at one place."""
    seen = SimpleNamespace(new=new, foreign=foreign, erased=(), before={"web": 0})
    return {each.sentence: each.holds for each in checks._effects(seen, "web", effects)}


def effect(task, result):
    return f"{task}:1", {"task_id": task, "result": result}


def test_an_effect_that_is_doubled_lost_or_another_is_seen():
    new = {"t1": [["r1"], 1], "t2": [["r2"], 2], "t3": [[], 3]}
    good = [effect("t1", "r1"), effect("t2", "r2")]
    assert all(seen_of(good, new=new).values())
    twice, same = "web: no effect is there twice", (
        "web: no effect of a result that the restored store has is missing or another"
    )  # fmt: skip
    assert seen_of([*good, effect("t1", "r1")], new=new)[twice] is False
    assert seen_of(good[:1], new=new)[same] is False
    assert seen_of([good[0], effect("t2", "of the old owner")], new=new)[same] is False
    assert seen_of([*good, effect("t9", "r")], new=new)[same] is False
    assert seen_of([*good, effect("t9", "r")], new=new, foreign=["t9"])[same] is True
