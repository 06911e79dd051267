"""Opens connections: the version that SQLite must have, and the settings that are read back.

`synchronous=FULL` on every connection is what an acknowledgement rests on: WAL with NORMAL
loses acknowledged commits on a power cut. `wal_autocheckpoint=0`, since a checkpoint is done
inside a turn only (SQLite before 3.51.3 can corrupt a WAL file when a write and a checkpoint
meet). `secure_delete=ON`, so that erased bytes are overwritten.
"""

from __future__ import annotations

import os
import sqlite3
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

from fencepost.issues import Unavailable

OLDEST = (3, 37, 0)
BUSY_SECONDS = 5.0
BINARY = getattr(os, "O_BINARY", 0)
DURABLE = {"synchronous": 2, "wal_autocheckpoint": 0, "secure_delete": 1}


def check_version(version: tuple[int, int, int] = sqlite3.sqlite_version_info) -> None:
    """SQLite 3.37 brought STRICT tables. Raises Unavailable below it."""
    if version < OLDEST:
        raise Unavailable(
            f"SQLite {'.'.join(map(str, version))} is too old; Fencepost needs 3.37 or later "
            "(use a newer Python, or one that is linked with a newer SQLite)"
        )


class Connection(sqlite3.Connection):
    """A connection that is never closed in a forked child, not even at the child's exit.

    SQLite has no notion of a fork. A child that closes an inherited connection rolls back the
    transaction that its parent was in at the fork, and so wipes from the shared index of the log
    what the parent is writing now: the file is corrupt (tests/test_fork.py shows it). In the child
    the connection is therefore kept for ever, by a reference to itself that goes through SQLite,
    where neither the garbage collector nor the end of the interpreter finds it.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.kept = kept = []  # type: list[sqlite3.Connection]
        self.create_function("fencepost_kept", 0, lambda: len(kept))
        _connections.add(self)


_connections: weakref.WeakSet[Connection] = weakref.WeakSet()


def _after_fork() -> None:
    for connection in list(_connections):
        connection.kept.append(connection)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def connect(path: Path | str, *, writable: bool, settled: bool = False) -> sqlite3.Connection:
    """A connection with every setting made and read back. The path may be `:memory:`. `settled`:
    the log has been settled by a connection that was opened just before, beside which this is."""
    check_version()
    if path == ":memory:":
        target, uri = ":memory:", False
    else:
        if not settled:
            settle_log(path, writable=writable)
        mode = "?mode=rw" if writable else "?mode=ro"
        target, uri = Path(path).absolute().as_uri() + mode, True
    connection = sqlite3.connect(
        target, uri=uri, timeout=BUSY_SECONDS, isolation_level=None,
        check_same_thread=False, cached_statements=256, factory=Connection,
    )  # fmt: skip
    try:
        connection.execute("pragma cache_size = -16384")
        make_durable(connection)
    except UnicodeDecodeError as error:  # what SQLite says of a damaged schema, cut from its bytes
        connection.close()
        raise sqlite3.DatabaseError(f"the schema is damaged ({error})") from None
    except BaseException:
        connection.close()
        raise
    return connection


def settle_log(path: Path | str, *, writable: bool) -> None:
    """Put on the disk what a process that died has left in the log, before anything is read.

    SQLite takes the log as it reads it. A process may have been killed between writing a commit
    and syncing it: whoever came next would answer from what the power can still take away. So the
    log is synced with its folder. And after a sync that failed Linux holds pages for clean that
    are not on the disk: with such a hole the log would end there after a power cut, and all that
    was told since would be gone. So what is cached of the log is dropped, and what is read then
    is what is there; not while others read by its index, since that has what was synced alone.
    Raises Unavailable where it cannot be synced.
    """
    try:
        log = os.open(f"{path}-wal", (os.O_RDWR if writable else os.O_RDONLY) | BINARY)
    except OSError:
        return  # there is none; or SQLite will say what is wrong with it
    try:
        if not os.fstat(log).st_size:
            return
        try:
            os.fsync(log)
            sync_folder(Path(path).absolute().parent)
        finally:
            if not _in_use(f"{path}-shm"):
                drop_cached(log)
    except OSError as error:
        if writable:
            raise Unavailable(f"{path}: its log cannot be synced: {error}") from error
    finally:
        os.close(log)


def drop_cached(file: int) -> None:
    """Let what is read of the file next come from the disk, on Linux."""
    if hasattr(os, "posix_fadvise"):
        with suppress(OSError):
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)


def _in_use(index: str) -> bool:
    """Whether anybody has a lock on the log's index, as every connection that has read has."""
    try:
        number = os.stat(index).st_ino
    except OSError:
        return False
    try:
        return f":{number} ".encode() in Path("/proc/locks").read_bytes()
    except OSError:
        return True


def sync_folder(folder: Path) -> None:
    """So that the names in it survive a power cut as the bytes do."""
    if os.name == "nt":
        return  # a folder cannot be opened there
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_durable(connection: sqlite3.Connection) -> None:
    """Set what durability and erasure rest on, and read it back. Raises Unavailable."""
    for name, value in DURABLE.items():
        connection.execute(f"pragma {name} = {value}")
        ((found,),) = connection.execute(f"pragma {name}").fetchall()
        if found != value:
            raise Unavailable(f"SQLite did not take {name}={value} (it says {found})")


def use_wal(connection: sqlite3.Connection) -> None:
    """Write-ahead logging: readers never wait. Kept in the file once it is set."""
    ((mode,),) = connection.execute("pragma journal_mode = wal").fetchall()
    if mode not in ("wal", "memory"):
        raise Unavailable(f"the file cannot use write-ahead logging (journal mode is {mode})")
