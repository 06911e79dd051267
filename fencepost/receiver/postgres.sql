-- The receiver's statements on PostgreSQL. sqlite.sql has the same names, with the same parameters.

-- name: make_schema_table
create table if not exists fencepost_receiver_schema (
    id integer primary key check (id = 1),
    version integer not null
);

-- name: make_stream_table
-- A stream: whose it is, how far it has come, what was dropped of it.
create table if not exists fencepost_receiver_stream (
    id bigint generated always as identity primary key,
    receiver text not null,
    stream text not null,
    epoch bigint not null,
    incarnation text not null,
    sequence bigint not null,
    head bytea not null,
    position bigint not null,
    heard bigint not null,
    forgotten bigint not null,
    emptied bigint not null,
    floor text collate "C" not null,
    unique (receiver, stream)
);

-- name: make_subject_table
-- The latest effect of a task, for each kind.
create table if not exists fencepost_receiver_subject (
    stream_id bigint not null,
    subject text not null,
    kind text not null,
    epoch bigint not null,
    fence bigint not null,
    revision bigint not null,
    round bigint not null,
    operation text not null,
    position bigint not null,
    primary key (stream_id, subject, kind)
);

-- name: make_subject_index
create index if not exists fencepost_receiver_subject_position
on fencepost_receiver_subject (stream_id, position);

-- name: make_receipt_table
-- Each effect, with the bytes that were answered. `event` is the data as sent, until it is dropped.
create table if not exists fencepost_receiver_receipt (
    stream_id bigint not null,
    position bigint not null,
    operation text not null,
    data_sha256 bytea not null,
    receipt bytea not null,
    event bytea,
    event_time text collate "C" not null,
    accepted_at bigint not null,
    primary key (stream_id, position)
);

-- name: make_receipt_index
create unique index if not exists fencepost_receiver_receipt_operation
on fencepost_receiver_receipt (stream_id, operation);

-- name: make_seal_table
-- An effect cannot commit by itself: while a transaction is ours it holds a row here that refers to
-- nothing, which is looked at when it commits. We take the row away first.
create table if not exists fencepost_receiver_seal (
    id bigint primary key,
    broken bigint not null
        references fencepost_receiver_schema (id) deferrable initially deferred
);

-- name: find_tables
select 1 where to_regclass('fencepost_receiver_schema') is not null;

-- name: hold_tables
-- Whoever makes the tables is alone; the number is nothing else's.
select pg_advisory_xact_lock(439956168549);

-- name: set_version
insert into fencepost_receiver_schema (id, version) values (1, %(version)s) on conflict (id) do nothing;

-- name: get_version
select version from fencepost_receiver_schema where id = 1;

-- name: add_stream
insert into fencepost_receiver_stream
(receiver, stream, epoch, incarnation, sequence, head, position, heard, forgotten, emptied, floor)
values (%(receiver)s, %(stream)s, %(epoch)s, %(incarnation)s, 0, %(head)s, 0, 0, 0, 0, '')
on conflict (receiver, stream) do nothing
returning id;

-- name: hold_stream
-- No other transaction changes this stream until ours ends.
select id, epoch, incarnation, sequence, head, position, heard, forgotten, emptied, floor
from fencepost_receiver_stream
where receiver = %(receiver)s and stream = %(stream)s
for update;

-- name: read_stream
select id, epoch, incarnation, sequence, head, position, heard, forgotten, emptied, floor
from fencepost_receiver_stream
where receiver = %(receiver)s and stream = %(stream)s;

-- name: list_streams
select stream from fencepost_receiver_stream where receiver = %(receiver)s order by stream;

-- name: list_receivers
select distinct receiver from fencepost_receiver_stream order by receiver;

-- name: find_effect
-- What there is of an operation, and of the latest of its task and kind.
select r.data_sha256, r.receipt, s.epoch, s.fence, s.revision, s.round, s.operation
from (select 1) as one
left join fencepost_receiver_receipt as r
    on r.stream_id = %(stream_id)s and r.operation = %(operation)s
left join fencepost_receiver_subject as s
    on s.stream_id = %(stream_id)s and s.subject = %(subject)s and s.kind = %(kind)s;

-- name: add_receipt
insert into fencepost_receiver_receipt
(stream_id, position, operation, data_sha256, receipt, event, event_time, accepted_at)
values (%(stream_id)s, %(position)s, %(operation)s, %(data_sha256)s, %(receipt)s, %(event)s,
    %(event_time)s, %(accepted_at)s);

-- name: put_subject
insert into fencepost_receiver_subject
(stream_id, subject, kind, epoch, fence, revision, round, operation, position)
values (%(stream_id)s, %(subject)s, %(kind)s, %(epoch)s, %(fence)s, %(revision)s, %(round)s, %(operation)s, %(position)s)
on conflict (stream_id, subject, kind) do update
set epoch = excluded.epoch, fence = excluded.fence, revision = excluded.revision,
    round = excluded.round, operation = excluded.operation, position = excluded.position;

-- name: put_stream
update fencepost_receiver_stream
set epoch = %(epoch)s, incarnation = %(incarnation)s, sequence = %(sequence)s, head = %(head)s,
    position = %(position)s, heard = %(heard)s, forgotten = %(forgotten)s,
    emptied = %(emptied)s, floor = %(floor)s
where id = %(stream_id)s;

-- name: list_accepted
select position, receipt, event from fencepost_receiver_receipt
where stream_id = %(stream_id)s and position > %(after)s
order by position limit %(limit)s;

-- name: list_ages
-- From the oldest on: a receipt goes only when all before it have gone.
select position, accepted_at, event_time from fencepost_receiver_receipt
where stream_id = %(stream_id)s and position > %(after)s
order by position limit %(limit)s;

-- name: drop_subjects
delete from fencepost_receiver_subject
where stream_id = %(stream_id)s and position <= %(position)s;

-- name: drop_receipts
delete from fencepost_receiver_receipt
where stream_id = %(stream_id)s and position <= %(position)s;

-- name: drop_events
update fencepost_receiver_receipt set event = null
where stream_id = %(stream_id)s and position > %(after)s and position <= %(position)s;

-- name: drop_event
update fencepost_receiver_receipt set event = null
where stream_id = %(stream_id)s and operation = %(operation)s and event is not null
returning position;

-- name: settle
-- Each commit waits for the disk, no lock is waited for without end, and the seal is on.
with seal as (
    insert into fencepost_receiver_seal (id, broken) values (pg_backend_pid(), 0)
)
select set_config('lock_timeout', %(lock_timeout)s, true),
    case when current_setting('synchronous_commit') = 'off'
    then set_config('synchronous_commit', 'on', true) end;

-- name: unseal
delete from fencepost_receiver_seal where id = pg_backend_pid();
