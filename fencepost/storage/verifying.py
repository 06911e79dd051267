"""Gives `journal/verify.py` what it reads, in pages, from one snapshot of a store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from fencepost.destinations import Columns
from fencepost.journal.destinations import DestinationLine
from fencepost.journal.reading import EntryRow
from fencepost.journal.roster import TokenLine
from fencepost.journal.rows import ResultLine, TaskLine
from fencepost.journal.standing import QueueLine
from fencepost.machine.rows import QueueRow
from fencepost.model import QueueSettings, Scope, StoreState, TaskRow, Writer
from fencepost.storage.reading import writers
from fencepost.storage.rows import request_id, task_row
from fencepost.storage.saving import place
from fencepost.storage.steps import Read, rows_of

PAGE = 500
STRAYS = (
    "stray_destinations", "stray_payloads", "stray_remarks", "stray_refused", "lost_entries",
    "stray_entries",
)  # fmt: skip


class Pages:
    """A `journal.verify.Source` over a snapshot."""

    def __init__(self, read: Read) -> None:
        self._read = read

    def store(self) -> StoreState:
        ((writer_id, *numbers),) = self._read(rows_of("store"))
        return StoreState(writer_id, *numbers)

    def writers(self) -> tuple[Writer, ...]:
        return self._read(writers())

    def beside(self) -> bool:
        ((beside,),) = self._read(rows_of("beside"))
        return bool(beside)

    def tree_size(self) -> int:
        ((size,),) = self._read(rows_of("tree_size"))
        return int(size)

    def top_level(self) -> int:
        ((level,),) = self._read(rows_of("top_level"))
        return int(level)

    def entries(self) -> Iterator[EntryRow]:
        after = 0
        while rows := self._read(rows_of("verify_entries", after=after, limit=PAGE)):
            yield from map(_entry, rows)
            after = rows[-1][0]

    def nodes(self, level: int) -> Iterator[tuple[int, bytes]]:
        start = 0
        while rows := self._read(rows_of("nodes", level=level, start=start, limit=PAGE)):
            yield from ((position, hash_) for position, hash_ in rows)
            start = rows[-1][0] + 1

    def checkpoints(self) -> Iterator[tuple[int, bytes]]:
        after = -1
        while rows := self._read(rows_of("checkpoints", after=after, limit=PAGE)):
            yield from ((size, body) for size, _, body in rows)
            after = rows[-1][0]

    def tasks(self) -> Iterator[TaskLine]:
        queues = {
            id_: QueueRow(id_, scope, queue, QueueSettings())
            for id_, scope, queue, *_ in self._read(rows_of("all_queues"))
        }
        after = 0
        while rows := self._read(rows_of("verify_tasks", after=after, limit=PAGE)):
            for row in rows:
                queue = queues.get(row[2]) or QueueRow(row[2], "", "", QueueSettings())
                yield _task(row, queue)
            after = rows[-1][0]

    def results(self) -> Iterator[ResultLine]:
        task = revision = -1
        while rows := self._read(
            rows_of("verify_results", task=task, revision=revision, limit=PAGE)
        ):
            yield from (ResultLine(*row) for row in rows)
            task, revision = rows[-1][:2]

    def queues(self) -> Iterator[QueueLine]:
        for id_, scope, queue, settings, is_destination in self._read(rows_of("all_queues")):
            yield QueueLine(id_, scope, queue, settings, bool(is_destination))

    def scopes(self) -> Iterator[Scope]:
        for scope, policy_version, revoked, retain_seconds in self._read(rows_of("all_scopes")):
            yield Scope(scope, policy_version, bool(revoked), retain_seconds)

    def tokens(self) -> Iterator[TokenLine]:
        yield from (TokenLine(*row) for row in self._read(rows_of("all_tokens")))

    def destinations(self) -> Iterator[DestinationLine]:
        for scope, queue, *columns in self._read(rows_of("all_destinations")):
            yield DestinationLine(scope, queue, cast(Columns, tuple(columns)))

    def strays(self) -> Iterator[tuple[str, int]]:
        for name in STRAYS:
            ((number,),) = self._read(rows_of(name))
            yield name, int(number)


def _entry(row: tuple[Any, ...]) -> EntryRow:
    number, lookup, task, request, body, salt, request_sha256, result_sha256 = row
    expected = None if request_sha256 is None else request_id(request_sha256)
    key = None if lookup is None else tuple(lookup.split(" "))  # see machine.batch.lookup_of
    return EntryRow(
        number, key, task, request == expected, body, salt, request_sha256, result_sha256
    )


def _task(row: tuple[Any, ...], queue: QueueRow) -> TaskLine:
    *columns, where, rank, salt, payload = row
    task: TaskRow = task_row(tuple(columns), queue)
    placed = True
    if task.state in ("ready", "leased", "blocked", "done", "dead", "cancelled"):
        # a ready task waits for its time at one place until a claim has moved it to the other
        may = (place(task, task.due_at), place(task, task.due_at - 1))
        placed = (where, rank) in may
    return TaskLine(task, placed, salt, payload)


class StoredNodes:
    """The nodes of the stored tree, for `journal.tree`'s proofs."""

    def __init__(self, read: Read) -> None:
        self._read = read

    def hash(self, level: int, index: int) -> bytes:
        """LookupError where the node is missing."""
        rows = self._read(rows_of("node", level=level, position=index))
        if not rows:
            raise LookupError(f"node {level}/{index} is missing")
        return bytes(rows[0][0])
