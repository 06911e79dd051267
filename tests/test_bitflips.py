"""One flipped bit anywhere in a closed store is harmless, or it is named; it is never silent."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections import Counter
from contextlib import closing

import pytest
from helpers.lab import START
from helpers.workload import every_verb, opened

from fencepost.clock import FakeClock
from fencepost.issues import FencepostError
from fencepost.operate.doctor import doctor
from fencepost.storage.sqlite.copying import integrity

FLIPS = 300
SEED = 20_260_101
# What the docstring of journal/verify.py says that no entry binds: table → columns (all if empty).
UNBOUND: dict[str, set[str]] = {
    "fencepost_task": {"reason", "lease_expires_at"},
    "fencepost_refused": set(),
    "fencepost_tombstone": set(),
    "fencepost_naming": set(),
    "fencepost_migration": set(),
    "fencepost_checkpoint": {"sealed_at"},
    "fencepost_store": {"secret", "created_at", "scrub"},
}


def content(path, *, bound_only):
    """Every value of every table of ours that is not a matter of where it lies on the disk."""
    rows = {}
    with closing(sqlite3.connect(path)) as connection:
        connection.text_factory = bytes  # a flipped letter may be none at all
        names = connection.execute(
            "select name from sqlite_master where type = 'table' and name glob 'fencepost_*'"
        ).fetchall()
        for (name,) in names:
            table = name.decode()
            left_out = UNBOUND.get(table) if bound_only else {"-"}
            if left_out is not None and not left_out:
                continue
            info = connection.execute(f"pragma table_info({table})")
            columns = [row[1].decode() for row in info]
            kept = ", ".join(column for column in columns if column not in (left_out or ()))
            rows[table] = sorted(
                connection.execute(f"select {kept} from {table}").fetchall(), key=repr
            )
    return rows


def named_by(path):
    """Who names what is wrong with this file; None if nobody does."""
    try:
        with opened(path) as fp:
            with fp._store.snapshot() as read:
                if integrity(read):
                    return "integrity check"
            if not fp.verify().clean:
                return "verify"
            if any(finding.level == "bad" for finding in doctor(fp)):
                return "doctor"
    except FencepostError:
        return "an error"
    return None


def verdict_on(path, whole, bound):
    named = named_by(path)
    if named is not None:
        return named
    if content(path, bound_only=False) == whole:
        return "harmless"
    return "unbound" if content(path, bound_only=True) == bound else "SILENT"


def differences(before, after):
    return [
        (table, left, right)
        for table in before
        for left, right in zip(before[table], after[table], strict=False)
        if left != right
    ]


def places(data, rng):
    """Bits to flip: a third anywhere, two thirds in bytes that say something."""
    telling = [place for place, byte in enumerate(data) if byte]
    for number in range(FLIPS):
        place = rng.randrange(len(data)) if number % 3 == 0 else rng.choice(telling)
        yield place, rng.randrange(8)


@pytest.fixture
def drawn(monkeypatch):
    """Every random number of the store from one seed, so that the file is the same each time."""
    monkeypatch.setattr("os.urandom", random.Random(SEED).randbytes)
    monkeypatch.setattr("fencepost.handle.verbs.SystemClock", lambda: FakeClock(START))


def test_no_flipped_bit_is_silent(tmp_path, drawn):
    path, flipped = tmp_path / "work.db", tmp_path / "flipped.db"
    clock = FakeClock(START)
    with opened(path, clock) as fp:
        every_verb(fp, clock)
        fp.seal()
    data = path.read_bytes()
    whole, bound = content(path, bound_only=False), content(path, bound_only=True)
    assert named_by(path) is None
    told = Counter()
    silent = []
    print(f"seed {SEED}, {len(data)} bytes")
    for place, bit in places(data, random.Random(SEED)):
        for beside in tmp_path.glob("flipped.db*"):
            beside.unlink()
        shutil.copyfile(path, flipped)
        with flipped.open("r+b") as file:
            file.seek(place)
            file.write(bytes([data[place] ^ 1 << bit]))
        verdict = verdict_on(flipped, whole, bound)
        told[verdict] += 1
        if verdict == "SILENT":
            silent.append((place, bit, differences(bound, content(flipped, bound_only=True))))
    print(dict(told))
    assert silent == [], silent
    assert sum(told.values()) == FLIPS
    assert told["harmless"] and told["verify"] and told["integrity check"] and told["an error"]
