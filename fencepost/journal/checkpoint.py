"""A checkpoint: what the tree of one writer was at one size, as a few lines of text.

The text follows C2SP tlog-checkpoint (https://c2sp.org/tlog-checkpoint), with one extension line
that names the checkpoint before it:

    fencepost/<writer_id>
    <size, decimal>
    <root, base64>
    previous <size> <sha256 of the previous checkpoint's text, base64>     or: previous none

It is not signed. It is already the text of a C2SP signed note, so signatures can be put below it
later, after an empty line, without changing one byte of it: its digest and every checkpoint that
names it stay valid.
"""

from __future__ import annotations

import base64
import binascii
import re

from fencepost.canonical import sha256
from fencepost.journal.tree import EMPTY_ROOT, HASH_BYTES
from fencepost.record import dataclass

MAX_SIZE = 2**63 - 1
"""The largest tree size that both SQL dialects hold."""

# A signed note's key name, which should be the origin, has neither a space nor a plus sign.
_ORIGIN = re.compile(r"fencepost/[A-Za-z0-9._:-]{1,64}", re.ASCII)
_SIZE = re.compile(r"0|[1-9][0-9]{0,18}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The root of the tree of `size` leaves of the writer that `origin` names.

    `root` is 32 bytes. `previous_size` (leaves) and `previous_sha256` (32 bytes, the `sha256()` of
    the checkpoint before) are both None for the first one. ValueError for anything else.
    """

    origin: str
    size: int
    root: bytes
    previous_size: int | None = None
    previous_sha256: bytes | None = None

    def __post_init__(self) -> None:
        """Hold the rules, so that every Checkpoint has a text that `parse` reads back."""
        if not _ORIGIN.fullmatch(self.origin):
            raise ValueError(f"origin {self.origin!a} is not fencepost/<writer_id>")
        if not 0 <= self.size <= MAX_SIZE:
            raise ValueError(f"size {self.size} is not between 0 and 2**63-1")
        if len(self.root) != HASH_BYTES:
            raise ValueError(f"the root has {len(self.root)} bytes, not {HASH_BYTES}")
        if self.size == 0 and self.root != EMPTY_ROOT:
            raise ValueError("size 0 needs the root of the empty tree")
        if (self.previous_size is None) != (self.previous_sha256 is None):
            raise ValueError("the previous checkpoint needs both its size and its sha256")
        if self.previous_size is None or self.previous_sha256 is None:
            return
        if not 0 <= self.previous_size <= self.size:
            raise ValueError(f"previous size {self.previous_size} is not within size {self.size}")
        if len(self.previous_sha256) != HASH_BYTES:
            raise ValueError(f"the previous sha256 is not {HASH_BYTES} bytes")

    def text(self) -> bytes:
        """The four lines, each ended by a newline: what is kept, hashed and, later, signed."""
        previous = "none"
        if self.previous_sha256 is not None:
            previous = f"{self.previous_size} {_base64(self.previous_sha256)}"
        lines = (self.origin, str(self.size), _base64(self.root), f"previous {previous}")
        return "".join(f"{line}\n" for line in lines).encode("ascii")

    def sha256(self) -> bytes:
        """The SHA-256 of `text()`, 32 bytes: how the next checkpoint names this one."""
        return sha256(self.text())


def parse(raw: bytes) -> Checkpoint:
    """Read the text of a checkpoint: exactly what `Checkpoint.text` writes, nothing near it.

    Of a signed note, hand in the part before the empty line. ValueError names what is wrong.
    """
    if not raw.isascii():
        raise ValueError("a checkpoint is ASCII text")
    lines = raw.decode("ascii").split("\n")
    if len(lines) != 5 or lines[4]:
        raise ValueError("a checkpoint has four lines, each ended by a newline, and nothing else")
    origin, size, root, previous = lines[:4]
    word, _, rest = previous.partition(" ")
    if word != "previous":
        raise ValueError("the fourth line is not `previous none` or `previous <size> <sha256>`")
    if rest == "none":
        return Checkpoint(origin, _parse_size(size), _parse_hash(root))
    previous_size, _, previous_sha256 = rest.partition(" ")
    return Checkpoint(
        origin,
        _parse_size(size),
        _parse_hash(root),
        _parse_size(previous_size),
        _parse_hash(previous_sha256),
    )


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _parse_size(text: str) -> int:
    if not _SIZE.fullmatch(text):
        raise ValueError(f"size {text[:40]!a} is not a decimal number without leading zeros")
    return int(text)


def _parse_hash(text: str) -> bytes:
    """32 bytes from base64 that encodes back to the same text, so that each has one spelling."""
    try:
        data = base64.b64decode(text, validate=True)
    except binascii.Error:
        data = b""
    if len(data) != HASH_BYTES or _base64(data) != text:
        raise ValueError(f"{text[:64]!a} is not the base64 of {HASH_BYTES} bytes")
    return data
