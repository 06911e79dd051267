"""What PostgreSQL means to do for a statement whose parameters it does not know."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from fencepost.storage.postgres import talk
from helpers.pg_stand import PgStand
from helpers.plans import fill

Node = dict[str, Any]


def plan(connection: psycopg.Connection[Any], name: str, *, bare: bool = False) -> list[Node]:
    """The nodes of the generic plan, under the settings of a transaction that writes, or `bare`:
    as a reading connection has it."""
    known = talk._KNOWN[name]
    given = f"({', '.join(['null'] * len(known.names))})" if known.names else ""
    with connection.transaction(force_rollback=True):
        if not bare:
            connection.execute(talk.STATEMENTS["settings"])
        connection.execute("set local plan_cache_mode = force_generic_plan")
        connection.execute(f"prepare looked_at as {known.sql.decode()}")  # type: ignore[arg-type]
        ((told,),) = connection.execute(
            f"explain (format json) execute looked_at{given}"  # type: ignore[arg-type]
        ).fetchall()
        connection.execute("deallocate looked_at")
    return [node for top in told for node in nodes(top["Plan"])]


def nodes(node: Node) -> Iterator[Node]:
    """A node and all below it."""
    yield node
    for below in node.get("Plans", ()):
        yield from nodes(below)


def walks(found: list[Node]) -> list[str]:
    """What goes through all rows of a table of ours: a scan of it, or of a whole index."""
    return [
        f"{node['Node Type']} of {node['Relation Name']}"
        for node in found
        if node.get("Relation Name", "").startswith("fencepost_")
        and (node["Node Type"] == "Seq Scan" or ("Scan" in node["Node Type"] and "Index Cond"
             not in node and "Recheck Cond" not in node and "TID Cond" not in node))
    ]  # fmt: skip


def searches(found: list[Node]) -> list[str]:
    """`index (condition)` of each search by an index."""
    return [
        f"{node['Index Name']} {node['Index Cond']}" for node in found if "Index Cond" in node
    ]


@contextmanager
def stands() -> Iterator[Iterator[tuple[str, psycopg.Connection[Any]]]]:
    """A store that is new, then filled, then known to the planner; with a connection of our own,
    since the store's is its writer's."""
    with PgStand() as stand, psycopg.connect(stand.url, autocommit=True) as connection:

        def states() -> Iterator[tuple[str, psycopg.Connection[Any]]]:
            yield "empty", connection
            fill(stand)
            yield "filled", connection
            connection.execute("vacuum analyze")
            yield "analysed", connection

        yield states()
