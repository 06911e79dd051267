-- How the rows of another store are taken up (`copy`): the columns stand in the order of
-- sqlite/leave.sql.

-- name: without_a_past
-- the lineage comes in with the store
delete from fencepost_writer;

-- name: all_writer
copy fencepost_writer (epoch, incarnation, why, system_identifier, timeline, database_oid,
    started_at, recognised_at) from stdin;

-- name: all_scope
copy fencepost_scope (scope, policy_version, revoked, retain_seconds) from stdin;

-- name: all_queue
copy fencepost_queue (id, scope, queue, is_destination, settings) from stdin;

-- name: all_destination
copy fencepost_destination (queue_id, address, class, options, secrets, stopped, sequence, head,
    heard, announced) from stdin;

-- name: all_token
copy fencepost_token (token_id, sha256, scope, kind, actor, queues, created_at, expires_at,
    revoked_at) from stdin;

-- name: all_task
copy fencepost_task (id, task_id, queue_id, key, state, place, rank, priority, due_at, attempt,
    max_attempts, round, revision, fence, epoch, policy_version, worker_id, granted_at,
    lease_expires_at, created_at, changed_at, content, created_entry, entry, parent, reason,
    erased) from stdin;

-- name: all_payload
copy fencepost_payload (task, salt, body) from stdin;

-- name: all_remark
copy fencepost_remark (task, progress, log) from stdin;

-- name: all_result
copy fencepost_result (task, revision, round, sha256, entry, commitment, body) from stdin;

-- name: all_entry
copy fencepost_entry (number, key, task, request_id, body, salt, request_sha256, result_sha256)
from stdin;

-- name: all_unsealed
copy fencepost_unsealed (number) from stdin;

-- name: all_naming
copy fencepost_naming (task, entry) from stdin;

-- name: all_node
copy fencepost_node (level, position, hash, number) from stdin;

-- name: all_checkpoint
copy fencepost_checkpoint (size, sealed_at, body) from stdin;

-- name: all_refused
copy fencepost_refused (id, queue_id, task, worker_id, fence, refused_at, issues, sha256, body)
from stdin;

-- name: all_tombstone
copy fencepost_tombstone (lookup, expires_at) from stdin;

-- name: anything_there
-- whether a store has ever been used
select exists (select 1 from fencepost_entry) or exists (select 1 from fencepost_task)
    or exists (select 1 from fencepost_token) or exists (select 1 from fencepost_queue)
    or exists (select 1 from fencepost_scope) or exists (select 1 from fencepost_tombstone)
    or exists (select 1 from fencepost_node)
from fencepost_store where id = 1 for update;

-- name: become
-- the other store, in a new epoch that is also the floor: whoever holds a lease of before has lost it
update fencepost_store
set writer_id = %(writer_id)s, epoch = %(epoch)s, floor = %(epoch)s, mark = %(mark)s,
    created_at = %(created_at)s, secret = %(secret)s, incarnation = %(incarnation)s
where id = 1;

-- name: go_on_with_numbers
select setval('fencepost_fence_number', greatest(%(fence)s, 1), true),
    setval('fencepost_task_number', greatest(%(task)s, 1), %(task)s > 0),
    setval('fencepost_entry_number', greatest(%(entry)s, 1), %(entry)s > 0),
    setval('fencepost_queue_number', (select coalesce(max(id), 0) from fencepost_queue) + 1000),
    setval(pg_get_serial_sequence('fencepost_refused', 'id'),
        (select coalesce(max(id), 0) from fencepost_refused) + 1, false);

-- name: learn
-- the planner knows nothing yet of what came in
analyze fencepost_task, fencepost_payload, fencepost_result, fencepost_entry, fencepost_node,
    fencepost_naming, fencepost_queue;
