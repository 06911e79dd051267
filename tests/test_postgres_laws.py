"""Every law of the product, and every guard, on PostgreSQL as on SQLite."""

from __future__ import annotations

import logging

import helpers.laws_people
import helpers.laws_purge
import helpers.laws_remarks
import helpers.laws_tokens
import helpers.laws_work  # noqa: F401
import pytest
from helpers.guards import CASES, attempt
from helpers.laws import LAWS
from helpers.pg_stand import PgStand


@pytest.fixture(autouse=True)
def _quiet():
    """Guards that trip are logged with their trace."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", LAWS)
def test_each_law_holds(name):
    LAWS[name](PgStand)


@pytest.mark.parametrize("name", CASES)
def test_what_no_rule_would_write_is_refused_by_sql_and_undone(name):
    attempt(name, PgStand)
