"""A copy of a store's file that passes for the file itself. No pytest here (helpers/work.py)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from unittest import mock

from fencepost.model import StoreState
from fencepost.storage.sqlite import identity
from fencepost.storage.sqlite.driver import STATEMENTS
from fencepost.storage.sqlite.place import check_place
from fencepost.storage.sqlite.sidecar import BLOCK, Record, Sidecar


@contextmanager
def the_same_disk() -> Iterator[None]:
    """In this process every file is taken for the one that its store was last written to: what
    lies there is what a crash has left on the same disk, though the test had to copy it. It is
    the truth too of a disk that was cloned and never started anew: nothing can tell."""
    with mock.patch.object(identity, "judged", return_value=None):
        yield


def stamp(path: Path) -> None:
    """The same for other processes: the file is made the one that its store was last written to.
    Only for a file that nobody has open and whose log may be looked through."""
    place = check_place(path)
    with closing(sqlite3.connect(place.path, isolation_level=None)) as own:
        state = StoreState(*own.execute(STATEMENTS["store"]).fetchone())
        sidecar = Sidecar(place.path)
        before = sidecar.read()
        number = before.number + 1 if before else 1
        sidecar.write(
            Record("stamped", number, state.epoch, 0, state.last_fence + BLOCK, state.last_entry)
        )
        sidecar.close()
        own.execute(
            "update fencepost_writer set identity = ? "
            "where epoch = (select max(epoch) from fencepost_writer)",
            (identity.read(place).to_json("stamped"),),
        )
