"""The kit's receiver and the independent reference say the same, whatever is put to them."""

from __future__ import annotations

from collections import Counter

import pytest
from helpers import postgres
from helpers.faults import edit
from helpers.receiver_walk import Differs, Walk
from torture.parts import receiver as torture_part

from fencepost.receiver import rules

pytestmark = pytest.mark.usefixtures("quiet")


def walked(kind, where, seed, steps=250):
    walk = Walk(kind, where, seed)
    try:
        walk.walk(steps)
    finally:
        walk.close()
    return walk.counts


def all_walked(folder):
    counts = Counter()
    for seed in range(4):
        counts += walked("sqlite", str(folder / f"{seed}.db"), seed)
    return counts


def test_both_say_the_same_to_a_thousand_requests_of_some_seeds(tmp_path):
    counts = all_walked(tmp_path)
    # Each word of the rules was met: else the walk would have proved less than it says.
    assert {
        "accepted", "replayed", "ok", "hello_needed", "old_epoch", "fork", "gap", "moved",
        "stale_result", "effect_conflict", "effect_failed",
    } <= set(counts)  # fmt: skip


def test_on_postgresql_too():
    with postgres.database() as url:
        assert walked("postgres", url, 7, 150)["accepted"] > 10


def test_the_walk_sees_a_bent_rule(tmp_path, monkeypatch):
    edit(
        monkeypatch, rules.judge_event, "event.order <= newest.order", "event.order < newest.order"
    )
    edit(monkeypatch, rules.judge_hello, "hello.adopt == stream.writer", "True")
    with pytest.raises(Differs):
        all_walked(tmp_path)


def test_the_torture_part_walks_for_as_long_as_it_is_told():
    found = torture_part.run(0.5, 1)
    assert found["failures"] == [] and found["walks"] >= 1 and found["accepted"] > 0
