"""The seeds as they were given (tests/seeds/), read, and cut into sentences."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SEEDS = Path(__file__).resolve().parent.parent / "seeds"
# A sentence ends before a capital, a file or an identifier; numbered clauses count one by one.
END = re.compile(r"(?<=[.?!])\s+(?=[A-Z]|\w+[/_])|(?<=;)\s+(?=\(\d\))")


def seed(number: int) -> Any:
    """Seed 0 or 1 as JSON, seed 2 as text."""
    (path,) = SEEDS.glob(f"{number:03d}_*.txt")
    text = path.read_text(encoding="utf-8")
    return text if number == 2 else json.loads(text)


def sentences(number: int) -> list[str]:
    """All sentences of a seed. In JSON each is led by the path of its field, and a member of a
    list that is an object or a list itself counts as one; in text a row of a table does, and a
    heading."""
    if number == 2:
        return [part for line in seed(2).splitlines() for part in _of_line(line)]
    return list(_of_value("", seed(number)))


def _of_line(line: str) -> list[str]:
    if not line.strip() or re.fullmatch(r"[|\- ]+", line):
        return []
    return [line] if line.startswith("|") else END.split(line.strip())


def _of_value(path: str, value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _of_value(f"{path}.{name}" if path else name, inner)
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            text = inner if isinstance(inner, str) else json.dumps(inner)
            yield from _of_value(f"{path}[{place}]", text)
    elif isinstance(value, str) and "\n" not in value:
        yield from (f"{path}: {part}" for part in END.split(value))
    else:  # a number, true or false; or a program, which is one thing
        yield f"{path}: {value}" if isinstance(value, str) else f"{path}: {json.dumps(value)}"
