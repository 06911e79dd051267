-- What erase and purge write: keys are buried, openings closed, content goes. Same rules of
-- writing as in queries.sql.

-- name: keys_of_task
select e.number, e.key
from (select e.number from fencepost_entry e where e.task = %(task)s and e.task is not null
        union all select n.entry from fencepost_naming n where n.task = %(task)s
        union all select %(created_entry)s::bigint) about
    cross join lateral (
        select number, key from fencepost_entry where number = about.number offset 0) e
where e.key is not null;

-- name: bury
insert into fencepost_tombstone (lookup, expires_at)
select v.lookup, nullif(max(coalesce(v.expires_at, 9223372036854775807)), 9223372036854775807)
from unnest(%(c1)s::bytea[], %(c2)s::bigint[]) v (lookup, expires_at) group by v.lookup
on conflict (lookup) do update set expires_at =
    case when fencepost_tombstone.expires_at is null or excluded.expires_at is null then null
        else greatest(fencepost_tombstone.expires_at, excluded.expires_at) end;

-- name: unbury
delete from fencepost_tombstone where expires_at < %(now)s;

-- name: close_openings
update fencepost_entry
set key = null, request_id = null, salt = null, request_sha256 = null, result_sha256 = null
where ctid = any(array(
    select (select ctid from fencepost_entry where number = about.number)
    from (select e.number from fencepost_entry e
        where e.task = any(%(c1)s::bigint[]) and e.task is not null
        union all select n.entry from fencepost_naming n where n.task = any(%(c3)s::bigint[])
        union all select unnest(%(c2)s::bigint[])) about));

-- name: entries_of_tasks
-- those whose target is one of these tasks
select e.number, e.key from fencepost_entry e
where e.task = any(%(ids)s::bigint[]) and e.task is not null;

-- name: entries_naming
select n.entry from fencepost_naming n where n.task = any(%(ids)s::bigint[]);

-- name: spent_entries
-- Of these entries those of whose tasks none is left. One that is damaged names none.
select e.number, e.key from fencepost_entry e
where e.number = any(%(numbers)s::bigint[]) and not exists (
    select 1
    from regexp_matches(encode(e.body, 'escape'), '"task_id":"([0-9a-f-]{36})"', 'g') named
        cross join lateral (
            select 1 from fencepost_task where task_id = named[1] offset 0) t
    offset 0);

-- name: close_entry
update fencepost_entry
set key = null, request_id = null, salt = null, request_sha256 = null, result_sha256 = null
where number = any(%(c1)s::bigint[]);

-- name: delete_naming
delete from fencepost_naming where task = any(%(c1)s::bigint[]);

-- name: drop_bodies
-- Of entries whose target is gone, this task or the one that brought it about, once no task is
-- left whose beginning or end they tell: verify needs that word.
update fencepost_entry e set body = null
where e.ctid = any(array(
        select (select ctid from fencepost_entry where number = about.number)
        from (select x.number from fencepost_entry x
            where x.task = any(%(c1)s::bigint[]) and x.task is not null
            union all select unnest(%(c2)s::bigint[])
            union all select unnest(%(c3)s::bigint[])) about))
    and e.task is not null and e.body is not null
    and exists (select 1 from fencepost_node n where n.number = e.number offset 0)
    and not exists (select 1 from fencepost_task t where t.id = e.task offset 0)
    and not exists (
        select 1 from fencepost_task c where c.parent = e.task and c.parent is not null
            and e.number in (c.created_entry, c.entry) offset 0);

-- name: delete_payload
delete from fencepost_payload where task = any(%(c1)s::bigint[]);

-- name: delete_remark
delete from fencepost_remark where task = any(%(c1)s::bigint[]);

-- name: delete_refused
delete from fencepost_refused where task = any(%(c1)s::bigint[]);

-- name: forget_results
update fencepost_result set sha256 = null, body = null where task = any(%(c1)s::bigint[]);

-- name: forget_key
update fencepost_task set key = null, reason = null
where ctid = any(array(
    select (select ctid from fencepost_task where id = v.id) from unnest(%(c1)s::bigint[]) v (id)));

-- name: delete_results
delete from fencepost_result where task = any(%(c1)s::bigint[]);

-- name: delete_task
-- guard: the fence under which the task ended
delete from fencepost_task t
using unnest(%(c1)s::bigint[], %(c2)s::bigint[]) v (id, fence)
    cross join lateral (select ctid, place from fencepost_task where id = v.id offset 0) held
where t.ctid = held.ctid and t.fence = v.fence and held.place >= 4;
