"""What a command is given, what is told of its end, and what holds it where more is asked for."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import sys
import time
from types import SimpleNamespace

import pytest
from helpers import trees
from helpers.tools import need

from fencepost.clock import SystemClock
from fencepost.issues import InvalidRequest
from fencepost.worker import containment, isolation, shim

pytestmark = pytest.mark.skipif(os.name != "posix", reason="NOT RUN: commands need POSIX")
SAYS = "import json, os, resource; print(json.dumps({}))"


@pytest.fixture
def field():
    with trees.field() as field:
        yield field


def python(program):
    return [sys.executable, "-I", "-S", "-c", program]


def ended(field, argv, **more):
    """How a command ended, and what it said."""
    witness = field.witness()
    held = field.start(argv, witness, **more)
    assert witness.gone(), "the command has not ended"
    assert held.finish(trees.PATIENCE)
    return held.ended, witness.said


def says(field, expression, **more):
    """What a command in Python makes of an expression."""
    end, said = ended(field, python(SAYS.format(expression)), **more)
    assert end == containment.Ended(0, "exit"), said
    return json.loads(said)


@pytest.mark.parametrize(
    ("argv", "end"),
    [
        (["true"], containment.Ended(0, "exit")),
        (["sh", "-c", "exit 75"], containment.Ended(75, "exit")),
        (["sh", "-c", "kill -9 $$"], containment.Ended(-9, "exit")),
        (["no-such-command"],
         containment.Ended(None, "not_started", "No such file or directory")),
        (["/etc/passwd"], containment.Ended(None, "not_started", "Permission denied")),
        ([""], containment.Ended(None, "not_started", "No such file or directory")),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_how_a_command_ended_is_told(field, argv, end):
    found, said = ended(field, argv)
    if argv == [""]:
        assert (found.code, found.why) == (None, "not_started")
    else:
        assert found == end
    assert said == b""


def test_a_folder_that_is_not_there_is_told_and_nothing_is_run(field, tmp_path):
    end, _ = ended(field, ["true"], folder=str(tmp_path / "none"))
    assert end == containment.Ended(None, "not_started", "No such file or directory")
    assert says(field, "os.getcwd()", folder=str(tmp_path)) == str(tmp_path)


def test_the_environment_is_what_was_given_and_the_cookie(field, monkeypatch):
    monkeypatch.setenv("FENCEPOST_TOKEN", "secret")
    given = {"A": "1", "B": "x=y", "Ü": "ß", "LONG": "x" * 100_000}
    program = "import os; os.write(1, open('/proc/self/environ', 'rb').read())"
    _, said = ended(field, python(program), environment=given)
    found = dict(pair.split("=", 1) for pair in said.decode().split("\0")[:-1])
    assert found == {**given, "FENCEPOST_LEASE": f"{field.prefix}a"}


@pytest.mark.parametrize("place", [3, 4, 5, 11, -1])
def test_a_command_has_0_1_2_and_3_and_no_other_file(field, place):
    """Whatever number the mark has in the worker, and whatever else is open there."""
    witness = field.witness()
    kept = {number: saved(number) for number in (3, 4, 5, 11)}
    out, into = (raised(end) for end in os.pipe())
    try:
        if place >= 0:
            os.dup2(into, place)
        program = "import os; print(sorted(map(int, os.listdir('/proc/self/fd')))[:-1])"
        fds = containment.Fds(trees.NULL, witness.into, witness.into, place)
        if place >= 0:
            program += "; os.write(3, b'mark')"
        field.start(python(program), witness, fds=fds)
        assert witness.gone()
        if place >= 0:
            os.close(place)
        os.close(into)
        assert os.read(out, 10) == (b"mark" if place >= 0 else b"")
    finally:
        os.close(out)
        for number, copy in kept.items():
            restored(number, copy)
    assert json.loads(witness.said) == ([0, 1, 2, 3] if place >= 0 else [0, 1, 2])


def raised(number):
    """The same file under a number above those that the test plays with."""
    import fcntl

    high = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 40)
    os.close(number)
    return high


def saved(number):
    import fcntl

    try:
        return fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 60)
    except OSError:
        return None


def restored(number, copy):
    if copy is None:
        return
    os.dup2(copy, number, inheritable=False)
    os.close(copy)


def test_a_command_begins_with_no_signal_ignored_or_blocked(field):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    try:
        _, said = ended(field, ["grep", "Sig[BI]", "/proc/self/status"])
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
        signal.signal(signal.SIGHUP, before)
    assert [int(line.split()[1], 16) for line in said.splitlines()] == [0, 0]


def test_each_limit_is_what_the_command_has_and_none_means_the_worker_s(field):
    kinds = "AS", "CPU", "NOFILE", "FSIZE", "CORE"
    asked = f"[resource.getrlimit(getattr(resource, 'RLIMIT_' + k)) for k in {kinds!r}]"
    limits = containment.Limits(2**30, 7, 64, 4096)
    found = says(field, asked, limits=limits)
    assert found == [[2**30] * 2, [7, 8], [64, 64], [4096] * 2, [0, 0]]
    own = [list(resource.getrlimit(getattr(resource, f"RLIMIT_{k}"))) for k in kinds[:4]]
    assert says(field, asked) == [*own, [0, 0]]


@pytest.mark.parametrize(
    ("limits", "argv", "number"),
    [
        (containment.Limits(cpu_seconds=1), python("while True: pass"), signal.SIGXCPU),
        (containment.Limits(file_bytes=4096),
         ["dd", "if=/dev/zero", "of=written", "bs=8192", "count=1"], signal.SIGXFSZ),
    ],
    ids=["cpu_seconds", "file_bytes"],
)  # fmt: skip
def test_who_goes_past_a_limit_is_ended(field, limits, argv, number, tmp_path):
    end, _ = ended(field, argv, limits=limits, folder=str(tmp_path))
    assert end == containment.Ended(-number, "exit")


def test_memory_past_the_limit_is_not_given(field):
    program = "try: bytearray(2**29)\nexcept MemoryError: raise SystemExit(9)"
    end, _ = ended(field, python(program), limits=containment.Limits(memory_bytes=2**28))
    assert end == containment.Ended(9, "exit")


@pytest.mark.parametrize(
    ("argv", "environment", "cookie"),
    [
        ([], {}, "a"), (["a\0b"], {}, "a"), (["true"], {"a=": "b"}, "a"), (["true"], {}, "a b"),
        (["true"], {}, ""), (["true"], {"A": "\0"}, "a"),
    ],
)  # fmt: skip
def test_what_cannot_be_given_to_a_command_is_refused(argv, environment, cookie):
    fds = containment.Fds(trees.NULL, trees.NULL, trees.NULL)
    with pytest.raises(InvalidRequest):
        containment.start(argv, environment, fds, containment.NO_LIMITS, cookie, seconds=5)


def test_isolation_that_is_not_there_is_refused_with_the_reason(field, monkeypatch, tmp_path):
    witness = field.witness()
    monkeypatch.setattr(isolation, "own_group", lambda: None)
    with pytest.raises(InvalidRequest, match="no cgroup of version 2"):
        field.start(["true"], witness, isolate="cgroup")
    monkeypatch.setattr(isolation, "own_group", lambda: tmp_path)
    with pytest.raises(InvalidRequest, match="has no cgroup"):
        field.start(["true"], witness, isolate="cgroup")
    monkeypatch.setattr(isolation, "own_group", lambda: tmp_path / "none")
    with pytest.raises(InvalidRequest, match="Delegate=yes"):
        field.start(["true"], witness, isolate="cgroup")
    false = shutil.which("false")
    monkeypatch.setattr(isolation.shutil, "which", lambda _: None)
    with pytest.raises(InvalidRequest, match="bwrap is not installed"):
        field.start(["true"], witness, isolate="bwrap")
    monkeypatch.setattr(isolation.shutil, "which", lambda _: false)
    with pytest.raises(InvalidRequest, match="cannot be used here: it ends with 1"):
        field.start(["true"], witness, isolate="bwrap")


def usable(kind):
    """Skip where this machine has no such isolation."""
    if kind == "bwrap":
        need("bwrap")
    try:
        isolation.wrapper() if kind == "bwrap" else os.rmdir(isolation.new_group("probe"))
    except InvalidRequest as error:
        pytest.skip(f"NOT RUN: no such isolation may be made on this machine: {error}")


@pytest.mark.parametrize("kind", ["bwrap", "cgroup"])
@pytest.mark.parametrize("how", ["lease lost", "shim killed"])
def test_isolation_ends_the_tree_by_the_kernel(field, kind, how, monkeypatch):
    usable(kind)
    held, witness = field.hostile("deaf+daemons+hydra", isolate=kind)
    began = time.monotonic()
    if how == "lease lost":
        held.kill()
    else:  # neither the worker's own reach nor the scan
        monkeypatch.setattr(containment.sweeping, "sweep", lambda *_, **__: 0)
        os.kill(held.pid, signal.SIGKILL)
    assert held.finish(trees.PATIENCE) and witness.gone()
    print(f"{kind}, {how}: gone after {(time.monotonic() - began) * 1000:.0f} ms")
    held.finish(1)
    assert field.left() == 0
    if kind == "cgroup":
        left = isolation.own_group() / f"fencepost-{field.prefix}a"
        assert not left.exists()


def test_in_a_namespace_the_command_has_its_grace_and_its_status_comes_through(field):
    usable("bwrap")
    held, witness = field.hostile("polite", isolate="bwrap", grace=30)
    held.kill()
    assert held.wait(trees.PATIENCE) == containment.Ended(0, "killed")
    assert witness.gone() and witness.said.endswith(b"bye\n")
    assert ended(field, ["sh", "-c", "exit 65"], isolate="bwrap")[0].code == 65


def test_a_cgroup_left_by_an_earlier_life_is_emptied_and_taken_away(field):
    usable("cgroup")
    held, witness = field.hostile("deaf+daemons+hydra", isolate="cgroup")
    os.kill(held.pid, signal.SIGKILL)
    containment.sweep(field.prefix)
    assert witness.gone()
    assert not (isolation.own_group() / f"fencepost-{field.prefix}a").exists()


def test_the_shim_s_clock_is_the_one_that_counts_suspend(monkeypatch):
    asked = []

    def gettime(clock):
        asked.append(clock)
        return 5_000

    monkeypatch.setattr(shim.time, "clock_gettime_ns", gettime)
    assert shim.now() == SystemClock().steady() == 5
    assert asked[0] == asked[1]


@pytest.mark.parametrize(
    ("system", "linux", "said"),
    [("nt", False, "cannot be run as tasks"), ("posix", False, "session of its own"),
     ("posix", True, None)],
)  # fmt: skip
def test_what_is_not_covered_is_said(monkeypatch, system, linux, said):
    monkeypatch.setattr(containment, "os", SimpleNamespace(name=system, path=os.path))
    monkeypatch.setattr(shim, "LINUX", linux)
    found = containment.not_covered()
    assert (said in found[0]) if said else found == []


def test_a_command_is_refused_where_there_is_no_posix(monkeypatch):
    monkeypatch.setattr(containment, "os", SimpleNamespace(name="nt"))
    fds = containment.Fds(0, 1, 2)
    with pytest.raises(InvalidRequest, match="POSIX"):
        containment.start(["true"], {}, fds, containment.NO_LIMITS, "a", seconds=5)


def test_a_command_that_does_nothing_costs_little(field):
    """The figure is printed (`pytest -rP`); the bound is for a machine that does other things."""
    took = []
    for _ in range(20):
        witness, began = field.witness(), time.monotonic()
        held = field.start(["true"], witness)
        assert held.wait(trees.PATIENCE) and held.finish(trees.PATIENCE)
        took.append(time.monotonic() - began)
    took.sort()
    print(f"`true` under a shim: {took[0] * 1e3:.1f} ms at best, {took[10] * 1e3:.1f} ms median")
    assert took[10] < 2
