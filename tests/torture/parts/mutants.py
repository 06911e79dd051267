"""mutmut on rules/, machine/ and journal/: a sample of its mutants, and which of them live.

Sampled because there are thousands: each run draws others, so that the ledger adds up. The tests
are those of the main suite that need no process and little disk. One mutant alone, by its name:

    FENCEPOST_MUTANT=fencepost.rules.fence.x_moved_on__mutmut_4 \\
        python3 tests/torture.py --only mutants --no-ledger
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from torture import mutated
from torture.equivalent import SAME
from torture.sampling import Told, verdict

LAW = "a change of the rules, the machine or the journal is noticed by the fast tests"
WEIGHT = 4
REQUIRES = ("mutmut>=3.8", "coverage>=7.6")

ROOT = Path(__file__).resolve().parents[3]
ROOMS = ("rules", "machine", "journal")
ALL = 30.0  # seconds of tests for one mutant, as they take under `coverage`: nearly all of them
ENOUGH = 3.0  # for one that is known to be the same: to see at times whether it still is
TESTS = (
    "test_rules_time", "test_rules_pairs", "test_machine_batches", "test_machine_lifecycle",
    "test_entry", "test_tree", "test_checkpoint", "test_proof", "test_verify",
    "test_verify_forged", "test_verify_histories", "test_faults_leases", "test_faults_answers",
    "test_faults_audit", "test_task_keys", "test_erase", "test_purge", "test_review_answers",
    "test_seed_receipt_lab", "test_survivors_rules", "test_survivors_machine",
    "test_survivors_journal", "test_survivors_reading", "test_survivors_answers",
    "test_survivors_tokens", "test_survivors_verify", "test_tokens", "test_guards",
)  # fmt: skip
LAWS = "tests/test_mutants.py::test_each_law_holds"
COPIED = ("fencepost", "tests", "docs", "README.md", "pyproject.toml")


def copied(folder: Path) -> None:
    """The checkout as it is now: what others change meanwhile does not matter."""
    for name in COPIED:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, folder)


def tried(folder: Path, drawn: list[mutated.Mutant], seconds: float) -> list[Told]:
    """What became of each of these mutants, as far as the time went."""
    wish, told, log = folder / "wish.json", folder / "told.jsonl", folder / "run.log"
    wish.write_text(json.dumps({
        "mutants": [(mutant.name, mutant.code, mutant.file, mutant.lines,
                     ENOUGH if mutant.change in SAME else ALL) for mutant in drawn],
        "seconds": seconds, "told": str(told),
    }))  # fmt: skip
    tests = [f"tests/{name}.py" for name in TESTS]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist",
               "-p", "torture.forking", "--assert=plain", "--tb=native",
               *(path for path in tests if (folder / path).exists()), LAWS]  # fmt: skip
    environment = os.environ | {
        "FENCEPOST_MUTANTS": str(wish), "PYTHONWARNINGS": "default",
        "PYTHONPATH": os.pathsep.join([str(folder), str(folder / "tests")]),
    }  # fmt: skip
    with log.open("w") as output:
        child = subprocess.Popen(command, cwd=folder, env=environment, stdout=output,
                                 stderr=output, start_new_session=True)  # fmt: skip
        try:
            code = child.wait(seconds + 300)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, 9)
            code = child.wait()
    if code != 0 or not told.exists():
        raise RuntimeError(f"ended with {code}:\n{log.read_text()[-3000:]}")
    return [Told(*json.loads(line)) for line in told.read_text(encoding="utf-8").splitlines()]


def run(seconds: float, seed: int) -> dict[str, Any]:
    """Draw mutants, run them, tell of those that live and are not known to be the same."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as place:
        folder = Path(place)
        copied(folder)
        made = mutated.mutants(folder / "fencepost", ROOMS)
        asked = [mutant for mutant in made if not mutant.wording]
        drawn = random.Random(seed).sample(asked, len(asked))
        if chosen := os.environ.get("FENCEPOST_MUTANT"):
            drawn = [mutant for mutant in made if mutant.name == chosen]
        told = tried(folder, drawn, seconds)
    return verdict(made, drawn, told)
