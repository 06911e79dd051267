-- Erasure down to the bytes: see scrub.py.

-- name: mark
update fencepost_store set scrub = 1 where id = 1;

-- name: marked
select scrub from fencepost_store where id = 1;

-- name: done
update fencepost_store set scrub = :left where id = 1;

-- name: touch
update fencepost_store set scrub = 1 - scrub where id = 1;

-- name: roots
select rootpage from sqlite_master
where rootpage > 0 and tbl_name in ('fencepost_task', 'fencepost_payload', 'fencepost_result',
    'fencepost_remark', 'fencepost_entry', 'fencepost_refused');

-- name: page_size
pragma page_size;
