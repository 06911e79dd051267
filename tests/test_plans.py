"""Every statement of the hot path finds its rows by the index that is meant for it: on an empty
store, on a filled one and on one that knows its statistics. No plan walks a table."""

from __future__ import annotations

import re

import pytest
from helpers.plans import fill, parameters, plan
from helpers.stand import Stand

from fencepost import commands as c
from fencepost.storage import sqltext
from fencepost.storage.sqlite.driver import STATEMENTS

HOT = sqltext.statements("fencepost.storage.sqlite", "queries.sql", "writes.sql", "forget.sql",
                         "destinations.sql")  # fmt: skip
ROW, PLACE = "INTEGER PRIMARY KEY (rowid=?)", "fencepost_task_place"
# statement: what its plan must name, each of these
INTENDED = {
    "store": [ROW],
    "store_about": [ROW],
    "update_store": [ROW],
    "scopes": ["PRIMARY KEY (scope=?)"],
    "token_by_sha256": ["fencepost_token_sha256 (sha256=?)"],
    "tokens_by_id": ["PRIMARY KEY (token_id=?)"],
    "revoke_token": ["PRIMARY KEY (token_id=?)"],
    "queues_by_name": ["sqlite_autoindex_fencepost_queue_1 (scope=? AND queue=?)"],
    "queues_by_id": [ROW],
    "queues_of_scope": ["sqlite_autoindex_fencepost_queue_1 (scope=?)"],
    "last_queue": ["SEARCH fencepost_queue"],
    "destinations_of_scope": ["sqlite_autoindex_fencepost_queue_1 (scope=?)", f"d USING {ROW}"],
    "destinations_by_queue": [f"d USING {ROW}", f"q USING {ROW}"],
    "destinations_held": [f"d USING {ROW}", f"q USING {ROW}"],
    "update_destination": [ROW],
    "receipts_by_key": ["fencepost_entry_key (key=?)"],
    "receipts_by_request": ["fencepost_entry_task (task=? AND request_id=?)"],
    "tombstone": ["PRIMARY KEY (lookup=?)"],
    "tasks_by_id": ["fencepost_task_id (task_id=?)"],
    "tasks_by_key": ["fencepost_task_key (queue_id=? AND key=?)"],
    "salts": [ROW],
    "contents": ["fencepost_task_id (task_id=?)", f"p USING {ROW}", f"r USING {ROW}"],
    "result_entry": ["fencepost_result_once (task=? AND round=? AND sha256=?)"],
    "commitment": ["PRIMARY KEY (task=? AND revision=?)"],
    "promote_due": [ROW, f"{PLACE} (queue_id=? AND place=? AND rank>? AND rank<?)"],
    "ready_tasks": [f"{PLACE} (queue_id=? AND place=?)"],
    "lapsed_tasks": [f"{PLACE} (queue_id=? AND place=? AND rank>? AND rank<?)"],
    "ended_tasks": [f"{PLACE} (queue_id=? AND place=? AND rank<?)"],
    "obligations_of": ["fencepost_task_parent (parent=?)", ROW],
    "update_task": [ROW],
    "close_commitment": ["PRIMARY KEY (task=? AND revision=?)"],
    "bound_refused": ["fencepost_refused_queue (queue_id=? AND id<?)"],
    "end_leases": [f"{PLACE} (queue_id=? AND place=?"],
    "wait_again": [f"{PLACE} (queue_id=? AND place=?"],
    "keys_of_task": ["fencepost_entry_task (task=?)", ROW, "fencepost_naming USING PRIMARY KEY"],
    "close_openings": ["fencepost_entry_task (task=?)", ROW, "fencepost_naming USING PRIMARY KEY"],
    "entries_of_tasks": ["fencepost_entry_task (task=?)"],
    "entries_naming": ["n USING PRIMARY KEY (task=?)"],
    "spent_entries": [ROW, "fencepost_task_id (task_id=?)"],
    "close_entry": [ROW],
    "delete_naming": ["PRIMARY KEY (task=?)"],
    "drop_bodies": ["fencepost_entry_task (task=?)", "PRIMARY KEY (level=?)"],
    "delete_payload": [ROW],
    "delete_remark": [ROW],
    "delete_refused": ["sqlite_autoindex_fencepost_refused_1 (task=?)"],
    "forget_results": ["(task=?)"],
    "forget_key": [ROW],
    "delete_results": ["(task=?)"],
    "delete_task": [ROW],
}
NO_PLAN = {"begin", "begin_read", "commit", "rollback"}
INSERTS = {name for name, sql in HOT.items() if re.sub(r"--.*\n", "", sql).startswith("insert")}
# Walks that are meant, with their bound.
WALKS = {
    "any_tombstone": "one row: is there any tombstone at all",
    "scope_names": "the measures of a service name every scope",
    "writers": "whoever asks for the lineage is told all of it",
    "any_token": "one row: has any token ever been made",
    "unbury": "a purge drops the tombstones that are over; it is no command of a worker",
    "last_checkpoint": "backwards along the primary key, one row",
    "stop_destinations": "once, where a store finds itself to be a copy",
    "all_destinations": "verify reads every destination",
    "stray_destinations": "the same",
    "all_queues": "verify reads every queue",
    "all_scopes": "verify reads every scope",
    "all_tokens": "verify reads every token",
    "stray_payloads": "verify reads every payload",
    "stray_remarks": "verify reads every progress and log",
    "stray_refused": "verify reads every late result",
    "lost_entries": "verify reads every entry",
    "lapsed_leases": "doctor goes through every queue",
}


def walks(steps):
    """Steps that go through all rows of a table (a JSON array, a constant, a subquery are none)."""
    none = ("VIRTUAL TABLE", "SCAN (subquery", "SCAN CONSTANT ROW")
    return [s for s in steps if s.startswith("SCAN") and not any(part in s for part in none)]


@pytest.fixture(params=["empty", "filled", "analyzed"])
def connection(request):
    with Stand() as stand:
        if request.param != "empty":
            fill(stand)
        if request.param == "analyzed":
            stand.connection.execute("analyze")
        yield stand.connection


def test_every_statement_of_the_hot_path_has_an_intended_plan():
    assert set(INTENDED) | INSERTS | NO_PLAN | (WALKS.keys() & HOT.keys()) == set(HOT)


def test_each_statement_finds_its_rows_by_the_intended_index(connection):
    for name, parts in INTENDED.items():
        steps = plan(connection, name)
        for part in parts:
            assert any(part in step for step in steps), (name, part, steps)


def test_no_statement_walks_a_table_but_those_that_are_meant_to(connection):
    for name in STATEMENTS:
        if name not in WALKS:
            assert not walks(plan(connection, name)), (name, plan(connection, name))


def test_claims_need_no_sorting(connection):
    for name in ("ready_tasks", "lapsed_tasks", "ended_tasks", "promote_due"):
        assert not any("TEMP B-TREE" in step for step in plan(connection, name)), name


def test_a_claim_reads_the_rows_that_it_takes_whatever_waits_or_is_done_beside_them():
    """Counted in rows that SQLite visits, which no statistics of a planner can hide."""
    with Stand() as stand:
        fill(stand)
        fp = stand.fp
        for part in range(8):
            later = tuple(
                {"payload": n, "priority": 9, "due_at": "2027-01-01T00:00:00Z"} for n in range(250)
            )
            fp.execute([c.Request.of(c.Enqueue("q", later), f"later{part}")])
        # by hand: SQLite calls back after every 50 of its own steps
        steps = [0]
        stand.connection.set_progress_handler(lambda: steps.__setitem__(0, steps[0] + 1), 50)
        rows = stand.connection.execute(
            STATEMENTS["ready_tasks"], {"queue_id": 1, "limit": 1}
        ).fetchall()
        stand.connection.set_progress_handler(None, 0)
        assert len(rows) == 1 and steps[0] <= 2


def test_parameters_are_bound_as_the_driver_binds_them():
    assert parameters("receipts_by_key") == {"keys": '["s local k"]'}
    assert parameters("tasks_by_key") == {"keys": '[[1, "k"]]'}
    assert len(parameters("update_task")) == STATEMENTS["update_task"].count("?")
