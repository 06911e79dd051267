-- Fencepost's tables go, and nothing else.
drop table if exists fencepost_tombstone;
drop table if exists fencepost_refused;
drop table if exists fencepost_checkpoint;
drop table if exists fencepost_node;
drop table if exists fencepost_naming;
drop table if exists fencepost_entry;
drop table if exists fencepost_result;
drop table if exists fencepost_remark;
drop table if exists fencepost_payload;
drop table if exists fencepost_task;
drop table if exists fencepost_token;
drop table if exists fencepost_destination;
drop table if exists fencepost_queue;
drop table if exists fencepost_scope;
drop table if exists fencepost_writer;
drop table if exists fencepost_migration;
drop table if exists fencepost_store;
