"""A whole store comes in from elsewhere: all of it, checked, or nothing.

It is one transaction. It keeps the store's name, secret and numbers, so every receipt, proof and
checkpoint goes on to hold, and begins a new epoch that is also the floor, so no lease of before
is good for anything here: whoever still works with the old store can do no harm to this one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import psycopg

from fencepost.issues import InvalidRequest, OutcomeUnknown
from fencepost.lineage import COPIED, following
from fencepost.record import dataclass
from fencepost.storage.leaving import TABLES, Leaving
from fencepost.storage.postgres import schema, writer
from fencepost.storage.postgres.commit import commit
from fencepost.storage.postgres.driver import STATEMENTS, Connection, reader
from fencepost.storage.postgres.upkeep import held
from fencepost.storage.sqltext import statements
from fencepost.storage.steps import Read

SQL = statements(schema.PACKAGE, "arrive.sql")
EVERY = 2_000
COMMIT_SECONDS = 120.0

T = TypeVar("T")
Told = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Arrived:
    """Where the store is now, and the epoch that has begun with it."""

    path: str
    epoch: int
    rows: int


def arrive(url: str, source: Leaving, check: Callable[[Read], None], told: Told) -> Arrived:
    """Take up `source` in the database, where no store is or one that was never used. `check` is
    given a function that reads what came in, before it is committed, and raises if it is not whole.

    Raises InvalidRequest for a store that has been used, Unavailable (nothing was done) and
    OutcomeUnknown (it may be there, whole, or not at all).
    """
    with held(url) as (address, connection):
        connection.execute(STATEMENTS["begin"])
        try:
            _empty(connection, address.shown)
            rows = _taken(connection, source, told)
            epoch = _begun(connection, source)
            connection.execute(SQL["learn"])
            check(reader(connection, address.shown))
        except BaseException:
            connection.close()  # the server undoes what it has heard no end of
            raise
        try:
            commit(connection, COMMIT_SECONDS)
        except (psycopg.Error, OSError) as error:
            raise OutcomeUnknown(
                f"{address.shown}: {error} (while committing: all of it may be there, or nothing; "
                "run it again, and it tells)"
            ) from error
        return Arrived(address.shown, epoch, rows)


def _empty(connection: Connection, shown: str) -> None:
    """A store that nobody has used, made where there was none; held to the commit."""
    connection.execute(schema.SQL["install_lock"])
    connection.execute(schema.SQL["here_alone"])
    if not schema.is_store(connection):
        schema.begin(connection, None)
    schema.check(connection, shown)
    if connection.execute(SQL["anything_there"]).fetchall() != [(False,)]:
        raise InvalidRequest(
            f"copy: {shown} holds a store that is in use; name a database or schema without one"
        )


def _taken(connection: Connection, source: Leaving, told: Told) -> int:
    done = 0
    connection.execute(SQL["without_a_past"])
    for name in TABLES:
        with connection.cursor() as cursor, cursor.copy(SQL[name]) as copy:
            for row in source.rows(name):
                copy.write_row(row)
                done += 1
                if done % EVERY == 0:
                    told("rows", min(done, source.total), source.total)
    told("rows", source.total, source.total)
    return done


def _begun(connection: Connection, source: Leaving) -> int:
    writer_id, epoch, floor, fence, task, entry, mark, created_at, secret = source.whole
    epoch, floor = following(COPIED, epoch, floor)
    server = writer.server(connection)
    ((now,),) = connection.execute(STATEMENTS["clock"]).fetchall()
    connection.execute(SQL["become"], {
        "writer_id": writer_id, "epoch": epoch, "mark": mark, "created_at": created_at,
        "secret": secret, "incarnation": server.incarnation,
    })  # fmt: skip
    connection.execute(SQL["go_on_with_numbers"], {
        "fence": max(fence, epoch << 32), "task": task, "entry": entry,
    })  # fmt: skip
    connection.execute(STATEMENTS["end_leases"], {"now": now, "floor": floor})
    connection.execute(STATEMENTS["stop_destinations"], {"why": COPIED})
    writer.remember(connection, epoch, COPIED, server, now)
    return int(epoch)
