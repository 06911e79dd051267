-- What erase and purge write: keys are buried, openings closed, content goes. Same rules of
-- writing as in queries.sql.

-- name: keys_of_task
-- `+` keeps the planner from walking all keys
select number, key from fencepost_entry
where +key is not null and (task = :task or number = :created_entry
    or number in (select entry from fencepost_naming where task = :task));

-- name: bury
insert into fencepost_tombstone (lookup, expires_at) values (?, ?)
on conflict (lookup) do update set expires_at = max(expires_at, excluded.expires_at);

-- name: unbury
delete from fencepost_tombstone where expires_at < :now;

-- name: close_openings
update fencepost_entry
set key = null, request_id = null, salt = null, request_sha256 = null, result_sha256 = null
where task = ? or number = ? or number in (select entry from fencepost_naming where task = ?);

-- name: entries_of_tasks
-- those whose target is one of these tasks
select e.number, e.key
from json_each(:ids) j cross join fencepost_entry e indexed by fencepost_entry_task
    on e.task = j.value and e.task is not null;

-- name: entries_naming
select n.entry from json_each(:ids) j cross join fencepost_naming n on n.task = j.value;

-- name: spent_entries
-- Of these entries those of whose tasks none is left. One that is damaged names none.
select e.number, e.key
from json_each(:numbers) j cross join fencepost_entry e on e.number = j.value
where not exists (
    select 1 from json_each(iif(json_valid(cast(e.body as text)), cast(e.body as text), '{}'),
        '$.tasks') n cross join fencepost_task t
        indexed by fencepost_task_id on t.task_id = json_extract(n.value, '$.task_id'));

-- name: close_entry
update fencepost_entry
set key = null, request_id = null, salt = null, request_sha256 = null, result_sha256 = null
where number = ?;

-- name: delete_naming
delete from fencepost_naming where task = ?;

-- name: drop_bodies
-- Of entries whose target is gone, this task or the one that brought it about, once no task is
-- left whose beginning or end they tell: verify needs that word.
update fencepost_entry set body = null
where (task = ? or number in (?, ?)) and task is not null and body is not null
    and number <= (select coalesce(max(position), -1) + 1 from fencepost_node where level = 0)
    and not exists (select 1 from fencepost_task t where t.id = fencepost_entry.task)
    and not exists (
        select 1 from fencepost_task c where c.parent = fencepost_entry.task
            and fencepost_entry.number in (c.created_entry, c.entry));

-- name: delete_payload
delete from fencepost_payload where task = ?;

-- name: delete_remark
delete from fencepost_remark where task = ?;

-- name: delete_refused
delete from fencepost_refused where task = ?;

-- name: forget_results
update fencepost_result set sha256 = null, body = null where task = ?;

-- name: forget_key
update fencepost_task set key = null, reason = null where id = ?;

-- name: delete_results
delete from fencepost_result where task = ?;

-- name: delete_task
-- guard: the fence under which the task ended
delete from fencepost_task
where id = ? and fence = ? and place >= 4;
