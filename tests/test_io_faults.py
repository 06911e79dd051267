"""Every call of the disk may fail, once or for good, or be the last before the process dies: each
answer is true all the same, and what was acknowledged is found again, byte for byte.

A slice, drawn from a seed; `python3 tests/torture.py --only io_faults` tries them all.
"""

from __future__ import annotations

import errno
import fcntl
import os
import random
from collections import defaultdict

import pytest
from helpers import failing
from helpers.children import result_of, start
from helpers.failing import PLANTS, Bench, faults
from helpers.lab import QUEUE, Lab, raw
from helpers.scratch import scratch
from helpers.work import as_nobody

import fencepost
from fencepost import Unavailable
from fencepost import commands as c
from fencepost.storage.sqlite import store as store_module

SEED = 5


@pytest.fixture(scope="module")
def bench():
    if failing.built(failing.SOURCE, failing.Path("/tmp")) is None:  # noqa: S108
        pytest.skip("NOT RUN: needs a C compiler; as root, or: apt-get install gcc")
    with scratch() as folder:
        yield Bench(folder)


def drawn(calls, number):
    """So many faults, as many of each operation as there are, or its share."""
    rng = random.Random(SEED)
    by_operation = defaultdict(list)
    for fault in faults(calls):
        by_operation[fault.split(":")[0]].append(fault)
    share = number // len(by_operation)
    chosen = [rng.sample(found, min(share, len(found))) for found in by_operation.values()]
    return [fault for part in chosen for fault in part]


# the longer story in four parts, so that none nears the time that a test has on a busy machine
@pytest.mark.parametrize(("kind", "number", "part", "parts"), [
    *(("live", 200, part, 4) for part in range(4)), ("begin", 60, 0, 1),
])  # fmt: skip
def test_whatever_call_of_the_disk_fails_each_answer_is_true(bench, kind, number, part, parts):
    calls = bench.count(kind)
    chosen = drawn(calls, number)[part::parts]
    print(f"seed {SEED}, calls {calls}, {len(chosen)} faults")
    found = bench.sweep(kind, chosen)
    print(found["answers"])
    assert found["wrong"] == []
    assert found["runs"] == len(chosen) > number / parts / 2
    assert min(calls[op] for op in ("open", "read", "write", "sync", "lock", "turn")) > 0
    answers = found["answers"]
    assert answers["accepted"] and answers["store_unavailable"] and answers["not open"]


@pytest.mark.parametrize("planted", PLANTS)
def test_the_sweep_finds(bench, planted):
    chosen = [f for f in faults({"sync": 12}) if f.split(":")[2] == str(errno.EIO)]
    found = bench.sweep("live", chosen, None, planted)
    assert found["wrong"]


def test_who_may_only_read_the_file_gets_receipts_and_can_change_nothing():
    if os.geteuid() != 0:
        pytest.skip("NOT RUN: needs root, to become a user who may not write a file")
    request = c.Request.of(c.Enqueue(QUEUE, (c.NewTask("kept"),)), "known")
    with scratch() as folder:
        lab = Lab(folder / "work.db")
        (before,) = lab.fp.execute([request])
        lab.close()
        folder.chmod(0o777)
        lab.path.chmod(0o444)
        told = result_of(start(as_nobody, str(lab.path), request.body.decode(), request.key))
        assert told == {
            "replayed": before.receipt.body.decode(), "refused": ["store_read_only"],
            "payload": "kept",
        }  # fmt: skip
        lab.path.chmod(0o644)
        again = Lab(lab.path, obligations=False)
        assert again.fp.execute([request])[0].receipt == before.receipt
        assert again.fp.verify().clean
        again.close()


# -- what the sweep has found


def no_longer(*arguments, **options):
    raise OSError(errno.EIO, "Input/output error")


def test_a_file_that_cannot_be_looked_at_is_not_the_applications_fault(lab, monkeypatch):
    """It was told as invalid_request: that the connection was to another file."""
    with raw(lab.path) as application:
        monkeypatch.setattr(os.path, "samefile", no_longer)
        with pytest.raises(Unavailable, match="cannot be looked at"), lab.fp.within(application):
            pass


def test_a_store_that_cannot_be_made_is_told_in_our_own_words(tmp_path, monkeypatch):
    """An OSError came through to the caller."""
    system_open = os.open

    def opened(path, flags, *mode):
        return no_longer() if str(path).endswith("new.db") else system_open(path, flags, *mode)

    monkeypatch.setattr(store_module.os, "open", opened)
    with pytest.raises(Unavailable, match="cannot be made"):
        fencepost.open(str(tmp_path / "new.db"), create=True)


def test_a_turn_whose_lock_cannot_be_freed_ends_all_the_same(lab, monkeypatch):
    """An OSError came through, and the thread was told from then on that it was inside `within`."""
    system_flock = fcntl.flock
    freed = []

    def flock(file, operation):
        if operation == fcntl.LOCK_UN:
            freed.append(file)
            if len(freed) == 2:  # the first is freed on the way in
                no_longer()
        system_flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    lab.fp.seal()
    assert len(freed) >= 2
    lab.offer()
    assert lab.open().enqueue(QUEUE, "by another").number == 3
