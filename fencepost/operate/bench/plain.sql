-- The queue as one writes it in an afternoon, in the product's own tables: a statement for each
-- step, a commit for each command. Rows are inserted with the product's own statements.

-- name: begin
begin immediate;

-- name: commit
commit;

-- name: create_limit
create table bench_limit (id integer primary key, n integer not null) strict;

-- name: insert_limit
insert into bench_limit (n) values (?);

-- name: version
select sqlite_version();

-- name: queue_id
select id from fencepost_queue where queue = ?;

-- name: numbers
select last_fence, last_task, last_entry, writer_id from fencepost_store where id = 1;

-- name: count_up
update fencepost_store set last_fence = ?, last_task = ?, last_entry = ?, mark = ? where id = 1;

-- name: first_ready
select id, task_id from fencepost_task indexed by fencepost_task_place
where queue_id = ? and place = 0 order by rank, id limit 1;

-- name: lease
update fencepost_task
set state = 'leased', place = 2, rank = ?, fence = ?, worker_id = ?, attempt = attempt + 1,
    granted_at = ?, lease_expires_at = ?, changed_at = ?, entry = ?
where id = ?;

-- name: find
select id, state, worker_id, fence, lease_expires_at, revision, round
from fencepost_task where task_id = ?;

-- name: finish
update fencepost_task
set state = 'done', place = 4, rank = ?, revision = revision + 1, changed_at = ?, entry = ?
where id = ? and fence = ?;

-- name: insert_task
insert into fencepost_task (
    id, task_id, queue_id, key, state, place, rank, priority, due_at, attempt, max_attempts, round,
    revision, fence, epoch, policy_version, worker_id, granted_at, lease_expires_at, created_at,
    changed_at, content, created_entry, entry, parent, reason, erased)
values (:id, :task_id, :queue, null, 'ready', 0, 0, 0, :now, 0, 5, 1,
    0, 0, 0, 0, null, 0, 0, :now,
    :now, :content, :entry, :entry, :parent, null, 0);

-- name: entry_rows
select * from fencepost_entry where number > ? order by number;

-- name: changed_rows
select task_id from fencepost_task where created_entry <= ? and entry > ? order by id;

-- name: new_rows
select id, task_id, queue_id, key, place, rank, priority, due_at, max_attempts, created_at,
    created_at, content, created_entry, created_entry, parent
from fencepost_task where created_entry > ? order by id;

-- name: new_payloads
select p.* from fencepost_payload p join fencepost_task t on t.id = p.task
where t.created_entry > ? order by p.task;

-- name: new_results
select task, revision, round, sha256, entry, body from fencepost_result
where entry > ? order by entry;
