"""Looks for bytes in the files of a store, past SQLite."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

LETTERS = "bcdfghjklmnpqrstvwxz"
WINDOW = 9  # bytes: part of a marker is found too
RUN = re.compile(b"[%s]{%d,}" % (LETTERS.encode(), WINDOW))
PARTS = ("", "-wal", "-shm")


def files_of(path: Path) -> bytes:
    """Database, log and its index as they lie on disk.

    Another process reads them: closing a file here would end the locks that SQLite's connections
    of this process have on it.
    """
    names = [f"{path}{part}" for part in PARTS if os.path.exists(f"{path}{part}")]
    program = "import sys; [sys.stdout.buffer.write(open(n, 'rb').read()) for n in sys.argv[1:]]"
    run = subprocess.run(
        [sys.executable, "-S", "-c", program, *names], check=True, stdout=subprocess.PIPE
    )
    return run.stdout


def leftovers(path: Path, markers: Iterable[str]) -> list[str]:
    """The markers (of LETTERS) of which any nine bytes in a row are found in the files."""
    runs = set(re.findall(RUN, files_of(path)))
    found = {run[at : at + WINDOW] for run in runs for at in range(len(run) - WINDOW + 1)}
    return [
        marker
        for marker in markers
        if any(
            marker[at : at + WINDOW].encode() in found
            for at in range(len(marker) - WINDOW + 1)
        )
    ]
