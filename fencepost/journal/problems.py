"""What `verify` finds and what it says at the end. Values only."""

from __future__ import annotations

from collections import Counter
from typing import Any

from fencepost.record import dataclass

TOLD_OF_A_KIND = 100


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is not as it must be.

    `code` is stable. `place` names where: `entry 7`, `node 0/6` (level/position), `checkpoint
    of 40`, `task <id>`, `queue <scope>/<queue>`, `store`. `message` says what is wrong there.
    """

    code: str
    place: str
    message: str

    def to_json(self) -> dict[str, Any]:
        return {"code": self.code, "place": self.place, "message": self.message}


@dataclass(frozen=True, slots=True)
class Verification:
    """What `verify` saw and found.

    `entries` were read with their bytes; of `purged` more only the leaf hash is left. `tasks`
    and `results` are rows that were held against the journal. The tree covers `sealed` entries,
    `root` (32 bytes) is computed from them; `unsealed` are not in it yet.
    """

    entries: int
    purged: int
    tasks: int
    results: int
    sealed: int
    unsealed: int
    root: bytes
    problems: tuple[Problem, ...]

    @property
    def clean(self) -> bool:
        """Nothing was found."""
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        return {
            "status": "clean" if self.clean else "broken",
            "entries": self.entries,
            "purged": self.purged,
            "tasks": self.tasks,
            "results": self.results,
            "sealed": self.sealed,
            "unsealed": self.unsealed,
            "root": self.root.hex(),
            "problems": [problem.to_json() for problem in self.problems],
        }


class Findings:
    """Collects problems: the first 100 of each kind, and how many more there were."""

    def __init__(self) -> None:
        self._found: list[Problem] = []
        self._count: Counter[str] = Counter()

    def tell(self, code: str, place: str, message: str) -> None:
        """Note a problem."""
        self._count[code] += 1
        if self._count[code] <= TOLD_OF_A_KIND:
            self._found.append(Problem(code, place, message))

    def all(self) -> tuple[Problem, ...]:
        """What was found, in the order in which it was."""
        more = (
            Problem(code, "", f"{count - TOLD_OF_A_KIND} more of this kind")
            for code, count in self._count.items()
            if count > TOLD_OF_A_KIND
        )
        return (*self._found, *more)
