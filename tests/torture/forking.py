"""Tries many mutants out of one collection: `python -m pytest -p torture.forking …`.

mutmut starts pytest anew for each mutant. Here the tests are collected once and run once under
`coverage`, which shows what lines each of them reaches, and how long it takes. Each mutant is then
a fork, in which one function is exchanged and the tests run that reach the changed statement, the
likely and the quick ones first, until one fails. FENCEPOST_MUTANTS names a JSON file: the mutants
(`[name, code, file, [first line, last], enough]`, the last in seconds of tests as they take
without it), the seconds that there are, and where to write what became of each.
"""

from __future__ import annotations

import json
import os
import pickle
import resource
import shutil
import signal
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn

import coverage
import hypothesis
import pytest

from torture import planting
from torture.sampling import FAILED, HUNG, KILLED, SURVIVED

LONGEST = 300  # seconds for one mutant, if it can hold back even the limit for each test
MEMORY = 4 << 30  # bytes of address space: a mutant may gather without end
ROUNDS = (1, 4)  # cases of one test in the first round, and in the first two
LIKELY = 6  # tests tried first, since they have noticed other changes; of the function, of any
NOT_PLANTED, STUCK = 70, 71

hypothesis.settings.register_profile(  # a failure is enough: it need not be made small
    "mutants", database=None, deadline=None,
    phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
)  # fmt: skip
hypothesis.settings.load_profile("mutants")


class Wish(NamedTuple):
    """A mutant to be tried."""

    name: str
    code: str
    file: str
    lines: tuple[int, int]
    enough: float

    @property
    def function(self) -> str:
        return self.name.rpartition("__mutmut_")[0]


class Learned(NamedTuple):
    """What a run without any mutant has shown."""

    reaching: dict[tuple[str, int], list[str]]  # file and line -> tests, and fixtures' places
    took: dict[str, float]  # test -> seconds of a processor
    failed: list[str]


class Running(NamedTuple):
    """A fork at work."""

    mutant: Wish
    began: float
    noticed: IO[str]
    folder: Path


class Forking:
    """In the place of pytest's own loop over the tests."""

    def __init__(self, wish: dict[str, Any]) -> None:
        self.mutants = [Wish(*each) for each in wish["mutants"]]
        self.seconds: float = wish["seconds"]
        self.told = Path(wish["told"])
        self.learned = Learned({}, {}, [])
        self.likely: dict[str, Counter[str]] = defaultdict(Counter)
        self.running: dict[int, Running] = {}
        self.failed: list[str] = []
        self.notice: IO[str] | None = None
        self.lines: coverage.Coverage | None = None
        self.test = ""

    # -- what pytest calls

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """All mutants, as many at a time as there are processors, until the time is over."""
        items = {item.nodeid: item for item in session.items}
        self.learned = self._learn(session)
        processors = len(os.sched_getaffinity(0))
        end = time.monotonic() + self.seconds
        with self.told.open("w") as told:
            for test in self.learned.failed:  # it tells nothing of a mutant
                self.learned.took.pop(test, None)
                told.write(json.dumps(["", FAILED, test, 0]) + "\n")
            for mutant in self.mutants:
                if time.monotonic() > end:
                    break
                while len(self.running) >= processors:
                    self._gather(told)
                self._fork(mutant, [items[test] for test in self._tests(mutant)])
            while self.running:
                self._gather(told)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test that fails ends a mutant's fork at once, with its name as the last word."""
        if not report.failed:
            return
        self.failed.append(report.nodeid)
        if self.notice is not None:
            self.notice.write(report.nodeid)
            self.notice.flush()
            os._exit(STUCK if "Timeout (>" in report.longreprtext else 1)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Iterator[None]:
        """What a shared fixture reaches counts for all tests of its file."""
        if self.lines is None or fixturedef.scope == "function":
            return (yield)
        self.lines.switch_context(request.node.nodeid or "tests/")
        try:
            return (yield)
        finally:
            self.lines.switch_context(self.test)

    # -- the run without any mutant

    def _learn(self, session: pytest.Session) -> Learned:
        """It happens in forks of its own, one a processor, each with whole files, so that nothing
        stays of it in the mutants' forks."""
        files: dict[Path, list[pytest.Item]] = defaultdict(list)
        for item in session.items:
            files[item.path].append(item)
        shares: list[list[pytest.Item]] = [[] for _ in os.sched_getaffinity(0)]
        for items in sorted(files.values(), key=len, reverse=True):
            min(shares, key=len).extend(items)
        whole = Learned(defaultdict(list), {}, [])
        for learned in [self._begin(items) for items in shares if items]:
            reaching, took, failed = learned()
            for place, tests in reaching.items():
                whole.reaching[place] += tests
            whole.took.update(took)
            whole.failed.extend(failed)
        return whole

    def _begin(self, items: list[pytest.Item]) -> Callable[[], Learned]:
        """A fork that runs these; what is returned waits for its end and says what it learned."""
        file = tempfile.TemporaryFile()  # noqa: SIM115  closed where its end is waited for
        if (child := os.fork()) == 0:
            _go_silent()
            pickle.dump(self._run_once(items), file)
            file.flush()
            os._exit(0)

        def learned() -> Learned:
            _, status = os.waitpid(child, 0)
            assert status == 0, f"the run without any mutant ended with {status}"
            with file:
                file.seek(0)
                told: Learned = pickle.load(file)  # noqa: S301  written above
            return told

        return learned

    def _run_once(self, items: list[pytest.Item]) -> Learned:
        took: dict[str, float] = {}
        files = sorted({str(Path(mutant.file).absolute()) for mutant in self.mutants})
        self.lines = coverage.Coverage(data_file=None, config_file=False, include=files)
        self.lines.start()
        for item, following in zip(items, [*items[1:], None], strict=True):
            self.test, began = item.nodeid, _worked()
            self.lines.switch_context(self.test)
            _run(item, following)
            took[self.test] = _worked() - began
        self.lines.stop()
        data = self.lines.get_data()
        reaching = {
            (str(Path(file).relative_to(Path.cwd())), line): contexts
            for file in data.measured_files()
            for line, contexts in data.contexts_by_lineno(file).items()
        }
        return Learned(reaching, took, self.failed)

    # -- a mutant

    def _reaching(self, mutant: Wish) -> set[str]:
        """The tests that have come to the changed statement, by themselves or in a fixture."""
        first, last = mutant.lines
        places = {
            place
            for line in range(first, last + 1)
            for place in self.learned.reaching.get((mutant.file, line), ())
        }
        tests = places & self.learned.took.keys()
        shared = tuple(places - tests - {""})
        if shared:
            tests |= {test for test in self.learned.took if test.startswith(shared)}
        return tests

    def _tests(self, mutant: Wish) -> list[str]:
        """The likely ones first. Then one case of each test, then three, then all: many cases of
        one test see much the same. In each round file by file, since they share fixtures."""
        took = self.learned.took
        cases: Counter[str] = Counter()
        rounds: dict[tuple[int, str], list[str]] = defaultdict(list)
        for test in sorted(self._reaching(mutant), key=took.__getitem__):
            cases[alike := test.split("[")[0]] += 1
            round_ = sum(cases[alike] > many for many in ROUNDS)
            rounds[round_, test.split("::")[0]].append(test)
        middle = {place: took[tests[len(tests) // 2]] for place, tests in rounds.items()}
        order = sorted(rounds, key=lambda place: (place[0], middle[place]))
        rest = [test for place in order for test in rounds[place]]
        there = set(rest)
        for noticed in (self.likely[""], self.likely[mutant.function]):  # "": of any function
            before = [test for test, _ in noticed.most_common() if test in there]
            rest = list(dict.fromkeys([*before[:LIKELY], *rest]))
        sums = accumulate(took[test] for test in rest)
        return [test for test, sum_ in zip(rest, sums, strict=True) if sum_ <= mutant.enough]

    def _fork(self, mutant: Wish, items: list[pytest.Item]) -> None:
        folder = Path(tempfile.mkdtemp(prefix="mutant-", dir=self.told.parent))
        notice = tempfile.TemporaryFile("w+")  # noqa: SIM115  closed where the fork is gathered
        if (child := os.fork()) == 0:
            self.notice = notice
            self._inside(mutant, items, folder)
        self.running[child] = Running(mutant, time.monotonic(), notice, folder)

    def _inside(self, mutant: Wish, items: list[pytest.Item], folder: Path) -> NoReturn:
        """The fork: it ends with 1 as soon as a test fails, and with 0 if none does."""
        status = NOT_PLANTED
        try:
            os.setsid()
            _go_silent()
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            resource.setrlimit(resource.RLIMIT_CPU, (LONGEST, LONGEST))
            if items:
                items[0].config._tmp_path_factory._basetemp = folder  # type: ignore[attr-defined]
            planting.plant(mutant.function, mutant.code)
            status = 1
            for item, following in zip(items, [*items[1:], None], strict=False):
                limit = 10 + 20 * self.learned.took[item.nodeid]
                item.add_marker(pytest.mark.timeout(limit))
                _run(item, following)
            status = 0
        finally:
            os._exit(status)

    def _gather(self, told: IO[str]) -> None:
        """Wait a moment for a fork that has ended, and end one that has run too long."""
        for child, running in list(self.running.items()):
            ended, status, used = os.wait4(child, os.WNOHANG)
            if not ended and time.monotonic() - running.began <= LONGEST:
                continue
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(child, signal.SIGKILL)  # with whatever its tests have started
            if not ended:
                _, _, used = os.wait4(child, 0)
            code = os.waitstatus_to_exitcode(status)
            if code == NOT_PLANTED:
                raise RuntimeError(f"{running.mutant.name} could not be set into the program")
            stuck = not ended or code == STUCK
            verdict = HUNG if stuck else SURVIVED if code == 0 else KILLED
            running.noticed.seek(0)
            by = running.noticed.read()
            running.noticed.close()
            if ended and status and not by:
                by = "the process itself"  # it ran out of memory, or left by another way
            elif by:
                for function in ("", running.mutant.function):
                    self.likely[function][by] += 1
            shutil.rmtree(running.folder, ignore_errors=True)
            del self.running[child]
            took = round(used.ru_utime + used.ru_stime, 2)
            told.write(json.dumps([running.mutant.name, verdict, by, took]) + "\n")
            told.flush()
        time.sleep(0.002)


def _worked() -> float:
    """Seconds of a processor, for this process and what it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _run(item: pytest.Item, following: pytest.Item | None) -> None:
    item.ihook.pytest_runtest_protocol(item=item, nextitem=following)


def _go_silent() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)


def pytest_configure(config: pytest.Config) -> None:
    """Take over where a wish was given."""
    if wish := os.environ.get("FENCEPOST_MUTANTS"):
        config.pluginmanager.register(Forking(json.loads(Path(wish).read_text(encoding="utf-8"))))
