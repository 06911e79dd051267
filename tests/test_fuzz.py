"""Bytes that nobody meant: each reader answers with a value or its own refusal, and in time.

The same targets are fed by atheris in `python3 tests/torture.py --only fuzz`.
"""

from __future__ import annotations

import random

import pytest
from helpers.fuzzing import TARGETS, attempt
from helpers.mutating import Mutator

SEED = 20_260_101
TRIES = {"json_reader": 6_000, "command_reader": 5_000, "entry_reader": 8_000,
         "journal_fold": 2_000, "checkpoint_reader": 6_000, "proof_reader": 5_000}  # fmt: skip
PLANTED = [(name, bug) for name, target in TARGETS.items() for bug in target.planted]
LONG = 300_000


def mutants(name, seed, tries):
    made = Mutator(TARGETS[name].seeds(), random.Random(f"{name} {seed}"))
    return (made.one() for _ in range(tries))


def first_failure(name, seed, tries):
    """The first mutant that breaks a law, and how; None if none does."""
    for raw in mutants(name, seed, tries):
        try:
            attempt(TARGETS[name], raw)
        except Exception as error:  # noqa: BLE001  whatever it is, a reader must not let it out
            return raw, error
    return None


@pytest.mark.parametrize("name", TARGETS)
def test_good_inputs_are_accepted(name):
    seeds = TARGETS[name].seeds()
    assert len(seeds) >= 2
    assert all(attempt(TARGETS[name], raw) for raw in seeds)


@pytest.mark.parametrize("name", TARGETS)
def test_a_reader_answers_any_bytes_with_a_value_or_its_refusal(name):
    print(f"seed {SEED}")
    assert first_failure(name, SEED, TRIES[name]) is None


@pytest.mark.parametrize("name", TARGETS)
def test_some_mutants_are_accepted_and_some_refused(name):
    """A fuzzer whose every mutant fell at the first check would show little."""
    said = [attempt(TARGETS[name], raw) for raw in mutants(name, SEED, TRIES[name] // 4)]
    assert 0.01 < sum(said) / len(said) < 0.99


@pytest.mark.parametrize(("name", "bug"), PLANTED, ids=[bug.name for _, bug in PLANTED])
def test_a_planted_bug_is_found(name, bug, monkeypatch):
    bug.plant(monkeypatch)
    assert first_failure(name, SEED, 5 * TRIES[name]) is not None


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("whole", [True, False], ids=["whole", "cut"])
def test_a_long_input_takes_no_more_than_its_length_allows(name, whole):
    for head, piece, tail in TARGETS[name].grown:
        raw = head + piece * (LONG // len(piece)) + (tail if whole else b"")
        attempt(TARGETS[name], raw)
