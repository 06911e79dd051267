-- What is asked of a file before it is known to be a store, and how one begins.

-- name: has_store
select 1 from sqlite_master where type = 'table' and name = 'fencepost_store';

-- name: has_tables
select count(*) from sqlite_master where type = 'table' and name not like 'sqlite_%';

-- name: our_tables
select name from sqlite_master where type = 'table' and name glob 'fencepost_*' order by name;

-- name: other_tables
select name from sqlite_master
where type = 'table' and name not like 'sqlite_%' and name not glob 'fencepost_*' order by name;

-- name: schema_version
select schema_version from fencepost_store where id = 1 and product = 'fencepost';

-- name: begin_store
insert into fencepost_store (id, product, schema_version, writer_id, epoch, floor, last_fence,
    last_task, last_entry, mark, created_at, secret)
values (1, 'fencepost', :version, :writer_id, 0, 0, 0, 0, 0, :now, :now, :secret);

-- name: set_version
update fencepost_store set schema_version = :version where id = 1;

-- name: record_migration
insert into fencepost_migration (version, sha256, applied_at) values (:version, :sha256, :now);

-- name: schema
select type, name, sql from sqlite_master where name glob 'fencepost_*' order by type, name;
