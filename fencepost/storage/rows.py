"""Rows of the store as what they stand for, out of their columns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

from fencepost.destinations import Columns, of_columns
from fencepost.machine.rows import QueueRow
from fencepost.model import QueueSettings, TaskRow, Token
from fencepost.outward import Destination


def queue_row(row: tuple[Any, ...]) -> QueueRow:
    """A queue out of its columns. Settings of a newer minor version are left alone."""
    row_id, scope, queue, settings, is_destination = row
    values = json.loads(settings)
    values["destinations"] = tuple(values.get("destinations", ()))
    if values.get("outcomes"):
        values["outcomes"] = {name: tuple(some) for name, some in values["outcomes"].items()}
    return QueueRow(row_id, scope, queue, QueueSettings(**values), bool(is_destination))


def token_row(row: tuple[Any, ...]) -> Token:
    """A token out of its columns."""
    token_id, scope, kind, actor, queues, *times = row
    names = None if queues is None else frozenset(json.loads(queues))
    return Token(token_id, scope, kind, actor, names, *times)


def destination_row(queue: str, columns: Sequence[Any]) -> Destination:
    """A destination out of its columns."""
    return of_columns(queue, cast(Columns, tuple(columns)))


def task_row(row: tuple[Any, ...], queue: QueueRow) -> TaskRow:
    """A task out of its columns."""
    return TaskRow(row[0], row[1], queue.scope, queue.queue, *row[3:])


def request_id(sha256: bytes) -> int:
    """The first 8 bytes of a digest as a signed number, which an index holds cheaply."""
    return int.from_bytes(sha256[:8], "big", signed=True)
