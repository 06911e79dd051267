-- Every statement of the PostgreSQL store; the SQLite twin has the same names in the same order.
-- A list parameter is an array, a list of pairs two arrays (`keys_1`, `keys_2`). A block that is
-- written for many rows takes one array a column (`c1`, `c2` …) and runs once; empty text, an
-- empty bytea and 0 stand for null, and a negative revision for "any", as in the twin.
-- Transactions run side by side: what commands name is locked in order, what claims look for is
-- locked where it is free (skip locked), and the store's row is shared until the commit. What has a
-- unique name is inserted in the order of names: who comes second waits for the first of those that
-- they have in common, with none of the others in its hand.
-- Rows are looked up one by one, behind `offset 0` or in a subquery of one value, and written by
-- their place (`ctid`; they are held): that is a search though the planner takes a table for empty,
-- since it was analysed when it was.

-- name: begin
begin isolation level read committed;

-- name: begin_read
begin isolation level repeatable read read only;

-- name: commit
commit;

-- name: rollback
rollback;

-- name: store
-- as it is read; who writes reads it by store_shared (locks.sql)
select writer_id, epoch, floor,
    (select case when is_called then last_value else 0 end from fencepost_fence_number),
    (select case when is_called then last_value else 0 end from fencepost_task_number),
    (select case when is_called then last_value else 0 end from fencepost_entry_number), mark
from fencepost_store where id = 1;

-- name: store_about
select product, schema_version, created_at, secret from fencepost_store where id = 1;

-- name: update_store
-- guard: the row is as it was loaded. Epoch and floor are changed only by who is alone (hold_alone),
-- and the epoch alone by whoever has drawn the first fence of a new one; nothing goes back. Where
-- the floor is raised nobody draws beside us: the fences of the new epoch begin above all others
with changed as (
    update fencepost_store
    set epoch = greatest(epoch, %(epoch)s), floor = greatest(floor, %(floor)s),
        mark = case when floor < %(floor)s then %(mark)s else mark end
    where id = 1 and (epoch < %(epoch)s or floor < %(floor)s)
)
select id, case when floor < %(floor)s then setval('fencepost_fence_number', greatest(
    (select last_value from fencepost_fence_number), %(last_fence)s, %(epoch)s::bigint << 32)) end
from fencepost_store
where id = 1 and writer_id = %(writer_id)s and epoch >= %(loaded_epoch)s
    and %(loaded_epoch)s <= %(epoch)s;

-- name: scopes
select s.scope, s.policy_version, s.revoked, s.retain_seconds
from fencepost_scope s where s.scope = any(%(names)s::text[]);

-- name: write_scope
insert into fencepost_scope (scope, policy_version, revoked, retain_seconds)
select * from unnest(%(c1)s::text[], %(c2)s::bigint[], %(c3)s::smallint[], %(c4)s::bigint[])
    v (scope, policy_version, revoked, retain_seconds)
order by v.scope collate "C"
on conflict (scope) do update set policy_version = excluded.policy_version,
    revoked = excluded.revoked, retain_seconds = excluded.retain_seconds
where (fencepost_scope.policy_version, fencepost_scope.revoked, fencepost_scope.retain_seconds)
    is distinct from (excluded.policy_version, excluded.revoked, excluded.retain_seconds);

-- name: tokens_by_id
select t.token_id, t.scope, t.kind, t.actor, t.queues, t.created_at, t.expires_at, t.revoked_at
from fencepost_token t where t.token_id = any(%(ids)s::text[]);

-- name: token_by_sha256
select token_id, scope, kind, actor, queues, created_at, expires_at, revoked_at
from fencepost_token where sha256 = %(sha256)s;

-- name: insert_token
insert into fencepost_token
    (token_id, sha256, scope, kind, actor, queues, created_at, expires_at)
select * from unnest(%(c1)s::text[], %(c2)s::bytea[], %(c3)s::text[], %(c4)s::text[],
    %(c5)s::text[], %(c6)s::text[], %(c7)s::bigint[], %(c8)s::bigint[]);

-- name: revoke_token
-- guard: a token is revoked once
update fencepost_token t set revoked_at = v.at
from unnest(%(c1)s::bigint[], %(c2)s::text[]) v (at, token_id)
where t.token_id = v.token_id and t.revoked_at is null;

-- name: queues_by_name
select q.id, q.scope, q.queue, q.settings, q.is_destination
from unnest(%(names_1)s::text[], %(names_2)s::text[]) j (scope, queue)
    join fencepost_queue q on q.scope = j.scope and q.queue = j.queue
where q.scope = any(%(names_1)s::text[]) and q.queue = any(%(names_2)s::text[]);

-- name: queues_by_id
select q.id, q.scope, q.queue, q.settings, q.is_destination
from fencepost_queue q where q.id = any(%(ids)s::bigint[]);

-- name: queues_of_scope
select id, scope, queue, settings, is_destination
from fencepost_queue where scope = %(scope)s order by queue;

-- name: last_queue
select nextval('fencepost_queue_number');

-- name: write_queue
insert into fencepost_queue (id, scope, queue, settings, is_destination)
select * from unnest(%(c1)s::bigint[], %(c2)s::text[], %(c3)s::text[], %(c4)s::text[],
    %(c5)s::smallint[]) v (id, scope, queue, settings, is_destination)
order by v.scope collate "C", v.queue collate "C"
on conflict (id) do update set settings = excluded.settings,
    is_destination = excluded.is_destination;

-- name: receipts_by_key
select e.key, e.number, e.body, e.salt, e.request_sha256, e.result_sha256, e.key, e.task
from fencepost_entry e where e.key = any(%(keys)s::text[]) and e.key is not null;

-- name: receipts_by_request
-- looked up one by one (`offset 0`): as long as few entries are known to be about a task, the planner
-- would rather go through all of them in the order of their numbers
select e.task, e.number, e.body, e.salt, e.request_sha256, e.result_sha256
from unnest(%(requests_1)s::bigint[], %(requests_2)s::bigint[]) j (task, request_id)
    cross join lateral (
        select * from fencepost_entry
        where task = j.task and request_id = j.request_id and task is not null offset 0
    ) e
order by e.number;

-- name: any_tombstone
select 1 from fencepost_tombstone limit 1;

-- name: tombstone
select 1 from fencepost_tombstone where lookup = %(lookup)s;

-- name: tasks_by_id
select t.id, t.task_id, t.queue_id, t.key, t.state, t.priority, t.due_at, t.attempt,
    t.max_attempts, t.round, t.revision, t.fence, t.epoch, t.policy_version, t.worker_id,
    t.granted_at, t.lease_expires_at, t.created_at, t.changed_at, t.content, t.created_entry,
    t.entry, t.parent, t.reason, t.erased
from fencepost_task t where t.task_id = any(%(ids)s::text[])
order by t.task_id for update of t;

-- name: tasks_by_key
select t.id, t.task_id, t.queue_id, t.key, t.state, t.priority, t.due_at, t.attempt,
    t.max_attempts, t.round, t.revision, t.fence, t.epoch, t.policy_version, t.worker_id,
    t.granted_at, t.lease_expires_at, t.created_at, t.changed_at, t.content, t.created_entry,
    t.entry, t.parent, t.reason, t.erased
-- each is looked up by itself: as long as few tasks are known to have a key, the planner would
-- rather go through all that have one
from fencepost_task t
where t.task_id = any(array(
    select (select task_id from fencepost_task
        where queue_id = j.queue_id and key = j.key and key is not null)
    from unnest(%(keys_1)s::bigint[], %(keys_2)s::text[]) j (queue_id, key)))
order by t.task_id for update of t;

-- name: salts
select p.task, p.salt from fencepost_payload p where p.task = any(%(ids)s::bigint[]);

-- name: contents
-- looked up one by one (`offset 0`), whatever the planner was told of the size of the tables
select t.task_id, p.body, (select r.progress from fencepost_remark r where r.task = t.id)
from fencepost_task t
    cross join lateral (select body from fencepost_payload where task = t.id offset 0) p
where t.task_id = any(%(ids)s::text[]);

-- name: result_entry
select entry from fencepost_result
where task = %(task)s and round = %(round)s and sha256 = %(sha256)s;

-- name: commitment
select commitment, sha256 from fencepost_result where task = %(task)s and revision = %(revision)s;

-- name: promote_due
update fencepost_task set place = 0, rank = -priority
where ctid = any(array(
    select ctid from fencepost_task
    where queue_id = %(queue_id)s and place = 1 and rank >= %(since)s and rank <= %(now)s
    order by rank limit 1000 for update skip locked
)) returning due_at;

-- name: ready_tasks
select id, task_id, queue_id, key, state, priority, due_at, attempt, max_attempts, round,
    revision, fence, epoch, policy_version, worker_id, granted_at, lease_expires_at, created_at,
    changed_at, content, created_entry, entry, parent, reason, erased
from fencepost_task
where queue_id = %(queue_id)s and place = 0 order by rank, id limit %(limit)s
for update skip locked;

-- name: lapsed_tasks
select id, task_id, queue_id, key, state, priority, due_at, attempt, max_attempts, round,
    revision, fence, epoch, policy_version, worker_id, granted_at, lease_expires_at, created_at,
    changed_at, content, created_entry, entry, parent, reason, erased
from fencepost_task
where queue_id = %(queue_id)s and place = 2 and rank >= %(since)s and rank <= %(now)s
order by rank, id limit %(limit)s for update skip locked;

-- name: ended_tasks
-- not those whose last entry waits to be sealed: a purge drops bytes whose leaf hash is kept
select id, task_id, queue_id, key, state, priority, due_at, attempt, max_attempts, round,
    revision, fence, epoch, policy_version, worker_id, granted_at, lease_expires_at, created_at,
    changed_at, content, created_entry, entry, parent, reason, erased
from fencepost_task t
where queue_id = %(queue_id)s and place = %(place)s and place >= 0 and rank <= %(before)s
    and not exists (select 1 from fencepost_unsealed u where u.number = t.entry offset 0)
order by rank, id limit %(limit)s for update of t skip locked;

-- name: obligations_of
select t.task_id
from (select * from fencepost_task where parent = %(task)s and parent is not null offset 0) t
where t.erased = 0
    and (select q.is_destination from fencepost_queue q where q.id = t.queue_id) = 1
order by t.id limit %(limit)s;
