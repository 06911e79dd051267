-- What is asked of a database before it is known to hold a store, and how one begins.

-- name: has_store
select 1 from pg_class c
where c.relname = 'fencepost_store' and c.relkind = 'r'
    and c.relnamespace = quote_ident(current_schema())::regnamespace;

-- name: tables
-- everybody's, in the schema that names go to
select relname from pg_class
where relkind in ('r', 'p') and relnamespace = quote_ident(current_schema())::regnamespace
order by relname;

-- name: here_alone
-- for this transaction a name means what is in this schema, and never one of the same name in another
select set_config('search_path', quote_ident(current_schema()), true),
    set_config('lock_timeout', '15s', true);

-- name: make_room
-- {room} is letters and digits of ours
create schema {room};

-- name: clear_room
drop schema {room} cascade;

-- name: in_passing
-- for this transaction a new table is a temporary one
select set_config('search_path', 'pg_temp', true);

-- name: schema_version
select schema_version from fencepost_store where id = 1 and product = 'fencepost';

-- name: install_lock
-- whoever installs or migrates is alone: an advisory lock, since there is no row yet to be held
select pg_advisory_xact_lock(hashtext(current_schema() || '.fencepost_store'), 0);

-- name: begin_store
insert into fencepost_store (id, product, schema_version, writer_id, epoch, floor, mark,
    created_at, secret, incarnation, system_identifier, timeline, database_oid, started_at)
values (1, 'fencepost', %(version)s, %(writer_id)s, 0, 0, %(now)s, %(now)s, %(secret)s,
    %(incarnation)s, %(system_identifier)s, %(timeline)s, %(database_oid)s, %(started_at)s);

-- name: set_version
update fencepost_store set schema_version = %(version)s where id = 1;

-- name: record_migration
insert into fencepost_migration (version, sha256, applied_at)
values (%(version)s, %(sha256)s, %(now)s);

-- name: schema
select c.relkind::text, c.relname, coalesce(
    replace(replace(pg_get_indexdef(i.indexrelid), quote_ident(current_schema()) || '.', ''),
        'pg_temp.', ''), (
    select string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
        || case when a.attnotnull then ' not null' else '' end, ', ' order by a.attnum)
    from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped), '')
from pg_class c left join pg_index i on i.indexrelid = c.oid
where starts_with(c.relname, 'fencepost_') and c.relnamespace = quote_ident(current_schema())::regnamespace
union all
select 'constraint', conname, pg_get_constraintdef(oid) from pg_constraint
where starts_with(conname, 'fencepost_') and connamespace = quote_ident(current_schema())::regnamespace
order by 1, 2, 3;
