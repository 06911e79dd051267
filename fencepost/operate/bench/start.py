"""Phase start: how long the import and a command of the CLI take over a bare interpreter.

The quickest of a repetition counts: what else runs on the machine only ever adds to a start.
"""

from __future__ import annotations

import subprocess
import sys
from time import perf_counter

from fencepost.operate.bench.lab import Figures, Lab, Measuring, fill, new_store
from fencepost.operate.children import environment

TIMEOUT_SECONDS = 30


def start(lab: Lab) -> Measuring:
    """By turns: a bare interpreter, the import, two commands. Milliseconds."""
    path = lab.fresh("start") / "store.db"
    with new_store(path) as handle:
        fill(handle, 10)
    commands = {
        "bare": ["-c", "pass"],
        "import": ["-c", "import fencepost"],
        "version": ["-m", "fencepost", "--version"],
        "stats": ["-m", "fencepost", "--store", str(path), "stats"],
    }
    while True:
        taken: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(lab.sizes.starts):
            for name, arguments in commands.items():
                if ("start", name) not in lab.missing:
                    _run(lab, name, arguments, taken[name])
        yield _over_bare(taken)


def _run(lab: Lab, name: str, arguments: list[str], taken: list[float]) -> None:
    command = [sys.executable, *arguments]
    began = perf_counter()
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment(),
        timeout=TIMEOUT_SECONDS,
    )  # fmt: skip
    taken.append((perf_counter() - began) * 1e3)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        lab.missing["start", name] = f"the command ended with {done.returncode}: {last}"


def _over_bare(taken: dict[str, list[float]]) -> Figures:
    bare = min(taken["bare"])
    figures: Figures = {"bare": bare}
    for name, values in taken.items():
        if name != "bare" and len(values) == len(taken["bare"]):
            figures[name] = min(values) - bare
    return figures
