"""What goes wrong while a schema is written is told as it is, not as a failure to undo it."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing

import pytest
from helpers.lab import START

from fencepost.storage.sqlite import schema


class Interrupted(sqlite3.Connection):
    """Ctrl-C arrives while SQLite runs the statement, and Python hears it after it."""

    at = "^$"  # no statement

    def execute(self, sql, *values):
        done = super().execute(sql, *values)
        if re.search(self.at, sql):
            raise KeyboardInterrupt
        return done


@pytest.fixture
def connection():
    with closing(
        sqlite3.connect(":memory:", isolation_level=None, factory=Interrupted)
    ) as connection:
        yield connection


@pytest.mark.parametrize(
    ("at", "made"), [(r"create table fencepost_task\b", False), ("^commit$", True)]
)
def test_ctrl_c_while_a_store_is_made_is_ctrl_c_and_leaves_all_of_it_or_nothing(
    connection, at, made
):
    connection.at = at
    with pytest.raises(KeyboardInterrupt):
        schema.install(connection, START)
    assert not connection.in_transaction
    assert schema.is_store(connection) is made
    assert schema.is_empty(connection) is not made


def test_ctrl_c_just_after_an_uninstall_is_ctrl_c(connection):
    schema.install(connection, START)
    connection.at = "^commit$"
    with pytest.raises(KeyboardInterrupt):
        schema.uninstall(connection)
    assert schema.is_empty(connection)


@pytest.mark.parametrize("pages", range(2, 20, 3))
def test_a_disk_that_is_full_is_said_to_be_full(connection, pages):
    connection.execute(f"pragma max_page_count = {pages}")
    with pytest.raises(sqlite3.OperationalError, match="disk is full"):
        schema.install(connection, START)
    assert not connection.in_transaction
    assert schema.is_empty(connection)
