"""What the journal says of a run: read from its entries alone, whatever anybody reported."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from fencepost.handle.journal import EntryView
from fencepost.model import Receipt


@dataclass(slots=True)
class Tally:
    """Counts and lists of what the entries name. `completions` is task id → its receipts;
    `obligations` is task id → tasks that its results brought about."""

    entries: int = 0
    enqueued: set[str] = field(default_factory=set)
    completions: dict[str, list[Receipt]] = field(default_factory=lambda: defaultdict(list))
    results: int = 0
    obligations: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    claims: int = 0
    reclaims: int = 0

    def add(self, receipt: Receipt, entry: dict[str, Any]) -> None:
        """One entry, in the order of the journal."""
        self.entries += 1
        tasks = entry["tasks"]
        if entry["verb"] == "enqueue":
            self.enqueued.update(item["task_id"] for item in tasks)
        elif entry["verb"] == "claim":
            self.claims += len(tasks)
            self.reclaims += sum(item["before"] == "leased" for item in tasks)
        elif entry["verb"] == "complete":
            task_id = tasks[0]["task_id"]
            self.completions[task_id].append(receipt)
            self.results += "result" in entry
            owed = (item["task_id"] for item in tasks if item.get("role") == "obligation")
            self.obligations[task_id] += owed


def read(entries: Iterable[EntryView]) -> Tally:
    """The tally of a whole journal, of which nothing has been purged or erased."""
    tally = Tally()
    for entry in entries:
        if entry.receipt is not None:
            tally.add(entry.receipt, entry.receipt.entry)
    return tally
