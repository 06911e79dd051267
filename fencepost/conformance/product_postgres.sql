-- What the kit asks of a server beside the product: databases for its stores. Names of databases
-- come from product_postgres.py and stand in braces.

-- name: create
create database {name};

-- name: copy
create database {name} template {source};

-- name: drop
drop database if exists {name} with (force);

-- name: pin
-- the copy takes itself for the store that it was made of: what tells them apart is made the same
update fencepost_store
set database_oid = (select oid::bigint from pg_database where datname = current_database());
