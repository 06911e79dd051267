"""Rule 4: what a queue's settings allow. They are judged after the replay, never before it."""

from __future__ import annotations

from fencepost.model import QueueSettings, TaskRow
from fencepost.rules.retry import SECOND


def payload_too_large(size: int, settings: QueueSettings) -> str | None:
    return "payload_too_large" if size > settings.max_payload_bytes else None


def result_too_large(size: int, settings: QueueSettings) -> str | None:
    return "payload_too_large" if size > settings.max_result_bytes else None


def too_many_followups(number: int, settings: QueueSettings) -> str | None:
    return "too_many_followups" if number > settings.max_followups else None


def queue_paused(settings: QueueSettings) -> str | None:
    """Claims and enqueues stop. Follow-ups and obligations belong to a result and go through."""
    return "queue_paused" if settings.paused else None


def lease_too_long(lease_seconds: int | None, settings: QueueSettings) -> str | None:
    """More than one lease may last. Without a wish the queue's own length holds, if it may."""
    asked = settings.lease_seconds if lease_seconds is None else lease_seconds
    return "lease_too_long" if asked > settings.max_lease_seconds else None


def lease_end(now: int, granted_at: int, lease_seconds: int | None, settings: QueueSettings) -> int:
    """When a lease asked for at `now` ends; never later than `max_hold_seconds` after its claim."""
    asked = settings.lease_seconds if lease_seconds is None else lease_seconds
    return min(now + asked * SECOND, granted_at + settings.max_hold_seconds * SECOND)


def hold_used_up(task: TaskRow, settings: QueueSettings) -> str | None:
    """A renewal that cannot move the end: the lease has reached `max_hold_seconds`."""
    limit = task.granted_at + settings.max_hold_seconds * SECOND
    return "lease_too_long" if task.lease_expires_at >= limit else None
