"""Who is owed a message for what has come of a task: the queue's `destinations` and `outcomes`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fencepost.fields import OUTCOMES
from fencepost.model import QueueSettings

UNSAID = ("result",)


def owed(
    destinations: Sequence[str], outcomes: Mapping[str, Sequence[str]], outcome: str
) -> list[str]:
    """The destinations that this outcome obliges. One of which nothing is said gets results."""
    return [name for name in destinations if outcome in outcomes.get(name, UNSAID)]


def owed_by(settings: QueueSettings, outcome: str) -> list[str]:
    """The same, by a queue's settings. Most queues say nothing of outcomes."""
    if settings.outcomes:
        return owed(settings.destinations, settings.outcomes, outcome)
    return list(settings.destinations) if outcome == "result" else []


def most_owed(settings: QueueSettings, *, result: bool) -> int:
    """At most so many obligations come of one command on one task, or of one lapse; `result`: it
    may bring a result."""
    number = len(owed_by(settings, "result")) if result else 0
    if settings.outcomes:
        number += max(len(owed_by(settings, state)) for state in OUTCOMES if state != "result")
    return number
