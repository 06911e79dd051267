-- Statements that only read: what people and `verify` ask. They run on a connection of their
-- own. The journal is listed in the order of the tree.

-- name: task
select t.task_id, q.scope, q.queue, t.key, t.state, t.priority, t.due_at, t.attempt,
    t.max_attempts, t.round, t.revision, t.fence, t.epoch, t.policy_version, t.worker_id,
    t.granted_at, t.lease_expires_at, t.created_at, t.changed_at,
    (select p.task_id from fencepost_task p where p.id = t.parent), t.reason, t.erased, t.id
from fencepost_task t join fencepost_queue q on q.id = t.queue_id
where t.task_id = %(task_id)s and q.scope = %(scope)s;

-- name: task_by_key
select t.task_id from fencepost_task t join fencepost_queue q on q.id = t.queue_id
where q.scope = %(scope)s and q.queue = %(queue)s and t.key = %(key)s;

-- name: list_tasks
select t.task_id, q.scope, q.queue, t.key, t.state, t.priority, t.due_at, t.attempt,
    t.max_attempts, t.round, t.revision, t.fence, t.epoch, t.policy_version, t.worker_id,
    t.granted_at, t.lease_expires_at, t.created_at, t.changed_at,
    (select p.task_id from fencepost_task p where p.id = t.parent), t.reason, t.erased, t.id
from fencepost_task t join fencepost_queue q on q.id = t.queue_id
where q.scope = %(scope)s and (%(queues)s::text[] is null or q.queue = any(%(queues)s::text[]))
    and (%(state)s::text is null or t.state = %(state)s) and t.id > %(after)s
order by t.id limit %(limit)s;

-- name: content
select p.body, r.progress, r.log
from fencepost_payload p left join fencepost_remark r on r.task = p.task
where p.task = %(task)s;

-- name: results
select r.revision, r.round, r.sha256, r.commitment, r.entry, r.body
from fencepost_result r where r.task = %(task)s and r.revision > %(after)s
order by r.revision limit %(limit)s;

-- name: refused
select r.worker_id, r.fence, r.refused_at, r.issues, r.sha256, r.body, r.id
from fencepost_refused r where r.task = %(task)s and r.id > %(after)s
order by r.id limit %(limit)s;

-- name: receipt
select number, body, salt, request_sha256, result_sha256
from fencepost_entry where key = %(key)s;

-- name: receipts_by_digest
select e.number, e.body, e.salt, e.request_sha256, e.result_sha256
from fencepost_entry e
    join fencepost_task t on t.id = e.task join fencepost_queue q on q.id = t.queue_id
where e.task is not null and e.request_id = %(request_id)s and q.scope = %(scope)s
order by e.number;

-- name: entry
select number, body, salt, request_sha256, result_sha256
from fencepost_entry where number = %(number)s;

-- name: entries_of_task
select number, body from fencepost_entry where task = %(task)s order by number;

-- name: entries
-- those that are sealed, in their order in the tree; `after` is the number of one of them
select e.number, e.body, e.salt, e.request_sha256, e.result_sha256
from fencepost_node n join fencepost_entry e on e.number = n.number
where n.level = 0 and n.position > coalesce((
    select b.position from fencepost_node b where b.number <= %(after)s
    order by b.number desc limit 1), -1)
order by n.position limit %(limit)s;

-- name: unsealed
-- (place in the tree from 1, number, bytes) of those that come next: a task's own entries follow
-- one another, since each is committed before the next is numbered
select %(size)s + row_number() over (order by u.number), u.number, e.body
from (select number from fencepost_unsealed where number >= %(since)s
    order by number limit %(limit)s) u
    left join lateral (
        select body from fencepost_entry where number = u.number offset 0) e on true
order by u.number;

-- name: unsealed_count
select count(*) from fencepost_unsealed;

-- name: place
-- where in the tree an entry stands, from 0; none where it is not sealed
select position from fencepost_node where number = %(number)s;

-- name: tree_size
select coalesce(max(position), -1) + 1 from fencepost_node where level = 0;

-- name: node
select hash from fencepost_node where level = %(level)s and position = %(position)s;

-- name: nodes
select position, hash from fencepost_node
where level = %(level)s and position >= %(start)s order by position limit %(limit)s;

-- name: insert_node
with sealed as (
    delete from fencepost_unsealed where number = any(%(c4)s::bigint[])
)
insert into fencepost_node (level, position, hash, number)
select v.level, v.position, v.hash, nullif(v.number, 0)
from unnest(%(c1)s::smallint[], %(c2)s::bigint[], %(c3)s::bytea[], %(c4)s::bigint[])
    v (level, position, hash, number);

-- name: last_checkpoint
select size, sealed_at, body from fencepost_checkpoint order by size desc limit 1;

-- name: checkpoints
select size, sealed_at, body from fencepost_checkpoint where size > %(after)s
order by size limit %(limit)s;

-- name: insert_checkpoint
insert into fencepost_checkpoint (size, sealed_at, body)
values (%(size)s, %(sealed_at)s, %(body)s);

-- name: counts
select q.queue, t.place, count(*), min(t.rank),
    count(*) filter (where t.place = 2 and t.rank <= %(now)s)
from fencepost_queue q join fencepost_task t on t.queue_id = q.id
where q.scope = %(scope)s and t.place >= 0 group by q.queue, t.place order by q.queue, t.place;

-- name: claimable
-- for whoever waits: how many tasks a claim of this queue would look at, up to :limit of each kind
select count(*) from (
    (select 1 from fencepost_task t
    where t.queue_id = (
            select id from fencepost_queue where scope = %(scope)s and queue = %(queue)s)
        and t.place = 0 limit %(limit)s)
    union all
    (select 1 from fencepost_task t
    where t.queue_id = (
            select id from fencepost_queue where scope = %(scope)s and queue = %(queue)s)
        and t.place = 1 and t.rank <= %(now)s limit %(limit)s)
    union all
    (select 1 from fencepost_task t
    where t.queue_id = (
            select id from fencepost_queue where scope = %(scope)s and queue = %(queue)s)
        and t.place = 2 and t.rank <= %(now)s limit %(limit)s)
) found;

-- name: writers
select epoch, incarnation::text, why, recognised_at from fencepost_writer order by epoch;

-- name: scope_names
select scope from fencepost_scope order by scope;

-- name: any_token
select 1 from fencepost_token limit 1;

-- name: tokens_of_scope
select token_id, scope, kind, actor, queues, created_at, expires_at, revoked_at
from fencepost_token where scope = %(scope)s order by token_id;

-- name: data_version
-- another number as soon as a writing transaction has begun or ended
select hashtextextended(pg_current_snapshot()::text, 0);
