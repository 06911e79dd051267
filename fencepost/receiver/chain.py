"""The head of an ordered stream: one digest that stands for all that was delivered before."""

from __future__ import annotations

import hashlib

START = bytes(32)
"""The head of a stream of which nothing has been delivered."""

_LABEL = b"fencepost-stream-v1\0"


def next_head(previous: bytes, sequence: int, operation: str, data_sha256: bytes) -> bytes:
    """The head after this delivery: 32 bytes.

    SHA-256 over the label `fencepost-stream-v1` and a zero byte, the head before (32 bytes), the
    sequence (8 bytes), the length of the operation in UTF-8 (2 bytes) and the operation, the digest
    of the data (32 bytes); numbers are big-endian. No two histories make the same bytes.

    ValueError for a digest of another length, a sequence below 1, an operation too long to count.
    """
    name = operation.encode()
    if len(previous) != len(START) or len(data_sha256) != len(START):
        raise ValueError("a head and a digest have 32 bytes")
    if not 1 <= sequence < 1 << 64 or len(name) >= 1 << 16:
        raise ValueError("a sequence is 1 or more, an operation at most 65,535 bytes")
    parts = (
        _LABEL, previous, sequence.to_bytes(8, "big"), len(name).to_bytes(2, "big"), name,
        data_sha256,
    )  # fmt: skip
    return hashlib.sha256(b"".join(parts)).digest()
