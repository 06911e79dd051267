-- What is done to a copy of a SQLite store that shall not know that it is one.

-- name: pin
update fencepost_writer set identity = :identity
where epoch = (select max(epoch) from fencepost_writer);
