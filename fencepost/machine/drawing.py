"""What is drawn beside the load: chance, and where transactions run side by side the numbers."""

from __future__ import annotations

from typing import Protocol

from fencepost.record import dataclass


class Draw(Protocol):
    """What is drawn beside the load, so that the machine has no randomness of its own."""

    def task_id(self, now: int) -> str:
        """A UUIDv7 (RFC 9562 §5.7) for the time `now` (microseconds), never given before."""

    def salt(self) -> bytes:
        """32 random bytes."""

    def jitter(self) -> float:
        """A number in [0, 1)."""


@dataclass(slots=True)
class Drawn:
    """Numbers that a store has drawn for one batch, after its locks were taken. The next one is
    last in each list; what is left over is never used.

    Where one transaction at a time writes there is none of this: numbers go on from the last."""

    fences: list[int]
    tasks: list[int]
    entries: list[int]
