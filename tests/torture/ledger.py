"""The ledger: one line of JSON a run in docs/reliability.jsonl, and the page made from it."""

from __future__ import annotations

import hashlib
import json
import platform
import re
import sqlite3
from collections import defaultdict
from importlib import metadata
from pathlib import Path
from typing import Any

import torture

ROOT = Path(__file__).resolve().parent.parent.parent
LINES, PAGE = ROOT / "docs" / "reliability.jsonl", ROOT / "docs" / "reliability.md"
# How many there are of something, and not how many were tried: not added up.
HIGHEST = ("call_sites", "faults_there_are", "mutants", "only_words", "deepest",
           "planted_bugs", "guards_found", "broken_there_are", "broken_met",
           "different_states")  # fmt: skip
KEPT = 30  # runs that the page lists one by one; the file has all

HEAD = """\
# What was tried, how often, and what was found

Made by `python3 tests/torture.py` from [reliability.jsonl](reliability.jsonl), which has one
line a run, failed runs too. Do not edit it by hand; run the command. Only what became of a failure
(`came_to` in its line: a named test, or what else it was) is added by hand.
[CONTRIBUTING](../CONTRIBUTING.md) says how to run the main suite, which tries a slice of the same
at each change.
"""


def product_sha256(folder: Path = ROOT / "fencepost") -> str:
    """Digest of the package as it lies there: of each file's name and bytes, in order of names."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(path.relative_to(folder).as_posix().encode() + b"\0")
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def versions() -> dict[str, str]:
    """Python, its SQLite and the packages that parts work with; nothing of the machine."""
    found = {"python": platform.python_version(), "sqlite": sqlite3.sqlite_version}
    needs = {need for part in torture.every_part().values() for need in part.requires}
    for name in sorted(re.split("[<>=~! ]", need)[0] for need in needs):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def lines(text: str | None = None) -> list[dict[str, Any]]:
    """All runs, the oldest first."""
    if text is None:
        text = LINES.read_text(encoding="utf-8") if LINES.exists() else ""
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def append(run: dict[str, Any]) -> None:
    """Add a run and make the page anew."""
    with LINES.open("a", encoding="utf-8") as file:
        file.write(json.dumps(run, sort_keys=True) + "\n")
    PAGE.write_text(page(lines()), encoding="utf-8")


def page(runs: list[dict[str, Any]]) -> str:
    """The page. It says only what the lines say."""
    return "\n".join([HEAD, *_parts(runs), *_failures(runs), *_noted(runs), *_runs(runs)])


def _numbers(counts: dict[str, Any]) -> dict[str, int]:
    return {name: n for name, n in counts.items() if type(n) is int and name != "seconds"}


def _parts(runs: list[dict[str, Any]]) -> list[str]:
    """Each part: its law, the sum of its counts over all runs (of some the highest)."""
    known = torture.every_part()
    sums: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    times: dict[str, int] = defaultdict(int)
    failed: dict[str, int] = defaultdict(int)
    for run in runs:
        for name, told in run["parts"].items():
            times[name] += 1
            failed[name] += len(told["failures"])
            for what, number in _numbers(told["counts"]).items():
                before = sums[name][what]
                sums[name][what] = max(before, number) if what in HIGHEST else before + number
    said = [
        "## Sums over all runs", "", "| part | law | runs | counts | failures |",
        "|---|---|---|---|---|",
    ]  # fmt: skip
    for name in sorted(times):
        law = known[name].law if name in known else "(no longer there)"
        counts = ", ".join(f"{what.replace('_', ' ')} {n:,}" for what, n in sums[name].items())
        said.append(f"| {name} | {law} | {times[name]} | {counts} | {failed[name]} |")
    return [*said, ""]


def _failures(runs: list[dict[str, Any]]) -> list[str]:
    said = ["## What was found", ""]
    for run in runs:
        for name, told in run["parts"].items():
            for failure in told["failures"]:
                where = f"{run['date']}, product {run['product_sha256'][:12]}, {name}"
                became = f" → {failure['came_to']}" if "came_to" in failure else ""
                said.append(f"- {where}: {failure['name']}{became}")
    return [*(said if len(said) > 2 else [*said, "Nothing in the runs listed here."]), ""]


def _noted(runs: list[dict[str, Any]]) -> list[str]:
    """What the last run of each part has named that is no failure by itself."""
    last = {name: (run, told) for run in runs for name, told in run["parts"].items()}
    said = [
        f"- {run['date']}, product {run['product_sha256'][:12]}, {name}: {noted['name']}; "
        f"again: `{noted['replay']}`"
        for name, (run, told) in sorted(last.items())
        for noted in told.get("noted", ())
    ]
    return ["## What was noted by the last run of a part", "", *said, ""] if said else []


def _runs(runs: list[dict[str, Any]]) -> list[str]:
    said = [
        f"## The last {KEPT} runs", "",
        "| date | minutes | seed | product | versions | parts | failures |",
        "|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for run in reversed(runs[-KEPT:]):
        versions = ", ".join(f"{name} {value}" for name, value in run["versions"].items())
        failures = sum(len(told["failures"]) for told in run["parts"].values())
        said.append(
            f"| {run['date']} | {run['minutes']:g} | {run['seed']} | {run['product_sha256'][:12]} "
            f"| {versions} | {len(run['parts'])} | {failures} |"
        )
    return [*said, ""]
