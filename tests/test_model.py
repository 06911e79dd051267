"""The protocol as a TLA+ model: it keeps the promises, and loses one without any of its guards.

tests/model/README.md leads from each guard to its line of code and to the planted fault that takes
it away. Larger scopes are walked by `python3 tests/torture.py --only model`.
"""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest
from helpers import handover, tlc
from helpers.mutants import MACHINE, RULES
from test_receiver_mutants import PLANTED

ROOT = Path(__file__).resolve().parent.parent
# The first run may have to install a Java.
pytestmark = pytest.mark.timeout(300)


def table(heading: str) -> list[list[str]]:
    """The rows of the table that begins with this line."""
    text = (tlc.MODEL / "README.md").read_text(encoding="utf-8")
    lines = text.split(heading + "\n", 1)[1].split("\n\n")[0].splitlines()
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines[1:]]


A_TASK = table("| guard | config | what breaks without it | code | planted fault |")
HANDOVER = table(
    "| guard of the handover | config | what breaks without it | code | planted fault |"
)
ALL = [row[:3] for row in [*A_TASK, *HANDOVER]]
FAULTS = {*(mutant.name for mutant in (*RULES, *MACHINE)), *PLANTED, *handover.PLANTED}


@pytest.mark.parametrize("name", tlc.CONFIGS)
def test_with_all_guards_every_promise_is_kept(name):
    told = tlc.check(tlc.config(name), seconds=100)
    assert (told.finished, told.broken) == (True, None), told.output[-3000:]
    assert told.states > 1_000  # a slip in a configuration would leave few


@pytest.mark.parametrize(("guard", "config", "promise"), ALL, ids=[" ".join(row) for row in ALL])
def test_a_guard_taken_away_is_found(guard, config, promise):
    asked = tlc.asking(tlc.config(config, **{guard: "FALSE"}), promise)
    told = tlc.check(asked, seconds=100)
    assert told.broken == promise, told.output[-3000:]
    assert told.steps >= 3


def test_an_effect_comes_twice_only_where_two_guards_are_gone():
    both = tlc.config("Restored", Known="FALSE", NotStale="FALSE")
    assert tlc.check(tlc.asking(both, "OneEffect"), seconds=100).broken == "OneEffect"
    for guard in ("Known", "NotStale"):
        one = tlc.check(
            tlc.asking(tlc.config("Restored", **{guard: "FALSE"}), "OneEffect"), seconds=100
        )
        assert (one.finished, one.broken) == (True, None), one.output[-3000:]


@pytest.mark.parametrize(
    ("config", "never"),
    [("Copies", "NeverAgain"), ("Restored", "NeverServes"), ("Siblings", "NeverTaken")],
)
def test_the_model_does_not_keep_its_promises_by_refusing_everything(config, never):
    """An adopted copy gives a new lease, accepts a new result, and the receiver takes it; a
    restored one delivers what its original had not, and one by a human's word too."""
    assert tlc.check(tlc.asking(tlc.config(config), never), seconds=100).broken == never


def test_every_guard_and_every_promise_of_the_modules_stands_in_the_tables():
    for module, rows, more in (("Fencepost", A_TASK, set()), ("Handover", HANDOVER, {"OneEffect"})):
        assert {row[0] for row in rows} == set(tlc.guards(module))
        assert {row[1] for row in rows} == set(tlc.MODULES[module])
        asked = {name: set(tlc.promises(tlc.config(name))) for name in tlc.MODULES[module]}
        promised = {row[2] for row in rows} | more
        assert set().union(*asked.values()) == promised
        for name in tlc.MODULES[module]:
            assert asked[name] == promised - ({"OwnLeases"} if name == "Passed" else set())


@pytest.mark.parametrize("row", [*A_TASK, *HANDOVER], ids=lambda row: " ".join(row[:3]))
def test_a_guard_leads_to_a_line_of_code_and_to_a_planted_fault(row):
    path, _, name = row[3].partition(":")
    module = importlib.import_module(path.removesuffix(".py").replace("/", "."))
    assert Path(inspect.getfile(module)) == ROOT / path
    function = getattr(module, name)
    assert inspect.isfunction(function)
    assert function.__module__ == module.__name__
    assert row[4] in FAULTS
