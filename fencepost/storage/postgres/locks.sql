-- What only a database with transactions side by side needs: how its row is shared, its clock,
-- its numbers, the sealer's lock.

-- name: settings
-- For this transaction alone. The planner is kept from plans that read a whole table where a few
-- rows are looked up: it takes `limit` of a parameter for a tenth of the table. What is prepared is
-- planned once: that was a third of what a single command cost the server.
select set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
    set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
    set_config('jit', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true),
    set_config('lock_timeout', '15s', true),
    set_config('idle_in_transaction_session_timeout', '60s', true);

-- name: durable
-- to the end of this transaction: what is acknowledged is on disk
select set_config('synchronous_commit', case
    when current_setting('synchronous_commit') in ('off', 'local', 'remote_write') then 'on'
    else current_setting('synchronous_commit') end, true);

-- name: hold_alone
-- Whoever changes what all others are judged by: waits for those who are there, and whoever comes
-- meanwhile waits behind. (With locks of the row the next would be let past him, and the next: under
-- load, where somebody is always there, he would wait for ever.)
lock table fencepost_store in exclusive mode;

-- name: savepoint_alone
savepoint fencepost_alone;

-- name: back_to_alone
rollback to savepoint fencepost_alone;

-- name: holders
-- who is there that hold_alone waits for
select l.pid, left(a.application_name, 40), coalesce(a.state, 'prepared'),
    to_char(a.xact_start at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
from pg_locks l left join pg_stat_activity a on a.pid = l.pid
where l.relation = 'fencepost_store'::regclass and l.granted
    and l.pid is distinct from pg_backend_pid()
order by a.xact_start nulls first limit 5;

-- name: store_shared
-- Beside others, whom only hold_alone keeps out. The `for key share` holds no row: it is there for
-- the table's row share lock, which is held to the commit and costs no write. The last column: is
-- this the server that has written last?
select writer_id, epoch, floor, 0, 0, 0, mark,
    started_at = pg_postmaster_start_time()
    and timeline = substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)
    and database_oid = (select oid::bigint from pg_database where datname = current_database())
    and system_identifier = (select system_identifier from pg_control_system())
from fencepost_store
where id = 1 and not exists (select 1 from fencepost_store where false for key share);

-- name: hold_keys
-- A claim passes over what is held. Beside its own copy, which has the tasks and no receipt yet, it
-- would find none, and might be the first to say so; so a copy waits here, and finds the receipt.
select pg_advisory_xact_lock(hashtextextended(current_schema() || '.fencepost ' || key, 0))
from unnest(%(keys)s::text[]) key;

-- name: takes_writes
select not pg_is_in_recovery() and current_setting('default_transaction_read_only') = 'off';

-- name: server
select (select system_identifier from pg_control_system()),
    substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8),
    (select oid::bigint from pg_database where datname = current_database()),
    pg_postmaster_start_time(), gen_random_uuid();

-- name: known_server
select system_identifier, timeline, database_oid, started_at, epoch, floor
from fencepost_store where id = 1;

-- name: recognise
update fencepost_store
set epoch = %(epoch)s, floor = %(floor)s, incarnation = %(incarnation)s,
    system_identifier = %(system_identifier)s, timeline = %(timeline)s,
    database_oid = %(database_oid)s, started_at = %(started_at)s
where id = 1;

-- name: insert_writer
insert into fencepost_writer (epoch, incarnation, why, system_identifier, timeline,
    database_oid, started_at, recognised_at)
values (%(epoch)s, %(incarnation)s, %(why)s, %(system_identifier)s, %(timeline)s,
    %(database_oid)s, %(started_at)s, %(recognised_at)s);

-- name: raise_fences
-- the fences of an epoch begin above those of all before it, whatever the sequence has forgotten
select setval('fencepost_fence_number', greatest(
    (select case when is_called then last_value else 0 end from fencepost_fence_number),
    %(least)s, 1), true);

-- name: raise_numbers
-- a sequence may go backwards in a crash or fail-over; what is in the tables does not
select setval('fencepost_task_number', greatest(
        (select last_value from fencepost_task_number),
        (select coalesce(max(id), 0) from fencepost_task), 1), true),
    setval('fencepost_entry_number', greatest(
        (select last_value from fencepost_entry_number),
        (select coalesce(max(number), 0) from fencepost_entry), 1), true),
    setval('fencepost_queue_number', greatest(
        (select last_value from fencepost_queue_number),
        (select coalesce(max(id), 0) from fencepost_queue) + 1000, 1), true);

-- name: xact_status
-- How a transaction ended whose commit was not answered; null where it is long forgotten. Where
-- another server writes by now (false), or this one anew, it has ended. It is not compared with a
-- snapshot: to that the newest transaction is one of the future until it has ended.
select here, case when here then pg_xact_status(%(xid)s::xid8) end
from (
    select started_at = pg_postmaster_start_time()
        and timeline = substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) as here
    from fencepost_store where id = 1) server;

-- name: confirm
-- Before a stored receipt is told again: where a standby has to have what is acknowledged, something
-- of our own is written, so that our commit waits for all before it. Who told it first may have been
-- cancelled in that wait.
select case when current_setting('synchronous_standby_names') <> ''
    then pg_logical_emit_message(true, 'fencepost', 'told again') end is not null;

-- name: forgetter
-- one at a time forgets: whether a task is the last of its enqueue is seen by the second alone
select pg_advisory_xact_lock(hashtext(current_schema() || '.fencepost_tombstone'), 2);

-- name: clock
select (extract(epoch from clock_timestamp()) * 1000000)::bigint;

-- name: numbers
-- The transaction's own number first: who sees a number drawn sees who has drawn it (settled.py).
select pg_current_xact_id()::text,
    array(select nextval('fencepost_fence_number') from generate_series(1, %(fences)s::int)),
    array(select nextval('fencepost_task_number') from generate_series(1, %(tasks)s::int)),
    array(select nextval('fencepost_entry_number') from generate_series(1, %(entries)s::int));

-- name: ready_tasks_above
-- lowwater.py: as ready_tasks, of a higher priority than its mark
select id, task_id, queue_id, key, state, priority, due_at, attempt, max_attempts, round,
    revision, fence, epoch, policy_version, worker_id, granted_at, lease_expires_at, created_at,
    changed_at, content, created_entry, entry, parent, reason, erased
from fencepost_task
where queue_id = %(queue_id)s and place = 0 and rank < %(rank)s order by rank, id
limit %(limit)s for update skip locked;

-- name: ready_tasks_from
-- lowwater.py: as ready_tasks, from its mark on
select id, task_id, queue_id, key, state, priority, due_at, attempt, max_attempts, round,
    revision, fence, epoch, policy_version, worker_id, granted_at, lease_expires_at, created_at,
    changed_at, content, created_entry, entry, parent, reason, erased
from fencepost_task
where queue_id = %(queue_id)s and place = 0 and (rank, id) >= (%(rank)s, %(id)s)
order by rank, id limit %(limit)s for update skip locked;

-- name: schema_of_hints
-- stores of several schemas share a database, and with it the channel
select current_schema()::text;

-- name: listen
listen fencepost;

-- name: hint
-- in a transaction of its own: a notify holds a lock of the whole instance until its commit
select pg_notify('fencepost', v.scope || ' ' || v.queue || ' ' || current_schema())
from unnest(%(places_1)s::text[], %(places_2)s::text[]) v (scope, queue);

-- name: sealer
-- one at a time puts entries into the tree
select pg_advisory_xact_lock(hashtext(current_schema() || '.fencepost_node'), 1);

-- name: last_number
-- settled.py: of the entries
select case when is_called then last_value else 0 end from fencepost_entry_number;

-- name: running
-- settled.py: the oldest transaction that runs, and which would be the next. A statement later than
-- last_number: who has drawn a number by then has begun before this.
select pg_snapshot_xmin(pg_current_snapshot())::text::bigint,
    pg_snapshot_xmax(pg_current_snapshot())::text::bigint;

-- name: raise_mark
update fencepost_store set mark = greatest(mark, %(now)s) where id = 1;

-- In an application's transaction: our part of it, and what is set for one command.

-- name: place_of_connection
-- where a connection leads; and the transaction that is open there
select (select system_identifier from pg_control_system()), current_database()::text,
    (extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint, quote_ident(current_schema()),
    current_setting('transaction_isolation'), current_setting('transaction_read_only');

-- name: begin_theirs
-- as the application has it
begin;

-- name: savepoint_block
savepoint fencepost_within;

-- name: back_to_block
rollback to savepoint fencepost_within;

-- name: release_block
release savepoint fencepost_within;

-- name: savepoint_command
savepoint fencepost_command;

-- name: back_to_command
rollback to savepoint fencepost_command;

-- name: release_command
release savepoint fencepost_command;

-- name: current_settings
select name, current_setting(name) from unnest(%(names)s::text[]) name;

-- name: set_settings
select set_config(name, value, true)
from unnest(%(settings_1)s::text[], %(settings_2)s::text[]) v (name, value);
