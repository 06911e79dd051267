"""mutmut on rules/, machine/ and journal/: a sample of its mutants, and which of them live.

Sampled because there are thousands: each run draws others, so that the ledger adds up. The tests
are the fast ones that need no disk, no process and no source of a function (mutmut changes it).
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from torture import mutated
from torture.equivalent import SAME

LAW = "a change of the rules, the machine or the journal is noticed by the fast tests"
WEIGHT = 4
REQUIRES = ("mutmut>=3.8",)

ROOT = Path(__file__).resolve().parents[3]
TARGET = 0.95
ONE = "fencepost.rules.fence.x_next_fence__mutmut_1"  # mutmut wants to run at least one
RATE = 1.5  # mutants a second on two free cores; what is drawn beyond the time stays untried
TESTS = (
    "test_rules_time", "test_rules_pairs", "test_machine_batches", "test_machine_lifecycle",
    "test_entry", "test_tree", "test_checkpoint", "test_proof", "test_verify",
    "test_verify_forged", "test_verify_histories", "test_faults_leases", "test_faults_answers",
    "test_faults_audit", "test_task_keys", "test_erase", "test_purge", "test_review_answers",
    "test_seed_receipt_lab", "test_survivors_rules", "test_survivors_machine",
    "test_survivors_journal",
)  # fmt: skip
LAWS = "tests/test_mutants.py::test_each_law_holds"
CONFIGURATION = """
[tool.mutmut]
source_paths = ["fencepost/"]
only_mutate = ["fencepost/rules/*", "fencepost/machine/*", "fencepost/journal/*"]
also_copy = ["README.md", "docs"]
use_git_change_detection = false
pytest_add_cli_args = ["-p", "no:cacheprovider", "-p", "no:xdist"]
pytest_add_cli_args_test_selection = {tests!r}
"""


def prepared(folder: Path) -> None:
    """A copy of what mutmut needs, with its configuration."""
    for name in ("fencepost", "tests", "docs"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "README.md", folder)
    names = [f"tests/{name}.py" for name in TESTS if (ROOT / f"tests/{name}.py").exists()]
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (folder / "pyproject.toml").write_text(text + CONFIGURATION.format(tests=[*names, LAWS]))


def mutmut(folder: Path, names: list[str], seconds: float) -> None:
    """Run mutmut on these mutants until the time is over. What it found lies in the folder."""
    command = [sys.executable, "-m", "mutmut", "run", "--max-children",
               str(os.cpu_count() or 1), *names]  # fmt: skip
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["PYTHONWARNINGS"] = "default"
    with (folder / "mutmut.log").open("a") as log:
        child = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log,
                                 start_new_session=True)  # fmt: skip
        try:
            child.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, 15)
            child.wait()
    if child.returncode > 0:
        raise RuntimeError((folder / "mutmut.log").read_text()[-3000:])


def run(seconds: float, seed: int) -> dict[str, Any]:
    """Draw mutants, run them, tell of those that live and are not known to be the same."""
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="mutants-") as place:
        folder = Path(place)
        prepared(folder)
        mutmut(folder, [ONE], 900)  # makes them all, learns which test sees what
        made = [m for m in mutated.mutants(folder / "mutants") if not m.wording]
        left = max(60, end - time.monotonic())
        drawn = random.Random(seed).sample(made, min(len(made), round(left * RATE)))
        mutmut(folder, [mutant.name for mutant in drawn], left)
        told = {m.name: m for m in mutated.mutants(folder / "mutants")}
    tried = [told[m.name] for m in drawn if told[m.name].exit_code is not None]
    lived = [m for m in tried if m.exit_code in (mutated.SURVIVED, *mutated.UNTESTED)]
    unknown = sorted(m.change for m in lived if m.change not in SAME)
    print("\n".join(unknown))
    killed = len(tried) - len(lived)
    share = killed / max(1, killed + len(unknown))
    failures = [] if tried and share >= TARGET else [
        {"name": f"{share:.1%} of {len(tried)} mutants were noticed, less than {TARGET:.0%}"}
    ]  # fmt: skip
    return {"mutants": len(made), "tried": len(tried), "killed": killed,
            "known_to_be_the_same": len(lived) - len(unknown), "lived": len(unknown),
            "failures": failures}  # fmt: skip
