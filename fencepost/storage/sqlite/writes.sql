-- What `saving.py` writes of tasks, results and entries, guarded. Same rules of writing as in
-- queries.sql.

-- name: insert_task
-- a task begins ready; what a batch does to it beyond that is an update
insert into fencepost_task (
    id, task_id, queue_id, key, place, rank, priority, due_at, max_attempts, created_at,
    changed_at, content, created_entry, entry, parent, state, attempt, round, revision, fence,
    epoch, policy_version, granted_at, lease_expires_at, erased)
values (?, ?, ?, nullif(?, ''), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, nullif(?, 0),
    'ready', 0, 1, 0, 0, 0, 0, 0, 0, 0);

-- name: insert_payload
insert into fencepost_payload (task, salt, body) values (?, ?, ?);

-- name: update_task
-- guard: the fence (and revision, where given) that the caller presented; see rules/fence.py
update fencepost_task
set state = ?, place = ?, rank = ?, due_at = ?, attempt = ?, round = ?, revision = ?, fence = ?,
    epoch = ?, policy_version = ?, worker_id = ?, granted_at = ?, lease_expires_at = ?,
    changed_at = ?, entry = ?, reason = nullif(?, x''), erased = ?
where id = ? and fence = ? and ? in (-1, revision) and erased = 0;

-- name: write_remark
-- its task's row is guarded in the same transaction: who may not change that leaves nothing here
insert into fencepost_remark (task, progress, log) values (?, nullif(?, x''), nullif(?, x''))
on conflict (task) do update set progress = coalesce(excluded.progress, progress),
    log = coalesce(excluded.log, log);

-- name: insert_result
insert into fencepost_result (task, revision, round, sha256, entry, commitment, body)
values (?, ?, ?, ?, ?, 'open', nullif(?, x''));

-- name: close_commitment
-- guard: a commitment is closed once
update fencepost_result set commitment = ?
where task = ? and revision = ? and commitment = 'open';

-- name: insert_entry
insert into fencepost_entry
    (number, key, task, request_id, body, salt, request_sha256, result_sha256)
values (?, nullif(?, ''), nullif(?, 0), ?, ?, ?, ?, nullif(?, x''));

-- name: insert_naming
insert into fencepost_naming (task, entry) values (?, ?) on conflict do nothing;

-- name: keep_refused
insert into fencepost_refused
    (queue_id, task, worker_id, fence, refused_at, issues, sha256, body)
values (?, ?, ?, ?, ?, ?, ?, ?)
on conflict (task, sha256) do nothing;

-- name: bound_refused
delete from fencepost_refused where queue_id = ? and id <= coalesce((
    select id from fencepost_refused where queue_id = ? order by id desc limit 1 offset ?), -1);

-- name: end_leases
update fencepost_task indexed by fencepost_task_place
set lease_expires_at = min(lease_expires_at, :now), rank = min(rank, :now)
where queue_id in (select id from fencepost_queue) and place = 2 and epoch < :floor;

-- name: wait_again
-- after the clock was set back: what is not due any more (rules/retry.py) is in no claim's way
update fencepost_task indexed by fencepost_task_place set place = 1, rank = due_at
where queue_id in (select id from fencepost_queue) and place = 0
    and due_at > :now and due_at <> created_at;
