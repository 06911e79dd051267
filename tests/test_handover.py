"""Every contact order of two owners and their receiver in a small scope, on the real code.

tests/model/Handover.tla says the same of ever larger scopes, without the code.
"""

from __future__ import annotations

import re

import pytest
from helpers.handover import PLANTED, Walk

# each stopped destination is an error of the log
pytestmark = [pytest.mark.timeout(300), pytest.mark.usefixtures("quiet")]


def test_no_order_of_contacts_of_two_owners_breaks_a_law():
    walk = Walk()
    walk.run()
    print(walk.told())
    assert {"accepted", "replayed", "old_epoch", "hello_needed", "effect_conflict", "late",
            "taken over", "met"} <= set(walk.counts)  # fmt: skip
    assert walk.states > 1_000


@pytest.mark.parametrize("name", PLANTED)
def test_each_planted_fault_is_found_by_a_shortest_way(name, monkeypatch):
    planted = PLANTED[name]
    planted.plant(monkeypatch)
    walk = Walk(planted.starts, all=planted.all)
    with pytest.raises(AssertionError, match=re.escape(planted.told)):
        walk.run()
    print(walk.path)
    assert walk.path
