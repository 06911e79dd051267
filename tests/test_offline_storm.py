"""Random lives of laptops: whatever happens in whatever order, nothing is lost or doubled."""

from __future__ import annotations

import pytest
from helpers.faults import edit
from helpers.offline_storm import storm
from helpers.scratch import scratch

from fencepost.offline import judge, notes, recording, syncing

SEEDS = range(1, 25)


@pytest.mark.parametrize("seed", SEEDS)
def test_after_weeks_of_bad_luck_all_comes_to_rest_once_and_nothing_is_lost(tmp_path, seed):
    told = storm(tmp_path, seed)
    print(f"seed {seed}: {dict(told)}")
    assert told["cut"] > 0 and told["tasks"] > 0


# what is wrong then: the function, the piece of its source, what stands there instead
PLANTED = {
    "a refusal is taken for an acceptance": (
        syncing.Sync._over, "self._conflict(command, verdict.code, outcome.message, told)",
        "self.notes.accepted(command, 1, {})",
    ),
    "a result that waits is settled": (
        syncing.Sync._wait, "self.notes.waits(command.taking, code)",
        "self.notes.accepted(command, 1, {})",
    ),
    "a result is kept and no command is written": (
        recording.Recording.into, "steps += self._write(kept, there)", "pass",
    ),
    "what is replaced is not written anew": (
        notes.Notes.rewrite,
        "self.insert(kept, old.result, request, place=old.place, verdict=old.verdict)", "pass",
    ),
    "another's lease that has ended is waited for": (
        judge._open, " and now < task.lease_expires_at", "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_a_storm_shows_a_planted_fault_within_its_seeds(name, monkeypatch):
    edit(monkeypatch, *PLANTED[name])
    for seed in SEEDS:
        with scratch() as folder:
            try:
                storm(folder, seed)
            except BaseException as error:  # noqa: BLE001  whatever a fault breaks, it is found
                print(f"seed {seed}: {error!r:.200}")
                return
    raise AssertionError(f"no seed shows that {name}")
