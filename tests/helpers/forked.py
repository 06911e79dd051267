"""A forked child that leaves by the ordinary end of the interpreter, as programs do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PRELUDE = """
import gc, os, sys
import fencepost
from fencepost.issues import FencepostError, Unavailable
path = sys.argv[1]
def wait(child):
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code == 0, f"the child ended with {code}"
def refused(call):
    try: call()
    except Unavailable as error: assert "before a fork" in str(error), error
    else: raise AssertionError("a handle of before the fork went on working")
"""


def run_forking(program: str, path: Path) -> str:
    """Run a program that forks, after PRELUDE, in an interpreter of its own; its output.

    Of its own, since pytest could not leave a child by the ordinary end of the interpreter.
    """
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PRELUDE + program]
    run = subprocess.run(
        [*command, str(path)], env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True,
        capture_output=True, timeout=50, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return run.stdout
