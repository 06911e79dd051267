"""Asks for what a claim or a sweep looks for by its time."""

from __future__ import annotations

from fencepost.storage.steps import Ask, one

EVER = -(2**63)
"""Since when: from the beginning."""


def lapsed(queue_id: int, now: int, limit: int, since: int = EVER) -> Ask:
    """The first leases that have ended."""
    return one("lapsed_tasks", queue_id=queue_id, since=since, now=now, limit=limit)


def due(queue_id: int, now: int, since: int = EVER) -> Ask:
    """Makes tasks ready whose time has come."""
    return one("promote_due", queue_id=queue_id, since=since, now=now)
