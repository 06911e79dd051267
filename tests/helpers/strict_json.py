"""A second strict reader of JSON, written apart from `fencepost.canonical`: what it must say.

Plain and slow: the standard library's parser, told to refuse what two parsers could read in two
ways, and a walk over what it read.
"""

from __future__ import annotations

import json
import math
from typing import Any

REFUSED = object()
DEEPEST = 64
HIGHEST = 9007199254740991


class _RefusedError(Exception):
    """Something that is not to be accepted."""


def read(raw: bytes) -> Any:
    """The value, or REFUSED."""
    try:
        value = json.loads(
            raw.decode(), object_pairs_hook=_object, parse_int=_integer, parse_float=_float,
            parse_constant=_integer,
        )  # fmt: skip
        _walk(value, 0)
    except (ValueError, RecursionError, _RefusedError):
        return REFUSED
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if sorted(set(names)) != sorted(names):
        raise _RefusedError
    return dict(pairs)


def _integer(text: str) -> int:
    digits = text.lstrip("-")
    if not digits.isdigit() or len(digits) > len(str(HIGHEST)) or int(digits) > HIGHEST:
        raise _RefusedError
    return int(text)


def _float(text: str) -> float:
    number = float(text) if len(text) <= 100 else math.inf
    if math.isinf(number) or HIGHEST < abs(number) < 1e21:
        raise _RefusedError
    return number


def _walk(value: Any, depth: int) -> None:
    if isinstance(value, str):
        value.encode()  # a lone surrogate is a UnicodeEncodeError, which is a ValueError
    elif isinstance(value, (dict, list)):
        if depth == DEEPEST:
            raise _RefusedError
        inner = [*value, *value.values()] if isinstance(value, dict) else value
        for one in inner:
            _walk(one, depth + 1)
