-- Every statement of the SQLite store, one named block a question. The PostgreSQL twin has the
-- same names in the same order. A list parameter comes in as a JSON array (json_each); CROSS
-- JOIN … INDEXED BY keeps the lookup a lookup. `?` blocks are written once a row; in them empty
-- text, an empty blob and 0 stand for null (nullif), and a negative revision for "any", since
-- Python's sqlite3 searches an adapter for every None, at 0.7 us each.

-- name: begin
begin immediate;

-- name: begin_read
begin;

-- name: commit
commit;

-- name: rollback
rollback;

-- name: store
select writer_id, epoch, floor, last_fence, last_task, last_entry, mark
from fencepost_store where id = 1;

-- name: store_about
select product, schema_version, created_at, secret from fencepost_store where id = 1;

-- name: update_store
-- guard: nobody else has drawn a number or changed the writer since the load; none goes back
update fencepost_store
set epoch = :epoch, floor = :floor, last_fence = :last_fence, last_task = :last_task,
    last_entry = :last_entry, mark = :mark
where id = 1 and writer_id = :writer_id and epoch = :loaded_epoch
    and last_fence = :loaded_fence and last_entry = :loaded_entry
    and epoch <= :epoch and last_fence <= :last_fence and last_entry <= :last_entry
returning id;

-- name: scopes
select s.scope, s.policy_version, s.revoked, s.retain_seconds
from json_each(:names) j cross join fencepost_scope s on s.scope = j.value;

-- name: write_scope
insert into fencepost_scope (scope, policy_version, revoked, retain_seconds)
values (?, ?, ?, ?)
on conflict (scope) do update set policy_version = excluded.policy_version,
    revoked = excluded.revoked, retain_seconds = excluded.retain_seconds;

-- name: tokens_by_id
select t.token_id, t.scope, t.kind, t.actor, t.queues, t.created_at, t.expires_at, t.revoked_at
from json_each(:ids) j cross join fencepost_token t
    on t.token_id = j.value;

-- name: token_by_sha256
select token_id, scope, kind, actor, queues, created_at, expires_at, revoked_at
from fencepost_token where sha256 = :sha256;

-- name: insert_token
insert into fencepost_token
    (token_id, sha256, scope, kind, actor, queues, created_at, expires_at)
values (?, ?, ?, ?, ?, ?, ?, ?);

-- name: revoke_token
-- guard: a token is revoked once
update fencepost_token set revoked_at = ? where token_id = ? and revoked_at is null;

-- name: queues_by_name
select q.id, q.scope, q.queue, q.settings, q.is_destination
from json_each(:names) j cross join fencepost_queue q
    on q.scope = json_extract(j.value, '$[0]') and q.queue = json_extract(j.value, '$[1]');

-- name: queues_by_id
select q.id, q.scope, q.queue, q.settings, q.is_destination
from json_each(:ids) j cross join fencepost_queue q on q.id = j.value;

-- name: queues_of_scope
select id, scope, queue, settings, is_destination
from fencepost_queue where scope = :scope order by queue;

-- name: last_queue
select coalesce(max(id), 0) from fencepost_queue;

-- name: write_queue
insert into fencepost_queue (id, scope, queue, settings, is_destination)
values (?, ?, ?, ?, ?)
on conflict (id) do update set settings = excluded.settings,
    is_destination = excluded.is_destination;

-- name: receipts_by_key
select e.key, e.number, e.body, e.salt, e.request_sha256, e.result_sha256, e.key, e.task
from json_each(:keys) j cross join fencepost_entry e indexed by fencepost_entry_key
    on e.key = j.value and e.key is not null;

-- name: receipts_by_request
select e.task, e.number, e.body, e.salt, e.request_sha256, e.result_sha256
from json_each(:requests) j cross join fencepost_entry e indexed by fencepost_entry_task
    on e.task = json_extract(j.value, '$[0]') and e.request_id = json_extract(j.value, '$[1]') and e.task is not null
order by e.number;

-- name: any_tombstone
select 1 from fencepost_tombstone limit 1;

-- name: tombstone
select 1 from fencepost_tombstone where lookup = :lookup;

-- name: tasks_by_id
select t.id, t.task_id, t.queue_id, t.key, t.state, t.priority, t.due_at, t.attempt,
    t.max_attempts, t.round, t.revision, t.fence, t.epoch, t.policy_version, t.worker_id,
    t.granted_at, t.lease_expires_at, t.created_at, t.changed_at, t.content, t.created_entry,
    t.entry, t.parent, t.reason, t.erased
from json_each(:ids) j cross join fencepost_task t indexed by fencepost_task_id
    on t.task_id = j.value;

-- name: tasks_by_key
select t.id, t.task_id, t.queue_id, t.key, t.state, t.priority, t.due_at, t.attempt,
    t.max_attempts, t.round, t.revision, t.fence, t.epoch, t.policy_version, t.worker_id,
    t.granted_at, t.lease_expires_at, t.created_at, t.changed_at, t.content, t.created_entry,
    t.entry, t.parent, t.reason, t.erased
from json_each(:keys) j cross join fencepost_task t indexed by fencepost_task_key
    on t.queue_id = json_extract(j.value, '$[0]') and t.key = json_extract(j.value, '$[1]') and t.key is not null;

-- name: salts
select p.task, p.salt from json_each(:ids) j cross join fencepost_payload p on p.task = j.value;

-- name: contents
select t.task_id, p.body, r.progress from json_each(:ids) j
    cross join fencepost_task t indexed by fencepost_task_id on t.task_id = j.value
    cross join fencepost_payload p on p.task = t.id
    left join fencepost_remark r
    on r.task = t.id;

-- name: result_entry
select entry from fencepost_result indexed by fencepost_result_once
where task = :task and round = :round and sha256 = :sha256;

-- name: commitment
select commitment, sha256 from fencepost_result where task = :task and revision = :revision;

-- name: promote_due
update fencepost_task set place = 0, rank = -priority
where id in (
    select id from fencepost_task indexed by fencepost_task_place
    where queue_id = :queue_id and place = 1 and rank >= :since and rank <= :now
    order by rank limit 1000
);

-- name: ready_tasks
select id, task_id, queue_id, key, state, priority, due_at, attempt, max_attempts, round,
    revision, fence, epoch, policy_version, worker_id, granted_at, lease_expires_at, created_at,
    changed_at, content, created_entry, entry, parent, reason, erased
from fencepost_task indexed by fencepost_task_place
where queue_id = :queue_id and place = 0 order by rank, id limit :limit;

-- name: lapsed_tasks
select id, task_id, queue_id, key, state, priority, due_at, attempt, max_attempts, round,
    revision, fence, epoch, policy_version, worker_id, granted_at, lease_expires_at, created_at,
    changed_at, content, created_entry, entry, parent, reason, erased
from fencepost_task indexed by fencepost_task_place
where queue_id = :queue_id and place = 2 and rank >= :since and rank <= :now
order by rank, id limit :limit;

-- name: ended_tasks
select id, task_id, queue_id, key, state, priority, due_at, attempt, max_attempts, round,
    revision, fence, epoch, policy_version, worker_id, granted_at, lease_expires_at, created_at,
    changed_at, content, created_entry, entry, parent, reason, erased
from fencepost_task indexed by fencepost_task_place
where queue_id = :queue_id and place = :place and rank <= :before order by rank, id limit :limit;

-- name: obligations_of
select t.task_id from fencepost_task t indexed by fencepost_task_parent
    join fencepost_queue q on q.id = t.queue_id
where t.parent = :task and t.erased = 0 and q.is_destination = 1
order by t.id limit :limit;
