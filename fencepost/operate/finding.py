"""What `doctor` says of one thing that it has looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Level = Literal["ok", "note", "warn", "bad"]
LEVELS: tuple[Level, ...] = ("ok", "note", "warn", "bad")
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `advice` is empty where nothing has to be done."""

    level: Level
    name: str
    message: str
    advice: str = ""

    def to_json(self) -> dict[str, str]:
        return {
            "level": self.level, "name": self.name, "message": self.message,
            "advice": self.advice,
        }  # fmt: skip


Facts: TypeAlias = dict[str, Any]
