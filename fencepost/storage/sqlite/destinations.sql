-- What is asked and written of destinations. Same rules as in queries.sql.

-- name: destinations_of_scope
select q.scope, q.queue, d.address, d.class, d.options, d.secrets, d.stopped, d.sequence, d.head,
    d.heard, d.announced
from fencepost_queue q cross join fencepost_destination d on d.queue_id = q.id
where q.scope = :scope order by q.queue;

-- name: destinations_by_queue
select q.scope, q.queue, d.address, d.class, d.options, d.secrets, d.stopped, d.sequence, d.head,
    d.heard, d.announced
from json_each(:ids) j cross join fencepost_destination d on d.queue_id = j.value
    cross join fencepost_queue q on q.id = d.queue_id;

-- name: destinations_held
-- the same; where transactions run side by side the rows are held
select q.scope, q.queue, d.address, d.class, d.options, d.secrets, d.stopped, d.sequence, d.head,
    d.heard, d.announced
from json_each(:ids) j cross join fencepost_destination d on d.queue_id = j.value
    cross join fencepost_queue q on q.id = d.queue_id;

-- name: insert_destination
insert into fencepost_destination
    (queue_id, address, class, options, secrets, stopped, sequence, head, heard, announced)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: update_destination
-- guard: it is at the position that was presented
update fencepost_destination
set address = ?, class = ?, options = ?, secrets = ?, stopped = ?, sequence = ?, head = ?,
    heard = ?, announced = ?
where queue_id = ? and sequence = ?;

-- name: stop_destinations
-- what found itself to be a copy delivers nothing until a person says so
update fencepost_destination set stopped = :why where stopped is null;
