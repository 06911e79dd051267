"""Columns as PostgreSQL's binary arrays, made whole by one call each.

psycopg makes arrays element by element in Python, which was half the time of writing a batch."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct, calcsize
from typing import Any

NULL = b"\xff\xff\xff\xff"
HEAD = Struct(">iiIii")
LENGTH = Struct(">i").pack
LENGTH_SIZE = 4
PARAMETER = re.compile(r"%\((\w+)\)s::(\w+)\[\]")


class Encoded(bytes):
    """The bytes of an array."""


# PostgreSQL's oids of elements (pg_type.dat), and how struct packs them.
_KINDS = {
    "bigint": (20, "q"), "integer": (23, "i"), "smallint": (21, "h"),
    "text": (25, ""), "bytea": (17, ""),
}  # fmt: skip


# One value of each kind of number, whole: most commands come alone.
_ALONE = {
    kind: (Struct(f">iiIiii{code}").pack, calcsize(f">{code}"))
    for kind, (_, code) in _KINDS.items() if code
}  # fmt: skip


def encode(kind: str, values: Sequence[Any]) -> Encoded:
    """The array of these values (None is null) of one of PostgreSQL's types above."""
    element, code = _KINDS[kind]
    if code and len(values) == 1 and values[0] is not None:
        pack, size = _ALONE[kind]
        return Encoded(pack(1, 0, element, 1, 1, size, values[0]))
    flags, body = _numbers(values, code) if code else _blobs(values, kind == "text")
    return Encoded(HEAD.pack(1, flags, element, len(values), 1) + body)


def _numbers(values: Sequence[int | None], code: str) -> tuple[int, bytes]:
    if None in values:
        one = Struct(f">i{code}")
        size = one.size - LENGTH_SIZE
        return 1, b"".join(NULL if v is None else one.pack(size, v) for v in values)
    pack, size = _packs(code, len(values))
    flat: list[int] = [size] * (2 * len(values))
    flat[1::2] = values  # type: ignore[assignment]
    return 0, pack(*flat)


@lru_cache(256)
def _packs(code: str, count: int) -> tuple[Callable[..., bytes], int]:
    return Struct(">" + f"i{code}" * count).pack, calcsize(f">{code}")


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
