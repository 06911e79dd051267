"""The demo's input: source files, their names as queue keys, and what workers compute of them."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote_to_bytes

LEFT_OUT = frozenset(["__pycache__", "site-packages", "dist-packages"])
PLAIN = "/!#$&'()*+,;=@[]^`{|}:"  # beside letters, digits and -._~: what a key may hold
KEY_CHARS = 255  # of fields.KEY
DIGEST_CHARS = 32
CHUNK_BYTES = 1 << 20


def standard_library() -> Path:
    """Where the running Python keeps the sources of its standard library."""
    return Path(sysconfig.get_path("stdlib"))


def sources(folder: Path) -> Iterator[str]:
    """Every `*.py` file under the folder that can be read, as a relative path, in order.

    Caches and installed packages below it are left out; links to folders are not followed.
    """
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in LEFT_OUT)
        for name in sorted(names):
            path = os.path.join(place, name)
            if name.endswith(".py") and os.path.isfile(path) and os.access(path, os.R_OK):
                yield os.path.relpath(path, folder)


def to_name(path: str) -> str:
    """A relative path as visible ASCII: what a key may not hold is percent-encoded."""
    return quote(os.fsencode(path), safe=PLAIN)


def to_path(name: str) -> str:
    """The path that `to_name` encoded, byte for byte: not every file name is UTF-8."""
    return os.fsdecode(unquote_to_bytes(name))


def to_key(name: str) -> str:
    """The name itself, or where it is too long for a key its beginning and its digest."""
    if len(name) <= KEY_CHARS:
        return name
    digest = sha256(name.encode()).hexdigest()[:DIGEST_CHARS]
    return f"{name[: KEY_CHARS - DIGEST_CHARS - 1]}~{digest}"


def measure(path: Path) -> dict[str, Any]:
    """SHA-256 and number of lines; a last line counts without its line feed too."""
    digest, lines, last = sha256(), 0, b"\n"
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
            lines += chunk.count(b"\n")
            last = chunk[-1:]
    return {"lines": lines + (last != b"\n"), "sha256": digest.hexdigest()}
