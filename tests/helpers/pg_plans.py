"""What PostgreSQL means to do for a statement, whatever it knows of the tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any

import psycopg

import fencepost
from fencepost.storage.postgres import talk
from helpers import postgres
from helpers.pg_stand import KEPT, TABLES
from helpers.plans import fill

Node = dict[str, Any]
State = tuple[str, psycopg.Connection[Any]]
SAMPLES = {"bigint": "1", "integer": "'1'", "smallint": "1", "text": "'1'", "bytea": "'\\x31'"}
PARAMETER = re.compile(r"\$\d+|'[^']*'::[a-z]+(?:\[\])?")
LEADING = """
    select i.relname, a.attname from pg_index x join pg_class i on i.oid = x.indexrelid
        join pg_attribute a on a.attrelid = x.indrelid and a.attnum = x.indkey[0]
    where starts_with(i.relname, 'fencepost_')
"""


def plan(
    connection: psycopg.Connection[Any], name: str, *, kept: bool = True, bent: str | None = None
) -> list[Node]:
    """The nodes of the plan under the settings of a transaction that writes: the generic one,
    which a prepared statement keeps and which is made when it is first asked for on a connection,
    or (not `kept`) one made for these parameters. `bent` is what stands there instead."""
    kind = "generic" if kept else "custom"
    statement = f"{kind}_{name}{'' if bent is None else '_bent'}"
    prepared = "select parameter_types::text[] from pg_prepared_statements where name = %s"
    if not connection.execute(prepared, (statement,)).fetchall():
        known = talk._KNOWN[name] if bent is None else talk._statement(name, bent)
        sql = f"prepare {statement} as {known.sql.decode()}"
        connection.execute(sql)  # type: ignore[arg-type]
    ((types,),) = connection.execute(prepared, (statement,)).fetchall()
    given = f"({', '.join(map(_sample, types))})" if types else ""
    with connection.transaction(force_rollback=True):
        connection.execute(talk.STATEMENTS["settings"])
        connection.execute(f"set local plan_cache_mode = force_{kind}_plan")  # type: ignore[arg-type]
        ((told,),) = connection.execute(
            f"explain (format json) execute {statement}{given}"  # type: ignore[arg-type]
        ).fetchall()
        first = dict(connection.execute(LEADING).fetchall())
    found = [node for top in told for node in nodes(top["Plan"])]
    for node in found:
        node["Leads"] = first.get(node.get("Index Name", ""))
    return found


def _sample(kind: str) -> str:
    """A parameter of this type: of an array three, which are more than a table taken for empty
    has."""
    if kind.endswith("[]"):
        return f"array[{', '.join([SAMPLES[kind[:-2]]] * 3)}]::{kind}"
    return f"{SAMPLES[kind]}::{kind}"


def nodes(node: Node) -> Iterator[Node]:
    """A node and all below it."""
    yield node
    for below in node.get("Plans", ()):
        yield from nodes(below)


def walks(found: list[Node]) -> list[str]:
    """What goes through all rows of a table of ours: a scan of it, or of a whole index, which a
    condition that leaves out its first column is too."""
    return [
        f"{node['Node Type']} of {node['Relation Name']}"
        for node in found
        if node.get("Relation Name", "").startswith("fencepost_")
        and (node["Node Type"] == "Seq Scan" or ("Scan" in node["Node Type"]
             and not _searches(node)))
    ]  # fmt: skip


def _searches(node: Node) -> bool:
    if "Index Cond" in node:
        leads = re.compile(rf'\((ROW\()?"?{node["Leads"]}"?[ ,]')
        return leads.search(node["Index Cond"]) is not None
    return "Recheck Cond" in node or "TID Cond" in node


def searches(found: list[Node]) -> list[str]:
    """`index (condition)` of each search by an index; `?` stands for a parameter."""
    return [
        f"{node['Index Name']} {PARAMETER.sub('?', node['Index Cond'])}"
        for node in found
        if "Index Cond" in node
    ]


def states() -> Iterator[State]:
    """A filled store, by what the planner knows of it, with a connection that has kept the plans
    of the states for which it was given before."""
    with _store() as (fp, connect):
        first = connect()
        yield "new", first
        fill(SimpleNamespace(fp=fp))
        yield "filled since the plans were kept", first
        yield "never analysed", connect()
        connect().execute("vacuum analyze")
        yield "analysed", connect()
        for (table,) in first.execute(TABLES).fetchall():
            if table not in KEPT:
                first.execute(f"delete from {table}")
        first.execute("analyze")
        fill(SimpleNamespace(fp=fp))
        yield "analysed while all rows were dead", connect()
    with _store() as (fp, connect):
        connect().execute("vacuum analyze")
        first = connect()
        yield "new and analysed", first
        fill(SimpleNamespace(fp=fp))
        yield "filled since the plans of an empty store were kept", first
        yield "analysed while it was empty", connect()


@contextmanager
def _store() -> Iterator[tuple[Any, Callable[[], psycopg.Connection[Any]]]]:
    """A new store, and what makes connections to it."""
    with postgres.database() as url, ExitStack() as ends:

        def connect() -> psycopg.Connection[Any]:
            return ends.enter_context(psycopg.connect(url, autocommit=True))

        yield ends.enter_context(fencepost.open(url, create=True)), connect
