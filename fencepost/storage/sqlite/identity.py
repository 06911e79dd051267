"""Whether this is the file that the store has written last, or a copy of it.

Two copies of a database cannot be told apart by what stands in them. Around them some things
change with each copy: the handle of the file (its inode and how often that was reused) or when it
was born; the machine; the sidecar (sidecar.py). They are looked at when a store is opened, before
its first fence, and whenever a running process finds that its file is another one or has come less
far than it knows. What has changed begins a new epoch with a random incarnation
(`fencepost/lineage.py`, `following`).

A restart of the machine alone is no copy: running leases go on. The machine's id is looked at only
after a restart: two containers and their host, which use one store, have different ones under the
same kernel. What cannot be told apart from inside stands in docs/identity.md.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from fencepost.issues import Unavailable
from fencepost.lineage import COPIED, STARTED, following
from fencepost.log import Log
from fencepost.model import StoreState
from fencepost.record import dataclass, replace
from fencepost.storage.sqlite.driver import STATEMENTS, explained
from fencepost.storage.sqlite.place import Place
from fencepost.storage.sqlite.sidecar import BLOCK, Record, Sidecar
from fencepost.storage.sqltext import statements

log = Log("fencepost.storage")

SQL = statements("fencepost.storage.sqlite", "identity.sql")
# Where a file's handle is the same as long as the file lives. Elsewhere (vfat, overlayfs, FUSE) it
# may be made up anew at each mount.
LASTING = frozenset(["bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "tmpfs", "xfs", "zfs"])
MACHINE = "/etc/machine-id"
BOOT = "/proc/sys/kernel/random/boot_id"
_AT_FDCWD, _HANDLE_BYTES = -100, 128
_STATX_BTIME = 0x800


@dataclass(frozen=True, slots=True)
class Reading:
    """What can be read here of a file and its machine; None: that cannot be read."""

    handle: str | None
    born: str | None
    machine: str | None
    boot: str | None

    def to_json(self, nonce: str) -> str:
        """As it is kept in the store."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return json.dumps({**values, "sidecar": nonce})


def read(place: Place) -> Reading:
    """Look at the file and the machine. The file is not opened: to close it would end the locks
    that SQLite's connections of this process have on it."""
    machine = _line(MACHINE)
    return Reading(
        _handle(place.path) if place.filesystem in LASTING else None, _born(place.path),
        None if machine is None else sha256(b"fencepost " + machine).hexdigest()[:32],
        (_line(BOOT) or b"").decode("ascii", "replace") or None,
    )  # fmt: skip


def _line(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read(256).strip() or None
    except OSError:
        return None


@lru_cache(1)
def _libc() -> Any:
    import ctypes  # 3 ms, so only where a store in a file is opened

    return ctypes.CDLL(None, use_errno=True)


def _handle(path: Path) -> str | None:
    """name_to_handle_at(2): inode and generation, on Linux."""
    import ctypes

    buffer = ctypes.create_string_buffer(8 + _HANDLE_BYTES)
    ctypes.memmove(buffer, _HANDLE_BYTES.to_bytes(4, sys.byteorder), 4)
    mount = ctypes.c_int()
    with suppress(AttributeError):  # not in this libc
        ask = _libc().name_to_handle_at
        if ask(_AT_FDCWD, os.fsencode(path), buffer, ctypes.byref(mount), 0) == 0:
            length = int.from_bytes(buffer.raw[:4], sys.byteorder)
            kind = int.from_bytes(buffer.raw[4:8], sys.byteorder)
            return f"{kind}:{buffer.raw[8 : 8 + length].hex()}"
    return None


def _born(path: Path) -> str | None:
    """When the file was made, in nanoseconds; where statx(2) is not to be had with its number,
    which is not given again there."""
    if sys.platform != "linux":
        found = os.stat(path)
        born = getattr(found, "st_birthtime", found.st_ctime if os.name == "nt" else None)
        return None if born is None else f"{found.st_ino}:{born}"
    import ctypes

    buffer = ctypes.create_string_buffer(256)
    with suppress(AttributeError):
        if _libc().statx(_AT_FDCWD, os.fsencode(path), 0, _STATX_BTIME, buffer) == 0:
            mask, seconds, rest = (
                int.from_bytes(buffer.raw[start : start + size], sys.byteorder)
                for start, size in ((0, 4), (80, 8), (88, 4))
            )
            return str(seconds * 10**9 + rest) if mask & _STATX_BTIME else None
    return None


@dataclass(frozen=True, slots=True)
class Change:
    """Somebody else writes: why, and what has shown it."""

    why: str
    evidence: str


def judged(
    known: Mapping[str, Any], found: Reading, record: Record | None, state: StoreState
) -> Change | None:
    """What tells this file from the one that has been written last; None if nothing does."""
    if record is None:
        return Change(COPIED, "it has no sidecar")
    if record.nonce != known.get("sidecar"):
        return Change(COPIED, "its sidecar is that of another")
    if record.behind(state.epoch, state.last_fence, state.last_entry):
        return Change(COPIED, "it had come further than this once")
    for name, text in (("handle", "the file is another one"), ("born", "the file was made anew")):
        if _differs(known, found, name):
            return Change(COPIED, text)
    if found.boot is not None and found.boot == known.get("boot"):
        return None
    if _differs(known, found, "machine"):
        return Change(COPIED, "the machine is another one")
    return Change(STARTED, "the machine was started") if _differs(known, found, "boot") else None


def _differs(known: Mapping[str, Any], found: Reading, name: str) -> bool:
    """Only where it could be read then and can be now."""
    before, now = known.get(name), getattr(found, name)
    return before is not None and now is not None and before != now


class Identity:
    """What one process knows of the file of its store. All but `told` is done in a turn."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.sidecar = Sidecar(place.path)
        self._known = Record("", 0, 0, 0, 0, 0)
        self._inode = _inode(place.path)
        # the store has come less far than we know: look at it before anything else is done
        self.suspect = True

    # -- a store begins

    def begin(self) -> str:
        """Before a store is made in the file: its sidecar. What is to be kept in the store."""
        before = self.sidecar.read()
        self._write(Record(_uuid(), before.number if before else 0, 0, 0, BLOCK, 0))
        return read(self.place).to_json(self._known.nonce)

    # -- it is opened, or found to be another

    def recognise(
        self, connection: sqlite3.Connection, now: int, named: Change | None = None, heard: int = 0
    ) -> None:
        """A new epoch if this is not the file that was written last, or somebody has `named` why;
        then above every epoch that was `heard` of."""
        try:
            connection.execute(STATEMENTS["begin"])
            try:
                change = self._recognised(connection, now, named, heard)
                if change is not None:
                    connection.execute(STATEMENTS["commit"])
            finally:
                if connection.in_transaction:
                    connection.execute(STATEMENTS["rollback"])
        except sqlite3.Error as error:
            raise explained(error, str(self.place.path)) from error
        self.suspect = False
        if change is not None:
            self.sidecar.note(self._known)
            log.warning("%s: another writer (%s: %s): epoch %d", self.place.path, change.why,
                        change.evidence, self._known.epoch)  # fmt: skip

    def _recognised(
        self, connection: sqlite3.Connection, now: int, named: Change | None, heard: int
    ) -> Change | None:
        state, known = _stored(connection)
        found, record = read(self.place), self.sidecar.read()
        change = named or judged(known, found, record, state)
        if record is not None:
            self._known = replace(
                record, epoch=max(record.epoch, state.epoch),
                entries=max(record.entries, state.last_entry),
            )  # fmt: skip
        if change is None:
            return None
        heard = max(heard, state.epoch, self._known.epoch, self._known.high >> 32)
        epoch, floor = following(change.why, heard, state.floor)
        fence = max(state.last_fence, epoch << 32)
        if change.why != STARTED:
            # the nonce first: should we die before the commit, it is seen again that this is a copy
            self._write(Record(_uuid(), self._known.number, 0, fence, fence + BLOCK, 0))
            connection.execute(STATEMENTS["end_leases"], {"now": state.mark, "floor": floor})
            connection.execute(STATEMENTS["stop_destinations"], {"why": change.why})
        values = {"epoch": epoch, "floor": floor, "last_fence": fence}
        connection.execute(SQL["change_writer"], values)
        identity = found.to_json(self._known.nonce)
        connection.execute(SQL["insert_writer"], {
            "epoch": epoch, "incarnation": _uuid(), "why": change.why, "identity": identity,
            "now": now,
        })  # fmt: skip
        self._known = replace(self._known, epoch=epoch)
        return change

    # -- in each transaction

    def goes_on(self, state: StoreState) -> bool:
        """Whether the store has come as far as we know. Another process may have recognised a copy
        meanwhile: then the sidecar has another nonce."""
        known = self._known
        if known.behind(state.epoch, state.last_fence, state.last_entry):
            self.suspect = True
            return False
        if state.epoch != known.epoch:
            self._known = replace(self.sidecar.read() or known, epoch=state.epoch)
        return True

    def reserve(self, before: StoreState, after: StoreState) -> None:
        """Before a commit: no fence leaves the store that is not within a block on the disk."""
        if after.last_fence <= self._known.high:
            return
        self._known = self.sidecar.read() or self._known  # another process may have reserved
        if after.last_fence > self._known.high:
            high = after.last_fence + BLOCK
            self._write(replace(self._known, low=before.last_fence, high=high))

    def passed(self, state: StoreState) -> None:
        """After a commit: how far the store has come."""
        self._known = replace(self._known, epoch=state.epoch, entries=state.last_entry)
        self.sidecar.note(self._known)

    def _write(self, record: Record) -> None:
        record = replace(record, number=record.number + 1)
        self.sidecar.write(record)
        self._known = record

    # -- the file under a running process

    def replaced(self) -> bool:
        """Whether another file has the store's name now. Raises Unavailable if none has: what is
        written to a file without a name is lost."""
        inode = _inode(self.place.path)
        if inode == self._inode:
            return False
        if inode is None:
            raise Unavailable(
                f"{self.place.path}: the file is gone while it is in use; put it back, or end what "
                "uses it"
            )
        self._inode = inode
        return True

    def told(self, connection: sqlite3.Connection) -> dict[str, Any]:
        """For `doctor`: what of it can be read here, and whether this is a copy that nobody has
        recognised yet, as only who may not write meets one."""
        state, known = _stored(connection)
        found = read(self.place)
        change = judged(known, found, self.sidecar.peek(), state)
        readable = [name for name in Reading.__slots__ if getattr(found, name) is not None]
        return {"readable": readable, "unrecognised": None if change is None else change.evidence}

    def close(self) -> None:
        self.sidecar.close()


def _stored(connection: sqlite3.Connection) -> tuple[StoreState, dict[str, Any]]:
    (row,) = connection.execute(STATEMENTS["store"]).fetchall()
    kept = connection.execute(SQL["last_identity"]).fetchall()
    try:
        known = json.loads(kept[0][0]) if kept else None
    except ValueError:  # somebody has written there
        known = None
    return StoreState(*row), known if isinstance(known, dict) else {}


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unavailable(f"{path}: the file cannot be looked at: {error}") from error
    return found.st_dev, found.st_ino


def _uuid() -> str:
    from uuid import uuid4  # only where a writer begins: its modules would slow down every start

    return str(uuid4())
