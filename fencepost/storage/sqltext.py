"""Reads `.sql` files made of named blocks: `-- name: find_it` above each statement."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


@cache
def statements(package: str, *names: str) -> dict[str, str]:
    """Statement by name, from the `.sql` files of a package. A name may stand only once."""
    found: dict[str, str] = {}
    for name in names:
        text = files(package).joinpath(name).read_text(encoding="utf-8")
        parts = NAME.split(text)
        for block, body in zip(parts[1::2], parts[2::2], strict=True):
            if block in found:
                raise ValueError(f"{name}: the statement {block} stands twice")
            lines = (line for line in body.splitlines() if not line.startswith("--"))
            found[block] = "\n".join(lines).strip().rstrip(";")
    return found
