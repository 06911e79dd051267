"""Rules about where obligations go."""

from __future__ import annotations

from fencepost.commands import DestinationAdvance
from fencepost.model import QueueSettings
from fencepost.outward import Destination

DEFAULT_ATTEMPTS = QueueSettings().max_attempts
ATTEMPTS = 112
"""Of a destination's obligations where nobody has said how many. At the default back-off they last
75 hours on average, as Standard Webhooks' schedule does; a queue's five are over in 15 seconds."""


def stopped(destination: Destination | None) -> str | None:
    """4, for claims: nothing is delivered there. Obligations go on to come in, as those of a paused
    queue do. A destination that is only named has nobody who could have stopped it."""
    return "queue_paused" if destination is not None and destination.stopped is not None else None


def stale_sequence(command: DestinationAdvance, destination: Destination) -> str | None:
    """12: somebody else has moved it on meanwhile; or for this position another head is known."""
    moved = command.expected_sequence != destination.sequence
    same = command.sequence == destination.sequence
    other = same and command.head not in (None, destination.head)
    return "stale_sequence" if moved or other else None
