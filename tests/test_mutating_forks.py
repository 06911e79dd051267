"""How torture tries mutants: one is set into the running program, and a sample is judged fairly."""

from __future__ import annotations

import ast

import pytest
from helpers.stand import UNKNOWN
from test_rules_time import row
from torture import mutated, planting, sampling
from torture.equivalent import SAME
from torture.mutated import Mutant

from fencepost import commands as c
from fencepost.journal.tree import Frontier
from fencepost.rules import fence
from fencepost.rules.moment import Moment

STALE = "fencepost.rules.fence.x_stale_fence"
ROOT = "fencepost.journal.tree.xǁFrontierǁroot"
AT = "fencepost.journal.tree.xǁFrontierǁat"


@pytest.fixture
def restored():
    """The functions that these tests exchange are the real ones afterwards."""
    real = [planting.found(name) for name in (STALE, ROOT, AT)]
    kept = [(each.__code__, each.__defaults__, each.__kwdefaults__) for each in real]
    yield
    for each, (code, defaults, named) in zip(real, kept, strict=True):
        each.__code__, each.__defaults__, each.__kwdefaults__ = code, defaults, named


def issues():
    return fence.lease_issues(c.Release(UNKNOWN, "w", 1), row(), Moment(0, 0, 0))


@pytest.mark.usefixtures("restored")
def test_a_mutant_is_met_by_whoever_holds_the_function_already():
    assert issues() == ["stale_fence"]  # by way of the table LEASE_RULES
    code = "def stale_fence(command: LeaseCommand, task: TaskRow, moment: Moment):\n return None"
    planting.plant(STALE, code)
    assert issues() == []


@pytest.mark.usefixtures("restored")
def test_a_method_and_a_class_method_are_exchanged_with_their_defaults():
    planting.plant(ROOT, "class Frontier:\n def root(self, more=3):\n  return more + HASH_BYTES")
    assert Frontier().root() == 35
    planting.plant(AT, "class Frontier:\n def at(cls, size, nodes):\n  return cls, size")
    assert Frontier.at(7, None) == (Frontier, 7)


def test_the_statement_that_a_line_belongs_to_is_its_own_and_not_what_stands_around_it():
    text = """
class K:
    def f(self, a=1,
          b=2):
        "says"
        if (a and
                b):
            return g(
                a,
            )
        for each in a:
            b += each
        return b
"""
    function = mutated.named(ast.parse(text))["K", "f"]
    lines = [mutated.statement(function, below) for below in range(11)]
    head, call = (6, 7), (8, 10)
    assert lines == [(5, 13), (5, 13), (5, 5), head, head, call, call, call, (11, 11), (12, 12),
                     (13, 13)]  # fmt: skip


# --- the verdict ------------------------------------------------------------------------------


def some(number, change="rules.x: a => b"):
    return Mutant(f"fencepost.rules.x__mutmut_{number}", change, False, "", "", (1, 1))


def judged(killed, lived=0, same=0, failing=()):
    drawn = [some(number) for number in range(killed + lived)]
    drawn += [some(9_000 + number, next(iter(SAME))) for number in range(same)]
    told = [sampling.Told(mutant.name, "killed", "t", 0.1) for mutant in drawn[:killed]]
    told += [sampling.Told(mutant.name, "survived", "", 1.0) for mutant in drawn[killed:]]
    told += [sampling.Told("", sampling.FAILED, test, 0) for test in failing]
    made = [*drawn, some(8_000)._replace(wording=True)]
    return sampling.verdict(made, drawn, told)


def test_a_sample_says_of_all_mutants_no_more_than_it_can():
    assert sampling.at_least(0, 0) == 0.0
    assert sampling.at_least(48, 52) == pytest.approx(0.839, abs=0.001)
    assert sampling.at_least(600, 600) == pytest.approx(0.9955, abs=0.0001)
    assert sampling.at_least(100, 100) > 0.95 > sampling.at_least(50, 50)
    assert sampling.at_least(980, 1_000) > sampling.at_least(98, 100)


@pytest.mark.parametrize(
    ("killed", "lived", "passes"),
    [(600, 0, True), (590, 10, True), (575, 25, False), (40, 0, False), (0, 0, False)],
)
def test_a_part_passes_only_if_ninety_five_of_a_hundred_are_surely_noticed(killed, lived, passes):
    told = judged(killed, lived)
    assert (told["failures"] == []) is passes
    assert (told["mutants"], told["tried"]) == (killed + lived + 1, killed + lived)
    assert told["only_words"] == 1
    assert (told["killed"], told["lived"]) == (killed, lived)


def test_a_mutant_known_to_be_the_same_counts_apart_and_each_other_one_is_named():
    told = judged(600, 2, same=3)
    assert (told["tried"], told["killed"], told["lived"]) == (605, 600, 2)
    assert told["known_to_be_the_same"] == 3
    assert told["noted"] == [
        {"name": "lives: rules.x: a => b",
         "replay": f"FENCEPOST_MUTANT=fencepost.rules.x__mutmut_{number} "
         "python3 tests/torture.py --only mutants --no-ledger"}
        for number in (600, 601)
    ]  # fmt: skip


def test_a_test_that_fails_without_any_mutant_is_a_failure_and_notices_nothing():
    told = judged(600, failing=["tests/test_x.py::test_y"])
    assert (told["tried"], told["killed"]) == (600, 600)
    assert told["failures"] == [{"name": "tests/test_x.py::test_y fails without any mutant"}]
