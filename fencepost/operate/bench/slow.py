"""Phase slow: the callers again, with milliseconds added to each fsync. Simulated.

A small library is compiled and loaded before a fresh process (LD_PRELOAD), which measures its
own fdatasync first: if the delay is not felt, no figure is given.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from fencepost.operate.bench import child
from fencepost.operate.bench.lab import Lab, Measuring, NotHere

SOURCE = Path(__file__).with_name("slowsync.c")


def slow(lab: Lab) -> Measuring:
    """See the rows of goals.py."""
    library = compiled(lab.folder)
    settings = {
        "LD_PRELOAD": str(library), "SLOWSYNC_US": str(round(lab.slow_ms * 1_000)),
    }  # fmt: skip
    sizes = lab.sizes
    numbers = [
        sizes.callers, sizes.slow_naive_lives, sizes.slow_batched_lives, sizes.slow_thread_lives,
    ]  # fmt: skip
    while True:
        folder = lab.fresh("slow")
        figures = child.run("callers", [str(folder), *numbers], settings)
        rate = figures.pop("fdatasync")
        if rate > 1_000 / lab.slow_ms:
            raise NotHere(f"the delay is not felt: {rate:,.0f} fdatasync/s with the library loaded")
        yield figures
        shutil.rmtree(folder)


def compiled(folder: Path) -> Path:
    """The library. NotHere, with the reason, if it cannot be made here."""
    if not sys.platform.startswith("linux"):
        raise NotHere("a slower fsync can be simulated on Linux only")
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        raise NotHere("there is no C compiler (cc) to build the library that slows fsync")
    library = folder / "slowsync.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotHere(f"{compiler} could not build slowsync.c: {done.stderr.strip()[:200]}")
    return library
