"""Two queues, written apart from one another from one contract: told the same, they say the same.

The product and the kit's reference get the same bytes at the same times and draw the same chance.
What they answer must be equal to the byte: status, issues, facts, leases, receipts; and so must
what they hold.
"""

from __future__ import annotations

import logging
from collections import Counter

import pytest
from helpers.chronicle import Chronicle, caller
from helpers.differential import Differs, Pair

from fencepost.conformance.broken import BROKEN
from fencepost.conformance.reference_bytes import VERBS
from fencepost.conformance.reference_parts import BLOCKED, CODES
from fencepost.conformance.sqlite_reference import Reference
from fencepost.issues import ISSUES

HISTORIES, STEPS = 320, 40
# Nobody is unauthenticated and no store is read-only here.
ELSEWHERE = {"unauthenticated", "store_read_only"}
# What only a failure of the store shows, and no history of commands.
NEEDS_A_FAULT = {"receipt-outside-the-transaction"}


@pytest.fixture(autouse=True)
def _quiet(caplog):
    """The histories set clocks back, and the store says so each time."""
    caplog.set_level(logging.ERROR, "fencepost.clock")


def live(seed: int, reference: type[Reference] = Reference) -> Counter[str]:
    """One history told to both; what was answered how often. Raises Differs."""
    pair = Pair(reference)
    try:
        history = Chronicle(pair, seed)
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


def test_the_reference_has_the_products_codes_in_their_order():
    assert [code for code, issue in ISSUES.items() if issue.rule] == CODES
    blocked = {code for code, issue in ISSUES.items() if issue.status == "blocked"}
    assert blocked == set(BLOCKED)
