-- Statements that only read: what people and `verify` ask. They run on a connection of their
-- own and never take the turn.

-- name: task
select t.task_id, q.scope, q.queue, t.key, t.state, t.priority, t.due_at, t.attempt,
    t.max_attempts, t.round, t.revision, t.fence, t.epoch, t.policy_version, t.worker_id,
    t.granted_at, t.lease_expires_at, t.created_at, t.changed_at,
    (select p.task_id from fencepost_task p where p.id = t.parent), t.reason, t.erased, t.id
from fencepost_task t join fencepost_queue q on q.id = t.queue_id
where t.task_id = :task_id and q.scope = :scope;

-- name: task_by_key
select t.task_id from fencepost_task t join fencepost_queue q on q.id = t.queue_id
where q.scope = :scope and q.queue = :queue and t.key = :key;

-- name: list_tasks
select t.task_id, q.scope, q.queue, t.key, t.state, t.priority, t.due_at, t.attempt,
    t.max_attempts, t.round, t.revision, t.fence, t.epoch, t.policy_version, t.worker_id,
    t.granted_at, t.lease_expires_at, t.created_at, t.changed_at,
    (select p.task_id from fencepost_task p where p.id = t.parent), t.reason, t.erased, t.id
from fencepost_task t join fencepost_queue q on q.id = t.queue_id
where q.scope = :scope and (:queues is null or q.queue in (select value from json_each(:queues)))
    and (:state is null or t.state = :state) and t.id > :after
order by t.id limit :limit;

-- name: content
select p.body, r.progress, r.log
from fencepost_payload p left join fencepost_remark r on r.task = p.task where p.task = :task;

-- name: results
select r.revision, r.round, r.sha256, r.commitment, r.entry, r.body
from fencepost_result r where r.task = :task and r.revision > :after
order by r.revision limit :limit;

-- name: refused
select r.worker_id, r.fence, r.refused_at, r.issues, r.sha256, r.body, r.id
from fencepost_refused r where r.task = :task and +r.id > :after order by +r.id limit :limit;

-- name: receipt
select number, body, salt, request_sha256, result_sha256 from fencepost_entry where key = :key;

-- name: receipts_by_digest
-- for people: a scan of one index, since a digest is looked up by its task on the hot path
select e.number, e.body, e.salt, e.request_sha256, e.result_sha256
from fencepost_entry e indexed by fencepost_entry_task
    cross join fencepost_task t on t.id = e.task cross join fencepost_queue q on q.id = t.queue_id
where e.task is not null and e.request_id = :request_id and q.scope = :scope
order by e.number;

-- name: entry
select number, body, salt, request_sha256, result_sha256
from fencepost_entry where number = :number;

-- name: entries_of_task
select number, body from fencepost_entry where task = :task order by number;

-- name: entries
select number, body, salt, request_sha256, result_sha256
from fencepost_entry where number > :after order by number limit :limit;

-- name: unsealed
-- (place in the tree from 1, number, bytes) of those that come next
select number, number, body from fencepost_entry
where number > :size and number >= :since order by number limit :limit;

-- name: unsealed_count
select last_entry - (select coalesce(max(position), -1) + 1 from fencepost_node where level = 0)
from fencepost_store where id = 1;

-- name: place
-- where in the tree an entry stands, from 0; none where it is not sealed
select position from fencepost_node where level = 0 and position = :number - 1;

-- name: tree_size
select coalesce(max(position), -1) + 1 from fencepost_node where level = 0;

-- name: node
select hash from fencepost_node where level = :level and position = :position;

-- name: nodes
select position, hash from fencepost_node
where level = :level and position >= :start order by position limit :limit;

-- name: insert_node
-- guard: an entry's place, from 0, is its number less one
insert into fencepost_node (level, position, hash) select ?1, ?2, ?3 where ?1 > 0 or ?4 = ?2 + 1;

-- name: last_checkpoint
select size, sealed_at, body from fencepost_checkpoint order by size desc limit 1;

-- name: checkpoints
select size, sealed_at, body from fencepost_checkpoint where size > :after
order by size limit :limit;

-- name: insert_checkpoint
insert into fencepost_checkpoint (size, sealed_at, body) values (:size, :sealed_at, :body);

-- name: counts
select q.queue, t.place, count(*), min(t.rank), sum(t.place = 2 and t.rank <= :now)
from fencepost_queue q
    join fencepost_task t indexed by fencepost_task_place on t.queue_id = q.id
where q.scope = :scope group by q.queue, t.place order by q.queue, t.place;

-- name: claimable
-- for whoever waits: how many tasks a claim of this queue would look at, up to :limit of each kind
select count(*) from (
    select * from (
        select 1 from fencepost_task t indexed by fencepost_task_place
        where t.queue_id = (select id from fencepost_queue where scope = :scope and queue = :queue)
            and t.place = 0 limit :limit
    )
    union all select * from (
        select 1 from fencepost_task t indexed by fencepost_task_place
        where t.queue_id = (select id from fencepost_queue where scope = :scope and queue = :queue)
            and t.place = 1 and t.rank <= :now limit :limit
    )
    union all select * from (
        select 1 from fencepost_task t indexed by fencepost_task_place
        where t.queue_id = (select id from fencepost_queue where scope = :scope and queue = :queue)
            and t.place = 2 and t.rank <= :now limit :limit
    )
);

-- name: writers
select epoch, incarnation, why, recognised_at from fencepost_writer order by epoch;

-- name: scope_names
select scope from fencepost_scope order by scope;

-- name: any_token
select 1 from fencepost_token limit 1;

-- name: tokens_of_scope
select token_id, scope, kind, actor, queues, created_at, expires_at, revoked_at
from fencepost_token where scope = :scope order by token_id;

-- name: data_version
pragma data_version;
