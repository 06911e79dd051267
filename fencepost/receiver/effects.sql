-- The table of `python -m fencepost.receiver`: one row an effect. The same on both dialects, but for
-- the type of bytes and the parameters.

-- name: make_sqlite
create table if not exists receiver_effect (
    stream text not null,
    operation text not null,
    kind text not null,
    subject text not null,
    epoch integer not null,
    fence integer not null,
    revision integer not null,
    data blob not null,
    primary key (stream, operation)
);

-- name: make_postgres
create table if not exists receiver_effect (
    stream text not null,
    operation text not null,
    kind text not null,
    subject text not null,
    epoch bigint not null,
    fence bigint not null,
    revision bigint not null,
    data bytea not null,
    primary key (stream, operation)
);

-- name: add_sqlite
-- Plain: should the rules ever let an effect through twice, this fails, loudly.
insert into receiver_effect (stream, operation, kind, subject, epoch, fence, revision, data)
values (:stream, :operation, :kind, :subject, :epoch, :fence, :revision, :data);

-- name: add_postgres
insert into receiver_effect (stream, operation, kind, subject, epoch, fence, revision, data)
values (%(stream)s, %(operation)s, %(kind)s, %(subject)s, %(epoch)s, %(fence)s, %(revision)s,
    %(data)s);
