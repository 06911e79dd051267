"""A storm: results, faults and dispatchers that are ended, judged from both sides."""

from __future__ import annotations

import random

import pytest
from helpers.deliver_storm import storm
from helpers.faults import edit

from fencepost.deliveries import judging


@pytest.mark.timeout(300)  # the storm goes on until it has met its faults, however busy the machine
def test_after_a_storm_each_accepted_result_has_its_effect_once_or_is_listed(tmp_path):
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    found = storm(tmp_path, seed, 1_000, 40, 40)
    assert found["failures"] == [], (seed, found)
    assert found["effects"] >= 950 and found["faults"] >= 40, found


def test_the_storm_sees_an_uncertain_delivery_that_is_sent_again_to_who_keeps_no_fence(
    tmp_path, monkeypatch
):
    edit(monkeypatch, judging._uncertain, '"retry" if safe else "block"', '"retry"')
    found = storm(tmp_path, 11, 600, 30)
    assert any("an effect 2 times" in each["name"] for each in found["failures"]), found
