"""Flips one bit of a closed store, and finds out who names it."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from fencepost.issues import FencepostError
from fencepost.operate.doctor import doctor
from fencepost.storage.sqlite.copying import integrity
from helpers.workload import opened

# What the docstring of journal/verify.py says that no entry binds: table → columns (all if empty).
UNBOUND: dict[str, set[str]] = {
    "fencepost_task": {"reason", "lease_expires_at"},
    "fencepost_refused": set(),
    "fencepost_remark": set(),
    "fencepost_tombstone": set(),
    "fencepost_naming": set(),
    "fencepost_migration": set(),
    "fencepost_writer": set(),
    "fencepost_checkpoint": {"sealed_at"},
    # of the mark only that it may be later than the last entry: an earlier one is named
    "fencepost_store": {"secret", "created_at", "scrub", "mark"},
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


def places(data, rng, number_of_flips):
    """Bits to flip: a third anywhere, two thirds in bytes that say something."""
    telling = [place for place, byte in enumerate(data) if byte]
    for number in range(number_of_flips):
        place = rng.randrange(len(data)) if number % 3 == 0 else rng.choice(telling)
        yield place, rng.randrange(8)


class Original:
    """A closed store, and what is found when a bit of it is flipped."""

    def __init__(self, path):
        self.data = path.read_bytes()
        self.whole, self.bound = content(path, bound_only=False), content(path, bound_only=True)
        assert named_by(path) is None
        self._flipped = path.with_name("flipped.db")

    def flip(self, place, bit):
        """"harmless", "unbound", who names it, or "SILENT"; what differs stands in `differs`."""
        for beside in self._flipped.parent.glob("flipped.db*"):
            beside.unlink()
        changed = bytes([self.data[place] ^ 1 << bit])
        self._flipped.write_bytes(self.data[:place] + changed + self.data[place + 1 :])
        return verdict_on(self._flipped, self.whole, self.bound)

    def differs(self):
        """Rows that the last flip changed."""
        return differences(self.bound, content(self._flipped, bound_only=True))
