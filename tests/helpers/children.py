"""Functions run in processes of their own, each with an interpreter of its own.

`start(function, *arguments)` begins one; arguments and the result are JSON. The function lives
in a helper module, so that the child need not load pytest.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent.parent
PROGRAM = (
    "import importlib, json, sys\n"
    "module, name, arguments = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])\n"
    "result = getattr(importlib.import_module(module), name)(*arguments)\n"
    "print(json.dumps(result), flush=True)\n"
)


def start(
    function: Callable[..., Any], *arguments: Any, env: dict[str, str] | None = None,
    wrapper: Iterable[str] = (),
) -> subprocess.Popen[str]:  # fmt: skip
    """Begin the function in a child. `wrapper` is a command to run it under, such as strace."""
    command = [
        *wrapper, sys.executable, "-W", "error", "-c", PROGRAM,
        function.__module__, function.__name__, json.dumps(arguments),
    ]  # fmt: skip
    path = os.pathsep.join([str(TESTS.parent), str(TESTS)])
    return subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": path, **(env or {})}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def ended(child: subprocess.Popen[str], seconds: float = 50) -> tuple[int, str, str]:
    """(exit code, standard output, standard error) once it has ended; killed if it does not."""
    try:
        out, err = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        raise
    return child.returncode, out, err


def result_of(child: subprocess.Popen[str]) -> Any:
    """What the function returned. AssertionError with its standard error if it failed."""
    code, out, err = ended(child)
    assert code == 0, f"the child ended with {code}:\n{err}"
    return json.loads(out)


def found_by(child: subprocess.Popen[str], seconds: float) -> dict[str, Any]:
    """What a function that looks for faults has found; its own end is one too, under "wrong"."""
    code, out, err = ended(child, seconds)
    found: dict[str, Any] = {"wrong": [f"the child ended with {code}: {err[-300:]}"]}
    return json.loads(out) if code == 0 else found


def results_of(children: Iterable[subprocess.Popen[str]]) -> list[Any]:
    """The same of several, in their order."""
    return [result_of(child) for child in children]
