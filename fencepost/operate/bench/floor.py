"""The floor: the very rows that the product wrote, written again with nothing decided.

A store that the product has drained is read back, and what was written for each claim and each
batch of completions goes into a copy of the store as it was before, with the product's own
statements and `executemany`, in the same transactions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any

from fencepost.model import TaskRow
from fencepost.operate.bench.checks import Before
from fencepost.operate.bench.plain import SQL
from fencepost.storage.rows import queue_row, task_row
from fencepost.storage.saving import update_columns
from fencepost.storage.sqlite.connect import connect
from fencepost.storage.sqlite.driver import STATEMENTS

LIKE_THE_PRODUCT = "pragma wal_autocheckpoint = 4000"  # 16 MiB of log

Rows = list[tuple[Any, ...]]


@dataclass(slots=True)
class Written:
    """The rows of one transaction, and the store's numbers after it."""

    numbers: tuple[int, ...]
    updated: Rows = field(default_factory=list)
    tasks: Rows = field(default_factory=list)
    payloads: Rows = field(default_factory=list)
    results: Rows = field(default_factory=list)
    entries: Rows = field(default_factory=list)
    claims: bool = False

    def statements(self) -> Iterator[tuple[str, Rows]]:
        """In the order in which the product writes."""
        yield STATEMENTS["insert_task"], self.tasks
        yield STATEMENTS["insert_payload"], self.payloads
        yield STATEMENTS["update_task"], self.updated
        yield STATEMENTS["insert_result"], self.results
        yield STATEMENTS["insert_entry"], self.entries


def written_since(path: Path, before: Before) -> list[Written]:
    """What each transaction of a drain wrote: claim, completions, claim, completions …"""
    connection = connect(path, writable=True)
    try:
        return list(_transactions(connection, before))
    finally:
        connection.close()


def _transactions(connection: Any, before: Before) -> Iterator[Written]:
    entry = before.entry

    def rows(name: str, *values: Any) -> Rows:
        found: Rows = connection.execute(SQL[name], values).fetchall()
        return found

    final = _final_tasks(connection, [task_id for (task_id,) in rows("changed_rows", entry, entry)])
    tasks, payloads = _by(rows("new_rows", entry), -2), rows("new_payloads", entry)
    bodies = {row[0]: row for row in payloads}
    results = _by(rows("new_results", entry), 4)
    open_: Written | None = None
    for row in rows("entry_rows", entry):
        number = row[0]
        item = json.loads(row[4])
        if item["verb"] == "claim":
            if open_ is not None:
                yield open_
            fence = max(one["fence"] for one in item["tasks"])
            leased = [_leased(final[one["task_id"]], number) for one in item["tasks"]]
            yield Written((fence, before.task, number, leased[0][0]), _columns(leased),
                          entries=[row], claims=True)  # fmt: skip
            open_ = Written((fence, before.task, number, leased[0][0]))
        elif open_ is not None:
            done = final[item["tasks"][0]["task_id"]]
            open_.updated += _columns([(done.changed_at, done)])
            open_.tasks += tasks.get(number, [])
            open_.payloads += [bodies[new[0]] for new in tasks.get(number, [])]
            open_.results += results.get(number, [])
            open_.entries.append(row)
            open_.numbers = (*open_.numbers[:2], number, done.changed_at)
    if open_ is not None:
        yield open_


def _by(rows: Rows, column: int) -> dict[int, Rows]:
    grouped: dict[int, Rows] = {}
    for row in rows:
        grouped.setdefault(row[column], []).append(row)
    return grouped


def _final_tasks(connection: Any, ids: list[str]) -> dict[str, TaskRow]:
    """The tasks as they ended, guarded as their completion was."""
    found = {}
    queues: dict[int, Any] = {}
    for row in connection.execute(STATEMENTS["tasks_by_id"], {"ids": json.dumps(ids)}).fetchall():
        if row[2] not in queues:
            ids_of = {"ids": json.dumps([row[2]])}
            (queue,) = connection.execute(STATEMENTS["queues_by_id"], ids_of).fetchall()
            queues[row[2]] = queue_row(queue)
        task = task_row(row, queues[row[2]])
        task.guard = (task.fence, None)
        found[task.task_id] = task
    return found


def _leased(task: TaskRow, entry: int) -> tuple[int, TaskRow]:
    """(time, the task as its claim left it)."""
    leased = replace(
        task, state="leased", revision=task.revision - 1, changed_at=task.granted_at, entry=entry,
        guard=(0, None),
    )  # fmt: skip
    return task.granted_at, leased


def _columns(tasks: list[tuple[int, TaskRow]]) -> Rows:
    return [update_columns(task, now) for now, task in tasks]


def write_again(path: Path, transactions: list[Written]) -> tuple[float, float]:
    """Write them into the copy. Returns the seconds of the claims and of the completions."""
    connection = connect(path, writable=True)
    seconds = {True: 0.0, False: 0.0}
    try:
        connection.execute(LIKE_THE_PRODUCT)
        for one in transactions:
            began = perf_counter()
            connection.execute(SQL["begin"])
            for sql, rows in one.statements():
                if rows:
                    connection.executemany(sql, rows)
            connection.execute(SQL["count_up"], one.numbers)
            connection.execute(SQL["commit"])
            seconds[one.claims] += perf_counter() - began
    finally:
        connection.close()
    return seconds[True], seconds[False]
