-- Fencepost's tables, version 1. All are prefixed, so that they can live in an application's
-- own database; a store is recognised by the one row of fencepost_store and by nothing else.
-- Times are integer microseconds UTC and always come in as parameters.

create table fencepost_store (
    id integer primary key check (id = 1),
    product text not null check (product = 'fencepost'),
    schema_version integer not null,
    writer_id text not null,
    epoch integer not null check (epoch >= 0),
    floor integer not null check (floor between 0 and epoch),
    last_fence integer not null check (last_fence between 0 and 999999999999999),
    last_task integer not null,
    last_entry integer not null,
    mark integer not null,
    created_at integer not null,
    secret blob not null check (length(secret) = 32),
    scrub integer not null default 0 check (scrub in (0, 1)) -- erased bytes may still lie about
) strict;

create table fencepost_migration (
    version integer primary key,
    sha256 text not null,
    applied_at integer not null
) strict;

-- Each writer that was recognised: the store's beginning, a restart of the machine, a copy. The
-- last row is the one that writes. `identity` says which file this is, as far as a system tells
-- (identity.py): a JSON object.
create table fencepost_writer (
    epoch integer primary key,
    incarnation text not null,
    why text not null,
    identity text not null,
    recognised_at integer not null
) strict;

create table fencepost_scope (
    scope text primary key,
    policy_version integer not null,
    revoked integer not null check (revoked in (0, 1)),
    retain_seconds integer
) strict, without rowid;

create table fencepost_queue (
    id integer primary key,
    scope text not null,
    queue text not null,
    is_destination integer not null check (is_destination in (0, 1)),
    settings text not null,
    unique (scope, queue)
) strict;

-- Where the obligations of a queue are delivered to. `options` (those that differ from their default)
-- and `secrets` are JSON; `head` is hex.
create table fencepost_destination (
    queue_id integer primary key references fencepost_queue (id),
    address text not null,
    class text not null,
    options text not null,
    secrets text not null,
    stopped text,
    sequence integer not null check (sequence between 0 and 999999999999999),
    head text,
    heard integer not null,
    announced text
) strict;

-- Who may come in over the network. Of the token itself only its SHA-256 is kept; `scope` is * for
-- every scope, `queues` a sorted JSON list of names or null for all.
create table fencepost_token (
    token_id text primary key,
    sha256 blob not null check (length(sha256) = 32),
    scope text not null,
    kind text not null,
    actor text not null,
    queues text,
    created_at integer not null,
    expires_at integer,
    revoked_at integer
) strict, without rowid;

create unique index fencepost_token_sha256 on fencepost_token (sha256);
create index fencepost_token_scope on fencepost_token (scope);

-- `place` and `rank` are physical: where a task stands and its order there, so that one index
-- answers every question of the hot path and no claim steps over what is not yet due.
--   place 0  ready and due     rank -priority
--   place 1  ready, due later  rank due_at
--   place 2  leased            rank lease_expires_at
--   place 3  blocked           rank changed_at
--   place 4  done, 5 dead, 6 cancelled  rank changed_at
-- Few checks stand here, since each is paid at every write (a list of states: 2.5 us of 4);
-- `verify` holds every row against the journal.
create table fencepost_task (
    id integer primary key,
    task_id text not null,
    queue_id integer not null references fencepost_queue (id),
    key text,
    state text not null,
    place integer not null,
    rank integer not null,
    priority integer not null,
    due_at integer not null,
    attempt integer not null,
    max_attempts integer not null,
    round integer not null,
    revision integer not null,
    fence integer not null check (fence between 0 and 999999999999999),
    epoch integer not null,
    policy_version integer not null,
    worker_id text check (worker_id is not null or place <> 2),
    granted_at integer not null,
    lease_expires_at integer not null,
    created_at integer not null,
    changed_at integer not null,
    content blob not null,
    created_entry integer not null,
    entry integer not null,
    parent integer,
    reason blob,
    erased integer not null
) strict;

create unique index fencepost_task_id on fencepost_task (task_id);
create unique index fencepost_task_key on fencepost_task (queue_id, key) where key is not null;
create index fencepost_task_place on fencepost_task (queue_id, place, rank, id);
create index fencepost_task_parent on fencepost_task (parent) where parent is not null;

-- Content stands apart from its task, so that a lease does not rewrite it and erase finds it.
create table fencepost_payload (
    task integer primary key references fencepost_task (id),
    salt blob not null,
    body blob not null
) strict;

-- What a worker leaves beside its results: how far it has come, for the next attempt, and what
-- the work has said, for people. A task has a row once something was left.
create table fencepost_remark (
    task integer primary key references fencepost_task (id),
    progress blob,
    log blob
) strict;

-- At most one result for each task and revision, and each result once in a round.
create table fencepost_result (
    task integer not null references fencepost_task (id),
    revision integer not null,
    round integer not null,
    sha256 blob,
    entry integer not null,
    commitment text not null,
    body blob,
    primary key (task, revision)
) strict, without rowid;

create unique index fencepost_result_once on fencepost_result (task, round, sha256);

-- The journal. An entry whose command had a key is its receipt. `request_id` is the first 8
-- bytes of request_sha256 as a number, for finding the receipt of the same bytes again.
create table fencepost_entry (
    number integer primary key,
    key text,
    task integer,
    request_id integer,
    body blob,
    salt blob,
    request_sha256 blob,
    result_sha256 blob
) strict;

create unique index fencepost_entry_key on fencepost_entry (key) where key is not null;
create index fencepost_entry_task on fencepost_entry (task, request_id) where task is not null;

-- Entries that name a task which an earlier one has brought about: an enqueue or a follow-up of a
-- known key. Their requests hold the task's content too, so erase closes their openings as well.
create table fencepost_naming (
    task integer not null,
    entry integer not null,
    primary key (task, entry)
) strict, without rowid;

-- The RFC 6962 tree over the entries: every perfect subtree. Level 0 are the leaf hashes.
create table fencepost_node (
    level integer not null,
    position integer not null,
    hash blob not null check (length(hash) = 32),
    primary key (level, position)
) strict, without rowid;

create table fencepost_checkpoint (
    size integer primary key,
    sealed_at integer not null,
    body blob not null
) strict;

-- Late results that a queue keeps aside (keep_refused). Not results.
create table fencepost_refused (
    id integer primary key,
    queue_id integer not null,
    task integer not null,
    worker_id text not null,
    fence integer not null,
    refused_at integer not null,
    issues text not null,
    sha256 blob not null,
    body blob not null,
    unique (task, sha256)
) strict;

create index fencepost_refused_queue on fencepost_refused (queue_id, id);

-- Keys of erased and purged things, as HMAC-SHA-256 under the store's secret: never used again.
create table fencepost_tombstone (
    lookup blob primary key,
    expires_at integer
) strict, without rowid;
