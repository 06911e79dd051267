-- What `verify` and `doctor` read: whole tables, in pages, on one snapshot. Here an entry goes by
-- its place in the tree, from 1; those that are not sealed yet stand behind, in the order in which
-- they would be. So there is no gap but one that somebody has made.

-- name: verify_entries
select * from (
    (select n.position + 1 as place, e.key, e.task, e.request_id, e.body, e.salt,
        e.request_sha256, e.result_sha256
    from fencepost_node n left join fencepost_entry e on e.number = n.number
    where n.level = 0 and n.position >= %(after)s order by n.position limit %(limit)s)
    union all
    (select u.place, e.key, e.task, e.request_id, e.body, e.salt, e.request_sha256,
        e.result_sha256
    from (
        select number, row_number() over (order by number) + (
            select coalesce(max(position), -1) + 1 from fencepost_node where level = 0) as place
        from fencepost_unsealed) u
        left join fencepost_entry e on e.number = u.number
    where u.place > %(after)s order by u.place limit %(limit)s)
) found
order by place limit %(limit)s;

-- name: beside
-- whether transactions run side by side (journal/ledger.py)
select 1;

-- name: top_level
select coalesce(max(level), -1) from fencepost_node;

-- name: verify_tasks
select t.id, t.task_id, t.queue_id, t.key, t.state, t.priority, t.due_at, t.attempt,
    t.max_attempts, t.round, t.revision, t.fence, t.epoch, t.policy_version, t.worker_id,
    t.granted_at, t.lease_expires_at, t.created_at, t.changed_at, t.content,
    coalesce((select n.position + 1 from fencepost_node n where n.number = t.created_entry),
        (select count(*) from fencepost_unsealed u where u.number <= t.created_entry)
            + (select coalesce(max(position), -1) + 1 from fencepost_node where level = 0)),
    coalesce((select n.position + 1 from fencepost_node n where n.number = t.entry),
        (select count(*) from fencepost_unsealed u where u.number <= t.entry)
            + (select coalesce(max(position), -1) + 1 from fencepost_node where level = 0)),
    t.parent, t.reason, t.erased, t.place, t.rank, p.salt, p.body
from fencepost_task t left join fencepost_payload p on p.task = t.id
where t.id > %(after)s order by t.id limit %(limit)s;

-- name: verify_results
select r.task, r.revision, r.round, r.sha256,
    coalesce((select n.position + 1 from fencepost_node n where n.number = r.entry),
        (select count(*) from fencepost_unsealed u where u.number <= r.entry)
            + (select coalesce(max(position), -1) + 1 from fencepost_node where level = 0)),
    r.commitment, r.body, t.task_id, e.body, e.salt
from fencepost_result r
    left join fencepost_task t on t.id = r.task
    left join fencepost_entry e on e.number = r.entry
where (r.task, r.revision) > (%(task)s, %(revision)s)
order by r.task, r.revision limit %(limit)s;

-- name: all_queues
select id, scope, queue, settings, is_destination from fencepost_queue order by id;

-- name: all_scopes
select scope, policy_version, revoked, retain_seconds from fencepost_scope order by scope;

-- name: all_tokens
select token_id, sha256, scope, kind, actor, queues, created_at, expires_at, revoked_at
from fencepost_token order by token_id;

-- name: all_destinations
select q.scope, q.queue, d.address, d.class, d.options, d.secrets, d.stopped, d.sequence, d.head,
    d.heard, d.announced
from fencepost_destination d join fencepost_queue q on q.id = d.queue_id order by d.queue_id;

-- name: stray_destinations
select count(*) from fencepost_destination d
where not exists (select 1 from fencepost_queue q where q.id = d.queue_id);

-- name: stray_payloads
select count(*) from fencepost_payload p
where not exists (select 1 from fencepost_task t where t.id = p.task);

-- name: stray_remarks
select count(*) from fencepost_remark r
where not exists (select 1 from fencepost_task t where t.id = r.task and t.erased = 0);

-- name: stray_refused
select count(*) from fencepost_refused r
where not exists (
    select 1 from fencepost_task t where t.id = r.task and t.queue_id = r.queue_id);

-- name: lost_entries
-- bodies that no purge explains: the task that they were about is still there
select count(*) from fencepost_entry e
where e.body is null and exists (select 1 from fencepost_task t where t.id = e.task);

-- name: stray_entries
-- entries that are neither in the tree nor waiting to be
select count(*) from fencepost_entry e
where not exists (select 1 from fencepost_node n where n.number = e.number)
    and not exists (select 1 from fencepost_unsealed u where u.number = e.number);

-- name: lapsed_leases
select count(*) from fencepost_queue q join fencepost_task t on t.queue_id = q.id
where t.place = 2 and t.rank <= %(now)s;
