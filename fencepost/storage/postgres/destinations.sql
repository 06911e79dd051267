-- What is asked and written of destinations. Same rules as in queries.sql.

-- name: destinations_of_scope
select q.scope, q.queue, d.address, d.class, d.options, d.secrets, d.stopped, d.sequence, d.head,
    d.heard, d.announced
from fencepost_queue q join fencepost_destination d on d.queue_id = q.id
where q.scope = %(scope)s order by q.queue;

-- name: destinations_by_queue
select q.scope, q.queue, d.address, d.class, d.options, d.secrets, d.stopped, d.sequence, d.head,
    d.heard, d.announced
from fencepost_destination d
    cross join lateral (select scope, queue from fencepost_queue where id = d.queue_id offset 0) q
where d.queue_id = any(%(ids)s::bigint[]);

-- name: destinations_held
select q.scope, q.queue, d.address, d.class, d.options, d.secrets, d.stopped, d.sequence, d.head,
    d.heard, d.announced
from fencepost_destination d
    cross join lateral (select scope, queue from fencepost_queue where id = d.queue_id offset 0) q
where d.queue_id = any(%(ids)s::bigint[]) order by d.queue_id for no key update of d;

-- name: insert_destination
insert into fencepost_destination
    (queue_id, address, class, options, secrets, stopped, sequence, head, heard, announced)
select * from unnest(%(c1)s::bigint[], %(c2)s::text[], %(c3)s::text[], %(c4)s::text[],
    %(c5)s::text[], %(c6)s::text[], %(c7)s::bigint[], %(c8)s::text[], %(c9)s::bigint[],
    %(c10)s::text[]);

-- name: update_destination
-- guard: it is at the position that was presented
update fencepost_destination d
set address = v.address, class = v.class, options = v.options, secrets = v.secrets,
    stopped = v.stopped, sequence = v.sequence, head = v.head, heard = v.heard,
    announced = v.announced
from unnest(%(c1)s::text[], %(c2)s::text[], %(c3)s::text[], %(c4)s::text[], %(c5)s::text[],
    %(c6)s::bigint[], %(c7)s::text[], %(c8)s::bigint[], %(c9)s::text[], %(c10)s::bigint[],
    %(c11)s::bigint[])
    v (address, class, options, secrets, stopped, sequence, head, heard, announced, queue_id,
        presented)
    cross join lateral (
        select ctid from fencepost_destination where queue_id = v.queue_id offset 0) held
where d.ctid = held.ctid and d.sequence = v.presented;

-- name: stop_destinations
-- what found itself to be a copy delivers nothing until a person says so
update fencepost_destination set stopped = %(why)s where stopped is null;
