-- What is asked of an outbox and noted in it.

-- name: open_claims
select id, key, body, taking from outbox_claim where state = 'open' order by id;

-- name: write_claim
insert into outbox_claim (key, body, taking, state) values (:key, :body, :taking, 'open')
returning id;

-- name: end_claim
update outbox_claim set state = :state, receipt = :receipt where id = :id and state = 'open'
returning id;

-- name: task
select id, task_id, label, queue, key, payload, base_revision, fence, epoch, policy_version,
    attempt, max_attempts, granted_at, lease_expires_at, max_result_bytes, on_lapse, progress, tries,
    state, waits
from outbox_task where id = :id;

-- name: latest
select id from outbox_task where task_id = :task_id order by id desc limit 1;

-- name: by_label
select id, task_id from outbox_task where label = :label order by id desc limit 1;

-- name: next_open
select t.id from outbox_task t
where t.state = 'open' and t.id > :after
    and not exists (select 1 from outbox_result r where r.taking = t.id)
    and t.id = (select max(n.id) from outbox_task n where n.task_id = t.task_id)
order by t.id limit :limit;

-- name: to_work
-- What a worker may begin on: the newest taking of a task that is open and was not worked on by
-- hand, or that an earlier run has given back or failed and no sync has told so.
select t.id from outbox_task t
where t.id > :after and t.id = (select max(n.id) from outbox_task n where n.task_id = t.task_id)
    and ((t.state = 'open' and (t.tries > 0
            or not exists (select 1 from outbox_result r where r.taking = t.id)))
        or (t.state = 'closed' and exists (select 1 from outbox_command c where c.taking = t.id
            and c.state = 'ready' and c.verdict in ('retry', 'release'))))
order by t.id limit 1;

-- name: queues
select distinct queue from outbox_task;

-- name: on_lapse
select on_lapse from outbox_task where queue = :queue order by id desc limit 1;

-- name: insert_task
insert into outbox_task (task_id, label, queue, key, payload, base_revision, fence, epoch,
    policy_version, attempt, max_attempts, granted_at, lease_expires_at, max_result_bytes, on_lapse,
    progress, state)
values (:task_id, :label, :queue, :key, :payload, :base_revision, :fence, :epoch, :policy_version,
    :attempt, :max_attempts, :granted_at, :lease_expires_at, :max_result_bytes, :on_lapse,
    :progress, 'open');

-- name: set_tries
update outbox_task set tries = :tries where id = :id;

-- name: set_progress
update outbox_task set progress = :progress where id = :id;

-- name: set_waits
update outbox_task set waits = :waits where id = :id and state in ('open', 'closed');

-- name: set_lease
update outbox_task set fence = :fence, epoch = :epoch, attempt = :attempt,
    max_attempts = :max_attempts, granted_at = :granted_at, lease_expires_at = :lease_expires_at,
    waits = null
where id = :id;

-- name: set_base
update outbox_task set base_revision = :base_revision, policy_version = :policy_version
where id = :id;

-- name: set_state
update outbox_task set state = :state, waits = :waits where id = :id;

-- name: results_of
select id, sha256, digest, content, recorded_at, revision from outbox_result
where taking = :taking order by id;

-- name: digests_of
select sha256, revision from outbox_result where taking = :taking order by id;

-- name: result_by_sha256
select id, digest from outbox_result where taking = :taking and sha256 = :sha256;

-- name: result
select sha256, digest, content, revision from outbox_result where id = :id;

-- name: insert_result
insert into outbox_result (taking, sha256, digest, content, recorded_at)
values (:taking, :sha256, :digest, :content, :now) returning id;

-- name: set_revision
update outbox_result set revision = :revision where id = :id and revision is null returning id;

-- name: forget_revision
update outbox_result set revision = null where id = :id;

-- name: next_command
-- The first that is ready after a place, of a task that nothing stands in the way of.
select c.id, c.place, c.taking, c.result, c.verb, c.verdict, c.fence, c.key, c.body, c.state,
    c.answer
from outbox_command c join outbox_task t on t.id = c.taking
where c.state = 'ready' and c.place > :after and t.state in ('open', 'closed')
order by c.place, c.id limit 1;

-- name: commands_of
select id, place, taking, result, verb, verdict, fence, key, body, state, answer from outbox_command
where taking = :taking order by place, id;

-- name: command_keys
select key from outbox_command where taking = :taking;

-- name: closing
select c.result from outbox_command c
where c.taking = :taking and c.verb = 'complete' and c.state <> 'replaced' limit 1;

-- name: closing_body
select c.body from outbox_command c
where c.taking = :taking and c.verb = 'complete' and c.state <> 'replaced' limit 1;

-- name: verdict_of
select c.id, c.verdict, c.body from outbox_command c
where c.taking = :taking and c.verdict is not null and c.state = 'ready' limit 1;

-- name: last_place
select coalesce(max(place), 0) from outbox_command;

-- name: insert_command
insert into outbox_command (place, taking, result, verb, verdict, fence, key, body, state)
values (:place, :taking, :result, :verb, :verdict, :fence, :key, :body, 'ready');

-- name: stand_again
update outbox_command set state = 'ready', place = :place where key = :key and state = 'replaced'
returning id;

-- name: end_command
update outbox_command set state = :state, answer = coalesce(:answer, answer)
where id = :id and state = 'ready' returning id;

-- name: set_answer
update outbox_command set answer = :answer where id = :id and answer is not :answer returning id;

-- name: ready_again
update outbox_command set state = 'ready' where id = :id;

-- name: insert_conflict
insert into outbox_conflict (taking, code, message, theirs, noted_at)
values (:taking, :code, :message, :theirs, :now);

-- name: conflicts
select c.id, c.taking, c.code, c.message, c.theirs, c.noted_at, c.decided
from outbox_conflict c where (:every or c.decided is null) and c.id > :after order by c.id limit 1;

-- name: decide
update outbox_conflict set decided = :decided where taking = :taking and decided is null
returning id;

-- name: leases
-- The fence of each task as it is held here by now. With max() the other columns are of its row.
select label, fence, max(id) from outbox_task group by task_id;

-- name: rows
select t.label, r.digest from outbox_result r join outbox_task t on t.id = r.taking
where r.revision is not null;

-- name: last_link
select number, hash from outbox_link order by number desc limit 1;

-- name: links
select number, step, hash from outbox_link where number > :after order by number limit 500;

-- name: insert_link
insert into outbox_link (number, step, hash) values (:number, :step, :hash);

-- name: counts
select
    (select count(*) from outbox_task) as tasks,
    (select count(*) from outbox_task t where t.state = 'open' and not exists
        (select 1 from outbox_result r where r.taking = t.id)) as without_result,
    (select count(*) from outbox_task t where t.state = 'open' and exists
        (select 1 from outbox_result r where r.taking = t.id)) as going_on,
    (select count(*) from outbox_task where state = 'closed') as closed,
    (select count(*) from outbox_task where state = 'settled') as settled,
    (select count(*) from outbox_task where state = 'conflict') as conflicts,
    (select count(*) from outbox_task where state in ('open', 'closed') and waits is not null),
    (select count(*) from outbox_result) as results,
    (select count(*) from outbox_result where revision is not null) as accepted,
    (select count(*) from outbox_command c join outbox_task t on t.id = c.taking
        where c.state = 'ready' and t.state in ('open', 'closed')) as to_send,
    (select count(*) from outbox_command c join outbox_task t on t.id = c.taking
        where c.state = 'ready' and c.verdict is not null and t.state = 'closed') as verdicts,
    (select count(*) from outbox_claim where state = 'open') as open_claims,
    (select min(lease_expires_at) from outbox_task where state in ('open', 'closed')) as first_end;

-- name: waiting
select task_id, label, waits from outbox_task
where state in ('open', 'closed') and waits is not null order by id;

-- name: every_result
select r.id, t.label, r.sha256, r.digest, r.content, r.revision
from outbox_result r join outbox_task t on t.id = r.taking where r.id > :after
order by r.id limit 1;

-- name: every_command
select c.id, t.label, t.task_id, c.key, c.body, r.sha256, r.digest, c.verb,
    c.verdict, c.fence
from outbox_command c join outbox_task t on t.id = c.taking
left join outbox_result r on r.id = c.result where c.id > :after order by c.id limit 1;

-- name: integrity
pragma integrity_check(1);

-- name: strangers
pragma foreign_key_check;

-- name: small_cache
pragma cache_size = -2048;

-- name: begin
begin immediate;

-- name: begin_reading
begin deferred;

-- name: commit
commit;

-- name: rollback
rollback;

-- name: tidy
pragma wal_checkpoint(passive);
