"""The lineage of a store: each writer that was recognised, and the epoch that the next begins."""

from __future__ import annotations

from typing import Any

from fencepost.clock import to_rfc3339
from fencepost.record import dataclass, fields

INSTALLED, STARTED, COPIED = "installed", "started", "copied"
RESTORED, ADOPTED = "restored", "adopted"  # a person has said so
SERVERS = ("another cluster", "another database")
"""What PostgreSQL says of a copy: the server is another one, or the database in it."""
STOPS = frozenset([COPIED, RESTORED, ADOPTED])
"""Why a destination stands still since a writer of another kind than `started` has begun."""
UNHEARD = 16


@dataclass(frozen=True, slots=True)
class Writer:
    """One writer of a store's lineage. The last of them writes now.

    `incarnation` is random: two copies of a store that go on apart may come to the same epoch, and
    never to the same incarnation. `why`: `installed`, `started` (the machine or the server was), or
    what has changed.
    """

    epoch: int
    incarnation: str
    why: str
    recognised_at: int

    def to_json(self) -> dict[str, Any]:
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {**values, "recognised_at": to_rfc3339(self.recognised_at)}


def following(why: str, epoch: int, floor: int) -> tuple[int, int]:
    """Epoch and floor of the next writer, after the highest epoch that is known of.

    One that was merely started goes on: it keeps the floor, so running leases live. Any other may
    be a copy, or follow one that was lost: that one may have been started anew, and so have begun
    epochs of which nobody here has heard. It steps over as many, lest the same epoch, and in it the
    same fences, be given again; and it raises the floor, so that leases of before are refused as
    `stale_epoch`. Copies of one kind still begin the same epoch, with different incarnations: so
    whoever hears of both can tell.
    """
    if why == STARTED:
        return epoch + 1, floor
    return epoch + UNHEARD, epoch + UNHEARD
