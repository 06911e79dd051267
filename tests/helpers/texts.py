"""The seeds as they were given (tests/seeds/), read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SEEDS = Path(__file__).resolve().parent.parent / "seeds"


def seed(number: int) -> Any:
    """Seed 0 or 1 as JSON, seed 2 as text."""
    (path,) = SEEDS.glob(f"{number:03d}_*.txt")
    text = path.read_text(encoding="utf-8")
    return text if number == 2 else json.loads(text)
