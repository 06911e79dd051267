-- The receiver's statements on SQLite. postgres.sql has the same names, with the same parameters.

-- name: make_schema_table
create table if not exists fencepost_receiver_schema (
    id integer primary key check (id = 1),
    version integer not null
);

-- name: make_stream_table
-- A stream: whose it is, how far it has come, what was dropped of it.
create table if not exists fencepost_receiver_stream (
    id integer primary key,
    receiver text not null,
    stream text not null,
    epoch integer not null,
    incarnation text not null,
    sequence integer not null,
    head blob not null,
    position integer not null,
    heard integer not null,
    forgotten integer not null,
    emptied integer not null,
    floor text not null,
    unique (receiver, stream)
);

-- name: make_subject_table
-- The latest effect of a task, for each kind.
create table if not exists fencepost_receiver_subject (
    stream_id integer not null,
    subject text not null,
    kind text not null,
    epoch integer not null,
    fence integer not null,
    revision integer not null,
    round integer not null,
    operation text not null,
    position integer not null,
    primary key (stream_id, subject, kind)
) without rowid;

-- name: make_subject_index
create index if not exists fencepost_receiver_subject_position
on fencepost_receiver_subject (stream_id, position);

-- name: make_receipt_table
-- Each effect, with the bytes that were answered. `event` is the data as sent, until it is dropped.
create table if not exists fencepost_receiver_receipt (
    stream_id integer not null,
    position integer not null,
    operation text not null,
    data_sha256 blob not null,
    receipt blob not null,
    event blob,
    event_time text not null,
    accepted_at integer not null,
    primary key (stream_id, position)
) without rowid;

-- name: make_receipt_index
create unique index if not exists fencepost_receiver_receipt_operation
on fencepost_receiver_receipt (stream_id, operation);

-- name: make_seal_table
-- An effect cannot commit by itself: here SQLite asks us first; see sqlite.py.
select 1;

-- name: find_tables
select 1 from sqlite_master where type = 'table' and name = 'fencepost_receiver_schema';

-- name: hold_tables
-- Whoever makes the tables is alone: the transaction began by taking the write lock.
select 1;

-- name: set_version
insert into fencepost_receiver_schema (id, version) values (1, :version) on conflict (id) do nothing;

-- name: get_version
select version from fencepost_receiver_schema where id = 1;

-- name: add_stream
insert into fencepost_receiver_stream
(receiver, stream, epoch, incarnation, sequence, head, position, heard, forgotten, emptied, floor)
values (:receiver, :stream, :epoch, :incarnation, 0, :head, 0, 0, 0, 0, '')
on conflict (receiver, stream) do nothing
returning id;

-- name: hold_stream
-- No other transaction changes this stream until ours ends.
select id, epoch, incarnation, sequence, head, position, heard, forgotten, emptied, floor
from fencepost_receiver_stream
where receiver = :receiver and stream = :stream;

-- name: read_stream
select id, epoch, incarnation, sequence, head, position, heard, forgotten, emptied, floor
from fencepost_receiver_stream
where receiver = :receiver and stream = :stream;

-- name: list_streams
select stream from fencepost_receiver_stream where receiver = :receiver order by stream;

-- name: list_receivers
select distinct receiver from fencepost_receiver_stream order by receiver;

-- name: find_effect
-- What there is of an operation, and of the latest of its task and kind.
select r.data_sha256, r.receipt, s.epoch, s.fence, s.revision, s.round, s.operation
from (select 1) as one
left join fencepost_receiver_receipt as r
    on r.stream_id = :stream_id and r.operation = :operation
left join fencepost_receiver_subject as s
    on s.stream_id = :stream_id and s.subject = :subject and s.kind = :kind;

-- name: add_receipt
insert into fencepost_receiver_receipt
(stream_id, position, operation, data_sha256, receipt, event, event_time, accepted_at)
values (:stream_id, :position, :operation, :data_sha256, :receipt, :event,
    :event_time, :accepted_at);

-- name: put_subject
insert into fencepost_receiver_subject
(stream_id, subject, kind, epoch, fence, revision, round, operation, position)
values (:stream_id, :subject, :kind, :epoch, :fence, :revision, :round, :operation, :position)
on conflict (stream_id, subject, kind) do update
set epoch = excluded.epoch, fence = excluded.fence, revision = excluded.revision,
    round = excluded.round, operation = excluded.operation, position = excluded.position;

-- name: put_stream
update fencepost_receiver_stream
set epoch = :epoch, incarnation = :incarnation, sequence = :sequence, head = :head,
    position = :position, heard = :heard, forgotten = :forgotten,
    emptied = :emptied, floor = :floor
where id = :stream_id;

-- name: list_accepted
select position, receipt, event from fencepost_receiver_receipt
where stream_id = :stream_id and position > :after
order by position limit :limit;

-- name: list_ages
-- From the oldest on: a receipt goes only when all before it have gone.
select position, accepted_at, event_time from fencepost_receiver_receipt
where stream_id = :stream_id and position > :after
order by position limit :limit;

-- name: drop_subjects
delete from fencepost_receiver_subject
where stream_id = :stream_id and position <= :position;

-- name: drop_receipts
delete from fencepost_receiver_receipt
where stream_id = :stream_id and position <= :position;

-- name: drop_events
update fencepost_receiver_receipt set event = null
where stream_id = :stream_id and position > :after and position <= :position;

-- name: drop_event
update fencepost_receiver_receipt set event = null
where stream_id = :stream_id and operation = :operation and event is not null
returning position;
