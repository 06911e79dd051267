"""Real faults of queues, leases, outboxes and their stores, by number: where each is tried.

The numbers are those of the collection that the project was given (they have gaps). What cannot
be tried yet names the later subject that it belongs to, and why; a number may have both.
"""

from __future__ import annotations

import pytest
from faults_map import RARE, SURE
from faults_map_likely import LIKELY
from helpers.nodeids import missing
from seed_map import SUBJECTS

FAULTS = {**SURE, **LIKELY, **RARE}

NUMBERS = [
    3, 4, 6, 9, 11, 13, 14, 17, 19, 20, 22, 24, 26, 28, 30, 31, 33, 35, 37, 38, 39, 41, 43, 45, 48,
    50, 52, 54, 56, 58, 60, 62, 64, 66, 68, 70, 72, 74, 76, 78, 80, 82, 84, 86, 88, 90, 92, 94, 96,
    98, 100, 102, 106, 108, 110, 112, 114, 116, 118, 120, 122, 124,
]  # fmt: skip


def test_every_fault_of_the_collection_has_its_place():
    assert list(FAULTS) == NUMBERS


@pytest.mark.parametrize("number", NUMBERS)
def test_a_fault_is_held_by_tests_that_exist_or_by_a_named_later_subject(number):
    _, tests, later = FAULTS[number]
    assert tests or later
    assert missing(list(tests)) == []
    assert set(later) <= set(SUBJECTS) - {"statement"} and all(later.values())
