"""Makes a copy of a SQLite store one that cannot know what it is, as a clone of its whole disk."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from fencepost.model import StoreState
from fencepost.storage.sqlite import identity
from fencepost.storage.sqlite.driver import STATEMENTS
from fencepost.storage.sqlite.place import check_place
from fencepost.storage.sqlite.sidecar import BLOCK, Record, Sidecar

PIN = """update fencepost_writer set identity = ?
where epoch = (select max(epoch) from fencepost_writer)"""
NONCE = "pinned"


def pin(path: Path) -> None:
    """The file is made the one that its store was written to last. Nobody may have it open."""
    place = check_place(path)
    with closing(sqlite3.connect(place.path, isolation_level=None)) as own:
        (row,) = own.execute(STATEMENTS["store"]).fetchall()
        state, sidecar = StoreState(*row), Sidecar(place.path)
        before = sidecar.read()
        high = state.last_fence + BLOCK
        number = before.number + 1 if before else 1
        sidecar.write(Record(NONCE, number, state.epoch, 0, high, state.last_entry))
        sidecar.close()
        own.execute(PIN, (identity.read(place).to_json(NONCE),))
