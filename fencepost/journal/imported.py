"""What the entry of an import says of the result that a receiver has accepted elsewhere."""

from __future__ import annotations

from typing import Any

from fencepost.fields import MAX_INTEGER

MEMBERS = {"content", "epoch", "fence", "revision", "round"}


def problem(
    entry: dict[str, Any], item: dict[str, Any], current_round: int, *, accepts: bool
) -> str | None:
    """What is wrong with the note, or with where the task has gone. `accepts`: the entry has
    recorded a result; one of a known revision changes nothing."""
    note = entry["note"]
    numbers = [note.get(name) for name in ("epoch", "fence", "revision", "round")]
    whole = all(type(number) is int and 0 <= number <= MAX_INTEGER for number in numbers)
    if note.keys() != MEMBERS or not whole or type(note["content"]) is not bool:
        return f"its note has {sorted(note)}, or what is none of such"
    if not accepts:
        told = item["revision"] >= note["revision"] >= 1 and note["round"] == current_round
        return None if told and item["state"] == item["before"] else "it changes what was known"
    if note["revision"] != item["revision"]:
        return f"it imports revision {note['revision']} and its task is at {item['revision']}"
    if note["epoch"] >= entry["epoch"]:
        return f"it imports from epoch {note['epoch']}, in epoch {entry['epoch']}"
    if note["round"] not in (current_round, current_round + 1):
        return f"its task was in round {current_round}, and is in {note['round']}"
    return "the lease goes on" if item["state"] == "leased" else None


def has_content(entry: dict[str, Any]) -> bool:
    """Whether the entry has accepted a result whose content was handed in, as all but an import
    of a digest do."""
    return entry.get("verb") != "import" or entry["note"].get("content") is True
