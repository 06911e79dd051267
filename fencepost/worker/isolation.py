"""What holds a task's processes beyond the shim, where somebody asks for it: bwrap, cgroups."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Literal

from fencepost.issues import InvalidRequest
from fencepost.worker.shim import kill_group

Isolate = Literal["bwrap", "cgroup"]
GROUP = "fencepost-"
# A process namespace that the kernel ends with its first process, which ends with the shim. The
# file system is as it was, save /proc: a task can neither see nor signal what is outside.
BWRAP = (
    "--dev-bind", "/", "/", "--unshare-pid", "--proc", "/proc", "--die-with-parent", "--",
)  # fmt: skip
PROBE_SECONDS = 20


def wrapper() -> list[str]:
    """What stands before the command. Raises InvalidRequest, with the reason, where bwrap is not
    there or may not make a namespace here."""
    path = shutil.which("bwrap")
    if path is None:
        raise InvalidRequest("isolate: bwrap is not installed (the package is bubblewrap)")
    if complaint := _refusal(path):
        raise InvalidRequest(f"isolate: bwrap cannot be used here: {complaint}")
    return [path, *BWRAP]


@cache
def _refusal(path: str) -> str:
    """What bwrap says when it is tried; empty when it works. Tried once a process."""
    program = shutil.which("true") or "/bin/true"
    try:
        done = subprocess.run(
            [path, *BWRAP, program], capture_output=True, text=True, errors="replace",
            stdin=subprocess.DEVNULL, timeout=PROBE_SECONDS, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if done.returncode == 0 else done.stderr.strip() or f"it ends with {done.returncode}"


def own_group() -> Path | None:
    """The folder of this process's cgroup (version 2), if it is in one."""
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    own = next((line[3:] for line in lines if line.startswith("0::")), None)
    for mount in mounts:
        before, _, after = mount.partition(" - ")
        if own is not None and after.startswith("cgroup2 "):
            root, point = before.split()[3:5]
            inside = os.path.relpath(own, root)
            if not inside.startswith(".."):
                return Path(point, inside)
    return None


def new_group(cookie: str) -> str:
    """A cgroup of its own for a lease. Raises InvalidRequest where none can be made."""
    parent = own_group()
    if parent is None:
        raise InvalidRequest("isolate: this process is in no cgroup of version 2")
    group = parent / f"{GROUP}{cookie}"
    try:
        group.mkdir()
    except OSError as error:
        raise InvalidRequest(
            f"isolate: no cgroup can be made in {parent} ({error.strerror}): start the worker with "
            "Delegate=yes in its systemd unit, or under systemd-run --user --scope"
        ) from None
    if not (group / "cgroup.kill").exists():
        group.rmdir()
        raise InvalidRequest("isolate: this kernel has no cgroup.kill (it came with Linux 5.14)")
    return str(group)


def kill_groups(prefix: str, patience_ms: int = 0) -> None:
    """The end of all cgroups that an earlier life of a worker has left."""
    parent = own_group()
    if parent is not None:
        for group in parent.glob(f"{GROUP}{prefix}*"):
            kill_group(str(group), patience_ms)
