"""A writer thread with nothing to do puts what was committed into the tree, and is in nobody's way.

Elsewhere in the tests no writer seals by itself (`conftest.py`).
"""

from __future__ import annotations

import time
from functools import partial

import pytest
from helpers.lab import QUEUE
from helpers.together import at_once

from fencepost.engine import writer

WAIT_SECONDS, COMMANDS = 20, 60


@pytest.fixture
def idle_at_once(monkeypatch):
    """The writer seals whenever its queue is empty for a moment."""
    monkeypatch.setattr(writer, "IDLE_SECONDS", 0)


def sealed_by_itself(fp, entries):
    """Wait until the last head covers so many entries; the sizes of all heads."""
    deadline = time.monotonic() + WAIT_SECONDS
    while (sizes := [head.size for head in fp.checkpoints()])[-1:] != [entries]:
        assert time.monotonic() < deadline, f"heads {sizes}, {entries} entries are committed"
        time.sleep(0.01)
    return sizes


def test_what_was_committed_is_sealed_without_being_asked_for(idle_at_once, lab):
    sizes = sealed_by_itself(lab.fp, 1)  # the queue's settings
    receipt = lab.fp.enqueue(QUEUE, "work", key="k")
    assert sealed_by_itself(lab.fp, 2) == [*sizes, 2]
    assert lab.fp.prove(receipt).number == 2


def test_a_writer_that_is_not_idle_for_long_enough_leaves_it_to_others(lab):
    lab.offer()
    assert list(lab.fp.checkpoints()) == []
    assert lab.fp.seal().size == 2


def test_sealing_between_any_two_commands_disturbs_none_of_them(idle_at_once, lab):
    """Two handles, as of two processes: each seals whenever it has nothing else to do."""

    def work(fp, worker):
        for number in range(COMMANDS):
            fp.enqueue(QUEUE, number, key=f"{worker}-{number}")
            (lease,) = fp.claim(QUEUE, worker_id=worker)
            lease.complete(number)

    at_once(partial(work, lab.fp, "w1"), partial(work, lab.open(), "w2"))
    entries = 1 + 2 * COMMANDS * 3
    sizes = sealed_by_itself(lab.fp, entries)
    assert sizes == sorted(set(sizes)) and len(sizes) > 3
    found = lab.fp.verify()
    assert (found.problems, found.sealed, found.unsealed) == ((), entries, 0)
    assert lab.fp.prove(entries // 2).verify()
