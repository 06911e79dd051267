"""The power goes at any moment of a store's life: what was acknowledged is found again.

`helpers/power.py` says what is held at each cut, `helpers/disk.py` what a cut may do to the files.
The four controls of the promise, and two of ours, show that a breach would be seen.
"""

from __future__ import annotations

import errno
import logging

import pytest
from helpers import lives
from helpers.lab import START
from helpers.power import every_mode, in_turn, tried
from helpers.recorded import lying, opened, record, too_early

from fencepost.issues import Unavailable
from fencepost.storage.sqlite import connect, scrub
from fencepost.storage.sqlite.store import SqliteStore

pytestmark = pytest.mark.usefixtures("same_disk")

SEED = 3


@pytest.fixture(autouse=True)
def quiet():
    """What a store says of a failing disk is not of interest here, thousands of times."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


def every_third_in_turn(number):
    return in_turn(number // 3) if number % 3 == 0 else ()


@pytest.mark.parametrize("journal", ["wal", "truncate"])
@pytest.mark.parametrize(
    "life", [lives.every_kind, lives.at_random, lives.of_erasures, lives.of_an_application]
)
def test_a_power_cut_at_any_boundary_loses_nothing_that_was_acknowledged(life, journal):
    recording = record(life, SEED, journal=journal)
    trial = tried(recording, in_turn if journal == "wal" else every_third_in_turn, SEED)
    print(f"seed {SEED}: {trial.cuts} cuts, {trial.disks} different disks")
    assert trial.problems == []
    assert trial.cuts > 100 and trial.disks > 80


def some_in_turn(number):
    return in_turn(number // 7) if number % 7 == 0 else ()


CONTROLS = {
    "a disk that lies about sync": lambda: lying(record(lives.at_random, SEED)),
    "synchronous = normal": lambda: record(lives.at_random, SEED, synchronous=1),
    "a journal that is deleted": lambda: record(lives.every_kind, SEED, journal="delete"),
    "an answer before the commit": lambda: too_early(record(lives.at_random, SEED)),
}


@pytest.mark.parametrize("control", CONTROLS)
def test_the_cuts_find_the_fault_in(control):
    trial = tried(CONTROLS[control](), some_in_turn, SEED)
    print(f"{len(trial.problems)} of {trial.cuts} cuts: {trial.problems[:1]}")
    assert len(trial.problems) >= 3


def test_the_cuts_find_the_fault_in_an_erasure_that_does_not_clean_the_file(monkeypatch):
    monkeypatch.setattr(SqliteStore, "_clean", lambda store, wait: None)
    trial = tried(record(lives.of_erasures, SEED), some_in_turn, SEED)
    assert any("which was erased, are left" in problem for problem in trial.problems)


# -- a sync fails, the store goes on, then the power goes


def syncs_of(recording):
    return sum(event[0] in ("sync", "lost") for event in recording.log)


def near_the_failure(recording):
    """Cuts from just before the failing sync until well after the store has answered."""
    ((place, _),) = [(n, e) for n, e in enumerate(recording.log) if e[0] == "lost"]
    return lambda number: every_mode(number) if place - 2 <= number <= place + 30 else ()


def with_failing_syncs(life, numbers):
    whole = record(life, SEED)
    for number in range(*numbers(syncs_of(whole))):
        recording = record(life, SEED, fail_sync=number)
        yield number, tried(recording, near_the_failure(recording), SEED, whole)


@pytest.mark.parametrize("life", [lives.patient, lives.accompanied])
def test_what_was_told_after_a_failed_sync_is_true_after_a_power_cut(life):
    cuts = 0
    for number, trial in with_failing_syncs(life, lambda syncs: (1, syncs + 1, 4)):
        assert trial.problems == [], f"sync {number}"
        cuts += trial.cuts
    print(f"seed {SEED}: {cuts} cuts")
    assert cuts > 800


def test_a_commit_that_failed_comes_back_unless_the_log_goes_on_over_it(monkeypatch):
    """`nothing was done, try again` was told, the power went, and it was done after all."""
    monkeypatch.setattr(scrub, "overwrite_log", lambda connection: None)
    trials = with_failing_syncs(lives.accompanied, lambda syncs: (syncs // 3, syncs, 2))
    assert any(trial.problems for _, trial in trials)


# -- a process dies at a sync, another comes, then the power goes


def with_deaths(dies):
    """One process dies just before its sync, or after it has failed and nothing was reopened; the
    next asks the same again and goes on. Cuts from there on."""
    whole = record(lives.of_the_next, SEED)
    for number in range(2, syncs_of(whole) + 1, 2):
        recording = record(lives.of_the_next, SEED, fail_sync=number, dies=dies)
        (died,) = (n for n, event in enumerate(recording.log) if event[0] == "died")
        near = lambda n, died=died: in_turn(n) if died - 2 <= n <= died + 50 else ()  # noqa: E731
        yield number, tried(recording, near, SEED, whole)


@pytest.mark.parametrize("dies", ["before", "after"])
def test_what_is_told_after_a_process_has_died_at_a_sync_is_true_after_a_power_cut(dies):
    cuts = 0
    for number, trial in with_deaths(dies):
        assert trial.problems == [], f"sync {number}"
        cuts += trial.cuts
    print(f"seed {SEED}: {cuts} cuts")
    assert cuts > 300


@pytest.mark.parametrize("dies", ["before", "after"])
def test_it_would_be_lost_if_the_log_were_read_as_it_was_left(dies, monkeypatch):
    """A receipt was told from the log of a dead process, the power went, and it was gone."""
    monkeypatch.setattr(connect, "settle_log", lambda path, writable: None)
    assert any(trial.problems for _, trial in with_deaths(dies))


def test_the_log_is_not_dropped_from_memory_while_others_read_by_its_index(tmp_path, monkeypatch):
    dropped = []
    monkeypatch.setattr(connect.os, "posix_fadvise", lambda *given: dropped.append(given))
    with opened(tmp_path / "work.db", START, create=True) as first:
        first.enqueue("q", 1)
        dropped.clear()
        with opened(tmp_path / "work.db", START) as second:
            assert second.stats()["queues"] and dropped == []
        log = (tmp_path / "work.db-wal").read_bytes()
    (tmp_path / "work.db-wal").write_bytes(log)  # as a process leaves it that was killed
    with opened(tmp_path / "work.db", START) as third:
        assert third.stats()["queues"] and len(dropped) >= 1


def test_a_store_whose_log_cannot_be_synced_is_not_opened(tmp_path, monkeypatch):
    with opened(tmp_path / "work.db", START, create=True) as fp:
        fp.enqueue("q", 1)
        log = (tmp_path / "work.db-wal").read_bytes()
    (tmp_path / "work.db-wal").write_bytes(log)

    def broken(handle):
        raise OSError(errno.EIO, "the disk could not sync")

    with monkeypatch.context() as patch:
        patch.setattr(connect.os, "fsync", broken)
        with pytest.raises(Unavailable, match="its log cannot be synced"):
            opened(tmp_path / "work.db", START)
    with opened(tmp_path / "work.db", START) as fp:
        assert fp.verify().clean
