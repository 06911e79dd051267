-- The table of a destination `sqlite:` or `postgresql:`: the latest of each task and outcome. Its
-- name takes the place of `delivered_table`. Make it beforehand to have more columns, or others
-- than these as long as they take the same values.

-- name: find_sqlite
-- Whether the table is there, and whether the file is a store, which is written to in turns.
select
    exists (select 1 from sqlite_schema where name = :name collate nocase),
    exists (select 1 from sqlite_schema where name = 'fencepost_task');

-- name: find_postgresql
select to_regclass(%(name)s) is not null, false;

-- name: make_sqlite
create table if not exists delivered_table (
    task_id text not null,
    outcome text not null,
    queue text not null,
    epoch integer not null,
    fence integer not null,
    revision integer not null,
    operation text not null,
    data text not null,
    primary key (task_id, outcome)
);

-- name: make_postgresql
create table if not exists delivered_table (
    task_id text not null,
    outcome text not null,
    queue text not null,
    epoch bigint not null,
    fence bigint not null,
    revision bigint not null,
    operation text not null,
    data text not null,
    primary key (task_id, outcome)
);

-- name: upsert_sqlite
-- guard: what is later stays, should the rules ever let an older one through
insert into delivered_table (task_id, outcome, queue, epoch, fence, revision, operation, data)
values (:task_id, :outcome, :queue, :epoch, :fence, :revision, :operation, :data)
on conflict (task_id, outcome) do update
set queue = excluded.queue, epoch = excluded.epoch, fence = excluded.fence,
    revision = excluded.revision, operation = excluded.operation, data = excluded.data
where (excluded.epoch, excluded.fence, excluded.revision)
    >= (delivered_table.epoch, delivered_table.fence, delivered_table.revision);

-- name: upsert_postgresql
-- guard: what is later stays, should the rules ever let an older one through
insert into delivered_table as t
    (task_id, outcome, queue, epoch, fence, revision, operation, data)
values (%(task_id)s, %(outcome)s, %(queue)s, %(epoch)s, %(fence)s, %(revision)s, %(operation)s,
    %(data)s)
on conflict (task_id, outcome) do update
set queue = excluded.queue, epoch = excluded.epoch, fence = excluded.fence,
    revision = excluded.revision, operation = excluded.operation, data = excluded.data
where (excluded.epoch, excluded.fence, excluded.revision) >= (t.epoch, t.fence, t.revision);
