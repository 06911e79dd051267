"""The slow proof: `python3 tests/torture.py [--minutes N] [--only PART…] [--seed N] [--list]`.

Makes a virtual environment of its own (`.venv-torture/`; FENCEPOST_TORTURE_VENV names another
place), installs what its parts need, gives each its share of the time, prints a table, adds a
line to docs/reliability.jsonl and makes docs/reliability.md anew. The exit code is 1 if anything
was found or a part could not run; how to see it again is printed. What a part is stands in
tests/torture/__init__.py.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent
sys.path.insert(0, str(TESTS))

import run as tests_run  # noqa: E402  beside this file, as is the next
import torture  # noqa: E402
from torture import ledger  # noqa: E402

FOLDERS = re.compile(r"(?<![\w.])/(?:[\w.-]+/)+")  # a failure names no place of this machine
GRACE = 120.0  # seconds beyond one and a half times its own that a part may take

RUNNING: set[subprocess.Popen[bytes]] = set()


def arguments(given: list[str]) -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(prog="torture.py", description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0, help="in all (default: 60)")
    parser.add_argument("--only", nargs="+", metavar="PART", help="these parts")
    parser.add_argument("--seed", type=int, help="begin all parts with it (default: a new one)")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1),
                        help="parts at one time (default: %(default)s)")  # fmt: skip
    parser.add_argument("--list", action="store_true", help="name the parts and end")
    parser.add_argument("--no-ledger", action="store_true", help="leave the ledger as it is")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args(given)
    unknown = set(chosen.only or ()) - set(torture.every_part())
    if unknown:
        there = ", ".join(torture.every_part())
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {there}")
    if not chosen.minutes > 0 or chosen.jobs < 1:
        parser.error("--minutes and --jobs must be positive")
    return chosen


def go_inside(chosen: argparse.Namespace, given: list[str]) -> int:
    """Prepare the environment and run this program in it."""
    folder = tests_run.venv_folder("FENCEPOST_TORTURE_VENV", ".venv-torture")
    # all parts' packages, whatever was chosen: or each choice would make the environment anew
    needs = sorted({need for part in torture.every_part().values() for need in part.requires})
    if code := tests_run.prepare(folder, needs):
        return code
    seed = [] if chosen.seed is not None else ["--seed", str(secrets.randbelow(1 << 31))]
    python = str(tests_run.venv_python(folder))
    inside = subprocess.Popen([python, __file__, *given, *seed, "--inside"])
    while True:
        try:
            return inside.wait()
        except KeyboardInterrupt:  # it has heard it too, and has something to put away
            pass


def run_part(name: str, seconds: float, seed: int) -> dict[str, Any]:
    """One part in a process of its own, ended if it does not end."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="torture-") as folder:
        told = Path(folder) / "told.json"
        command = [sys.executable, "-m", "torture", name, str(seconds), str(seed), str(told)]
        path = os.pathsep.join([str(TESTS.parent), str(TESTS)])
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONWARNINGS": "error"}
        log = TESTS.parent / f".torture-{name}.log"
        with log.open("w") as output:
            child = subprocess.Popen(command, env=environment, stdout=output, stderr=output,
                                     start_new_session=True)  # fmt: skip
            RUNNING.add(child)
            try:
                code = child.wait(seconds * 1.5 + GRACE)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                code = child.wait()
            RUNNING.discard(child)
        found = json.loads(told.read_text()) if told.exists() else {
            "failures": [{"name": f"the part ended with {code} and told nothing"}]
        }  # fmt: skip
    failures, noted = found.pop("failures", []), found.pop("noted", [])
    if not failures:
        log.unlink()
    again = f"python3 tests/torture.py --only {name} --seed {seed} --minutes {seconds / 60:.3g}"
    for failure in failures:
        failure["name"] = FOLDERS.sub("", failure["name"])
        failure.setdefault("replay", again)
    found["seconds"] = round(time.monotonic() - began)
    print(f"    {name}: {found['seconds']} s, {len(failures)} failures", flush=True)
    return {"counts": found, "failures": failures, **({"noted": noted} if noted else {})}


def interrupt(grace: float) -> None:
    """The parts that run, in sessions of their own, hear of Ctrl-C too, and have so many seconds to
    put away what they have made."""
    children = [*RUNNING]
    for child in children:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGINT)
    for child in children:
        try:
            child.wait(grace)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)


def run_all(chosen: argparse.Namespace) -> dict[str, Any]:
    """The chosen parts, each for its share; the line for the ledger."""
    known = torture.every_part()
    names = chosen.only or list(known)
    jobs = min(chosen.jobs, len(names))
    all_weights = sum(known[name].weight for name in names)
    whole = chosen.minutes * 60 * jobs / all_weights
    print(f"==> seed {chosen.seed}: {', '.join(names)}", flush=True)
    with ThreadPoolExecutor(jobs) as pool:
        # the longest first, so that the end is not one part alone
        order = sorted(names, key=lambda name: -known[name].weight)
        waiting = {
            name: pool.submit(run_part, name, whole * known[name].weight, chosen.seed)
            for name in order
        }
        try:
            found = {name: waiting[name].result() for name in names}
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            interrupt(GRACE)
            raise
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"), "minutes": chosen.minutes,
        "seed": chosen.seed, "product_sha256": ledger.product_sha256(),
        "versions": ledger.versions(), "parts": found,
    }  # fmt: skip


def show(run: dict[str, Any]) -> int:
    """The table and how to see each failure again; the exit code."""
    print(f"\n{'part':<18} {'seconds':>7} {'failures':>8}  counts")
    failures = []
    for name, told in run["parts"].items():
        counts = {what: n for what, n in told["counts"].items() if what != "seconds"}
        said = ", ".join(f"{what} {n:,}" if type(n) is int else f"{what} {n}"
                         for what, n in counts.items())  # fmt: skip
        print(f"{name:<18} {told['counts']['seconds']:>7} {len(told['failures']):>8}  {said}")
        failures += [(name, failure) for failure in told["failures"]]
    for name, told in run["parts"].items():
        for noted in told.get("noted", ()):
            print(f"\nnoted {name}: {noted['name']}\n  again: {noted['replay']}")
    for name, failure in failures:
        print(f"\nFAILED {name}: {failure['name']}\n  again: {failure['replay']}")
    if not failures:
        print("\nnothing was found")
    return 1 if failures else 0


def main(given: list[str]) -> int:
    """See the head of this file."""
    chosen = arguments(given)
    if chosen.list:
        for part in torture.every_part().values():
            print(f"{part.name:<18} {part.law}")
        return 0
    if not chosen.inside:
        return go_inside(chosen, given)
    try:
        told = run_all(chosen)
    except KeyboardInterrupt:
        print("\ninterrupted: nothing is added to the ledger")
        return 130
    if not chosen.no_ledger:
        ledger.append(told)
    return show(told)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
