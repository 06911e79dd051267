"""How a worker is asked to work."""

from __future__ import annotations

from fencepost import fields
from fencepost.issues import InvalidRequest
from fencepost.record import dataclass

WAIT_SECONDS = 30
GRACE_SECONDS = 30.0
REFUSED_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Options:
    """See docs/work.md. Times are in seconds; None: without end."""

    queues: tuple[str, ...]
    worker_id: str
    concurrency: int = 1
    lease_seconds: int | None = None
    grace: float = GRACE_SECONDS
    exit_when_empty: bool = False
    max_tasks: int | None = None
    max_seconds: float | None = None
    give_up_seconds: float | None = None
    wait_seconds: int = WAIT_SECONDS

    def checked(self, least_queues: int = 1) -> Options:
        """The same. Raises InvalidRequest."""
        fields.some(fields.name, least_queues, fields.MAX_QUEUES_PER_CLAIM)(self.queues, "queues")
        fields.name(self.worker_id, "worker")
        fields.integer(1, 1_000)(self.concurrency, "jobs")
        fields.optional(fields.seconds)(self.lease_seconds, "lease_seconds")
        fields.optional(fields.integer(1, fields.MAX_INTEGER))(self.max_tasks, "max_tasks")
        for name in ("grace", "max_seconds", "give_up_seconds"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < float("inf"):
                raise InvalidRequest(f"{name}: {value!r} is not a number of seconds from 0")
        return self
