"""What shall go wrong in a run of the demo, and when. The seed decides, nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

LEASE_SECONDS = 30  # of a claim where all goes well
SHORT_SECONDS = 1  # of a claim whose lease is going to lapse: nobody should wait long for it
MAX_BATCH = 10
SHARES = 20  # batches for each worker at least, where the files suffice for it
LAST_AT = 0.6  # misfortunes are spread over this first part of the work

KINDS = ("kill", "stop", "lose")


@dataclass(frozen=True, slots=True)
class Misfortune:
    """`kind` is to befall one worker as soon as `after` tasks are settled."""

    kind: str
    after: int

    @property
    def lease_seconds(self) -> int:
        return LEASE_SECONDS if self.kind == "lose" else SHORT_SECONDS


def batch_size(tasks: int, workers: int) -> int:
    """How many tasks a worker claims at a time."""
    return max(1, min(MAX_BATCH, tasks // (SHARES * workers)))


def misfortunes(tasks: int, workers: int, seed: int) -> list[Misfortune]:
    """In the order in which they come. Few files: one of each kind, at once, the loss last,
    since what was killed or stopped comes back to be claimed and what was completed does not."""
    if tasks < SHARES * workers:
        return [Misfortune(kind, 0) for kind in KINDS]
    kinds: Sequence[str] = [*KINDS, *KINDS, "lose"]
    kinds = Random(seed).sample(kinds, len(kinds))  # noqa: S311  # keeps no secret
    step = tasks * LAST_AT / len(kinds)
    return [Misfortune(kind, int(place * step)) for place, kind in enumerate(kinds)]
