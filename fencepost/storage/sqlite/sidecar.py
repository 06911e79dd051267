"""The sidecar of a store, `<store>-writer`: what tells that the file beside it was put back.

Whoever writes an older copy over the file of a store leaves its sidecar alone. So the sidecar
remembers three things. A nonce, which the store has too: a file whose sidecar is missing, or is
that of another, is a copy. Up to which fence fences may have been given: they are reserved in
blocks, and the block is on the disk before the first of it is used. And how far the journal has
come, noted after each commit without a sync: a file whose journal is shorter was put back. A note
that a power cut takes away is one that warns of less; it never warns of what did not happen, since
what it tells of was on the disk before.

Three records of one form, in text: two that are synced and written by turns, so that one of them
is always whole, and the note. Whoever writes has the turn of the store.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from zlib import crc32

from fencepost.issues import Unavailable
from fencepost.record import dataclass, replace
from fencepost.storage.sqlite.connect import BINARY, sync_folder
from fencepost.storage.sqlite.gate import open_beside

BLOCK = 1 << 16
"""Fences reserved at once: at 20,000 claims a second one sync in three seconds."""
ENDING = "-writer"
_RECORD = 512  # bytes: a sector, so that a power cut leaves the old one or the new one
_NOTE = 2
_MAGIC = "fencepost-writer 1"


@dataclass(frozen=True, slots=True)
class Record:
    """What the sidecar says. `low` was the store's last fence, and on its disk, when the block up
    to `high` was reserved; `entries` and `epoch` were committed. `number` counts synced records."""

    nonce: str
    number: int
    epoch: int
    low: int
    high: int
    entries: int

    def line(self) -> bytes:
        """The record as it is written."""
        text = (
            f"{_MAGIC} {self.nonce} {self.number} {self.epoch} {self.low} {self.high} "
            f"{self.entries}"
        )
        return f"{text} {crc32(text.encode()):08x}".ljust(_RECORD - 1).encode() + b"\n"

    def behind(self, epoch: int, last_fence: int, last_entry: int) -> bool:
        """Whether a store that has come as far as this had come further once."""
        return last_entry < self.entries or last_fence < self.low or epoch < self.epoch


class Sidecar:
    """The sidecar of the store at `store`. Raises Unavailable where it cannot be used."""

    def __init__(self, store: Path) -> None:
        self.path = store.with_name(store.name + ENDING)
        self._store = store
        self._file: int | None = None

    def read(self) -> Record | None:
        """What it says now; None where it is missing or says nothing that can be read. Opened
        anew, since somebody may have put another one in its place."""
        self.close()
        try:
            self._file = os.open(self.path, os.O_RDWR | BINARY | getattr(os, "O_NOFOLLOW", 0))
            return _read(self._file)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unusable(error) from error

    def peek(self) -> Record | None:
        """The same for whoever may only read; None also where he may not."""
        try:
            file = os.open(self.path, os.O_RDONLY | BINARY | getattr(os, "O_NONBLOCK", 0))
        except OSError:
            return None
        try:
            return _read(file)
        except OSError:
            return None
        finally:
            os.close(file)

    def write(self, record: Record) -> None:
        """Put a record on the disk, beside the one of before, in a new file where there is none."""
        try:
            new = self._file is None
            if self._file is None:
                self._file = open_beside(self.path, self._store)
            _put(self._file, record.number % 2, record)
            os.fsync(self._file)
            if new:
                sync_folder(self.path.parent)
        except OSError as error:
            raise self._unusable(error) from error

    def note(self, record: Record) -> None:
        """How far the store has come, for what it is worth: no sync, and no error."""
        if self._file is not None:
            with suppress(OSError):
                _put(self._file, _NOTE, record)

    def close(self) -> None:
        """Give the file back."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __del__(self) -> None:
        with suppress(AttributeError):  # interrupted before it had begun
            self.close()

    def _unusable(self, error: OSError) -> Unavailable:
        return Unavailable(
            f"{self.path}: the store's sidecar cannot be used: {error}. Whoever may write the "
            "store must be able to write it; never copy, replace or remove it by itself"
        )


def _read(file: int) -> Record | None:
    os.lseek(file, 0, os.SEEK_SET)
    data = os.read(file, 3 * _RECORD)
    lines = [_parsed(data[n * _RECORD : (n + 1) * _RECORD]) for n in range(3)]
    synced = [line for line in lines[:_NOTE] if line is not None]
    if not synced:
        return None
    last, note = max(synced, key=lambda line: line.number), lines[_NOTE]
    if note is None or note.nonce != last.nonce:
        return last
    return replace(last, epoch=max(last.epoch, note.epoch), entries=max(last.entries, note.entries))


def _parsed(data: bytes) -> Record | None:
    text, _, check = data.decode("ascii", "replace").rstrip().rpartition(" ")
    if not text.startswith(_MAGIC + " ") or check != f"{crc32(text.encode()):08x}":
        return None
    nonce, *numbers = text[len(_MAGIC) + 1 :].split(" ")
    return Record(nonce, *map(int, numbers)) if len(numbers) == 5 else None


def _put(file: int, place: int, record: Record) -> None:
    os.lseek(file, place * _RECORD, os.SEEK_SET)
    if os.write(file, record.line()) != _RECORD:
        raise OSError("the disk took only part of a record")
