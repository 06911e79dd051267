"""Every law of the product, and every guard, on PostgreSQL as on SQLite."""

from __future__ import annotations

import helpers.laws_destinations
import helpers.laws_owing
import helpers.laws_people
import helpers.laws_purge
import helpers.laws_remarks
import helpers.laws_tokens
import helpers.laws_work  # noqa: F401
import pytest
from helpers.guards import CASES, attempt
from helpers.laws import LAWS
from helpers.pg_stand import PgStand

pytestmark = pytest.mark.usefixtures("quiet")


@pytest.mark.parametrize("name", LAWS)
def test_each_law_holds(name):
    LAWS[name](PgStand)


COUNTED = "numbers come from sequences there, and no row counts them"
HELD = "the store's row is held from the load to the commit: nobody can have changed it"
NOT_THERE = {
    "a fence that another has drawn": COUNTED,
    "an entry that another has written": COUNTED,
    "a last fence above 10^15 - 1": COUNTED,
    "a last fence that goes back": COUNTED,
    "an entry number that goes back": COUNTED,
    "numbers under another writer": HELD,
    "numbers of an older epoch": HELD,
}


def test_what_is_guarded_on_sqlite_alone_is_named_with_its_reason():
    assert set(NOT_THERE) < set(CASES)


@pytest.mark.parametrize("name", [name for name in CASES if name not in NOT_THERE])
def test_what_no_rule_would_write_is_refused_by_sql_and_undone(name):
    attempt(name, PgStand)
