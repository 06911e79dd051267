"""What a token is: a secret text that a caller shows, of which the store keeps the digest only.

`fp_`, then 256 random bits in 43 base62 characters, then their CRC-32 in 6 more: so a scanner of
leaked secrets can find one, and what was mistyped is refused without a look at the store. Whoever
asks for a token makes it himself, here, and sends its SHA-256; the text is never sent to be kept.
A digest without salt is enough for a text that nobody can guess.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from hashlib import sha256
from zlib import crc32

PREFIX = "fp_"
SECRET_BYTES = 32
TOKEN = re.compile(r"fp_[0-9A-Za-z]{49}")
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_SECRET, _CHECKSUM = 43, 6


def make(source: Callable[[int], bytes] = os.urandom) -> str:
    """A new token of 32 bytes from `source`. Show it once: nothing can tell it again."""
    secret = PREFIX + _base62(int.from_bytes(source(SECRET_BYTES), "big"), _SECRET)
    return secret + _checksum(secret)


def check(text: str) -> bool:
    """Whether this can be a token at all: its form and its checksum."""
    if TOKEN.fullmatch(text) is None:
        return False
    return text[-_CHECKSUM:] == _checksum(text[:-_CHECKSUM])


def digest(text: str) -> bytes:
    """SHA-256 of the text (32 bytes): what a store knows of a token."""
    return sha256(text.encode()).digest()


def _checksum(secret: str) -> str:
    return _base62(crc32(secret.encode()), _CHECKSUM)


def _base62(number: int, width: int) -> str:
    digits = []
    for _ in range(width):
        number, place = divmod(number, 62)
        digits.append(_DIGITS[place])
    return "".join(reversed(digits))
