"""What a store hands to another that takes it up whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from fencepost.record import dataclass
from fencepost.storage.steps import Read

# In this order; each is a statement in sqlite/leave.sql and one in postgres/arrive.sql.
TABLES = (
    "all_writer", "all_scope", "all_queue", "all_destination", "all_token", "all_entry",
    "all_unsealed", "all_node", "all_checkpoint", "all_task", "all_payload", "all_remark",
    "all_result", "all_naming", "all_refused", "all_tombstone",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Leaving:
    """One snapshot of a store: its own row, about how many rows there are, the rows of a table by
    the name of its statement, and how it is read to be verified."""

    whole: tuple[Any, ...]
    total: int
    rows: Callable[[str], Iterator[tuple[Any, ...]]]
    read: Read
