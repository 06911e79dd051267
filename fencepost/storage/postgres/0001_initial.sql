-- Fencepost's tables, version 1, as in sqlite/0001_initial.sql. What differs: transactions run
-- side by side, so numbers come from sequences (with gaps), `fencepost_node` says which entry
-- stands at which place of the tree, and `fencepost_unsealed` which entries have none yet. The
-- store's row says which server it was last written by (guard.py). Text is compared by its bytes,
-- whatever language the database is in: order and indexes are the same everywhere, and stay so.

create table fencepost_store (
    id smallint primary key check (id = 1),
    product text collate "C" not null check (product = 'fencepost'),
    schema_version integer not null,
    writer_id text collate "C" not null,
    epoch bigint not null check (epoch >= 0),
    floor bigint not null check (floor between 0 and epoch),
    mark bigint not null,
    created_at bigint not null,
    secret bytea not null check (length(secret) = 32),
    incarnation uuid not null,
    system_identifier bigint not null,
    timeline text collate "C" not null,
    database_oid bigint not null,
    started_at timestamptz not null
);

create table fencepost_migration (
    version integer primary key,
    sha256 text collate "C" not null,
    applied_at bigint not null
);

-- Each writer that was recognised: a start of the server, a promotion, a restore, a copy.
create table fencepost_writer (
    epoch bigint primary key,
    incarnation uuid not null,
    why text collate "C" not null,
    system_identifier bigint not null,
    timeline text collate "C" not null,
    database_oid bigint not null,
    started_at timestamptz not null,
    recognised_at bigint not null
);

create sequence fencepost_fence_number as bigint;
create sequence fencepost_task_number as bigint;
create sequence fencepost_entry_number as bigint;
-- a batch that makes queues draws once and has so many ids
create sequence fencepost_queue_number as bigint increment by 1000;

create table fencepost_scope (
    scope text collate "C" primary key,
    policy_version bigint not null,
    revoked smallint not null check (revoked in (0, 1)),
    retain_seconds bigint
);

create table fencepost_queue (
    id bigint primary key,
    scope text collate "C" not null,
    queue text collate "C" not null,
    is_destination smallint not null check (is_destination in (0, 1)),
    settings text collate "C" not null,
    unique (scope, queue)
);

create table fencepost_destination (
    queue_id bigint primary key,
    address text collate "C" not null,
    class text collate "C" not null,
    options text collate "C" not null,
    secrets text collate "C" not null,
    stopped text collate "C",
    sequence bigint not null check (sequence between 0 and 999999999999999),
    head text collate "C",
    heard bigint not null,
    announced text collate "C"
);

create table fencepost_token (
    token_id text collate "C" primary key,
    sha256 bytea not null check (length(sha256) = 32),
    scope text collate "C" not null,
    kind text collate "C" not null,
    actor text collate "C" not null,
    queues text collate "C",
    created_at bigint not null,
    expires_at bigint,
    revoked_at bigint
);

create unique index fencepost_token_sha256 on fencepost_token (sha256);
create index fencepost_token_scope on fencepost_token (scope);

-- `place` and `rank` are physical, as in sqlite/0001_initial.sql.
create table fencepost_task (
    id bigint primary key,
    task_id text collate "C" not null,
    queue_id bigint not null,
    key text collate "C",
    state text collate "C" not null,
    place smallint not null,
    rank bigint not null,
    priority integer not null,
    due_at bigint not null,
    attempt integer not null,
    max_attempts integer not null,
    round integer not null,
    revision bigint not null,
    fence bigint not null check (fence between 0 and 999999999999999),
    epoch bigint not null,
    policy_version bigint not null,
    worker_id text collate "C" check (worker_id is not null or place <> 2),
    granted_at bigint not null,
    lease_expires_at bigint not null,
    created_at bigint not null,
    changed_at bigint not null,
    content bytea not null,
    created_entry bigint not null,
    entry bigint not null,
    parent bigint,
    reason bytea,
    erased bigint not null
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);

create unique index fencepost_task_id on fencepost_task (task_id);
create unique index fencepost_task_key on fencepost_task (queue_id, key) where key is not null;
-- Every task has a place; that it has one is said so that only whoever asks for a place is led here:
-- of a table that it takes for empty the planner would search this index for an id or a key.
create index fencepost_task_place on fencepost_task (queue_id, place, rank, id) where place >= 0;
create index fencepost_task_parent on fencepost_task (parent) where parent is not null;

create table fencepost_payload (
    task bigint primary key,
    salt bytea not null,
    body bytea not null
);

create table fencepost_remark (
    task bigint primary key,
    progress bytea,
    log bytea
);

create table fencepost_result (
    task bigint not null,
    revision bigint not null,
    round integer not null,
    sha256 bytea,
    entry bigint not null,
    commitment text collate "C" not null,
    body bytea,
    primary key (task, revision)
);

create unique index fencepost_result_once on fencepost_result (task, round, sha256);

create table fencepost_entry (
    number bigint primary key,
    key text collate "C",
    task bigint,
    request_id bigint,
    body bytea,
    salt bytea,
    request_sha256 bytea,
    result_sha256 bytea
);

create unique index fencepost_entry_key on fencepost_entry (key) where key is not null;
create index fencepost_entry_task on fencepost_entry (task, request_id) where task is not null;

create table fencepost_unsealed (
    number bigint primary key
) with (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);

create table fencepost_naming (
    task bigint not null,
    entry bigint not null,
    primary key (task, entry)
);

-- Level 0 are the leaf hashes, each with the number of its entry.
create table fencepost_node (
    level smallint not null,
    position bigint not null,
    hash bytea not null check (length(hash) = 32),
    number bigint check ((level = 0) = (number is not null)),
    primary key (level, position)
);

create unique index fencepost_node_number on fencepost_node (number) where number is not null;

create table fencepost_checkpoint (
    size bigint primary key,
    sealed_at bigint not null,
    body bytea not null
);

create table fencepost_refused (
    id bigint generated always as identity primary key,
    queue_id bigint not null,
    task bigint not null,
    worker_id text collate "C" not null,
    fence bigint not null,
    refused_at bigint not null,
    issues text collate "C" not null,
    sha256 bytea not null,
    body bytea not null,
    unique (task, sha256)
);

create index fencepost_refused_queue on fencepost_refused (queue_id, id);

create table fencepost_tombstone (
    lookup bytea primary key,
    expires_at bigint
);
