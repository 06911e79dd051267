"""Whose database is this: installs a store, checks its version, migrates and uninstalls it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from fencepost.issues import SchemaMismatch, Unavailable
from fencepost.lineage import INSTALLED
from fencepost.storage.migrate import Migration, migrations, split
from fencepost.storage.postgres import writer
from fencepost.storage.postgres.driver import STATEMENTS, Connection, rows
from fencepost.storage.sqltext import statements, text_of

PACKAGE = "fencepost.storage.postgres"
SQL = statements(PACKAGE, "schema.sql")
MIGRATIONS = migrations(PACKAGE)
LATEST = len(MIGRATIONS)
UNINSTALL = text_of(PACKAGE, "uninstall.sql")
OURS = frozenset(re.findall(r"drop table if exists (\w+)", UNINSTALL))


def _rows(connection: Connection, name: str, **values: Any) -> list[tuple[Any, ...]]:
    return rows(connection, SQL[name], **values)


def is_store(connection: Connection) -> bool:
    """Recognised by our own table in the schema that names go to."""
    return bool(_rows(connection, "has_store"))


def version_of(connection: Connection) -> int:
    """The schema version of a store. Raises Unavailable if its row is not there."""
    found = _rows(connection, "schema_version")
    if not found:
        raise Unavailable("the database has a table fencepost_store without its row: not our store")
    return int(found[0][0])


def check(connection: Connection, shown: str) -> None:
    """The database holds a store of exactly this schema. Raises Unavailable or SchemaMismatch."""
    if not is_store(connection):
        raise Unavailable(
            f"{shown} holds no Fencepost store; make one with: fencepost --store URL init"
        )
    version = version_of(connection)
    if version > LATEST:
        raise SchemaMismatch(
            f"{shown} has schema {version}; this program knows up to {LATEST}: use a newer one"
        )
    if version < LATEST:
        raise SchemaMismatch(
            f"{shown} has schema {version}; run: fencepost --store URL migrate (to {LATEST})"
        )


def install(connection: Connection, now: int | None = None) -> bool:
    """All migrations and the store's own row, in one transaction, unless they are there. Ten
    processes may do so at once. Tells whether it was this one. `now` is a test's; without it the
    server's clock says when the store begins."""
    if is_store(connection):
        return False
    with connection.transaction():
        _rows(connection, "install_lock")
        if is_store(connection):
            return False
        begin(connection, now)
    return True


def begin(connection: Connection, now: int | None) -> None:
    """A new store in the transaction that is open."""
    if now is None:
        ((now,),) = connection.execute(STATEMENTS["clock"]).fetchall()
    for migration in MIGRATIONS:
        _apply(connection, migration, now)
    server = writer.server(connection)
    _rows(
        connection, "begin_store", version=LATEST, writer_id=str(uuid4()), now=now,
        secret=os.urandom(32), **server.columns(),
    )  # fmt: skip
    writer.remember(connection, 0, INSTALLED, server, now)


def others(connection: Connection) -> list[str]:
    """Tables of somebody else's in the same schema."""
    return [name for (name,) in _rows(connection, "tables") if name not in OURS]


def migrate(connection: Connection, now: int, steps: Sequence[Migration] = MIGRATIONS) -> list[str]:
    """Apply what is missing, one transaction a step. Returns the names that were applied."""
    applied = []
    for migration in steps:
        with connection.transaction():
            _rows(connection, "install_lock")
            _rows(connection, "here_alone")
            if migration.version <= version_of(connection):
                continue
            _apply(connection, migration, now)
            _rows(connection, "set_version", version=migration.version)
        applied.append(migration.name)
    return applied


def _apply(connection: Connection, migration: Migration, now: int) -> None:
    for statement in split(migration.sql):
        connection.execute(statement)
    _rows(
        connection, "record_migration",
        version=migration.version, sha256=migration.sha256, now=now,
    )  # fmt: skip


def uninstall(connection: Connection) -> list[str]:
    """Drop our tables and nothing else, in the transaction that is open. Returns their names."""
    _rows(connection, "install_lock")
    _rows(connection, "here_alone")
    names = [name for (name,) in _rows(connection, "tables") if name in OURS]
    for statement in split(UNINSTALL):
        connection.execute(statement)
    return names


def definition(connection: Connection) -> list[tuple[Any, ...]]:
    """Every object of ours as PostgreSQL keeps it: fresh and migrated stores must agree."""
    return _rows(connection, "schema")


def changed(connection: Connection) -> list[str]:
    """Names of tables and indexes of ours that are not as the migrations make them. They are made
    anew as temporary tables, and rolled back."""
    own = set(definition(connection))
    with connection.transaction(force_rollback=True):
        _rows(connection, "in_passing")
        for migration in MIGRATIONS:
            for statement in split(migration.sql):
                connection.execute(statement)
        expected = set(definition(connection))
    return sorted({name for _, name, _ in expected ^ own})
