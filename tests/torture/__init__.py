"""The slow part of the proof. `python3 tests/torture.py` runs it; each file in `parts/` is a part.

A part is a module with

    LAW = "one sentence: what must hold, whatever is done"
    WEIGHT = 3                        # its share of the time
    REQUIRES = ("apsw>=3.51.3",)      # packages beyond tests/requirements.txt, or (); wheels, but
                                      # for what "--no-binary=NAME" names

    def run(seconds: float, seed: int) -> dict[str, Any]:
        ...

`run` works for about `seconds` and returns counts by name (integers, or short texts). What it
found wrong stands in the list "failures", each `{"name": what, "replay": how to see it again}`;
an exception counts as a failure named after it. A list "noted" has the same form: what is named
and is no failure by itself (a mutant that lives, while few do). Nothing is left out in silence: a
part that cannot run here raises. A new part is a new file; nothing else has to be told of it.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent / "parts"


class Part(NamedTuple):
    """What a part says of itself."""

    name: str
    law: str
    weight: float
    requires: tuple[str, ...]


def every_part() -> dict[str, Part]:
    """Every part by name. The files are read and not run: their packages may not be there yet."""
    names = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")
    return {name: _read(name) for name in names}


def _read(name: str) -> Part:
    said: dict[str, Any] = {}
    for node in ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            constant = node.targets[0].id
            if constant in ("LAW", "WEIGHT", "REQUIRES"):
                said[constant] = ast.literal_eval(node.value)
    missing = {"LAW", "WEIGHT", "REQUIRES"} - set(said)
    if missing:
        raise ValueError(f"torture/parts/{name}.py lacks {', '.join(sorted(missing))}")
    return Part(name, said["LAW"], said["WEIGHT"], tuple(said["REQUIRES"]))
