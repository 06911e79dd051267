"""When a task may be tried again, and after how long."""

from __future__ import annotations

from fencepost.model import QueueSettings, State, TaskRow

SECOND = 1_000_000


def due(task: TaskRow, now: int) -> bool:
    """A ready task's time has come, or it was enqueued without one: that is due whatever a clock
    says, also when it was set back since (clock.reset)."""
    return task.due_at <= now or task.due_at == task.created_at


def exhausted(task: TaskRow) -> bool:
    """No attempts are left. The attempt was charged at the claim, so a killed worker counts."""
    return task.attempt >= task.max_attempts


def backoff(attempt: int, settings: QueueSettings, jitter: float) -> int:
    """Microseconds to wait after the given attempt (from 1) failed.

    `backoff_seconds` doubled with each attempt, at most `max_backoff_seconds`, then lowered by
    up to a half: `jitter` in `[0, 1)` spreads tasks that failed together.
    """
    doubled = settings.backoff_seconds * 2 ** min(attempt - 1, 40)
    longest = min(doubled, settings.max_backoff_seconds) * SECOND
    return int(longest * (1 - jitter / 2))


def after_failure(then: str, task: TaskRow) -> State:
    """Where a failed task goes: `retry` needs an attempt left; `give_up` and `block` do not."""
    if then == "block":
        return "blocked"
    return "dead" if then == "give_up" or exhausted(task) else "ready"


def after_lapse(task: TaskRow, settings: QueueSettings) -> State:
    """Where a task goes whose lease ran out: `on_lapse = reconcile` asks a person first."""
    if settings.on_lapse == "reconcile":
        return "blocked"
    return "dead" if exhausted(task) else "ready"


def claimable_after_lapse(task: TaskRow, settings: QueueSettings) -> bool:
    """A lapsed lease that a claim may take over at once."""
    return after_lapse(task, settings) == "ready"
