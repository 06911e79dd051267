-- What `doctor` asks of the server that a store stands on. Everybody may ask it; of other roles'
-- sessions only pg_read_all_stats sees more than that they are there.

-- name: server_settings
select name, setting from pg_settings where name = any(%(names)s::text[]);

-- name: connections
select count(*) filter (where backend_type = 'client backend'),
    current_setting('max_connections')::int
        - current_setting('superuser_reserved_connections')::int,
    count(*) filter (where backend_type = 'client backend' and state is null),
    count(*) filter (where state in ('idle in transaction', 'idle in transaction (aborted)')
        and extract(epoch from state_change) < %(now)s - 60)
from pg_stat_activity where pid <> pg_backend_pid();

-- name: oldest_xmin
-- who keeps dead rows from being taken away: the oldest first, with its age in transactions and,
-- where that is known, in seconds (now: seconds since 1970, by the server)
select what, who, age, seconds from (
    select 'session' as what, concat_ws(', ', 'pid ' || pid, usename, nullif(application_name, ''),
            datname, state) as who,
        greatest(age(backend_xmin), age(backend_xid)) as age,
        (%(now)s - extract(epoch from xact_start))::bigint as seconds
    from pg_stat_activity
    where (backend_xmin is not null or backend_xid is not null) and pid <> pg_backend_pid()
        and backend_type <> 'walsender'
    union all
    select 'prepared transaction', gid || ' of ' || owner || ' in ' || database,
        age(transaction), (%(now)s - extract(epoch from prepared))::bigint
    from pg_prepared_xacts
    union all
    select 'replication slot', slot_name || case when active then '' else ', not in use' end,
        greatest(age(xmin), age(catalog_xmin)), null
    from pg_replication_slots where xmin is not null or catalog_xmin is not null
    union all
    select 'standby', coalesce(nullif(application_name, ''), host(client_addr), 'local')
            || ' (hot_standby_feedback)', age(backend_xmin), null
    from pg_stat_replication where backend_xmin is not null
) found
order by age desc limit 5;

-- name: prepared
select gid, owner, (%(now)s - extract(epoch from prepared))::bigint
from pg_prepared_xacts where database = current_database() order by prepared;

-- name: table_health
select c.relname, pg_total_relation_size(c.oid), coalesce(s.n_live_tup, 0),
    coalesce(s.n_dead_tup, 0), age(c.relfrozenxid),
    coalesce('autovacuum_enabled=false' = any(c.reloptions)
        or 'autovacuum_enabled=off' = any(c.reloptions), false)
from pg_class c left join pg_stat_user_tables s on s.relid = c.oid
where c.relname = any(%(names)s::text[])
    and c.relnamespace = quote_ident(current_schema())::regnamespace
order by 2 desc;

-- name: invalid_indexes
select i.indexrelid::regclass::text from pg_index i join pg_class c on c.oid = i.indrelid
where c.relname = any(%(names)s::text[]) and not (i.indisvalid and i.indisready)
    and c.relnamespace = quote_ident(current_schema())::regnamespace;

-- name: missing_rights
select c.relname from pg_class c
where c.relnamespace = quote_ident(current_schema())::regnamespace and case c.relkind
    when 'r' then c.relname = any(%(names)s::text[])
        and not (has_table_privilege(c.oid, 'select') and has_table_privilege(c.oid, 'insert')
            and has_table_privilege(c.oid, 'update') and has_table_privilege(c.oid, 'delete'))
    when 'S' then starts_with(c.relname, 'fencepost_')
        and not (has_sequence_privilege(c.oid, 'usage')
            and has_sequence_privilege(c.oid, 'select')
            and has_sequence_privilege(c.oid, 'update'))
    else false end
order by 1;

-- name: collation_moved
-- the version of the collation with which text indexes were made, and the one that is here (15+)
select d.datcollversion, pg_database_collation_actual_version(d.oid)
from pg_database d where d.datname = current_database()
    and d.datcollversion <> pg_database_collation_actual_version(d.oid);
