"""The whole suite with its stands on PostgreSQL: FENCEPOST_TEST_STAND=postgres.

`tests/test_postgres_*.py` hold what each run must hold; this puts every other test that has a
`Stand` to the other back end too, which takes minutes. What is left out has its reason here.
"""

from __future__ import annotations

import os
from typing import Any

from helpers import stand

VARIABLE = "FENCEPOST_TEST_STAND"
COUNTED = "numbers have gaps there"
TREE = "there a leaf says which entry it is of, and without it the entry is lost too"
SQLITE = "it speaks to SQLite itself"
LEFT_OUT = {
    "test_guards": "tests/test_postgres_laws.py has them, and says which are not there",
    "test_mutants": "its faults are planted in SQLite's statements",
    "test_plans": SQLITE,
    "test_a_batch_ends_as_its_commands_one_by_one": COUNTED,
    "test_a_task_can_be_claimed_again_exactly_when_its_lease_has_ended": COUNTED,
    "test_an_epoch_whose_fences_are_used_up_is_followed": COUNTED,
    "test_a_batch_leaves_the_stores_row_as_its_commands_have_moved_it": COUNTED,
    "test_a_gap_in_the_entries_is_named_number_by_number": COUNTED,
    "test_a_missing_node_is_one_problem_and_the_rest_are_still_read[0": TREE,
    "test_where_the_tree_is_longer_than_the_journal_no_root_is_made_up": TREE,
    "test_a_result_belongs_to_the_round_that_its_task_was_in": SQLITE,
    "test_the_first_entry_is_read_as_strictly_as_any_other": SQLITE,
}


def asked() -> bool:
    """Whether this run is to be on PostgreSQL."""
    return os.environ.get(VARIABLE) == "postgres"


def replace() -> None:
    """From here on whoever imports a Stand gets one on PostgreSQL."""
    from helpers.pg_stand import PgStand

    stand.Stand = PgStand  # type: ignore[misc]


def left_out(items: list[Any]) -> list[Any]:
    """Of these tests those that cannot be put to PostgreSQL."""
    return [item for item in items if any(part in item.nodeid for part in LEFT_OUT)]
