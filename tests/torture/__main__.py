"""One part in a process of its own: `python -m torture NAME SECONDS SEED FILE`.

What it found is written to FILE as JSON, so that the part may print what it likes.
"""

from __future__ import annotations

import importlib
import json
import sys
import traceback
from pathlib import Path
from typing import Any


def found_by(name: str, seconds: float, seed: int) -> dict[str, Any]:
    """What the part says; an exception is a failure named after it."""
    try:
        found = importlib.import_module(f"torture.parts.{name}").run(seconds, seed)
    except Exception as error:  # noqa: BLE001  whatever went wrong is told, and counts
        traceback.print_exc()
        told = f"{type(error).__name__}: {error}".splitlines()[0][:300]
        return {"failures": [{"name": told}]}
    return dict(found)


if __name__ == "__main__":
    chosen, for_seconds, from_seed, target = sys.argv[1:]
    told = found_by(chosen, float(for_seconds), int(from_seed))
    Path(target).write_text(json.dumps(told), encoding="utf-8")
