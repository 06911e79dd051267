-- What `saving.py` writes of tasks, results and entries, guarded. Same rules of writing as in
-- queries.sql.

-- name: insert_task
-- a task begins ready; what a batch does to it beyond that is an update
insert into fencepost_task (
    id, task_id, queue_id, key, place, rank, priority, due_at, max_attempts, created_at,
    changed_at, content, created_entry, entry, parent, state, attempt, round, revision, fence,
    epoch, policy_version, granted_at, lease_expires_at, erased)
select v.id, v.task_id, v.queue_id, nullif(v.key, ''), v.place, v.rank, v.priority, v.due_at,
    v.max_attempts, v.created_at, v.changed_at, v.content, v.created_entry, v.entry,
    nullif(v.parent, 0), 'ready', 0, 1, 0, 0, 0, 0, 0, 0, 0
from unnest(%(c1)s::bigint[], %(c2)s::text[], %(c3)s::bigint[], %(c4)s::text[],
    %(c5)s::smallint[], %(c6)s::bigint[], %(c7)s::integer[], %(c8)s::bigint[],
    %(c9)s::integer[], %(c10)s::bigint[], %(c11)s::bigint[], %(c12)s::bytea[],
    %(c13)s::bigint[], %(c14)s::bigint[], %(c15)s::bigint[])
    v (id, task_id, queue_id, key, place, rank, priority, due_at, max_attempts, created_at,
        changed_at, content, created_entry, entry, parent)
order by v.queue_id, v.key collate "C", v.id;

-- name: insert_payload
insert into fencepost_payload (task, salt, body)
select * from unnest(%(c1)s::bigint[], %(c2)s::bytea[], %(c3)s::bytea[]);

-- name: update_task
-- guard: the fence (and revision, where given) that the caller presented; see rules/fence.py
update fencepost_task t
set state = v.state, place = v.place, rank = v.rank, due_at = v.due_at, attempt = v.attempt,
    round = v.round, revision = v.revision, fence = v.fence, epoch = v.epoch,
    policy_version = v.policy_version, worker_id = v.worker_id, granted_at = v.granted_at,
    lease_expires_at = v.lease_expires_at, changed_at = v.changed_at, entry = v.entry,
    reason = nullif(v.reason, ''::bytea), erased = v.erased
from unnest(%(c1)s::text[], %(c2)s::smallint[], %(c3)s::bigint[], %(c4)s::bigint[],
    %(c5)s::integer[], %(c6)s::integer[], %(c7)s::bigint[], %(c8)s::bigint[], %(c9)s::bigint[],
    %(c10)s::bigint[], %(c11)s::text[], %(c12)s::bigint[], %(c13)s::bigint[], %(c14)s::bigint[],
    %(c15)s::bigint[], %(c16)s::bytea[], %(c17)s::bigint[], %(c18)s::bigint[],
    %(c19)s::bigint[], %(c20)s::bigint[])
    v (state, place, rank, due_at, attempt, round, revision, fence, epoch, policy_version,
        worker_id, granted_at, lease_expires_at, changed_at, entry, reason, erased, id,
        presented_fence, presented_revision)
    cross join lateral (select ctid from fencepost_task where id = v.id offset 0) held
where t.ctid = held.ctid and t.fence = v.presented_fence
    and v.presented_revision in (-1, t.revision) and t.erased = 0;

-- name: write_remark
-- its task's row is guarded in the same transaction: who may not change that leaves nothing here
insert into fencepost_remark (task, progress, log)
select v.task, nullif(v.progress, ''::bytea), nullif(v.log, ''::bytea)
from unnest(%(c1)s::bigint[], %(c2)s::bytea[], %(c3)s::bytea[]) v (task, progress, log)
on conflict (task) do update
set progress = coalesce(excluded.progress, fencepost_remark.progress),
    log = coalesce(excluded.log, fencepost_remark.log);

-- name: insert_result
insert into fencepost_result (task, revision, round, sha256, entry, commitment, body)
select v.task, v.revision, v.round, v.sha256, v.entry, 'open', nullif(v.body, ''::bytea)
from unnest(%(c1)s::bigint[], %(c2)s::bigint[], %(c3)s::integer[], %(c4)s::bytea[],
    %(c5)s::bigint[], %(c6)s::bytea[]) v (task, revision, round, sha256, entry, body);

-- name: close_commitment
-- guard: a commitment is closed once
update fencepost_result r set commitment = v.commitment
from unnest(%(c1)s::text[], %(c2)s::bigint[], %(c3)s::bigint[]) v (commitment, task, revision)
    cross join lateral (select ctid from fencepost_result
        where task = v.task and revision = v.revision offset 0) held
where r.ctid = held.ctid and r.commitment = 'open';

-- name: insert_entry
with written as (
    insert into fencepost_entry
        (number, key, task, request_id, body, salt, request_sha256, result_sha256)
    select v.number, nullif(v.key, ''), nullif(v.task, 0), v.request_id, v.body, v.salt,
        v.request_sha256, nullif(v.result_sha256, ''::bytea)
    from unnest(%(c1)s::bigint[], %(c2)s::text[], %(c3)s::bigint[], %(c4)s::bigint[],
        %(c5)s::bytea[], %(c6)s::bytea[], %(c7)s::bytea[], %(c8)s::bytea[])
        v (number, key, task, request_id, body, salt, request_sha256, result_sha256)
    order by v.key collate "C", v.number
    returning number
)
insert into fencepost_unsealed (number) select number from written;

-- name: insert_naming
insert into fencepost_naming (task, entry)
select * from unnest(%(c1)s::bigint[], %(c2)s::bigint[]) on conflict do nothing;

-- name: keep_refused
insert into fencepost_refused
    (queue_id, task, worker_id, fence, refused_at, issues, sha256, body)
select * from unnest(%(c1)s::bigint[], %(c2)s::bigint[], %(c3)s::text[], %(c4)s::bigint[],
    %(c5)s::bigint[], %(c6)s::text[], %(c7)s::bytea[], %(c8)s::bytea[])
on conflict (task, sha256) do nothing;

-- name: bound_refused
delete from fencepost_refused r
using unnest(%(c1)s::bigint[], %(c2)s::bigint[], %(c3)s::bigint[]) v (queue_id, same, keep)
    cross join lateral (
        select kept.ctid
        from (select ctid, id from fencepost_refused where queue_id = v.queue_id offset 0) kept
        order by kept.id desc offset v.keep) held
where r.ctid = held.ctid;

-- name: end_leases
update fencepost_task
set lease_expires_at = least(lease_expires_at, %(now)s), rank = least(rank, %(now)s)
where place = 2 and epoch < %(floor)s;

-- name: wait_again
-- after the clock was set back: what is not due any more (rules/retry.py) is in no claim's way
update fencepost_task set place = 1, rank = due_at
where place = 0 and due_at > %(now)s and due_at <> created_at;
