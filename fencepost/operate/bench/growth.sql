-- Multiplies one done task of the product's (:task, with its entry) into many, from :first to
-- :last, straight in the tables: a store as it is after millions of tasks, within seconds. Ids
-- rise with the rows, as time-ordered ids do. The tree's hashes are not real, so `verify` would
-- rightly complain of such a store; it is measured and thrown away.

-- name: template
select max(t.id), max(t.entry) from fencepost_task t where t.state = 'done';

-- name: many_tasks
insert into fencepost_task (
    id, task_id, queue_id, key, state, place, rank, priority, due_at, attempt, max_attempts, round,
    revision, fence, epoch, policy_version, worker_id, granted_at, lease_expires_at, created_at,
    changed_at, content, created_entry, entry, parent, reason, erased)
with recursive series (n) as (select :first union all select n + 1 from series where n < :last)
select n, printf('%08x-%04x-7%03x-8000-%012x', n >> 16, n & 65535, n & 4095, n),
    queue_id, key, state, place, rank + n, priority, due_at, attempt, max_attempts, round,
    revision, fence, epoch, policy_version, worker_id, granted_at, lease_expires_at, created_at,
    changed_at + n, content, created_entry, entry + n, parent, reason, erased
from series, (select * from fencepost_task where id = :task);

-- name: many_payloads
insert into fencepost_payload (task, salt, body)
with recursive series (n) as (select :first union all select n + 1 from series where n < :last)
select n, salt, body from series, (select * from fencepost_payload where task = :task);

-- name: many_results
insert into fencepost_result (task, revision, round, sha256, entry, commitment, body)
with recursive series (n) as (select :first union all select n + 1 from series where n < :last)
select n, revision, round, sha256, entry + n, commitment, body
from series, (select * from fencepost_result where task = :task);

-- name: many_entries
insert into fencepost_entry
    (number, key, task, request_id, body, salt, request_sha256, result_sha256)
with recursive series (n) as (select :first union all select n + 1 from series where n < :last)
select n, null, n, request_id + n, body, salt, request_sha256, result_sha256
from series, (select * from fencepost_entry where number = :entry);

-- name: many_nodes
insert or ignore into fencepost_node (level, position, hash)
with recursive series (n) as (select 0 union all select n + 1 from series where n < :last - 1)
select 0, n, zeroblob(32) from series;

-- name: one_node
insert or ignore into fencepost_node (level, position, hash)
values (:level, :position, zeroblob(32));

-- name: count_up
update fencepost_store set last_task = :last, last_entry = :last, last_fence = :last where id = 1;

-- name: begin
begin immediate;

-- name: commit
commit;
