"""Every statement of a transaction that writes finds its rows by the intended index, whatever the
planner was told: of a store that was never analysed, was analysed while it was empty or while all
its rows were dead, or is analysed; by the plan that a prepared statement keeps, also where that was
made while the store was empty, and by one made for the parameters. No such plan walks a table.
"""

from __future__ import annotations

import pytest
from helpers.pg_plans import plan, searches, states, walks

from fencepost.storage import sqltext
from fencepost.storage.postgres import talk

POSTGRES = "fencepost.storage.postgres"
PLACE = "fencepost_task_place ((queue_id = ?) AND (place = "
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
    "result_entry": ["(task = ?)"],
    "commitment": ["(task = ?)"],
    "promote_due": [PLACE + "1) AND (rank >= ?) AND (rank <= ?))"],
    "ready_tasks": [PLACE + "0))"],
    "ready_tasks_above": [PLACE + "0) AND (rank < ?))"],
    "ready_tasks_from": [PLACE + "0) AND (ROW(rank, id) >= ROW(?, ?)))"],
    "lapsed_tasks": [PLACE + "2) AND (rank >= ?) AND (rank <= ?))"],
    "ended_tasks": ["fencepost_task_place ((queue_id = ?) AND (place >= 0) AND (place = ?) AND (",
                    "fencepost_unsealed_pkey (number = t.entry)"],
    "obligations_of": ["fencepost_task_parent (parent = ?)", "fencepost_queue_pkey (id = "],
    "update_task": ["fencepost_task_pkey (id = v.id)"],
    "close_commitment": ["(task = v.task)"],
    "keys_of_task": ["fencepost_entry_pkey (number = ", "fencepost_entry_task (task = ?)",
                     "fencepost_naming_pkey (task = ?)"],
    "close_openings": ["fencepost_entry_pkey (number = ", "fencepost_entry_task (task = ANY",
                       "fencepost_naming_pkey (task = ANY"],
    "spent_entries": ["fencepost_entry_pkey (number = ANY", "fencepost_task_id (task_id = (named."],
    "drop_bodies": ["fencepost_entry_pkey (number = ", "fencepost_entry_task (task = ANY",
                    "fencepost_task_pkey (id = e.task)", "fencepost_task_parent (parent = e.task)",
                    "fencepost_node_number (number = e.number)"],
    "destinations_by_queue": ["fencepost_destination_pkey (queue_id = ", "fencepost_queue_pkey ("],
    "destinations_held": ["fencepost_destination_pkey (queue_id = ", "fencepost_queue_pkey (id = "],
    "update_destination": ["fencepost_destination_pkey (queue_id = v.queue_id)"],
    "delete_task": ["fencepost_task_pkey (id = v.id)"],
    "unsealed": ["fencepost_entry_pkey (number = "],
    "node": ["fencepost_node_pkey ((level = ?) AND (\"position\" = ?))"],
    "insert_node": ["fencepost_unsealed_pkey (number = ANY"],
}  # fmt: skip
# The sealer's statements stand among the reading ones, and run in a transaction that writes.
SEALING = {"unsealed", "unsealed_count", "tree_size", "node", "insert_node", "last_checkpoint",
           "insert_checkpoint"}  # fmt: skip
# Walks that are meant: of which table, with their bound.
WALKS = {
    "any_tombstone": ("tombstone", "one row: is there any tombstone at all"),
    "unbury": ("tombstone", "a purge drops those that are over; it is no command of a worker"),
    "unsealed": ("unsealed", "in order of number, as many as are sealed at once"),
    "unsealed_count": ("unsealed", "what waits for the sealer, who is never far behind"),
    "last_checkpoint": ("checkpoint", "backwards along the primary key, one row"),
    "end_leases": ("task", "all leases, when the clock was set back"),
    "wait_again": ("task", "all ready tasks, when the clock was set back"),
    "destinations_of_scope": ("destination", "those of a scope, which are few, once in a while"),
    "stop_destinations": ("destination", "all of them, where another writer was recognised"),
    "revoke_token": ("token", "the tokens, which are few, once in a while"),
}
FILES = ("queries.sql", "destinations.sql", "writes.sql", "forget.sql")
LOCKING = {"store_shared", "raise_mark", "ready_tasks_above", "ready_tasks_from"}


def written():
    """The statements that a transaction that writes may run, as far as they have a plan."""
    names = sqltext.statements(POSTGRES, *FILES)
    planned = ("select", "insert", "update", "delete", "with")
    return [name for name in (*names, *SEALING, *LOCKING)
            if talk.STATEMENTS[name].startswith(planned)]  # fmt: skip


# Statements as they were once.
BENT = {
    # an erasure went through the whole journal
    "keys_of_task": "select number, key from fencepost_entry where key is not null and (task = "
    "%(task)s or number = %(created_entry)s or number in (select entry from fencepost_naming "
    "where task = %(task)s))",
    # and completions, claims and the sealer did, as long as the planner took tables for empty
    "update_task": "update fencepost_task t set place = v.place from unnest(%(c2)s::smallint[], "
    "%(c17)s::bigint[]) v (place, id) where t.id = v.id",
    "close_commitment": "update fencepost_result r set commitment = 'none' from unnest("
    "%(c2)s::bigint[], %(c3)s::bigint[]) v (task, revision) where r.task = v.task and "
    "r.revision = v.revision",
    "tasks_by_key": "select * from fencepost_task where key is not null and id = any(array(select ("
    "select id from fencepost_task where queue_id = j.queue_id and key = j.key and key is not null)"
    " from unnest(%(keys_1)s::bigint[], %(keys_2)s::text[]) j (queue_id, key))) order by task_id",
    "unsealed": "select u.number, e.body from (select number from fencepost_unsealed order by "
    "number limit %(limit)s) u left join fencepost_entry e on e.number = u.number order by 1",
}


@pytest.fixture(scope="module")
def seen():
    """(what the planner knows, whether the plan is kept, statement) → its nodes, as it is and, for
    some statements, as it was."""
    plans, bent = {}, {}
    for state, connection in states():
        for kept in (True, False):
            for name in written():
                plans[state, kept, name] = plan(connection, name, kept=kept)
            for name, sql in BENT.items():
                bent[state, kept, name] = plan(connection, name, kept=kept, bent=sql)
    return plans, bent


@pytest.fixture
def plans(seen):
    return seen[0]


def unintended(plans):
    """Each search that is not made."""
    return [
        (*key, part, searches(found))
        for key, found in plans.items()
        for part in INTENDED.get(key[-1], ())
        if not any(part in step for step in searches(found))
    ]


def walked(plans):
    """Each walk that is not meant."""
    meant = {(name, f"fencepost_{table}") for name, (table, _) in WALKS.items()}
    meant |= {("store", f"fencepost_{name}_number") for name in ("fence", "task", "entry")}
    meant |= {("update_store", "fencepost_fence_number")}
    return [
        (*key, walk)
        for key, found in plans.items()
        for walk in walks(found)
        if (key[-1], walk.split()[-1]) not in meant
    ]


def test_each_statement_finds_its_rows_by_the_intended_index(plans):
    assert unintended(plans) == []


def test_no_statement_walks_a_table_but_those_that_are_meant_to(plans):
    assert walked(plans) == []


def test_claims_need_no_sorting(plans):
    for (*state, name), found in plans.items():
        if name.startswith("ready_tasks") or name in ("lapsed_tasks", "ended_tasks", "promote_due"):
            assert not any("Sort" in node["Node Type"] for node in found), (state, name)


def test_every_statement_that_is_intended_or_meant_to_walk_is_looked_at(plans):
    assert set(INTENDED) | set(WALKS) <= {name for *_, name in plans}
    assert len({state for state, *_ in plans}) == 8


def test_statements_as_they_were_once_are_seen_to_walk(seen):
    _, bent = seen
    assert {name for *_, name, _ in walked(bent)} == set(BENT)


def test_an_index_that_is_searched_without_its_first_column_is_a_walk():
    node = {"Node Type": "Index Scan", "Relation Name": "fencepost_task", "Leads": "queue_id",
            "Index Name": "fencepost_task_place", "Index Cond": "(id = v.id)"}  # fmt: skip
    assert walks([node]) == ["Index Scan of fencepost_task"]
    assert walks([node | {"Index Cond": "((queue_id = $1) AND (id = v.id))"}]) == []
    assert walks([node | {"Index Cond": "(ROW(queue_id, id) >= ROW($1, $2))"}]) == []
