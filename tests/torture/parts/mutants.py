"""mutmut on rules/, machine/ and journal/: a sample of its mutants, and which of them live.

Sampled because there are thousands: each run draws others, so that the ledger adds up. The tests
are the fast ones that need no disk, no process and no source of a function (mutmut changes it).
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from torture import forking, mutated
from torture.equivalent import SAME

LAW = "a change of the rules, the machine or the journal is noticed by the fast tests"
WEIGHT = 4
REQUIRES = ("mutmut>=3.8",)

ROOT = Path(__file__).resolve().parents[3]
TARGET = 0.95
ONE = "fencepost.rules.fence.x_next_fence__mutmut_1"  # mutmut wants to run at least one
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


def _tests(folder: Path) -> list[str]:
    there = [f"tests/{name}.py" for name in TESTS]
    return [*(path for path in there if (folder / path).exists()), LAWS]


def prepared(folder: Path) -> list[mutated.Mutant]:
    """All mutants, made by mutmut in a copy of the checkout; it learns what each test reaches."""
    for name in ("fencepost", "tests", "docs"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "README.md", folder)
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (folder / "pyproject.toml").write_text(text + CONFIGURATION.format(tests=_tests(folder)))
    started([sys.executable, "-m", "mutmut", "run", ONE], folder, 1_200)
    return list(mutated.mutants(folder / "mutants"))


def started(command: list[str], folder: Path, seconds: float, **more: str) -> None:
    """Run a command in the folder, for so long at most. RuntimeError if it fails."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"PYTHONWARNINGS": "default", **more}
    with (folder / "run.log").open("w") as log:
        child = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log,
                                 start_new_session=True)  # fmt: skip
        try:
            code = child.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, 9)
            code = child.wait()
    if code != 0:
        raise RuntimeError(f"ended with {code}:\n{(folder / 'run.log').read_text()[-3000:]}")


def tried(folder: Path, names: list[str], seconds: float) -> dict[str, str]:
    """What became of each of these mutants, as far as the time went."""
    inside = folder / "mutants"
    wish, told = inside / "wish.json", inside / "told.jsonl"
    wish.write_text(json.dumps({"names": names, "seconds": seconds, "told": str(told)}))
    # mutmut's own tests run in this folder too: tests, package and configuration lie in it
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist",
               "-p", "torture.forking", *_tests(folder)]  # fmt: skip
    started(command, inside, seconds + 300, FENCEPOST_MUTANTS=str(wish),
            PYTHONPATH=os.pathsep.join([str(inside), str(inside / "tests")]))  # fmt: skip
    lines = map(json.loads, told.read_text().splitlines())
    return {name: verdict for name, verdict, _ in lines}


def run(seconds: float, seed: int) -> dict[str, Any]:
    """Draw mutants, run them, tell of those that live and are not known to be the same."""
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="mutants-") as place:
        folder = Path(place)
        made = [m for m in prepared(folder) if not m.wording]
        drawn = random.Random(seed).sample(made, len(made))
        changes = {mutant.name: mutant.change for mutant in drawn}
        told = tried(folder, list(changes), max(60, end - time.monotonic()))
    lived = [changes[name] for name, verdict in told.items() if verdict == forking.SURVIVED]
    unknown = sorted(change for change in lived if change not in SAME)
    print("\n".join(unknown))
    killed = len(told) - len(lived)
    share = killed / max(1, killed + len(unknown))
    failures = [] if told and share >= TARGET else [
        {"name": f"{share:.1%} of {len(told)} mutants were noticed, less than {TARGET:.0%}"}
    ]  # fmt: skip
    return {"mutants": len(made), "tried": len(told), "killed": killed,
            "known_to_be_the_same": len(lived) - len(unknown), "lived": len(unknown),
            "failures": failures}  # fmt: skip
