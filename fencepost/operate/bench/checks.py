"""Compares what was acknowledged with what stands in the file, before any rate is shown."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fencepost.operate.bench.lab import QUEUE, CheckFailed, reopen
from fencepost.storage.sqlite.connect import connect
from fencepost.storage.sqltext import statements

SQL = statements("fencepost.operate.bench", "checks.sql")


@dataclass(frozen=True, slots=True)
class Before:
    """The last numbers of a store before a run: only what came after is counted."""

    task: int = 0
    entry: int = 0


def before(path: Path) -> Before:
    """The store's numbers now."""
    return Before(*_rows(path, "state_of")[0])


def check_all(path: Path, done: int, *, told: int | None = None) -> None:
    """What the product wrote from its first row on: the counts, and the journal."""
    check(path, done, told=told)
    check_journal(path)


def check(
    path: Path, done: int, *, since: Before | None = None, left: int = 0, told: int | None = None
) -> None:
    """`done` tasks ended once each with a result, a receipt and an obligation; `left` did not.

    `told` is the number of completions that were acknowledged. Raises CheckFailed, which names
    the first count that does not add up.
    """
    if told not in (None, done):
        raise CheckFailed(f"{path.name}: {told} completions were acknowledged for {done} tasks")
    base = since or Before()
    ((queue,),) = _rows(path, "queue_of", queue=QUEUE)
    place = {"task": base.task, "entry": base.entry, "queue": queue}
    _same("tasks that are done, and that are not", (done, left), place, path, "count_states")
    once = (done, done, int(done > 0))
    _same("results, tasks that have one, highest revision", once, place, path, "count_results")
    _same("receipts, tasks that have one", (done, done), place, path, "count_receipts")
    _same("obligations, tasks that owe one", (done, done), place, path, "count_obligations")
    ((entries, span),) = _rows(path, "count_entries", **place)
    if entries != span:
        raise CheckFailed(f"{path.name}: {entries} entries stand where the numbers say {span}")


def check_journal(path: Path) -> None:
    """`verify` finds nothing. Raises CheckFailed with the first of what it finds."""
    with reopen(path) as handle:
        found = handle.verify()
    if not found.clean:
        raise CheckFailed(f"{path.name}: verify found {found.problems[0]}")


def _same(
    what: str, expected: tuple[int, ...], place: dict[str, Any], path: Path, name: str
) -> None:
    (found,) = _rows(path, name, **place)
    if found != expected:
        raise CheckFailed(f"{path.name}: {what}: expected {expected}, found {found}")


def _rows(path: Path, name: str, **values: Any) -> list[tuple[Any, ...]]:
    connection = connect(path, writable=False)
    try:
        rows: list[tuple[Any, ...]] = connection.execute(SQL[name], values).fetchall()
        return rows
    finally:
        connection.close()
