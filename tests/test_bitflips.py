"""One flipped bit anywhere in a closed store is harmless, or it is named; it is never silent."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from helpers.flips import Original, named_by, places
from helpers.lab import START, raw
from helpers.workload import every_verb, opened

from fencepost.clock import FakeClock

pytestmark = pytest.mark.usefixtures("same_disk")

FLIPS = 300
SEED = 20_260_101


@pytest.fixture
def drawn(monkeypatch):
    """Every random number of the store from one seed, so that the file is the same each time."""
    monkeypatch.setattr("os.urandom", random.Random(SEED).randbytes)
    monkeypatch.setattr("fencepost.handle.verbs.SystemClock", lambda: FakeClock(START))


def test_no_flipped_bit_is_silent(tmp_path, drawn):
    path = tmp_path / "work.db"
    clock = FakeClock(START)
    with opened(path, clock) as fp:
        every_verb(fp, clock)
        fp.seal()
    original = Original(path)
    told = Counter()
    silent = []
    print(f"seed {SEED}, {len(original.data)} bytes")
    for place, bit in places(original.data, random.Random(SEED), FLIPS):
        verdict = original.flip(place, bit)
        told[verdict] += 1
        if verdict == "SILENT":
            silent.append((place, bit, original.differs()))
    print(dict(told))
    assert silent == [], silent
    assert sum(told.values()) == FLIPS
    assert told["harmless"] and told["verify"] and told["integrity check"] and told["an error"]


def test_a_mark_before_the_last_entry_is_named_and_a_later_one_is_not(tmp_path):
    """What leaves no entry, a renew, moves the mark too: a later one cannot be told from a right
    one. A flipped bit that raised it by 16 us was taken for silent damage."""
    path = tmp_path / "work.db"
    clock = FakeClock(START)
    with opened(path, clock) as fp:
        every_verb(fp, clock)
    for microseconds, named in ((16, None), (-10**9, "verify")):
        with raw(path) as own:
            own.execute("update fencepost_store set mark = mark + ?", (microseconds,))
        assert named_by(path) == named
