"""Rules 11 and 12: the same result twice, and a revision that has moved on."""

from __future__ import annotations

from fencepost.commands import LeaseCommand
from fencepost.model import TaskRow
from fencepost.rules.fence import held_last


def duplicate_result(command: LeaseCommand, task: TaskRow, recorded_by: int | None) -> str | None:
    """11, for submit: this result was recorded in this round, by the entry `recorded_by`. Told to
    the last worker and fence alone: to others it would say whether what they guess is a result."""
    told = recorded_by is not None and held_last(command, task)
    return "duplicate_result" if told else None


def result_conflict(digest: bytes, recorded: bytes | None) -> str | None:
    """11, for import: the revision is there, and another result is."""
    return None if digest == recorded else "result_conflict"


def stale_revision(expected: int | None, task: TaskRow) -> str | None:
    """12: the caller expected another number of accepted results. Checked only when given."""
    return None if expected is None or expected == task.revision else "stale_revision"


def commitment_closed(commitment: str) -> str | None:
    """7, for review: a human has spoken on this revision already."""
    return None if commitment == "open" else "commitment_closed"
