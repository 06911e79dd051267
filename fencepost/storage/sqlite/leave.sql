-- Everything that a store consists of, table by table, as another store takes it up: what `copy`
-- reads, on one snapshot. The columns stand in the order of postgres/arrive.sql.

-- name: all_writer
-- a file is written by no server: nothing is known of one
select epoch, incarnation, why, 0, '', 0, '1970-01-01T00:00:00Z', recognised_at from fencepost_writer;

-- name: all_scope
select scope, policy_version, revoked, retain_seconds from fencepost_scope;

-- name: all_queue
select id, scope, queue, is_destination, settings from fencepost_queue;

-- name: all_destination
select queue_id, address, class, options, secrets, stopped, sequence, head, heard, announced
from fencepost_destination;

-- name: all_token
select token_id, sha256, scope, kind, actor, queues, created_at, expires_at, revoked_at
from fencepost_token;

-- name: all_task
select id, task_id, queue_id, key, state, place, rank, priority, due_at, attempt, max_attempts,
    round, revision, fence, epoch, policy_version, worker_id, granted_at, lease_expires_at,
    created_at, changed_at, content, created_entry, entry, parent, reason, erased
from fencepost_task;

-- name: all_payload
select task, salt, body from fencepost_payload;

-- name: all_remark
select task, progress, log from fencepost_remark;

-- name: all_result
select task, revision, round, sha256, entry, commitment, body from fencepost_result;

-- name: all_entry
select number, key, task, request_id, body, salt, request_sha256, result_sha256
from fencepost_entry;

-- name: all_unsealed
select number from fencepost_entry
where number > (select coalesce(max(position), -1) + 1 from fencepost_node where level = 0);

-- name: all_naming
select task, entry from fencepost_naming;

-- name: all_node
-- here an entry's place in the tree is its number less one
select level, position, hash, case level when 0 then position + 1 end from fencepost_node;

-- name: all_checkpoint
select size, sealed_at, body from fencepost_checkpoint;

-- name: all_refused
select id, queue_id, task, worker_id, fence, refused_at, issues, sha256, body
from fencepost_refused;

-- name: all_tombstone
select lookup, expires_at from fencepost_tombstone;

-- name: number_of_rows
select (select count(*) from fencepost_task) + (select count(*) from fencepost_payload)
    + (select count(*) from fencepost_entry) + (select count(*) from fencepost_node);

-- name: whole_store
select writer_id, epoch, floor, last_fence, last_task, last_entry, mark, created_at, secret
from fencepost_store where id = 1;
