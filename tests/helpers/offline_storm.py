"""Laptops and a store through weeks of bad luck, out of one seed: what a field sees, in any order.

Each step is drawn; the network, the disk and the process may end at any point of it. What must hold
at the end is `Field.judge`'s, and that everything comes to rest once the luck is over.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from fencepost.handle import Lease
from fencepost.issues import FencepostError, OutcomeUnknown, Unavailable
from fencepost.offline.file import File
from helpers.field import DAY, OTHER, Dead, Field, Laptop

VERDICTS = ("retry", "give_up", "block", "release")


class Storm:
    """One seed's life."""

    def __init__(self, field: Field, seed: int) -> None:
        self.field, self.chance = field, random.Random(seed)
        self.tasks: list[str] = []
        self.copies: dict[str, list[Path]] = {}
        self.told: Counter[str] = Counter()
        self.steps: list[tuple[int, Callable[[], None]]] = [
            (3, self.offer), (6, self.take), (10, self.record), (4, self.verdict),
            (3, self.begin), (1, self.give_back), (8, self.sync), (6, self.time),
            (4, self.other), (2, self.meddle), (1, self.backup), (1, self.restore),
            (1, self.twin), (1, self.human),
        ]  # fmt: skip
        for name in ("one", "two"):
            field.laptop(name)

    def lap(self) -> Laptop:
        return self.chance.choice(self.field.laptops)

    def live(self, steps: int) -> None:
        weights = [weight for weight, _ in self.steps]
        for _ in range(steps):
            (_, step) = self.chance.choices(self.steps, weights)[0]
            self.told[step.__name__] += 1
            with suppress(FencepostError):
                step()

    def rest(self) -> None:
        """Better luck: all waits are over, all leases have ended, everybody syncs."""
        for _ in range(6):
            self.field.clock.advance(11 * DAY)
            for lap in self.field.laptops:
                told = lap.sync()
            if all(not lap.box.status()["waits"] for lap in self.field.laptops):
                break
        for lap in self.field.laptops:
            told = lap.sync()
            assert told["waiting"] == [], told
            kept = lap.box.counts()
            assert kept["closed"] == kept["to_send"] == kept["waiting"] == 0, kept

    # -- steps

    def offer(self) -> None:
        self.tasks += self.field.offer(*(f"t{len(self.tasks) + n}" for n in range(2)))

    def take(self) -> None:
        lap = self.lap()
        seconds = self.chance.choice((60, 3_600, 5 * DAY))
        self.badly(lap, lambda: lap.take(limit=self.chance.randint(1, 3), lease_seconds=seconds))

    def mine(self, lap: Laptop) -> str:
        found = lap.box.counts()["tasks"]
        if not found:
            raise Unavailable("nothing is here")
        return lap.box._notes.kept(self.chance.randint(1, found)).task_id

    def record(self) -> None:
        lap = self.lap()
        task_id, value = self.mine(lap), self.chance.choice(("a", "b", {"n": 1}))
        followups = [{"queue": "more", "payload": 1}] if self.chance.random() < 0.1 else []
        close = bool(followups) or self.chance.random() < 0.7
        self.badly(lap, lambda: lap.box.record(task_id, value, close=close, followups=followups))

    def verdict(self) -> None:
        lap = self.lap()
        task_id, what = self.mine(lap), self.chance.choice(VERDICTS)
        reason = None if what == "release" else "why"
        self.badly(lap, lambda: lap.box.verdict(task_id, what, reason=reason))  # type: ignore[arg-type]

    def begin(self) -> None:
        lap = self.lap()
        kept = lap.box.working.next(0)
        if kept is not None:
            self.badly(lap, lambda: lap.box.working.begin(kept))

    def give_back(self) -> None:
        lap = self.lap()
        self.badly(lap, lap.box.give_back)

    def sync(self) -> None:
        lap = self.lap()
        self.badly(lap, lap.sync)

    def time(self) -> None:
        self.field.clock.advance(self.chance.choice((1, 30, 61, 4_000, 6 * DAY)))

    def other(self) -> None:
        task_id = self.chance.choice(self.tasks or [""])
        found = self.field.fp.claim(worker_id=OTHER, task_id=task_id, lease_seconds=120)
        for lease in found:
            self.by_other(lease)

    def by_other(self, lease: Lease) -> None:
        match self.chance.randint(0, 4):
            case 0:
                lease.complete(self.chance.choice(("a", "b", "c")))
            case 1:
                lease.submit(self.chance.choice(("a", "c")))
            case 2:
                lease.fail("no", then=self.chance.choice(VERDICTS[:3]), retry_seconds=None)
            case 3:
                lease.release()

    def meddle(self) -> None:
        fp, task_id = self.field.fp, self.chance.choice(self.tasks or [""])
        match self.chance.randint(0, 4):
            case 0:
                fp.cancel(task_id)
            case 1:
                fp.requeue(task_id)
            case 2:
                fp.resolve(task_id, "retry")
            case 3:
                fp.set_policy(fp.scope().policy_version + 1)
            case 4:
                fp.erase(task_id)

    def backup(self) -> None:
        lap = self.lap()
        place = self.copies.setdefault(lap.folder.name, [])
        place.append(lap.kept(f"{lap.folder.name}-copy{len(place)}"))

    def restore(self) -> None:
        lap = self.lap()
        if copies := self.copies.get(lap.folder.name):
            lap.restored(self.chance.choice(copies))

    def twin(self) -> None:
        if len(self.field.laptops) < 4:
            self.field.twin(self.lap(), f"twin{len(self.field.laptops)}")

    def human(self) -> None:
        lap = self.lap()
        for conflict in list(lap.box.conflicts()):
            if self.chance.random() < 0.5:
                self.badly(lap, lambda c=conflict: lap.box.again(lap.wire, c.task_id))  # type: ignore[misc]
            else:
                self.badly(lap, lambda c=conflict: lap.box.theirs(c.task_id))  # type: ignore[misc]

    # -- luck

    def badly(self, lap: Laptop, step: Callable[[], Any]) -> None:
        """Do it; at any exchange or commit the network or the process may end."""
        left = self.chance.choice((1, 2, 3, 5, 8, 10**6, 10**6, 10**6))
        commit, worse = File._commit, self.chance.random() < 0.5

        def point(where: str) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                self.told["cut"] += 1
                if worse:
                    raise Dead(where)
                raise (Unavailable if where == "ask" else OutcomeUnknown)(where)

        def at(where: str, sent: Sequence[Any]) -> None:
            point(where)

        def committed(file: File, db: Any) -> None:
            if worse:
                point("before")
            commit(file, db)
            if worse:
                point("after")

        lap.wire.at = at
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(File, "_commit", committed)
            try:
                step()
            except Dead:
                lap.killed()
            finally:
                lap.wire.at = lambda where, sent: None


def storm(folder: Path, seed: int, steps: int = 120, wire: str = "local") -> Counter[str]:
    """Live through it and be judged. What happened, by kind."""
    with Field(folder, wire) as field:
        life = Storm(field, seed)
        life.live(steps)
        life.rest()
        for lap in field.laptops:
            life.told.update(lap.box.counts())
        return life.told
