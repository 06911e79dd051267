"""Overwrites what SQLite leaves of erased rows between the cells of its pages.

`secure_delete` zeroes a cell where it lies when it is deleted. But when SQLite balances a B-tree
it moves cells to a neighbouring page and, if it has to build the old page anew, leaves the old
bytes in the free space of that page, where no later delete finds them (measured: two of 600
erased markers among 400 tasks). So after an erasure the free space of every page of ours that
holds content is set to zero, in the file itself: SQLite never reads a byte of it.

This is safe only while nobody can write the file: the caller has the turn, we hold SQLite's own
write lock, and the log is empty, so that no checkpoint can run. The closing commit makes every
other connection drop the pages that it has cached, or the old bytes would come back with them.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator

from fencepost.record import dataclass
from fencepost.storage.sqlite.connect import drop_cached
from fencepost.storage.sqltext import statements

SQL = statements("fencepost.storage.sqlite", "scrub.sql")
PAGES_AT_ONCE = 10_000
"""Leaf pages looked at in one turn (40 MB of a file with pages of 4 KiB)."""

INTERIOR, LEAF = (0x02, 0x05), (0x0A, 0x0D)
_FILE_HEADER = 100
_RESERVED = 20  # where the file header tells the bytes kept free at the end of each page

# Open for the life of the process: closing a file ends all POSIX locks that the process has on
# it, those of SQLite's connections too (sqlite.org/howtocorrupt.html §2.2).
_files: dict[tuple[int, int], int] = {}
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Page:
    """One B-tree page and where its parts begin, in bytes."""

    number: int
    data: bytes
    header: int

    @property
    def kind(self) -> int:
        return self.data[self.header]

    def _number(self, at: int, length: int) -> int:
        return int.from_bytes(self.data[self.header + at : self.header + at + length], "big")

    def free(self, usable: int) -> tuple[int, int]:
        """The space between the cell pointers and the first cell; (0, 0) if they make no sense."""
        start = self.header + (12 if self.kind in INTERIOR else 8) + 2 * self._number(3, 2)
        end = self._number(5, 2) or 65_536
        return (start, end) if start <= end <= usable else (0, 0)

    def children(self) -> Iterator[int]:
        """Page numbers below an interior page."""
        first = self.header + 12
        for at in range(first, first + 2 * self._number(3, 2), 2):
            cell = int.from_bytes(self.data[at : at + 2], "big")
            yield int.from_bytes(self.data[cell : cell + 4], "big")
        yield self._number(8, 4)


class Pages:
    """The pages of a database file, read and mended past SQLite."""

    def __init__(self, file: int, size: int) -> None:
        self._file = file
        self._size = size
        self._usable = size - self._read(0, _FILE_HEADER)[_RESERVED]

    def _read(self, at: int, length: int) -> bytes:
        os.lseek(self._file, at, os.SEEK_SET)
        return os.read(self._file, length)

    def page(self, number: int) -> Page:
        data = self._read((number - 1) * self._size, self._size)
        if len(data) != self._size:
            raise OSError(f"page {number} of the database is not there")
        return Page(number, data, _FILE_HEADER if number == 1 else 0)

    def clean(self, page: Page) -> None:
        """Zero the free space of a page, if there is anything in it."""
        start, end = page.free(self._usable)
        if page.data.count(0, start, end) != end - start:
            os.lseek(self._file, (page.number - 1) * self._size + start, os.SEEK_SET)
            os.write(self._file, bytes(end - start))

    def leaves(self, root: int) -> list[int]:
        """Numbers of the leaves below `root`; the pages above them are cleaned on the way."""
        level = [root]
        while level:
            first = self.page(level[0])
            if first.kind in LEAF:
                return level
            below: list[int] = []
            for number in level:
                page = self.page(number)
                if page.kind not in INTERIOR:
                    return []
                self.clean(page)
                below += page.children()
            level = below
        return []


def marked(connection: sqlite3.Connection) -> bool:
    """Whether an erasure was committed whose bytes have not all been overwritten yet."""
    ((scrub,),) = connection.execute(SQL["marked"]).fetchall()
    return bool(scrub)


def scrub(connection: sqlite3.Connection, path: str, after: int, again: bool) -> int | None:
    """Clean up to 10,000 leaves with page numbers above `after`; `again`: it will be begun anew.

    Returns the last number reached, or None when all are done. The caller has the turn and has
    truncated the log; `connection` is in no transaction. Raises OSError and sqlite3.Error; then
    nothing is lost, and it is to be tried again.
    """
    connection.execute("begin immediate")
    try:
        if _length(f"{path}-wal"):
            return after  # somebody has written meanwhile, outside any turn
        ((size,),) = connection.execute(SQL["page_size"]).fetchall()
        with _lock:
            file = _open(path)
            pages = Pages(file, size)
            roots = [root for (root,) in connection.execute(SQL["roots"]).fetchall()]
            left = sorted(n for root in roots for n in pages.leaves(root) if n > after)
            for number in left[:PAGES_AT_ONCE]:
                pages.clean(pages.page(number))
            try:
                os.fsync(file)
            except OSError:
                drop_cached(file)  # or it would look clean next time, and not be written again
                raise
        more = len(left) > PAGES_AT_ONCE
        connection.execute(SQL["done"], {"left": int(more or again)})
        connection.execute("commit")
        return left[PAGES_AT_ONCE - 1] if more else None
    finally:
        if connection.in_transaction:
            connection.execute("rollback")


def overwrite_log(connection: sqlite3.Connection) -> None:
    """Commit a change that changes nothing, where a commit had failed. Its frames may lie whole in
    the log, where a recovery would find them: somebody was told that nothing was done, and after
    a crash it would be. The log goes on over them, or anew, and is synced with its folder."""
    connection.execute("begin immediate")
    try:
        for _ in ("there", "and back"):
            connection.execute(SQL["touch"])
        connection.execute("commit")
    finally:
        if connection.in_transaction:
            connection.execute("rollback")


def _length(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def _open(path: str) -> int:
    found = os.stat(path)
    known = _files.get((found.st_dev, found.st_ino))
    if known is None:
        known = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
        _files[found.st_dev, found.st_ino] = known
    return known
