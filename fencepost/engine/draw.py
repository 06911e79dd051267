"""All the chance there is: task ids, salts, jitter. Tests hand in a seeded one."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from fencepost.journal.entry import SALT_BYTES

RANDOM_BITS = 74


class SystemDraw:
    """Draws from the system's randomness, or from `source(bytes)` where one is given. Several
    threads may draw at once: nothing is given twice."""

    def __init__(self, source: Callable[[int], bytes] = os.urandom) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._buffer = b""
        self._place = 0
        self._millisecond = 0
        self._tail = 0

    def _bytes(self, number: int) -> bytes:
        """With the lock held."""
        if self._place + number > len(self._buffer):
            self._buffer = self._source(8_192)
            self._place = 0
        self._place += number
        return self._buffer[self._place - number : self._place]

    def salt(self) -> bytes:
        """32 random bytes: as many as the digest that they hide."""
        with self._lock:
            return self._bytes(SALT_BYTES)

    def jitter(self) -> float:
        with self._lock:
            return int.from_bytes(self._bytes(6), "big") / 2**48

    def task_id(self, now: int) -> str:
        """A UUIDv7. Within a millisecond the 74 random bits only rise (RFC 9562 §6.2, method 2),
        so that ids of one writer sort as they were made, and none is given twice."""
        with self._lock:
            millisecond, tail = self._next(now // 1_000)
        return (
            f"{millisecond >> 16:08x}-{millisecond & 0xFFFF:04x}-7{tail >> 62:03x}-"
            f"{0x8000 | tail >> 48 & 0x3FFF:04x}-{tail & 0xFFFF_FFFF_FFFF:012x}"
        )

    def _next(self, millisecond: int) -> tuple[int, int]:
        """The millisecond and the random bits of an id. With the lock held."""
        if millisecond > self._millisecond:
            self._millisecond = millisecond
            self._tail = int.from_bytes(self._bytes(9), "big")
        else:
            self._tail += 1 + int.from_bytes(self._bytes(4), "big")
            if self._tail >> RANDOM_BITS:
                self._millisecond += 1
                self._tail = int.from_bytes(self._bytes(9), "big")
        return self._millisecond, self._tail
