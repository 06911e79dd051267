-- What the drill's receivers have done: an operation, and the data of its event.

-- name: effects_web
select operation, data from receiver_effect order by rowid;

-- name: effects_table
select operation, data from page order by rowid;
