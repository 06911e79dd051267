"""The product's version; pyproject.toml says the same."""

from __future__ import annotations

VERSION = "0.1.0"
