"""Processes that a benchmark or a drill starts beside its own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a child: this very package is found first."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **(extra or {})}
