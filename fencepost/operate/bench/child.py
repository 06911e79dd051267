"""Work that has to be done in a process of its own: started by `run` or `start`, it answers
with one line of JSON.

    python -m fencepost.operate.bench.child NAME ARGUMENTS-AS-JSON
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fencepost.operate.bench.lab import CheckFailed
from fencepost.operate.children import environment

TIMEOUT_SECONDS = 3_600


def start(
    name: str, arguments: Sequence[Any], extra: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """Start the work; it may speak over stdin and stdout before its answer."""
    command = [sys.executable, "-m", "fencepost.operate.bench.child", name, json.dumps(arguments)]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env=environment(extra),
    )  # fmt: skip


def answer(process: subprocess.Popen[str], given: str = "") -> dict[str, Any]:
    """Wait for the answer. CheckFailed if the work ended in an error, with its last words."""
    try:
        out, err = process.communicate(given, timeout=TIMEOUT_SECONDS)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    if process.returncode:
        last = (err.strip().splitlines() or ["no message"])[-1]
        raise CheckFailed(f"a process of the benchmark ended with {process.returncode}: {last}")
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


def run(
    name: str, arguments: Sequence[Any], extra: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Do the work and wait for it."""
    return answer(start(name, arguments, extra))


def _works() -> dict[str, Callable[..., dict[str, Any]]]:
    from fencepost.operate.bench import works

    return works.WORKS


def main() -> int:
    """Do the work that is named and print what it found."""
    name, arguments = sys.argv[1:]
    found = _works()[name](*json.loads(arguments))
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
