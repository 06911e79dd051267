"""A disk that remembers every write, and what may be left of it when the power goes.

`Recorder` stands between SQLite and the files and keeps a log of what is asked of them. `Disk`
reads that log again, event by event, and at any of them says what the files may hold after a
power cut: what was synced is there; of what was not, any part. That part is chosen by a mode:

    none      nothing of it
    all       all of it: the machine, not the disk, had died
    prefix    the first writes, the last of them torn at any byte
    sectors   each sector of 512 bytes by itself: written or not
    garbage   the same, or neither the old nor the new

Of creations and deletions since the folder was last synced any first part may have happened. Like
SQLite by default it trusts that a write never damages bytes beside its own (powersafe overwrite).
"""

from __future__ import annotations

import errno
import itertools
import os
import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import apsw

SECTOR = 512
MODES = ("none", "all", "prefix", "sectors", "garbage")
JOURNALS = (
    apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_SUPER_JOURNAL
)  # fmt: skip
Event = tuple[Any, ...]


class Recorder(apsw.VFS):
    """The log: ("create", name, file) ("delete", name, synced) ("write", file, offset, bytes)
    ("truncate", file, size) ("sync", file, folder too?) ("lost", file): a sync that failed;
    ("settled", file, bytes): what is read from now on is what the disk has. Whoever tests adds
    events of his own. Files are numbers, since a name may be used again.

    With `home` set only files in that folder are recorded. `dies` is called where the process ends
    at the sync that fails, or with `before` just before it: the disk is not asked.
    """

    def __init__(self) -> None:
        self.name = f"recorder-{next(_numbers)}"
        self.log: list[Event] = []
        self.syncs = 0
        self.fail_sync = 0  # the number of the sync that fails, counted from 1; 0: none
        self.before = False
        self.dies: Callable[[], None] = lambda: None
        self.home: str | None = None
        self.open: list[RecordedFile] = []
        self._files: dict[str, int] = {}
        self._count = itertools.count(1)
        super().__init__(self.name, "unix", maxpathname=0)

    def xOpen(self, name: Any, flags: list[int]) -> RecordedFile:  # noqa: N802  SQLite's name
        self.open.append(RecordedFile(self, name, flags))
        return self.open[-1]

    def xDelete(self, name: str, sync_folder: bool) -> None:  # noqa: N802
        if self.here(name):
            self.log.append(("delete", os.path.basename(name), bool(sync_folder)))
            self._files.pop(os.path.basename(name), None)
        super().xDelete(name, sync_folder)

    def here(self, path: str) -> bool:
        """Whether the file is to be recorded."""
        return self.home is None or os.path.dirname(path) == self.home

    def leave(self, home: str) -> None:
        """The process has ended: what it had open is no longer recorded, only what is in `home`."""
        for file in self.open:
            file.forget()
        self.open.clear()
        self.home = home

    def file_of(self, path: str) -> int:
        """The number of the file that has this name now."""
        name = os.path.basename(path)
        if name not in self._files:
            self._files[name] = next(self._count)
            self.log.append(("create", name, self._files[name]))
        return self._files[name]

    def synced(self, file: int, folder: bool) -> None:
        """A sync is asked for. Raises if it is the one that shall fail."""
        self.syncs += 1
        if self.syncs == self.fail_sync:
            if not self.before:
                self.log.append(("lost", file))
            self.dies()
            raise apsw.IOError("injected: the disk could not sync")
        self.log.append(("sync", file, folder))


_numbers = itertools.count(1)


class RecordedFile(apsw.VFSFile):
    """One open file. Temporary files, which have no name, are not recorded."""

    def __init__(self, recorder: Recorder, name: Any, flags: list[int]) -> None:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._recorder = recorder
        # SQLite syncs the folder with the first sync of a journal or log that it may create.
        self._sync_folder = bool(flags[0] & JOURNALS and flags[0] & apsw.SQLITE_OPEN_CREATE)
        super().__init__("unix", name, flags)
        self._file = recorder.file_of(path) if path and recorder.here(path) else 0

    def forget(self) -> None:
        """What is done to it from now on is not recorded."""
        self._file = 0

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        if self._file:
            self._recorder.log.append(("write", self._file, offset, bytes(data)))
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802  nothing is synced: the disk is played
        if self._file:
            self._recorder.synced(self._file, self._sync_folder)
            self._sync_folder = False

    def xTruncate(self, size: int) -> None:  # noqa: N802
        if self._file:
            self._recorder.log.append(("truncate", self._file, size))
        super().xTruncate(size)


def recorded_os(recorder: Recorder) -> SimpleNamespace:
    """The part of `os` that the store itself looks after its files with, recorded too. Dropping
    what is cached of a file shows what the disk has of it, after a sync that failed: any part."""
    files: dict[int, int] = {}

    def opened(path: str, flags: int) -> int:
        handle = os.open(path, flags)
        if os.path.isdir(path):
            files[handle] = 0
        elif recorder.here(str(path)):
            files[handle] = recorder.file_of(path)
        return handle

    def write(handle: int, data: bytes) -> int:
        at = os.lseek(handle, 0, os.SEEK_CUR)
        if handle in files:
            recorder.log.append(("write", files[handle], at, bytes(data)))
        return os.write(handle, data)

    def fsync(handle: int) -> None:
        if handle in files:
            try:
                recorder.synced(files[handle], files[handle] == 0)
            except apsw.IOError as error:
                raise OSError(errno.EIO, str(error)) from error

    def advise(handle: int, offset: int, length: int, advice: int) -> None:
        disk = Disk()
        for event in recorder.log:
            disk.feed(event)
        content = disk.settled(files.get(handle, 0), random.Random(len(recorder.log)))
        if content is not None:
            recorder.log.append(("settled", files[handle], content))
            os.truncate(handle, 0)
            os.pwrite(handle, content, 0)

    def close(handle: int) -> None:
        files.pop(handle, None)
        os.close(handle)

    return SimpleNamespace(**{**vars(os), "open": opened, "write": write, "fsync": fsync,
                              "posix_fadvise": advise, "close": close})  # fmt: skip


class Disk:
    """What is durable and what is pending, after the events fed so far."""

    def __init__(self) -> None:
        self._durable: dict[int, bytearray] = {}
        self._pending: dict[int, list[Event]] = defaultdict(list)
        # What a failed sync left in doubt for ever, and what was synced after it.
        self._doubtful: dict[int, list[Event]] = {}
        self._later: dict[int, list[Event]] = defaultdict(list)
        # name → the files that it has led to since the folder was synced; the first is durable
        self._names: dict[str, list[int | None]] = defaultdict(lambda: [None])

    def feed(self, event: Event) -> None:
        """Let it happen. Events of others pass by."""
        match event:
            case ("create", name, file):
                self._names[name].append(file)
                self._durable[file] = bytearray()
            case ("delete", name, synced):
                self._names[name].append(None)
                if synced:
                    self._sync_folder()
            case ("write" | "truncate", file, *_):
                self._pending[file].append(event)
            case ("sync", file, folder):
                pending = self._pending.pop(file, [])
                if file in self._doubtful:
                    self._later[file] += pending
                else:
                    for write in pending:
                        _apply(self._durable[file], write)
                if folder:
                    self._sync_folder()
            case ("lost", file):  # Linux tells the error once and takes the pages for written
                self._doubtful[file] = self._pending.pop(file, [])
            case ("settled", file, content):
                self._durable[file] = bytearray(content)
                del self._doubtful[file]
                self._later.pop(file, None)

    def settled(self, file: int, chance: random.Random) -> bytes | None:
        """What may be read of a file of which a sync had failed; None where none had."""
        if file not in self._doubtful:
            return None
        return self._content(file, chance.choice(MODES), chance, pending="all")

    def _sync_folder(self) -> None:
        for files in self._names.values():
            del files[:-1]

    def cut(self, mode: str, chance: random.Random) -> dict[str, bytes]:
        """Name → content of the files that are there when the power comes back."""
        found: dict[str, bytes] = {}
        for name, files in self._names.items():
            place = {"none": 0, "all": len(files) - 1}.get(mode, chance.randrange(len(files)))
            file = files[place]
            if file is not None:
                found[name] = self._content(file, mode, chance)
        return found

    def _content(
        self, file: int, mode: str, chance: random.Random, pending: str | None = None
    ) -> bytes:
        content = bytearray(self._durable[file])
        for events, how in (
            (self._doubtful.get(file, []), chance.choice((mode, "all"))),
            (self._later.get(file, []), "all"),
            (self._pending.get(file, []), pending or mode),
        ):
            for event in _survivors(events, how, chance):
                _apply(content, event)
        return bytes(content)


def _survivors(pending: list[Event], mode: str, chance: random.Random) -> Iterator[Event]:
    """What the disk had written of it."""
    if mode == "all":
        yield from pending
    elif mode == "prefix" and pending:
        whole = chance.randrange(len(pending) + 1)
        yield from pending[:whole]
        if whole < len(pending) and pending[whole][0] == "write":
            _, file, offset, data = pending[whole]
            yield ("write", file, offset, data[: chance.randrange(len(data) + 1)])
    elif mode in ("sectors", "garbage"):
        for event in pending:
            if event[0] == "truncate":
                if chance.random() < 0.5:
                    yield event
            else:
                yield from _sectors(event, mode, chance)


def _sectors(event: Event, mode: str, chance: random.Random) -> Iterator[Event]:
    _, file, offset, data = event
    at = 0
    while at < len(data):
        length = SECTOR - (offset + at) % SECTOR
        part = data[at : at + length]
        drawn = chance.random()
        if drawn < 0.5:
            yield ("write", file, offset + at, part)
        elif drawn < 0.6 and mode == "garbage":
            yield ("write", file, offset + at, chance.randbytes(len(part)))
        at += length


def _apply(content: bytearray, event: Event) -> None:
    if event[0] == "truncate":
        del content[event[2] :]
        return
    _, _, offset, data = event
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data
