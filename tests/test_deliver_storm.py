"""A storm: results, faults and dispatchers that are ended, judged from both sides."""

from __future__ import annotations

import random

from helpers.deliver_storm import storm


def test_after_a_storm_each_accepted_result_has_its_effect_once_or_is_listed(tmp_path):
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    found = storm(tmp_path, seed, 2_000, 40)
    assert found["failures"] == [], (seed, found)
    assert found["effects"] >= 1_900 and found["faults"] >= 100, found
