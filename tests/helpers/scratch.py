"""A folder to work in, in memory where there is room for files in memory."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def scratch() -> Iterator[Path]:
    """A new folder, removed in the end."""
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108
    folder = Path(tempfile.mkdtemp(prefix="power-", dir=base))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
