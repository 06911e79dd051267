"""What a rule about a lease compares with, beside the command and the task."""

from __future__ import annotations

from fencepost.record import dataclass


@dataclass(frozen=True, slots=True)
class Moment:
    """The store's time (microseconds UTC), its floor epoch, and the scope's policy version."""

    now: int
    floor: int
    policy_version: int
