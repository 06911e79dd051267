"""Two queues, written apart from one another from one contract: told the same, they say the same.

The product and the kit's reference get the same bytes at the same times and draw the same chance.
What they answer must be equal to the byte: status, issues, facts, leases, receipts; and so must
what they hold.
"""

from __future__ import annotations

import logging
from collections import Counter

import pytest
from helpers.chronicle import Chronicle, Forgetful, caller
from helpers.differential import Differs, Pair

from fencepost.conformance import reference_parts
from fencepost.conformance.broken import BROKEN
from fencepost.conformance.reference_bytes import VERBS
from fencepost.conformance.reference_parts import BLOCKED, CODES
from fencepost.conformance.sqlite_reference import Reference
from fencepost.issues import ISSUES
from fencepost.machine.batch import Batch

HISTORIES, STEPS = 320, 40
# Nobody is unauthenticated, no store is read-only and nothing is delivered here.
ELSEWHERE = {"unauthenticated", "store_read_only", "stale_sequence"}
# What only a failure of the store shows, and no history of commands.
NEEDS_A_FAULT = {"receipt-outside-the-transaction"}


@pytest.fixture(autouse=True)
def _quiet(caplog):
    """The histories set clocks back, and the store says so each time."""
    caplog.set_level(logging.ERROR, "fencepost.clock")


def live(
    seed: int, reference: type[Reference] = Reference, kind: type[Chronicle] = Chronicle
) -> Counter[str]:
    """One history told to both; what was answered how often. Raises Differs."""
    pair = Pair(reference)
    try:
        history = kind(pair, seed)
        for number in range(STEPS):
            history.step()
            if number % 10 == 9:
                pair.compare(caller())
        pair.compare(caller(scope="t"))
        return history.seen
    finally:
        pair.close()


@pytest.mark.parametrize("part", range(8))
def test_product_and_reference_answer_alike_to_the_byte(part):
    seen: Counter[str] = Counter()
    for seed in range(part, HISTORIES, 8):
        try:
            seen += live(seed)
        except Differs as difference:
            pytest.fail(f"seed {seed}\n{difference}")
    assert seen["accepted"] > 400 and seen["replayed"] > 20, seen
    assert len({*seen} & set(CODES)) > 15, seen


def test_the_histories_meet_every_verb_and_every_refusal():
    seen: Counter[str] = Counter()
    for seed in range(1000, 1060):
        seen += live(seed)
    assert {f"verb {verb}" for verb in VERBS} <= {*seen}
    assert set(CODES) - ELSEWHERE <= {*seen}, set(CODES) - ELSEWHERE - {*seen}


@pytest.mark.parametrize("name", sorted(set(BROKEN) - NEEDS_A_FAULT))
def test_a_history_finds_each_broken_queue(name):
    with pytest.raises(Differs):
        sum((live(seed, BROKEN[name]) for seed in range(120)), Counter())


@pytest.mark.parametrize("plant", ["remark", "unremark"])
def test_a_history_finds_a_product_that_keeps_no_progress_or_keeps_it_too_long(plant, monkeypatch):
    monkeypatch.setattr(Batch, plant, lambda self, *_: None)
    with pytest.raises(Differs):
        sum((live(seed) for seed in range(60)), Counter())


def test_the_reference_has_the_products_codes_in_their_order():
    assert [code for code, issue in ISSUES.items() if issue.rule] == CODES
    blocked = {code for code, issue in ISSUES.items() if issue.status == "blocked"}
    assert blocked == set(BLOCKED)


def test_what_is_purged_part_by_part_closes_the_same_receipts_in_both():
    seen: Counter[str] = Counter()
    for seed in range(40):
        try:
            seen += live(seed, kind=Forgetful)
        except Differs as difference:
            pytest.fail(f"seed {seed}\n{difference}")
    assert seen["verb purge"] > 100 and seen["replayed"] > 20 and seen["receipt_erased"], seen


HONEST = reference_parts.ending
CLOSED_WRONGLY = {
    "a purged task closes all that speak of it": lambda entry, t, task_of: True,
    "a purged task closes what has brought it about":
        lambda entry, t, task_of: entry.about or not any(map(task_of, entry.speaks_of)),
    "the first of an enqueue's tasks closes it":
        lambda entry, t, task_of: not entry.about or entry.about == t.task_id,
    "an enqueue is never closed": lambda entry, t, task_of: entry.about == t.task_id,
}  # fmt: skip


@pytest.mark.parametrize("name", CLOSED_WRONGLY)
def test_a_history_finds_a_purge_that_closes_too_much_or_too_little(name, monkeypatch):
    def ending(entries, t, task_of):
        if task_of is None:
            return HONEST(entries, t, task_of)
        wrong = CLOSED_WRONGLY[name]
        return [e for e in entries if t.task_id in e.speaks_of and wrong(e, t, task_of)]

    monkeypatch.setattr(reference_parts, "ending", ending)
    with pytest.raises(Differs):
        sum((live(seed, kind=Forgetful) for seed in range(40)), Counter())
