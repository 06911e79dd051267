"""The protocol as a TLA+ model: it keeps the promises, and loses one without any of its guards.

tests/model/README.md leads from each guard to its line of code and to the planted fault that takes
it away. Larger scopes are walked by `python3 tests/torture.py --only model`.
"""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest
from helpers import tlc
from helpers.mutants import MACHINE, RULES

ROOT = Path(__file__).resolve().parent.parent
# No part of the package enforces these yet; when one of these files is there, it must be named.
BUILT_LATER = ("receiver", "receiver.py", "operate/restore.py")

# The first run may have to install a Java.
pytestmark = pytest.mark.timeout(300)


def table(heading: str) -> list[list[str]]:
    """The rows of the table that begins with this line."""
    text = (tlc.MODEL / "README.md").read_text(encoding="utf-8")
    lines = text.split(heading + "\n", 1)[1].split("\n\n")[0].splitlines()
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines[1:]]


IN_THE_CODE = table("| guard | config | what breaks without it | code | planted fault |")
ELSEWHERE = table("| guard | config | what breaks without it |")
ALL = [row[:3] for row in [*IN_THE_CODE, *ELSEWHERE]]


@pytest.mark.parametrize("name", tlc.CONFIGS)
def test_with_all_guards_every_promise_is_kept(name):
    told = tlc.check(tlc.config(name), seconds=100)
    assert (told.finished, told.broken) == (True, None), told.output[-3000:]
    assert told.states > 1_000  # a slip in a configuration would leave few


@pytest.mark.parametrize(("guard", "config", "promise"), ALL, ids=[row[0] for row in ALL])
def test_a_guard_taken_away_is_found(guard, config, promise):
    told = tlc.check(tlc.config(config, **{guard: "FALSE"}), seconds=100)
    assert told.broken == promise, told.output[-3000:]
    assert told.steps >= 3


def test_the_model_does_not_keep_its_promises_by_refusing_everything():
    """An adopted copy gives a new lease, accepts a new result, and the receiver takes it."""
    asked = tlc.config("Copies").replace("INVARIANTS\n", "INVARIANTS\n    NeverAgain\n")
    assert tlc.check(asked, seconds=100).broken == "NeverAgain"


def test_every_guard_and_every_promise_of_the_module_stands_in_the_tables():
    assert sorted(row[0] for row in ALL) == sorted(tlc.guards())
    for name in tlc.CONFIGS:
        asked = tlc.config(name).split("INVARIANTS")[1].split()
        assert {row[2] for row in ALL} == set(asked)


@pytest.mark.parametrize("row", IN_THE_CODE, ids=lambda row: row[0])
def test_a_guard_leads_to_a_line_of_code_and_to_a_planted_fault(row):
    path, _, name = row[3].partition(":")
    module = importlib.import_module(path.removesuffix(".py").replace("/", "."))
    assert Path(inspect.getfile(module)) == ROOT / path
    function = getattr(module, name)
    assert inspect.isfunction(function)
    assert function.__module__ == module.__name__
    assert row[4] in {mutant.name for mutant in (*RULES, *MACHINE)}


def test_guards_without_code_get_their_lines_once_there_is_some():
    there = [name for name in BUILT_LATER if (ROOT / "fencepost" / name).exists()]
    assert not (there and ELSEWHERE), f"{there}: name the lines of {ELSEWHERE} in the first table"
