"""What the adapters share: how they are called, and how they answer.

    adapter.py about                      {"version": …, "durability": …, "fenced": …, "receipt": …}
    adapter.py drain FOLDER TASKS PAYLOAD {"rate": …, "handled": …, "distinct": …, "pending": …}

The answer is the last line of stdout. Status 3: the peer cannot be imported here. The clock runs
from the first handler's start until the peer's own database says that nothing is pending.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

NOT_IMPORTABLE = 3


class Handled:
    """Counts the calls of a handler, and when the first came."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.first = 0.0

    def __call__(self, payload: dict[str, Any]) -> None:
        if not self.numbers:
            self.first = perf_counter()
        self.numbers.append(payload["n"])

    def answer(self, tasks: int, pending: int) -> dict[str, Any]:
        taken = perf_counter() - self.first
        return {
            "rate": tasks / taken,
            "handled": len(self.numbers),
            "distinct": len(set(self.numbers)),
            "pending": pending,
        }


def main(
    about: Callable[[], dict[str, Any]],
    drain: Callable[[Path, int, dict[str, Any]], dict[str, Any]],
) -> int:
    """Run the adapter as it was called."""
    try:
        if sys.argv[1] == "about":
            found = about()
        else:
            folder, tasks, payload = sys.argv[2:5]
            found = drain(Path(folder), int(tasks), json.loads(payload))
    except ImportError as error:
        print(error, file=sys.stderr)
        return NOT_IMPORTABLE
    print(json.dumps(found))
    return 0
