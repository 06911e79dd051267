-- The outbox of a worker without a network: one file, one scope, one worker. Never changed in
-- place without a rise of outbox.schema_version.

-- name: has_outbox
select 1 from sqlite_master where type = 'table' and name = 'outbox';

-- name: has_tables
select count(*) from sqlite_master where type = 'table' and name not like 'sqlite_%';

-- name: create_outbox
create table outbox (
    id integer primary key check (id = 1),
    product text not null,
    schema_version integer not null,
    outbox_id text not null,
    scope text not null,
    worker_id text not null,
    created_at integer not null
) strict;

-- name: create_claim
-- Written and synced before it is sent. `taking` is null for a take, else the task that is claimed
-- again. state: open (no answer heard), answered, void (given up unsent).
create table outbox_claim (
    id integer primary key,
    key text not null unique,
    body blob not null,
    taking integer references outbox_task (id),
    state text not null check (state in ('open', 'answered', 'void')),
    receipt text
) strict;

-- name: create_task
-- One row a taking: a task that comes back after it was settled gets another. state: open (no
-- closing recorded), closed, settled, conflict. `waits` is the code for which the last sync left
-- it. base_revision and policy_version are those under which the work was done. `tries`: how often a
-- worker has begun on it here. `progress`: the mark that the last attempt, here or elsewhere, has left.
create table outbox_task (
    id integer primary key,
    task_id text not null,
    label text not null,
    queue text not null,
    key text,
    payload blob,
    base_revision integer not null,
    fence integer not null,
    epoch integer not null,
    policy_version integer not null,
    attempt integer not null,
    max_attempts integer not null,
    granted_at integer not null,
    lease_expires_at integer not null,
    max_result_bytes integer,
    on_lapse text not null,
    progress blob,
    tries integer not null default 0,
    state text not null check (state in ('open', 'closed', 'settled', 'conflict')),
    waits text
) strict;

-- name: create_task_place
create index outbox_task_place on outbox_task (task_id, id);

-- name: create_result
-- A recorded result, once a taking. `revision` is where it stands in the store, null until that
-- is known.
create table outbox_result (
    id integer primary key,
    taking integer not null references outbox_task (id),
    sha256 blob not null check (length(sha256) = 32),
    digest text not null,
    content blob not null,
    recorded_at integer not null,
    revision integer,
    unique (taking, sha256)
) strict;

-- name: create_command
-- What is sent, byte for byte. `place` is its turn; new bytes for a fresh fence stand in the same
-- place. state: ready, accepted, moot (the store needs it no more), replaced. `answer` is the last
-- that was heard of it. `verdict` is null for what brings a result or closes the task.
create table outbox_command (
    id integer primary key,
    place integer not null,
    taking integer not null references outbox_task (id),
    result integer references outbox_result (id),
    verb text not null check (verb in ('submit', 'complete', 'fail', 'release')),
    verdict text check (verdict in ('retry', 'give_up', 'block', 'release')),
    fence integer not null,
    key text not null unique,
    body blob not null,
    state text not null check (state in ('ready', 'accepted', 'moot', 'replaced')),
    answer text
) strict;

-- name: create_command_place
create index outbox_command_place on outbox_command (state, place, id);

-- name: create_conflict
-- `theirs` is what the store held; ours are the results of the taking. decided: null, again, theirs.
create table outbox_conflict (
    id integer primary key,
    taking integer not null references outbox_task (id),
    code text not null,
    message text not null,
    theirs text not null,
    noted_at integer not null,
    decided text check (decided in ('again', 'theirs'))
) strict;

-- name: create_link
create table outbox_link (number integer primary key, step text not null, hash text not null) strict;

-- name: create_no_change
create trigger outbox_link_no_change before update on outbox_link
begin select raise(abort, 'the chain is append-only'); end;

-- name: create_no_cut
create trigger outbox_link_no_cut before delete on outbox_link
begin select raise(abort, 'the chain is append-only'); end;

-- name: begin_outbox
insert into outbox (id, product, schema_version, outbox_id, scope, worker_id, created_at)
values (1, 'fencepost-offline', :version, :outbox_id, :scope, :worker_id, :now);

-- name: outbox
select product, schema_version, outbox_id, scope, worker_id, created_at from outbox where id = 1;
