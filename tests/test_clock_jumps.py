"""The machine's own clocks jump and fall asleep; the store's time and its leases hold.

`helpers/jumping.py` says what is held at each step. The rules themselves are held on a clock that
moves only when told, in test_clock.py; here nothing is put in the clock's place.
"""

from __future__ import annotations

import pytest
from helpers.children import result_of, start
from helpers.jumping import shim, walk


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    found = shim(tmp_path_factory.mktemp("shim"))
    if found is None:
        pytest.skip("NOT RUN: needs a C compiler; as root, or: apt-get install gcc")
    return found


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_time_goes_on_and_no_lease_outlives_its_end_whatever_the_clocks_do(
    library, tmp_path, seed
):
    child = start(walk, str(tmp_path / "work.db"), seed, 150, 40, env={"LD_PRELOAD": str(library)})
    found = result_of(child)
    print(f"seed {seed}: {found}")
    assert found["wrong"] == []
    assert min(found[what] for what in ("jumps", "suspends", "restarts", "reported")) > 0
