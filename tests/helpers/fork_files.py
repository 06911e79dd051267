"""The ways of copying a SQLite file (`sqlite_copies.py`), as forks of a store."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from fencepost.conformance.product_pin import pin
from helpers import sqlite_copies
from helpers.fork_table import Meanwhile, Pair, Way
from helpers.sqlite_copies import UNSEEN, WAYS, copied

PUT_BACK = (
    "Litestream over a lost file", "older file written over",
    "older file and sidecar written over", "backup API into the live file",
)  # fmt: skip
"""What the store did in between is gone."""
ONE_STORE = ("reopened", "VACUUM in place", "mv of the file", "mv of the folder", "rm, and cp back")
"""There is no second one after it."""
BLIND = ("older file and sidecar written over", "the disk cloned")


@contextmanager
def _stage(name: str, folder: Path) -> Iterator[tuple[str, Callable[[Meanwhile], Pair]]]:
    live = folder / "live" / "work.db"
    live.parent.mkdir()
    with ExitStack() as until:

        def fork(meanwhile: Meanwhile) -> Pair:
            with _instead_of_work(meanwhile):
                path = until.enter_context(copied(name, live, folder / "made"))
            two = name not in ONE_STORE + PUT_BACK
            return Pair(str(path), str(live) if two else None)

        yield str(live), fork


@contextmanager
def _copied_twice(
    folder: Path, *, unseen: bool
) -> Iterator[tuple[str, Callable[[Meanwhile], Pair]]]:
    live = folder / "live.db"

    def fork(meanwhile: Meanwhile) -> Pair:
        one, other = (shutil.copy(live, folder / name) for name in ("one.db", "other.db"))
        for path in (one, other) if unseen else ():
            pin(path)
        return Pair(str(other), str(one))

    yield str(live), fork


@contextmanager
def _instead_of_work(meanwhile: Meanwhile) -> Iterator[None]:
    """Before something older is put back, the store has its turns."""
    before = sqlite_copies.work
    sqlite_copies.work = lambda live: meanwhile()
    try:
        yield
    finally:
        sqlite_copies.work = before


assert set(BLIND) < set(UNSEEN), "what is seen has to be judged"
FILES = {
    name: Way(name, partial(_stage, name), blind=name in BLIND, put_back=name in PUT_BACK)
    for name in WAYS
}
TWICE = "two copies of one file, which is lost"
FILES[TWICE] = Way(TWICE, partial(_copied_twice, unseen=False))
CLONED = Way("a disk cloned, without a disk", partial(_copied_twice, unseen=True), blind=True)
"""Two copies that are the same writer in every word, where no image can be mounted."""
