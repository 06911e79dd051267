"""The seeded simulation: lives of a store among lost messages, crashes, jumping clocks and copies.

What it is stands in helpers/sim/__init__.py. Hours of it are in torture (parts/simulation.py).
"""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import sys

import pytest
from helpers.children import TESTS
from helpers.sim import run as simulation
from helpers.sim.bugs import BUGS, TAKEN
from helpers.sim.messages import Ask
from helpers.sim.office import Operator
from helpers.sim.run import run
from helpers.sim.server import Server
from helpers.sim.world import Broken
from torture.parts import simulation as part

MINUTES = 12
FRESH = secrets.randbelow(1 << 31)
MET = (
    "calls", "lost", "doubled", "late", "crashes", "commit_errors", "worker_crashes", "zombies",
    "jumps", "suspends", "copies", "resets", "revocations", "policies", "erasures", "replays",
    "refusals", "kept_bytes_answered", "verified",
)  # fmt: skip


@pytest.fixture(scope="module")
def told():
    """What three fixed seeds and a fresh one came to."""
    print(f"the fresh seed is {FRESH}")
    return [run(seed, MINUTES) for seed in (2, 5, 12, FRESH)]


def test_whatever_befalls_it_a_store_keeps_every_law_and_all_is_done_when_it_is_calm(told):
    for one in told:
        print(f"seed {one.seed}: {one.hours:.2f} virtual hours, {one.steps} steps, {one.counts}")
    assert sum(one.counts["calls"] for one in told) > 3_000
    met = {name: sum(one.counts.get(name, 0) for one in told[:3]) for name in MET}
    assert min(met.values()) > 0, f"each kind of event was met: {met}"


def test_one_seed_makes_one_run_to_the_byte_in_this_process_and_in_another():
    first, second = run(11, 4), run(11, 4)
    assert (first.trace, first.counts) == (second.trace, second.counts)
    assert run(12, 4).trace != first.trace
    for hashing in ("1", "77"):
        program = [sys.executable, "-m", "helpers.sim", "11", "--minutes", "4"]
        other = subprocess.run(program, cwd=TESTS, capture_output=True, text=True, check=True,
                               env={**os.environ, "PYTHONHASHSEED": hashing})  # fmt: skip
        assert f"trace {first.trace}" in other.stdout


def broken_by(seeds=(1, 2, 3, 4)):
    """What the first of these seeds that finds something says; None."""
    for seed in seeds:
        try:
            run(seed, MINUTES)
        except Broken as broken:
            return str(broken)
    return None


@pytest.mark.parametrize("name", BUGS)
def test_each_planted_fault_is_found_within_few_seeds(name, monkeypatch):
    BUGS[name](monkeypatch)
    found = broken_by()
    assert found is not None, f"no seed sees that: {name}"
    print(found.splitlines()[0])


def test_the_faults_taken_from_the_named_mutants_are_there():
    assert set(TAKEN) < set(BUGS) and len(BUGS) > 20


def test_a_failure_tells_the_seed_the_step_the_last_events_and_the_way_to_see_it_again(monkeypatch):
    BUGS["lease_expired never refuses"](monkeypatch)
    first = broken_by()
    again = re.search(r"again, from tests/: python3 -m helpers\.sim (\d+) --minutes (\d+)$", first)
    assert re.search(
        r"^seed \d+, step \d+, at \d+\.\d{6} s; the last events:$", first, re.MULTILINE
    )
    assert len(re.findall(r"^  \d+\.\d{6} ", first, re.MULTILINE)) == 30
    with pytest.raises(Broken) as second:
        run(int(again[1]), float(again[2]))
    assert str(second.value) == first


def test_a_queue_that_is_left_closed_is_found_when_all_should_be_done(monkeypatch):
    real = Operator.ask

    def never_opens(self, scope, command, *then):
        if command.verb != "queue.set" or command.settings.get("paused") is not False:
            real(self, scope, command, *then)

    monkeypatch.setattr(Operator, "ask", never_opens)
    monkeypatch.setattr(simulation, "CALM_HOURS", 1)
    assert "after 1 calm hours" in broken_by()


def test_a_worker_who_is_never_answered_is_found(monkeypatch):
    real = Ask.reply
    monkeypatch.setattr(
        Ask, "reply", lambda ask, outcome: ask.caller.actor == "w3" or real(ask, outcome)
    )
    found = broken_by([1])
    assert "waits for ever" in found or "has heard nothing" in found


def test_a_store_that_forgets_a_task_is_found_by_the_look_at_its_rows(monkeypatch):
    real = Server.restart

    def forgets(server):
        server.connection.execute("update fencepost_task set attempt = attempt + 1 where id = 1")
        real(server)

    monkeypatch.setattr(Server, "restart", forgets)
    assert "task rows" in broken_by()


def test_the_part_of_torture_counts_what_it_did_and_tells_a_failure_with_its_replay(monkeypatch):
    told = part.run(0.1, 8)
    assert told["seeds"] == 1 and told["calls"] > 100 and told["violations"] == 0
    BUGS["a revision does not step"](monkeypatch)
    monkeypatch.setattr(part, "FAILURES_TOLD", 1)
    (failure,) = part.run(30, 1)["failures"]
    assert failure["replay"].startswith("again, from tests/: python3 -m helpers.sim ")
