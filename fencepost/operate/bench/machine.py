"""What machine this is: the head of every report, without which no figure means anything."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

from fencepost.operate.bench.plain import SQL
from fencepost.storage.sqlite.connect import connect
from fencepost.storage.sqlite.place import check_place

FAST_FSYNC = 2_000
BLOCK = b"\0" * 4_096
PROBE_SECONDS = 0.3


def syncs_per_second(folder: Path, seconds: float = PROBE_SECONDS) -> float:
    """4 KiB appended and synced, again and again, in this folder (fdatasync, or fsync)."""
    path = folder / "sync.probe"
    sync = getattr(os, "fdatasync", os.fsync)
    number, began = 0, perf_counter()
    file = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        while (taken := perf_counter() - began) < seconds:
            os.write(file, BLOCK)
            sync(file)
            number += 1
    finally:
        os.close(file)
        path.unlink()
    return number / taken


def about(folder: Path) -> dict[str, Any]:
    """CPU, kernel, file system, fdatasync/s, versions, and how busy the machine is."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {
        "fencepost": getattr(sys.modules["fencepost"], "__version__", "unknown"),
        "python": platform.python_version(),
        "sqlite": sqlite_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "filesystem": check_place(folder / "any.db").filesystem,
        "folder": str(folder.parent),
        "syncs_per_second": round(syncs_per_second(folder)),
        "load_before": None if load is None else round(load, 2),
    }


def warnings(about: dict[str, Any]) -> list[str]:
    """What a reader has to know before he compares figures."""
    found = []
    if about["syncs_per_second"] > FAST_FSYNC:
        found.append(
            f"this disk hides the cost of fsync ({about['syncs_per_second']:,}/s; a laptop has 100 "
            "to 1,000): batching gains more elsewhere, see the phase slow and --slow-fsync"
        )
    if (about["load_before"] or 0) > 0.5 * (about["cores"] or 1):
        found.append(
            f"the machine was busy before the run (load {about['load_before']} on "
            f"{about['cores']} cores): trust the ratios, not the rates"
        )
    return found


def sqlite_version() -> str:
    connection = connect(":memory:", writable=True)
    try:
        ((version,),) = connection.execute(SQL["version"]).fetchall()
        return str(version)
    finally:
        connection.close()


def _cpu() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor() or "unknown"
    names = (line.partition(":")[2] for line in text.splitlines() if line.startswith("model name"))
    return next(names, platform.processor() or "unknown").strip()


def peak_mb() -> float:
    """The most memory that this process has ever had resident, in MB (10^6 bytes)."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        kib = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
        return int(kib) * 1_024 / 1e6
    except (OSError, StopIteration):
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak * (1 if sys.platform == "darwin" else 1_024) / 1e6
