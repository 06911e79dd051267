"""What the journal says of destinations: which there are, of what class, and what their rows are.

An entry is committed to the whole row that it leaves, so each row is held against the last one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from fencepost.destinations import KINDS, Columns, committed, kind_of
from fencepost.journal.entry import commit
from fencepost.journal.problems import Findings
from fencepost.journal.reading import EntryRow
from fencepost.lineage import STOPS
from fencepost.outward import CLASSES

VERBS = frozenset({"destination.set", "destination.secret", "destination.advance"})


class DestinationLine(NamedTuple):
    """A destination's row as it is stored."""

    scope: str
    queue: str
    columns: Columns


class Known(NamedTuple):
    """What the last entry has said of a destination; `row` is the commitment to its row (hex)."""

    note: dict[str, Any]
    number: int
    epoch: int
    row: str
    salt: bytes | None


class Destinations:
    """All destinations, folded from the entries about them."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Known] = {}

    def take(self, row: EntryRow, entry: dict[str, Any]) -> None:
        """Fold one entry. ValueError if its note is not what the verb leaves."""
        if entry["verb"] not in VERBS:
            return
        note, place = entry["note"], (entry["scope"], entry["queue"])
        before = self._known.get(place)
        if note.keys() != {"class", "kind"}:
            raise ValueError(f"it has {sorted(note)}, not class and kind")
        if note["class"] not in CLASSES or note["kind"] not in KINDS:
            raise ValueError("it names no class or no kind of place that there is")
        if entry["verb"] != "destination.set" and (before is None or before.note != note):
            raise ValueError("it is about a destination that no entry has left so")
        self._known[place] = Known(note, row.number, entry["epoch"], entry["destination"], row.salt)

    def check(self, line: DestinationLine, epoch: int, findings: Findings) -> None:
        """The row of a destination against the last entry about it. `epoch` is the store's by now:
        a writer that found itself to be a copy has stopped it without a word."""
        place = f"destination {line.scope}/{line.queue}"
        known = self._known.pop((line.scope, line.queue), None)
        if known is None:
            findings.tell("destination", place, "no entry has made it")
            return
        address, class_, *_, stopped, _, _, _, _ = line.columns
        if known.note != {"class": class_, "kind": kind_of(str(address))}:
            findings.tell("destination", place, "no entry has left its class and kind so")
        rows = [line.columns]
        if stopped in STOPS and epoch > known.epoch:
            rows.append((*line.columns[:4], None, *line.columns[5:]))
        if known.salt is not None and not any(_opens(known, row) for row in rows):
            findings.tell("destination", place, f"its row is not as entry {known.number} left it")

    def check_rest(self, findings: Findings) -> None:
        """Called last: what entries have made and no row is there of."""
        for scope, queue in self._known:
            findings.tell("destination", f"destination {scope}/{queue}", "its row is missing")


def _opens(known: Known, row: Columns) -> bool:
    try:
        value = committed(row)
    except Exception:  # noqa: BLE001  a column that is no text or number is nobody's of ours
        return False
    return known.salt is not None and commit(b"destination", known.salt, value).hex() == known.row
