"""atheris feeds every reader of foreign bytes, and finds each bug that is planted in one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from helpers.fuzzing import TARGETS

LAW = "a reader answers any bytes with a value or its own refusal, and what it accepts it keeps"
WEIGHT = 2
REQUIRES = ("atheris>=3.0.0",)

FOR_THE_PLANTED = 0.4  # of the time, at most: a bug that is found ends its run


def fuzz(name: str, seconds: float, seed: int, planted: str = "") -> tuple[int, str | None]:
    """(inputs tried, what broke with the input that broke it, or None)."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        command = [sys.executable, "-m", "torture.fuzzer", name, str(max(1, round(seconds))),
                   str(seed), folder, planted]  # fmt: skip
        environment = {**os.environ, "PYTHONWARNINGS": "ignore"}  # of atheris' own making
        done = subprocess.run(command, env=environment, capture_output=True, text=True,
                              errors="replace", timeout=seconds + 120, check=False)  # fmt: skip
        tried = re.findall(r"number_of_executed_units: (\d+)", done.stderr)
        if done.returncode == 0:
            return int(tried[-1]), None
        found = [path.read_bytes() for path in Path(folder).iterdir()
                 if re.match("crash|timeout|oom|slow", path.name)]  # fmt: skip
    if not found:
        raise RuntimeError(f"the fuzzer itself failed:\n{(done.stdout + done.stderr)[-3000:]}")
    told = re.search(r"Uncaught Python exception: ===\n(.*)", done.stdout + done.stderr)
    what = told[1].strip() if told else f"it ended with {done.returncode}"
    print(f"{name}: {what}\n{done.stdout[-3000:]}\n{found[0]!r}")
    return int(tried[-1]) if tried else 0, f"{name}: {what[:150]} for {found[0][:300]!r}"


def run(seconds: float, seed: int) -> dict[str, Any]:
    """First the planted bugs, then every target for its share of what is left."""
    failures = []
    planted = [(name, bug.name) for name, target in TARGETS.items() for bug in target.planted]
    found = 0
    for name, bug in planted:
        _, broke = fuzz(name, max(60, seconds * FOR_THE_PLANTED / len(planted)), seed, bug)
        found += broke is not None
        if broke is None:
            failures.append({"name": f"{name} does not find that {bug}"})
    inputs = 0
    share = seconds * (1 - FOR_THE_PLANTED) / len(TARGETS)
    for name in TARGETS:
        tried, broke = fuzz(name, share, seed)
        inputs += tried
        if broke is not None:
            failures.append({"name": broke})
    return {"inputs": inputs, "planted_bugs": len(planted), "planted_found": found,
            "failures": failures}  # fmt: skip
