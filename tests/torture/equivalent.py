"""Mutants that nothing can tell from the program, and why; by what they change."""

from __future__ import annotations

SAME: dict[str, str] = {}
