"""What an outbox tells: its tasks, what a sync came to, conflicts with both sides."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from fencepost.clock import to_rfc3339


class Kept(NamedTuple):
    """A task as it is kept here. `id` numbers the takings: a task that was settled and taken again
    has two. Times are the store's, microseconds UTC."""

    id: int
    task_id: str
    label: str
    queue: str
    key: str | None
    content: bytes | None
    base_revision: int
    fence: int
    epoch: int
    policy_version: int
    attempt: int
    max_attempts: int
    granted_at: int
    lease_expires_at: int
    max_result_bytes: int | None
    on_lapse: str
    progress: bytes | None
    tries: int
    state: str
    waits: str | None

    @property
    def payload(self) -> Any:
        """The task's payload; None too where it had been erased."""
        return None if self.content is None else json.loads(self.content)

    @property
    def mark(self) -> Any:
        """The progress mark of the last attempt, here or elsewhere; None if none has left one."""
        return None if self.progress is None else json.loads(self.progress)

    def to_json(self) -> dict[str, Any]:
        return {
            "task_id": self.task_id,
            "queue": self.queue,
            "key": self.key,
            "fencing_token": self.fence,
            "epoch": self.epoch,
            "policy_version": self.policy_version,
            "base_revision": self.base_revision,
            "attempt": self.attempt,
            "max_attempts": self.max_attempts,
            "granted_at": to_rfc3339(self.granted_at),
            "lease_expires_at": to_rfc3339(self.lease_expires_at),
            "state": self.state,
            "waits": self.waits,
            "payload": self.payload,
            "progress": self.mark,
        }


class Sending(NamedTuple):
    """A command of the outbox: the bytes that are sent, and whose they are."""

    id: int
    place: int
    taking: int
    result: int | None
    verb: str
    verdict: str | None
    fence: int
    key: str
    body: bytes
    state: str
    answer: str | None

    @property
    def stands(self) -> bool:
        """Whether it was sent or is to be sent, and no other bytes stand in its place."""
        return self.state != "replaced"


class Recorded(NamedTuple):
    """What was done. `new` is False where the very same had been recorded before."""

    task_id: str
    result_sha256: str | None
    new: bool

    def to_json(self) -> dict[str, Any]:
        return self._asdict()


class Report:
    """What a sync came to, counted as it goes."""

    def __init__(self) -> None:
        self.accepted = self.recognised = self.claimed = self.moot = self.conflicts = 0
        self.waiting: dict[str, str] = {}

    @property
    def issues(self) -> list[str]:
        """Why something is left, each code once."""
        return sorted(set(self.waiting.values()))

    def to_json(self) -> dict[str, Any]:
        left = self.conflicts or self.waiting
        return {
            "status": "incomplete" if left else "accepted",
            "accepted": self.accepted,
            "recognised": self.recognised,
            "claimed": self.claimed,
            "moot": self.moot,
            "conflicts": self.conflicts,
            "waiting": [{"task_id": t, "code": c} for t, c in self.waiting.items()],
        }


class Conflict(NamedTuple):
    """A task that has moved on: what was recorded here, and what the store held."""

    task_id: str
    label: str
    code: str
    message: str
    ours: list[dict[str, Any]]
    theirs: dict[str, Any]
    noted_at: int
    decided: str | None

    def to_json(self) -> dict[str, Any]:
        return {**self._asdict(), "noted_at": to_rfc3339(self.noted_at)}


class Verified(NamedTuple):
    """What verify has found right."""

    links: int
    results: int
    commands: int
    head: str

    def to_json(self) -> dict[str, Any]:
        return self._asdict()
