"""Power cuts at every boundary of the disk, in all five kinds of damage, seed after seed."""

from __future__ import annotations

import logging
import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from helpers import lives
from helpers.power import every_mode, tried
from helpers.recorded import Life, Recording, lying, record, too_early

LAW = "what was acknowledged is found after a power cut, byte for byte, and verify is clean"
WEIGHT = 4
REQUIRES = ("apsw>=3.51.3",)

LIVES: tuple[Life, ...] = (
    lives.at_random, lives.of_erasures, lives.of_an_application, lives.every_kind
)  # fmt: skip
ALONE: tuple[Life, ...] = (lives.patient, lives.accompanied)
AFTER = 80  # events of the disk after a failing sync in which the power is cut
CONTROLS: dict[str, Callable[[int], Recording]] = {
    "lying_disk": lambda seed: lying(record(lives.at_random, seed)),
    "synchronous_normal": lambda seed: record(lives.at_random, seed, synchronous=1),
    "journal_deleted": lambda seed: record(lives.every_kind, seed, journal="delete"),
    "answer_before_commit": lambda seed: too_early(record(lives.at_random, seed)),
}


class Cutter:
    """Counts what is cut, until the time is over."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self.counts: Counter[str] = Counter()
        self.failures: list[dict[str, str]] = []

    def over(self) -> bool:
        return time.monotonic() > self._end

    def _modes(self, modes: Callable[[int], Any]) -> Callable[[int], Any]:
        return lambda number: () if self.over() else modes(number)

    def cut(
        self, what: str, recording: Recording, seed: int, twin: Recording | None = None,
        modes: Callable[[int], Any] = every_mode,
    ) -> None:  # fmt: skip
        """Every cut of a recording."""
        trial = tried(recording, self._modes(modes), seed, twin)
        self.counts["cuts"] += trial.cuts
        self.counts["disks"] += trial.disks
        self.counts["lost_or_wrong"] += len(trial.problems)
        self.failures += [{"name": f"{what}, seed {seed}: {trial.problems[0]}"}
                          ] if trial.problems else []  # fmt: skip

    def cut_after_failed_sync(self, life: Life, seed: int, chance: random.Random) -> None:
        """One sync fails, the store goes on, then the power goes."""
        whole = record(life, seed)
        number = chance.randint(1, sum(event[0] == "sync" for event in whole.log))
        recording = record(life, seed, fail_sync=number)
        (place,) = (n for n, event in enumerate(recording.log) if event[0] == "lost")
        self.counts["failed_syncs"] += 1
        self.cut(
            f"{life.__name__}, sync {number} fails", recording, seed, whole,
            lambda n: every_mode(n) if place - 2 <= n <= place + AFTER else (),
        )  # fmt: skip

    def cut_after_death(self, dies: str, seed: int, chance: random.Random) -> None:
        """A process dies at a sync, another comes and goes on, then the power goes."""
        whole = record(lives.of_the_next, seed)
        number = chance.randint(1, sum(event[0] == "sync" for event in whole.log))
        recording = record(lives.of_the_next, seed, fail_sync=number, dies=dies)
        (place,) = (n for n, event in enumerate(recording.log) if event[0] == "died")
        self.counts["deaths_at_a_sync"] += 1
        self.cut(
            f"of_the_next, dies {dies} sync {number}", recording, seed, whole,
            lambda n: every_mode(n) if place - 2 <= n <= place + AFTER else (),
        )  # fmt: skip

    def control(self, name: str, seed: int) -> None:
        """A store or disk with a fault: not to find it is a failure."""
        trial = tried(CONTROLS[name](seed), lambda n: every_mode(n) if n % 9 == 0 else (), seed)
        self.counts[f"control_{name}_found"] += len(trial.problems)
        self.counts[f"control_{name}_cuts"] += trial.cuts
        if not trial.problems:
            self.failures.append({"name": f"the control {name} was not found, seed {seed}"})


def run(seconds: float, seed: int) -> dict[str, Any]:
    """See LAW."""
    logging.disable()  # what a store says of a failing disk, many thousand times
    cutter = Cutter(seconds)
    for name in CONTROLS:
        cutter.control(name, seed)
    at = seed
    while not cutter.over():
        chance = random.Random(at)
        for dies in ("before", "after") * 6:
            if not cutter.over():
                cutter.cut_after_death(dies, at, chance)
        for journal in ("wal", "truncate"):
            for life in LIVES:
                if not cutter.over():
                    cutter.cut(f"{life.__name__}, {journal}", record(life, at, journal=journal), at)
        for life in ALONE * 6:
            if not cutter.over():
                cutter.cut_after_failed_sync(life, at, chance)
        cutter.counts["seeds"] += 1
        at += 1
    return {**cutter.counts, "failures": cutter.failures}
