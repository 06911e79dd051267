-- Counts by which a run is checked before any rate of it is shown. Only rows after the given
-- numbers count, so that a store that was large before is not read through.

-- name: state_of
select last_task, last_entry from fencepost_store where id = 1;

-- name: queue_of
select id from fencepost_queue where queue = :queue;

-- name: count_states
select coalesce(sum(state = 'done'), 0), coalesce(sum(state <> 'done'), 0)
from fencepost_task where id > :task and queue_id = :queue;

-- name: count_results
select count(*), count(distinct task), coalesce(max(revision), 0)
from fencepost_result where task > :task;

-- name: count_receipts
select count(*), count(distinct task)
from fencepost_entry where number > :entry and task is not null;

-- name: count_obligations
select count(*), count(distinct parent)
from fencepost_task where id > :task and parent is not null and queue_id <> :queue;

-- name: count_entries
select count(*), coalesce(max(number), :entry) - :entry
from fencepost_entry where number > :entry;
