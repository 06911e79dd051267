-- What the PostgreSQL phases ask beside the product: a naive queue in the product's own tables, the
-- counts by which a run is checked, and what is set up.

-- name: server_about
select name, setting from pg_settings
where name in ('fsync', 'synchronous_commit', 'full_page_writes', 'server_version',
    'shared_buffers', 'wal_sync_method');

-- name: create_database
create database {database};

-- name: drop_database
drop database if exists {database} with (force);

-- name: settle
vacuum analyze;

-- name: write_out
checkpoint;

-- name: hold_snapshot
begin isolation level repeatable read;

-- name: look
select count(*) from pg_class;

-- name: begin
begin;

-- name: commit
commit;

-- name: queue_id
select id from fencepost_queue where queue = %(queue)s;

-- name: numbers
select nextval('fencepost_task_number'), nextval('fencepost_entry_number');

-- name: lease
update fencepost_task
set state = 'leased', place = 2, rank = %(ends)s, fence = nextval('fencepost_fence_number'),
    worker_id = %(worker)s, attempt = attempt + 1, granted_at = %(now)s,
    lease_expires_at = %(ends)s, changed_at = %(now)s
where id = (
    select id from fencepost_task where queue_id = %(queue)s and place = 0
    order by rank, id limit 1 for update skip locked)
returning id, task_id, fence;

-- name: finish
update fencepost_task
set state = 'done', place = 4, rank = %(now)s, revision = revision + 1, changed_at = %(now)s
where task_id = %(task_id)s and fence = %(fence)s and worker_id = %(worker)s
    and state = 'leased' and lease_expires_at > %(now)s
returning id, revision, round;

-- name: insert_task
insert into fencepost_task (
    id, task_id, queue_id, key, state, place, rank, priority, due_at, attempt, max_attempts, round,
    revision, fence, epoch, policy_version, worker_id, granted_at, lease_expires_at, created_at,
    changed_at, content, created_entry, entry, parent, reason, erased)
values (%(id)s, %(task_id)s, %(queue)s, null, 'ready', 0, 0, 0, %(now)s, 0, 5, 1,
    0, 0, 0, 0, null, 0, 0, %(now)s,
    %(now)s, %(content)s, %(entry)s, %(entry)s, %(parent)s, null, 0);

-- name: insert_payload
insert into fencepost_payload (task, salt, body) values (%(task)s, %(salt)s, %(body)s);

-- name: insert_result
insert into fencepost_result (task, revision, round, sha256, entry, commitment, body)
values (%(task)s, %(revision)s, %(round)s, %(sha256)s, %(entry)s, 'open', %(body)s);

-- name: insert_entry
with written as (
    insert into fencepost_entry
        (number, key, task, request_id, body, salt, request_sha256, result_sha256)
    values (%(number)s, null, %(task)s, %(request_id)s, %(body)s, %(salt)s, %(request_sha256)s,
        %(result_sha256)s)
    returning number
)
insert into fencepost_unsealed (number) select number from written;

-- name: counts
-- tasks of the queue that are done and that are not; results and the tasks that have one; receipts
-- of completions and their tasks; obligations and the tasks that owe one
select
    (select count(*) from fencepost_task where queue_id = %(queue)s and state = 'done'),
    (select count(*) from fencepost_task where queue_id = %(queue)s and state <> 'done'),
    (select count(*) from fencepost_result),
    (select count(distinct task) from fencepost_result),
    (select count(*) from fencepost_entry where task is not null),
    (select count(distinct task) from fencepost_entry where task is not null),
    (select count(*) from fencepost_task where parent is not null and queue_id <> %(queue)s),
    (select count(distinct parent) from fencepost_task where parent is not null);

-- name: last
select (select coalesce(max(id), 0) from fencepost_task),
    (select coalesce(max(number), 0) from fencepost_entry),
    (select max(id) from fencepost_task where state = 'done');

-- name: many_tasks
insert into fencepost_task (
    id, task_id, queue_id, key, state, place, rank, priority, due_at, attempt, max_attempts, round,
    revision, fence, epoch, policy_version, worker_id, granted_at, lease_expires_at, created_at,
    changed_at, content, created_entry, entry, parent, reason, erased)
select n, lpad(to_hex(n), 12, '0') || '-7000-8000-' || lpad(to_hex(n), 12, '0'), queue_id, key,
    state, place, rank + n, priority, due_at, attempt, max_attempts, round, revision, fence, epoch,
    policy_version, worker_id, granted_at, lease_expires_at, created_at, changed_at + n, content,
    n, n, parent, reason, erased
from generate_series(%(first)s::bigint, %(last)s::bigint) n,
    (select * from fencepost_task where id = %(task)s) t;

-- name: many_payloads
insert into fencepost_payload (task, salt, body)
select n, salt, body from generate_series(%(first)s::bigint, %(last)s::bigint) n,
    (select * from fencepost_payload where task = %(task)s) p;

-- name: many_results
insert into fencepost_result (task, revision, round, sha256, entry, commitment, body)
select n, revision, round, sha256, n, commitment, body
from generate_series(%(first)s::bigint, %(last)s::bigint) n,
    (select * from fencepost_result where task = %(task)s) r;

-- name: many_entries
insert into fencepost_entry
    (number, key, task, request_id, body, salt, request_sha256, result_sha256)
select n, null, n, request_id + n, body, salt, request_sha256, result_sha256
from generate_series(%(first)s::bigint, %(last)s::bigint) n,
    (select * from fencepost_entry where task = %(task)s limit 1) e;

-- name: count_up
select setval('fencepost_task_number', %(last)s), setval('fencepost_entry_number', %(last)s),
    setval('fencepost_fence_number', %(last)s);
