"""What is done to a store's tables as a whole: make, replace, migrate, take out again. Each is one
transaction (a migration one a step), alone among those that do the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

import psycopg

from fencepost.issues import SchemaMismatch, Unavailable
from fencepost.storage.address import Address, address_of, with_schema
from fencepost.storage.migrate import Migration
from fencepost.storage.port import Conflict
from fencepost.storage.postgres import schema
from fencepost.storage.postgres.connect import connect
from fencepost.storage.postgres.driver import Connection, explained


@contextmanager
def held(url: str) -> Iterator[tuple[Address, Connection]]:
    """A connection to the database, with PostgreSQL's errors in our words."""
    address = address_of(url)
    with closing(connect(address)) as connection:
        try:
            yield address, connection
        except psycopg.Error as error:
            told = explained(error, address.shown)
            if isinstance(told, Conflict):
                raise Unavailable(f"{told}; nothing was done, try again") from error
            raise told from error


def make(url: str, now: int | None, *, into: bool, force: bool) -> tuple[str, bool]:
    """Make a store, beside the tables of others where `into` says so; with `force` a new, empty
    one in place of the one that is there. Returns what may be told of the address, and whether
    there was none. Raises Unavailable where there are tables of somebody else's."""
    with held(url) as (address, connection):
        was_store = schema.is_store(connection)
        others = [] if into or was_store else schema.others(connection)
        if others:
            raise Unavailable(
                f"{address.shown} has tables that are not ours ({', '.join(others[:5])}); to "
                "install a store beside them, run: fencepost init --into URL"
            )
        if not force or not was_store:
            return address.shown, schema.install(connection, now)
        with connection.transaction():
            schema.uninstall(connection)
            schema.begin(connection, now)
    return address.shown, True


def stored_version(url: str) -> tuple[str, int]:
    """What may be told of the address, and the store's schema version. Raises Unavailable where
    there is no store."""
    with held(url) as (address, connection):
        return address.shown, _version(address, connection)


def _version(address: Address, connection: Connection) -> int:
    if not schema.is_store(connection):
        raise Unavailable(f"{address.shown} holds no Fencepost store; nothing was done")
    return schema.version_of(connection)


def migrate(
    url: str, now: int, steps: Sequence[Migration] = schema.MIGRATIONS
) -> tuple[str, int, list[str]]:
    """Bring the store up to the last of `steps`. Returns what may be told of the address, the
    version it had, and the names of what was applied."""
    with held(url) as (address, connection):
        before, latest = _version(address, connection), len(steps)
        if before > latest:
            raise SchemaMismatch(
                f"{address.shown} has schema {before}; this program knows up to {latest}: use a "
                "newer one"
            )
        return address.shown, before, schema.migrate(connection, now, steps)


@contextmanager
def room(url: str, name: str) -> Iterator[str]:
    """A schema of its own, for what is to leave nothing behind: the URL that means it. `name` is
    of ASCII letters, digits and _. Dropped at the end, with all that is in it."""
    assert name.isascii() and name.isidentifier(), name
    with held(url) as (_, connection):
        connection.execute(schema.SQL["make_room"].format(room=name))
    try:
        yield with_schema(url, name)
    finally:
        with held(url) as (_, connection):
            connection.execute(schema.SQL["clear_room"].format(room=name))


def uninstall(url: str) -> tuple[str, list[str]]:
    """Drop our tables and nothing else. Returns what may be told of the address, and the names."""
    with held(url) as (address, connection), connection.transaction():
        _version(address, connection)
        return address.shown, schema.uninstall(connection)
