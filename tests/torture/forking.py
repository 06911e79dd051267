"""Runs tests on many mutants out of one collection: `python -m pytest -p torture.forking …`.

mutmut starts pytest anew for each mutant, and collecting a thousand tests took most of the time
(0.3 mutants a second on a busy machine). Here the tests are collected once; each mutant is a fork
that chooses it, as mutmut would, and runs the tests that have been seen to reach its function, the
quick ones first, until one fails. FENCEPOST_MUTANTS names a JSON file: the mutants' names, the
seconds that there are, and where to write what became of each.
"""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

LONGEST = 90.0  # seconds for one mutant; then it hangs, and that is noticed
# Seconds of tests for one mutant, as they took without it. What the quick ones do not see, the
# slow ones seldom do: of those that live, one takes as long as fifty that do not.
ENOUGH = 15.0
KILLED, SURVIVED, HUNG = "killed", "survived", "hung"


class Forking:
    """In the place of pytest's own loop over the tests."""

    def __init__(self, wish: dict[str, Any]) -> None:
        self.names: list[str] = wish["names"]
        self.end = time.monotonic() + wish["seconds"]
        self.told = Path(wish["told"])
        stats = json.loads(Path("mutmut-stats.json").read_text(encoding="utf-8"))
        self.reaching: dict[str, list[str]] = stats["tests_by_mangled_function_name"]
        self.took: dict[str, float] = stats["duration_by_test"]
        self.running: dict[int, tuple[str, float]] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """All mutants, as many at a time as there are processors, until the time is over."""
        items = {item.nodeid: item for item in session.items}
        with self.told.open("w") as told:
            for name in self.names:
                if time.monotonic() > self.end:
                    break
                while len(self.running) >= (os.cpu_count() or 1):
                    self._gather(told)
                tests = self._tests(name, items)
                if (child := os.fork()) == 0:
                    self._inside(name, tests)
                self.running[child] = name, time.monotonic()
            while self.running:
                self._gather(told)
        return True

    def _tests(self, name: str, items: dict[str, pytest.Item]) -> list[pytest.Item]:
        """What reaches the function: file by file, since they share fixtures, quick ones first."""
        reaching = self.reaching.get(name.rpartition("__mutmut_")[0], [])
        files: dict[str, list[str]] = defaultdict(list)
        for test in sorted(reaching, key=lambda test: self.took.get(test, 1.0)):
            files[test.split("::")[0]].append(test)
        cost = {file: self.took.get(tests[len(tests) // 2], 1.0) for file, tests in files.items()}
        order = [test for file in sorted(files, key=cost.__getitem__) for test in files[file]]
        there = [test for test in order if test in items]
        sums = accumulate(self.took.get(test, 1.0) for test in there)
        return [items[test] for test, sum_ in zip(there, sums, strict=True) if sum_ <= ENOUGH]

    def _inside(self, name: str, tests: list[pytest.Item]) -> None:
        """The child: never returns. The exit code is 1 as soon as a test fails."""
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        os.environ["MUTANT_UNDER_TEST"] = name
        code = 1
        try:
            followers = [*tests[1:], None]
            for item, following in zip(tests, followers, strict=True):
                reports = runtestprotocol(item, log=False, nextitem=following)
                if any(report.failed for report in reports):
                    break
            else:
                code = 0
        finally:
            os._exit(code)

    def _gather(self, told: Any) -> None:
        """Wait a moment for a child that has ended, and end one that has run too long."""
        for child, (name, began) in list(self.running.items()):
            ended, status = os.waitpid(child, os.WNOHANG)
            if not ended and time.monotonic() - began > LONGEST:
                os.kill(child, 9)
                os.waitpid(child, 0)
                verdict = HUNG
            elif ended:
                verdict = SURVIVED if status == 0 else KILLED
            else:
                continue
            del self.running[child]
            took = round(time.monotonic() - began, 1)
            told.write(json.dumps([name, verdict, took]) + "\n")
            told.flush()
        time.sleep(0.005)


def pytest_configure(config: pytest.Config) -> None:
    """Take over where a wish was given."""
    if wish := os.environ.get("FENCEPOST_MUTANTS"):
        config.pluginmanager.register(Forking(json.loads(Path(wish).read_text(encoding="utf-8"))))
