-- Whose file this is: read when a store is opened, written when another writer is recognised.

-- name: last_identity
select identity from fencepost_writer order by epoch desc limit 1;

-- name: change_writer
update fencepost_store
set epoch = :epoch, floor = :floor, last_fence = max(last_fence, :last_fence) where id = 1;

-- name: insert_writer
insert into fencepost_writer (epoch, incarnation, why, identity, recognised_at)
values (:epoch, :incarnation, :why, :identity, :now);
