"""May a store live here? Asked before a database file is opened or made.

A WAL database needs three things of its place that nobody notices missing until data is lost:
memory shared by all its users, working file locks, and files that may be created beside it.
Network and user-space file systems do not give the first two dependably.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import NoReturn

from fencepost.issues import Unavailable
from fencepost.record import dataclass

UNKNOWN = "unknown"
_MOUNTINFO = "/proc/self/mountinfo"

SMALLEST_DATABASE = 512  # bytes: one page of the least size that SQLite has

# Served over a network, by a program in user space, or shared by a cluster or a virtual machine.
# Names that begin with "fuse." are refused as well.
REFUSED_FILESYSTEMS = frozenset([
    "9p", "acfs", "afpfs", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "fuse", "fuseblk",
    "gfs", "gfs2", "glusterfs", "gpfs", "lustre", "ncp", "ncpfs", "nfs", "nfs4", "ocfs2",
    "orangefs", "panfs", "prl_fs", "pvfs2", "smb", "smb2", "smb3", "smbfs", "vboxsf", "virtiofs",
    "vmhgfs",
])  # fmt: skip


@dataclass(frozen=True, slots=True)
class Place:
    """Where a store is or will be: its real path, the type of its file system ("unknown" where
    that cannot be told), whether the file exists, and whether it may be written."""

    path: Path
    filesystem: str
    exists: bool
    writable: bool


def pasted(path: Path | str) -> str:
    """The path as a shell takes it, for the commands that messages advise."""
    from shlex import quote  # only where something went wrong

    return quote(str(path))


def check_place(
    path: Path, allow_filesystem: str | None = None, *, mountinfo: str | None = None
) -> Place:
    """Find out whether a store may live at `path`, without touching anything.

    Symlinks are followed: all users of a store must come to the same `-wal` and lock files, so
    use the path that is returned. `allow_filesystem` names the one type of file system that is
    to be taken although it is on the list of those refused. `mountinfo` stands in for the
    text of /proc/self/mountinfo in tests.

    Raises Unavailable, which names the path, what is wrong and what to do.
    """
    try:
        real = Path(os.path.realpath(path))
        found = _look_at(real)
    except (OSError, ValueError) as error:  # ValueError: a NUL byte in the path
        _refuse(path, f"it cannot be looked at ({error})", "name another path, or mend this one")
    if found is not None:
        _check_file(real, found)
    filesystem = _filesystem_of(real, _read_mounts() if mountinfo is None else mountinfo)
    _check_filesystem(real, filesystem, allow_filesystem)
    _check_folder(real)
    writable = found is None or _may(real, os.W_OK)
    return Place(path=real, filesystem=filesystem, exists=found is not None, writable=writable)


def _look_at(real: Path) -> os.stat_result | None:
    """What is at this path; None if nothing is and something could be made there."""
    try:
        return os.stat(real)
    except FileNotFoundError:
        pass
    try:
        os.stat(real.parent)
    except FileNotFoundError:
        _refuse(real, f"the folder {real.parent} does not exist", "create it first")
    return None


def _check_file(real: Path, found: os.stat_result) -> None:
    if stat.S_ISDIR(found.st_mode):
        _refuse(real, "it is a directory", f"name a file in it, such as {real / 'work.db'}")
    if not stat.S_ISREG(found.st_mode):
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "something else")
        _refuse(real, f"it is {kind}, not a regular file", "name another path")
    if 0 < found.st_size < SMALLEST_DATABASE and not _half_made(real):
        # SQLite takes so short a file for an empty database and writes over it
        size = f"{found.st_size} byte" + ("s" if found.st_size > 1 else "")
        _refuse(real, f"it holds {size} that are no SQLite database", "name another path")
    if found.st_nlink > 1:
        _refuse(
            real,
            f"the file has {found.st_nlink} names (hard links), and users who come by different"
            " ones would not see each other's locks",
            "remove the other names, or make a copy and use that",
        )


def _half_made(real: Path) -> bool:
    """A power cut tore the first page of a new database: its journal lies beside it."""
    try:
        return os.stat(f"{real}-journal").st_size > 0
    except OSError:
        return False


_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def is_refused(filesystem: str) -> bool:
    """Whether a store may live on a file system of this type only if it is allowed by name."""
    return filesystem in REFUSED_FILESYSTEMS or filesystem.startswith("fuse.")


def _check_filesystem(real: Path, filesystem: str, allowed: str | None) -> None:
    if is_refused(filesystem) and filesystem != allowed:
        _refuse(
            real,
            f"it is on a file system of type {filesystem}, where SQLite's locks and shared memory"
            " cannot be relied on and data may be lost",
            "use a local disk, or PostgreSQL for a queue that machines share; if you are sure that"
            f" only this machine uses it, override with allow_filesystem={filesystem!r}",
        )


def _check_folder(real: Path) -> None:
    if not _may(real.parent, os.W_OK | os.X_OK):
        _refuse(
            real,
            f"the folder {real.parent} is not writable, and SQLite must create files beside the"
            " store even to read it",
            "change its permissions, or move the store",
        )


def _may(path: Path, mode: int) -> bool:
    """Whether this process may, by its effective user; a read-only mount counts too."""
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


def _read_mounts() -> str:
    try:
        with open(_MOUNTINFO, "rb") as file:
            return os.fsdecode(file.read())
    except OSError:  # not Linux, or /proc is not there
        return ""


def _filesystem_of(real: Path, mountinfo: str) -> str:
    """The type of the mount that `real` lies on: the one with the longest mount point above it,
    the later one where two lie on one point, since it hides the earlier."""
    longest, filesystem = 0, UNKNOWN
    for line in mountinfo.split("\n"):  # not splitlines: a mount point may hold odd characters
        before, found, after = line.partition(" - ")
        fields = before.split(" ")
        if not found or len(fields) < 6:
            continue
        parts = Path(_unescape(fields[4])).parts
        if len(parts) >= longest and real.parts[: len(parts)] == parts:
            longest, filesystem = len(parts), _unescape(after.split(" ")[0])
    return filesystem


def _unescape(field: str) -> str:
    """The kernel writes space, tab, newline and backslash as three octal digits."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), field)


def _refuse(path: Path, wrong: str, remedy: str) -> NoReturn:
    raise Unavailable(f"{str(path)!r} cannot hold a store: {wrong}; {remedy}")
