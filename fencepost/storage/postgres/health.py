"""What `doctor` is told of the server that a store stands on. Looks only, and needs no right but
those of the store's own role."""

from __future__ import annotations

from typing import Any

from psycopg import errors

from fencepost.clock import SECOND
from fencepost.storage.postgres import schema
from fencepost.storage.postgres.driver import Connection, rows
from fencepost.storage.sqltext import statements

SQL = statements(schema.PACKAGE, "health.sql")
SETTINGS = (
    "fsync", "full_page_writes", "synchronous_commit", "synchronous_standby_names", "autovacuum",
    "track_counts", "idle_in_transaction_session_timeout", "max_prepared_transactions",
)  # fmt: skip
COLLATIONS_TOLD = 150_000


def facts(connection: Connection, now: int) -> dict[str, Any]:
    """Settings, connections, tables, who pins dead rows, and what is missing. `now` is the
    server's time in microseconds UTC. Raises psycopg.Error."""
    ours = {"names": sorted(schema.OURS)}
    seconds = {"now": now // SECOND}
    ((used, most, hidden, idle),) = _rows(connection, "connections", **seconds)
    return {
        "version": connection.info.server_version,
        "settings": dict(_rows(connection, "server_settings", names=list(SETTINGS))),
        "connections": used, "max_connections": most, "hidden": hidden, "idle_inside": idle,
        "pinned": _rows(connection, "oldest_xmin", **seconds),
        "prepared": _rows(connection, "prepared", **seconds),
        "tables": _rows(connection, "table_health", **ours),
        "invalid_indexes": [name for (name,) in _rows(connection, "invalid_indexes", **ours)],
        "missing_rights": [name for (name,) in _rows(connection, "missing_rights", **ours)],
        "collation": _collation(connection),
        "schema_changed": _changed(connection),
    }  # fmt: skip


def _changed(connection: Connection) -> list[str] | None:
    """None where this role may make no temporary table, and so nothing to compare with."""
    try:
        return schema.changed(connection)
    except (errors.InsufficientPrivilege, errors.ReadOnlySqlTransaction):
        return None


def _collation(connection: Connection) -> tuple[str, str] | None:
    if connection.info.server_version < COLLATIONS_TOLD:
        return None
    return next(iter(_rows(connection, "collation_moved")), None)


def _rows(connection: Connection, name: str, **values: Any) -> list[tuple[Any, ...]]:
    return rows(connection, SQL[name], **values)
