"""Reads `.sql` files made of named blocks: `-- name: find_it` above each statement."""

from __future__ import annotations

import os
import re
from functools import cache
from importlib import import_module

NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def folder(package: str) -> str:
    """Where a package of ours lies. importlib.resources would cost 10 ms of each start."""
    return str(import_module(package).__path__[0])


def text_of(package: str, name: str) -> str:
    """A data file that lies beside a package's code."""
    with open(os.path.join(folder(package), name), encoding="utf-8") as file:
        return file.read()


@cache
def statements(package: str, *names: str) -> dict[str, str]:
    """Statement by name, from the `.sql` files of a package. A name may stand only once."""
    found: dict[str, str] = {}
    for name in names:
        text = text_of(package, name)
        parts = NAME.split(text)
        for block, body in zip(parts[1::2], parts[2::2], strict=True):
            if block in found:
                raise ValueError(f"{name}: the statement {block} stands twice")
            lines = (line for line in body.splitlines() if not line.startswith("--"))
            found[block] = "\n".join(lines).strip().rstrip(";")
    return found
