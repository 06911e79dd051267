"""Programs and rights that some tests need. What is missing is installed where that may be done;
else the test says so, and under CI that is a failure (see conftest.py)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

# What bare Debian 12 and 13 lack, by the program; .ci/run brings all of it at once. A compiler
# without libc6-dev, which gcc only recommends, finds no header.
PACKAGES = {
    "cc": ("gcc", "libc6-dev"), "java": ("default-jre-headless",), "strace": ("strace",),
    "curl": ("curl",), "openssl": ("openssl",), "mount": ("mount",), "ip": ("iproute2",),
    "nft": ("nftables",), "bwrap": ("bubblewrap",), "pgbouncer": ("pgbouncer",),
    "rsync": ("rsync",),
}  # fmt: skip


@cache
def installed(program: str) -> str | None:
    """Where the program is. Root on a Debian installs its packages if it is not there."""
    if shutil.which(program) is None and shutil.which("apt-get") and os.geteuid() == 0:
        import fcntl

        with open(Path(tempfile.gettempdir()) / "fencepost-tests-apt", "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # several processes run the tests
            if shutil.which(program) is None:
                _install(*PACKAGES[program])
    return shutil.which(program)


def _install(*packages: str) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (
        ["update", "-qq"], ["install", "-qq", "-y", "--no-install-recommends", *packages],
    ):  # fmt: skip
        subprocess.run(
            ["apt-get", *command], env=environment, check=False, capture_output=True, timeout=300
        )


def need(program: str) -> str:
    """The same, or the test cannot be run."""
    found = installed(program)
    if found is None:
        packages = " ".join(PACKAGES[program])
        pytest.skip(f"NOT RUN: needs {program}; as root, or: apt-get install {packages}")
    return found


@contextmanager
def tmpfs(folder: Path, size: str) -> Iterator[None]:
    """A file system of its own, as small as wanted, at a folder that it makes; where it cannot be
    mounted the test cannot be run."""
    folder.mkdir()
    mount = [need("mount"), "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    may = sys.platform == "linux" and os.geteuid() == 0
    if not may or subprocess.run(mount, check=False).returncode:
        pytest.skip("NOT RUN: needs the right to mount a tmpfs")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def built(source: Path, folder: Path) -> Path | None:
    """A C source as a shared library in the folder; None where there is no compiler."""
    found = installed("cc")
    if found is None:
        return None
    library = folder / f"{source.stem}.so"
    command = [found, "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return library
