"""Every interleaving of two workers' requests, with lost answers, retries and expired leases.

Those of three workers that may die are walked by tests/torture/parts/interleavings.py.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from helpers.exploring import LARGE, SMALL, Bounds, Walk, Watched
from helpers.planted import PLANTED, shortest

pytestmark = pytest.mark.timeout(240)  # one walk of every state takes some seconds of a processor


@pytest.fixture(scope="module")
def every():
    """The walk of two workers with three requests each, without leaving out anything."""
    walk = Watched(SMALL)
    assert walk.run()
    return walk


def test_no_interleaving_of_two_workers_breaks_a_law(every):
    print(every.told())
    assert every.states > 1_000
    assert min(every.lost, every.replays, every.refusals) > 100, "each kind of event was met"


def alike(every, bounds):
    """Holds the walk of every state against the one that leaves out what is the same."""
    assert {place for place, after in every.futures.items() if len(after) != 1} == set()
    one = Watched(replace(bounds, symmetric=True))
    assert one.run()
    assert every.futures == one.futures
    assert one.states == len(one.futures) < every.states / 2
    print(f"{one.states} of {every.states} states, {one.calls} of {every.calls} calls")


def test_what_is_walked_once_has_one_future(every):
    """States that are taken for one lead to the same, event by event; the walk of one of them
    meets all that there are."""
    alike(every, SMALL)


def test_what_is_walked_once_has_one_future_where_processes_die():
    bounds = Bounds(requests=2, expiries=1, deaths=True)
    every = Watched(bounds)
    assert every.run()
    assert every.deaths > 100
    alike(every, bounds)


def test_states_that_are_wrongly_taken_for_one_are_told(monkeypatch):
    """Without the time, states that differ look alike."""
    honest = Watched.place
    monkeypatch.setattr(Watched, "place", staticmethod(lambda *given: honest(*given)[1:]))
    walk = Watched(Bounds(2, 1, 2))
    walk.run()
    with pytest.raises(AssertionError):
        alike(walk, walk.bounds)


@pytest.mark.parametrize("bounds", [SMALL, LARGE], ids=["two workers", "three that may die"])
@pytest.mark.parametrize("name", PLANTED)
def test_each_planted_fault_is_found_by_a_shortest_way(name, bounds, monkeypatch):
    PLANTED[name].plant(monkeypatch)
    path, found, calls = shortest(bounds)
    print(f"{found!s:.90} by {path} after {calls} calls")
    assert re.search(PLANTED[name].told, str(found)), found


def test_what_is_not_broken_has_no_shortest_way():
    with pytest.raises(LookupError, match="nothing is broken"):
        shortest(Bounds(requests=1, expiries=1))


def test_a_walk_whose_time_is_over_says_so():
    assert not Walk(LARGE, end=0).run()
