"""A sync fails while erased bytes are being overwritten: they are overwritten all the same."""

from __future__ import annotations

import errno
import os
import random
from types import SimpleNamespace

import pytest
from helpers.lab import QUEUE
from helpers.leftovers import LETTERS

from fencepost.storage.sqlite import connect, scrub

pytestmark = pytest.mark.usefixtures("same_disk")


class Disk:
    """As Linux has it: after a sync that failed its pages count as written, and are on the disk
    as they were before. What is cached of them goes on to be read, until it is dropped."""

    def __init__(self):
        self.fails = 1  # so many syncs
        self.before = []  # (place, bytes) of what was written since the last sync
        self.lost = {}  # place → bytes that the disk has there, though others are read

    def write(self, handle, data):
        at = os.lseek(handle, 0, os.SEEK_CUR)
        self.before.append((at, os.pread(handle, len(data), at)))
        self.lost.pop(at, None)
        return os.write(handle, data)

    def fsync(self, handle):
        if self.fails:
            self.fails -= 1
            self.lost.update(self.before)
            raise OSError(errno.EIO, "the disk could not sync")
        self.before.clear()

    def drop(self, handle, *_):
        for at, data in self.lost.items():
            os.pwrite(handle, data, at)
        self.lost.clear()
        self.before.clear()


@pytest.fixture
def disk(monkeypatch):
    disk = Disk()
    played = SimpleNamespace(
        **{**vars(os), "write": disk.write, "fsync": disk.fsync, "posix_fadvise": disk.drop}
    )
    monkeypatch.setattr(scrub, "os", played)
    monkeypatch.setattr(connect, "os", played)
    return disk


def erased_on(lab, disk):
    """Erase tasks of a store whose rows have moved; the writes that failed at the first time."""
    dice = random.Random(2)
    offered = [lab.offer("".join(dice.choices(LETTERS, k=20)) * dice.choice((1, 4, 50)))
               for _ in range(120)]  # fmt: skip
    for lease in lab.fp.claim(QUEUE, worker_id="w", limit=100):
        lease.complete(lease.payload)
    dice.shuffle(offered)
    disk.fails = 1
    lab.fp.erase(offered[0])
    assert disk.fails == 0 and lab.fp._store.scrub_pending
    failed = len(disk.before)
    for _ in range(3):
        lab.offer("another turn")
    assert not lab.fp._store.scrub_pending
    return failed


def test_what_a_failed_sync_had_not_overwritten_is_overwritten_at_the_next_turn(lab, disk):
    erased_on(lab, disk)
    assert disk.lost == {}


def test_without_looking_at_the_disk_it_would_stay_there(lab, disk, monkeypatch):
    monkeypatch.setattr(scrub, "drop_cached", lambda file: None)
    assert erased_on(lab, disk) > 0
    assert disk.lost != {}
