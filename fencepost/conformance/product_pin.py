"""Makes a copy of a SQLite store one that cannot know what it is, as a clone of its whole disk."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from fencepost.model import StoreState
from fencepost.storage.sqlite import identity
from fencepost.storage.sqlite.connect import connect
from fencepost.storage.sqlite.driver import STATEMENTS
from fencepost.storage.sqlite.place import check_place
from fencepost.storage.sqlite.sidecar import BLOCK, Record, Sidecar
from fencepost.storage.sqltext import statements

SQL = statements("fencepost.conformance", "product_pin.sql")
NONCE = "pinned"


def pin(path: Path) -> None:
    """The file is made the one that its store was written to last. Nobody may have it open."""
    place = check_place(path)
    with closing(connect(place.path, writable=True)) as own:
        (row,) = own.execute(STATEMENTS["store"]).fetchall()
        state, sidecar = StoreState(*row), Sidecar(place.path)
        before = sidecar.read()
        number = before.number + 1 if before else 1
        high = state.last_fence + BLOCK
        sidecar.write(Record(NONCE, number, state.epoch, 0, high, state.last_entry))
        sidecar.close()
        own.execute(SQL["pin"], {"identity": identity.read(place).to_json(NONCE)})
