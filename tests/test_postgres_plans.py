"""Every statement of a transaction that writes finds its rows by an index, whatever the planner
knows: on an empty store, on a filled one and on one that is analysed, and with a generic plan,
which a prepared statement keeps. No such plan walks a table.

Not so, and said: where a table was vacuumed while it was empty, the planner takes it for empty and
each way through it for the same, until it is analysed again.
"""

from __future__ import annotations

import psycopg
import pytest
from helpers.pg_plans import plan, searches, stands, walks
from helpers.pg_stand import PgStand

from fencepost.storage import sqltext
from fencepost.storage.postgres import talk

POSTGRES = "fencepost.storage.postgres"
PLACE = "fencepost_task_place ((queue_id = $1) AND (place = "
# statement: what its plan must search by, each of these
INTENDED = {
    "store_shared": ["fencepost_store_pkey"],
    "scopes": ["fencepost_scope_pkey (scope = ANY"],
    "tokens_by_id": ["fencepost_token_pkey (token_id = ANY"],
    "token_by_sha256": ["fencepost_token_sha256 (sha256 ="],
    "queues_by_name": ["fencepost_queue_scope_queue_key ("],
    "queues_by_id": ["fencepost_queue_pkey (id = ANY"],
    "receipts_by_key": ["fencepost_entry_key (key = ANY"],
    "receipts_by_request": ["fencepost_entry_task ((task = j.task) AND (request_id = j."],
    "tombstone": ["fencepost_tombstone_pkey (lookup ="],
    "tasks_by_id": ["fencepost_task_id (task_id = ANY"],
    "tasks_by_key": ["fencepost_task_key ((queue_id = j.queue_id) AND (key = j.key)"],
    "salts": ["fencepost_payload_pkey (task = ANY"],
    "contents": ["fencepost_task_id (task_id = ANY", "fencepost_payload_pkey (task = t.id)",
                 "fencepost_remark_pkey (task = t.id)"],
    "result_entry": ["fencepost_result_once ((task = $1) AND (round = $2) AND (sha256 = $3))"],
    "promote_due": [PLACE + "1) AND (rank <= $2))", "fencepost_task_pkey (id = ANY"],
    "ready_tasks": [PLACE + "0))"],
    "lapsed_tasks": [PLACE + "2) AND (rank <= $2))"],
    "ended_tasks": [PLACE + "$2) AND (rank <= $3))"],
    "obligations_of": ["fencepost_task_parent (parent = $1)", "fencepost_queue_pkey (id = t."],
    "update_task": ["fencepost_task_pkey (id = v.id)"],
    "close_commitment": ["(task = v.task)"],
    "keys_of_task": ["fencepost_entry_pkey (number = ANY", "fencepost_entry_task (task = $1)",
                     "fencepost_naming_pkey (task = $1)"],
    "close_openings": ["fencepost_entry_pkey (number = ANY", "fencepost_entry_task (task = ANY",
                       "fencepost_naming_pkey (task = ANY"],
    "spent_entries": ["fencepost_entry_pkey (number = ANY", "fencepost_task_id (task_id = ANY"],
    "drop_bodies": ["fencepost_entry_pkey (number = ANY", "fencepost_entry_task (task = ANY",
                    "fencepost_task_pkey (id = e.task)", "fencepost_task_parent (parent = e.task)",
                    "fencepost_node_number (number = e.number)"],
    "delete_task": ["fencepost_task_pkey (id = v.id)"],
    "unsealed": ["fencepost_entry_pkey (number = fencepost_unsealed.number)"],
    "node": ["fencepost_node_pkey ((level = $1) AND (\"position\" = $2))"],
    "insert_node": ["fencepost_unsealed_pkey (number = ANY"],
}  # fmt: skip
# The sealer's statements stand among the reading ones, and run in a transaction that writes.
SEALING = {"unsealed", "unsealed_count", "tree_size", "node", "insert_node", "last_checkpoint",
           "insert_checkpoint"}  # fmt: skip
# Walks that are meant, with their bound.
WALKS = {
    "any_tombstone": "one row: is there any tombstone at all",
    "unbury": "a purge drops the tombstones that are over; it is no command of a worker",
    "unsealed": "in order of number, as many as are sealed at once",
    "unsealed_count": "what waits for the sealer, who is never far behind",
    "last_checkpoint": "backwards along the primary key, one row",
    "revoke_token": "the tokens, which are few, once in a while",
}


def written():
    """The statements that a transaction that writes may run, as far as they have a plan."""
    names = sqltext.statements(POSTGRES, "queries.sql", "writes.sql", "forget.sql")
    planned = ("select", "insert", "update", "delete", "with")
    return [name for name in (*names, *SEALING, "store_shared", "raise_mark")
            if talk.STATEMENTS[name].startswith(planned)]  # fmt: skip


@pytest.fixture(scope="module")
def plans():
    """(state, statement) → the nodes of its plan."""
    with stands() as states:
        return {
            (state, name): plan(connection, name)
            for state, connection in states
            for name in written()
        }


def test_each_statement_finds_its_rows_by_the_intended_index(plans):
    for (state, name), found in plans.items():
        for part in INTENDED.get(name, ()):
            assert any(part in step for step in searches(found)), (state, name, searches(found))


def test_no_statement_walks_a_table_but_those_that_are_meant_to(plans):
    sequences = {"fencepost_fence_number", "fencepost_task_number", "fencepost_entry_number"}
    for (state, name), found in plans.items():
        walked = [walk for walk in walks(found) if walk.split()[-1] not in sequences]
        assert name in WALKS or not walked, (state, name, walked)


@pytest.mark.parametrize(
    "name", ["receipts_by_request", "tasks_by_key", "tasks_by_id", "update_task"]
)
def test_a_store_that_was_analysed_before_anything_was_done_is_searched(name):
    """No entry is about a task then, and no task has a key: a batch of completions went through
    all that had come since, each time."""
    with PgStand() as stand, psycopg.connect(stand.url, autocommit=True) as connection:
        stand.fp.enqueue_many("work", ({"payload": n} for n in range(1_000)))
        connection.execute("vacuum analyze")
        assert walks(plan(connection, name)) == []


def test_claims_need_no_sorting(plans):
    for (state, name), found in plans.items():
        if name in ("ready_tasks", "lapsed_tasks", "ended_tasks", "promote_due"):
            assert not any("Sort" in node["Node Type"] for node in found), (state, name)


def test_every_statement_that_is_intended_or_meant_to_walk_is_looked_at(plans):
    seen = {name for _, name in plans}
    assert set(INTENDED) | set(WALKS) <= seen


def test_an_or_in_the_place_of_an_index_is_seen_as_a_walk(monkeypatch):
    """As an erasure was written once: it went through the whole journal."""
    bent = (
        "select number, key from fencepost_entry where key is not null and (task = %(task)s "
        "or number = %(created_entry)s or number in "
        "(select entry from fencepost_naming where task = %(task)s))"
    )
    monkeypatch.setitem(talk._KNOWN, "keys_of_task", talk._statement("keys_of_task", bent))
    with stands() as states:
        for _, connection in states:
            assert walks(plan(connection, "keys_of_task")) == ["Index Scan of fencepost_entry"]
