"""Whose file is this: creates a store, checks its version, migrates and uninstalls it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from fencepost.issues import SchemaMismatch, Unavailable
from fencepost.lineage import INSTALLED
from fencepost.storage.migrate import Migration, migrations, split
from fencepost.storage.sqlite.place import pasted
from fencepost.storage.sqltext import statements, text_of

PACKAGE = "fencepost.storage.sqlite"
SQL = statements(PACKAGE, "schema.sql", "identity.sql")
MIGRATIONS = migrations(PACKAGE)
LATEST = len(MIGRATIONS)
UNINSTALL = text_of(PACKAGE, "uninstall.sql")


def is_store(connection: sqlite3.Connection) -> bool:
    """Recognised by our own table, not by application_id, which is the application's."""
    return bool(connection.execute(SQL["has_store"]).fetchall())


def is_empty(connection: sqlite3.Connection) -> bool:
    """No table of anybody's."""
    ((tables,),) = connection.execute(SQL["has_tables"]).fetchall()
    return bool(tables == 0)


def version_of(connection: sqlite3.Connection) -> int:
    """The schema version of a store. Raises Unavailable if its row is not there."""
    rows = connection.execute(SQL["schema_version"]).fetchall()
    if not rows:
        raise Unavailable("the file has a table fencepost_store without its row: not our store")
    return int(rows[0][0])


def check(connection: sqlite3.Connection, path: Path | str) -> None:
    """The file is a store of exactly this schema. Raises Unavailable or SchemaMismatch."""
    if not is_store(connection):
        raise Unavailable(
            f"{path} is a SQLite database but not a Fencepost store; to install one beside the "
            f"application's tables run: fencepost init --into {pasted(path)}"
        )
    version = version_of(connection)
    if version > LATEST:
        raise SchemaMismatch(
            f"{path} has schema {version}; this program knows up to {LATEST}: use a newer one"
        )
    if version < LATEST:
        raise SchemaMismatch(
            f"{path} has schema {version}; run: fencepost --store {pasted(path)} migrate "
            f"(to {LATEST})"
        )


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All of the block or nothing. What went wrong is raised as it is, though SQLite has ended the
    transaction by itself (a full disk), or Ctrl-C came just after the commit."""
    connection.execute("begin immediate")
    try:
        yield
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise


def install(connection: sqlite3.Connection, now: int, identity: str = "{}") -> None:
    """All migrations and the store's own row, in one transaction. The caller holds the turn.
    `identity` says which file this is (identity.py); a store in memory has none."""
    from uuid import uuid4  # only where a store begins: its modules would slow down every start

    values = {
        "version": LATEST, "writer_id": str(uuid4()), "now": now, "secret": os.urandom(32)
    }  # fmt: skip
    first = {
        "epoch": 0, "incarnation": str(uuid4()), "why": INSTALLED, "identity": identity, "now": now
    }  # fmt: skip
    with _transaction(connection):
        if not is_store(connection):
            for migration in MIGRATIONS:
                _apply(connection, migration, now)
            connection.execute(SQL["begin_store"], values)
            connection.execute(SQL["insert_writer"], first)


def migrate(
    connection: sqlite3.Connection, now: int, steps: Sequence[Migration] = MIGRATIONS
) -> list[str]:
    """Apply what is missing, one transaction a step. Returns the names that were applied."""
    applied = []
    for migration in steps:
        if migration.version <= version_of(connection):
            continue
        with _transaction(connection):
            _apply(connection, migration, now)
            connection.execute(SQL["set_version"], {"version": migration.version})
        applied.append(migration.name)
    return applied


def _apply(connection: sqlite3.Connection, migration: Migration, now: int) -> None:
    for statement in split(migration.sql):
        connection.execute(statement)
    record = {"version": migration.version, "sha256": migration.sha256, "now": now}
    connection.execute(SQL["record_migration"], record)


def uninstall(connection: sqlite3.Connection) -> list[str]:
    """Drop our tables and nothing else. Returns their names."""
    names = [name for (name,) in connection.execute(SQL["our_tables"]).fetchall()]
    with _transaction(connection):
        for statement in split(UNINSTALL):
            connection.execute(statement)
    return names


def definition(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
    """Every object of ours as SQLite keeps it: fresh and migrated stores must agree."""
    return connection.execute(SQL["schema"]).fetchall()


def changed(connection: sqlite3.Connection) -> list[str]:
    """Names of tables and indexes of ours that are not as the migrations make them."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        for migration in MIGRATIONS:
            for statement in split(migration.sql):
                fresh.execute(statement)
        expected = set(definition(fresh))
    return sorted({name for _, name, *_ in expected ^ set(definition(connection))})
