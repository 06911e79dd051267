"""Columns as PostgreSQL's binary arrays, made whole by one call each.

psycopg makes arrays element by element in Python, which was half the time of writing a batch."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from typing import Any

NULL = b"\xff\xff\xff\xff"
HEAD = struct.Struct(">iiIii")
LENGTH = struct.Struct(">i").pack
PARAMETER = re.compile(r"%\((\w+)\)s::(\w+)\[\]")


class Encoded(bytes):
    """The bytes of an array."""


# PostgreSQL's oids of elements (pg_type.dat), and how struct packs them.
_KINDS = {
    "bigint": (20, "q"), "integer": (23, "i"), "smallint": (21, "h"),
    "text": (25, ""), "bytea": (17, ""),
}  # fmt: skip


def encode(kind: str, values: Sequence[Any]) -> Encoded:
    """The array of these values (None is null) of one of PostgreSQL's types above."""
    element, code = _KINDS[kind]
    flags, body = _numbers(values, code) if code else _blobs(values, kind == "text")
    return Encoded(HEAD.pack(1, flags, element, len(values), 1) + body)


def _numbers(values: Sequence[int | None], code: str) -> tuple[int, bytes]:
    size = struct.calcsize(f">{code}")
    if None in values:
        parts = (NULL if v is None else struct.pack(f">i{code}", size, v) for v in values)
        return 1, b"".join(parts)
    flat: list[int] = [size] * (2 * len(values))
    flat[1::2] = values  # type: ignore[assignment]
    return 0, struct.pack(">" + f"i{code}" * len(values), *flat)


def _blobs(values: Sequence[Any], text: bool) -> tuple[int, bytes]:
    parts: list[bytes] = []
    add, nulls = parts.append, 0
    for value in values:
        if value is None:
            nulls = 1
            add(NULL)
            continue
        data = value.encode() if text else value
        add(LENGTH(len(data)))
        add(data)
    return nulls, b"".join(parts)


def kinds_of(sql: str) -> dict[str, str]:
    """The type of each array parameter of a statement, which its cast names."""
    return dict(PARAMETER.findall(sql))
