"""Bytes that two parties can compare: canonical JSON, digests, and strict reading.

Everything that Fencepost hashes is JSON in the canonical form of RFC 8785 (JCS), so that one value
has one byte string. Reading is strict and never repairs: what two parsers could understand in two
ways is refused (RFC 8785 section 3.1, RFC 7493 sections 2.1 to 2.3).

What `dumps` writes, `loads` reads back equal, and `dumps` then writes the same bytes again.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from fencepost.issues import InvalidRequest

Json: TypeAlias = "Mapping[str, Json] | Sequence[Json] | str | int | float | bool | None"
"""A JSON value. At run time the containers are exactly `dict`, `list` and `tuple`."""

MAX_DEPTH = 64
"""Containers that may stand inside one another; a bare string has depth 0, `[]` has depth 1."""

MAX_INTEGER = 2**53 - 1
"""The largest integer that every JSON reader keeps exact (RFC 7493 section 2.2)."""

# "-9007199254740991": JSON allows no leading zeros, so a longer integer is out of range.
_MAX_INTEGER_CHARS = 17
# Writers of doubles use about 25 characters. Longer numbers claim digits that would be dropped.
_MAX_NUMBER_CHARS = 100
# From here on ECMAScript writes a number with an exponent (ECMA-262, Number::toString).
_EXPONENT_FROM = 1e21


def dumps(value: Json) -> bytes:
    """The RFC 8785 bytes of a value, in UTF-8 and without a final newline.

    Raises InvalidRequest, naming the place as a JSON pointer, for: a type other than dict, list,
    tuple, str, int, float, bool and None (subclasses too); a member name that is no str; a lone
    surrogate; NaN and infinities; nesting deeper than MAX_DEPTH (so also a cycle); and a number
    whose canonical text is an integer beyond 2**53-1. The last is narrower than RFC 8785, which
    writes 1e20 as 100000000000000000000: `loads` has to refuse that text.
    """
    try:
        plain = _check(value, 0)
    except _Problem as problem:
        raise InvalidRequest(f"value{problem}") from None
    return (_encode_plain(value) if plain else _encode(value)).encode()


def loads(raw: bytes | str, *, max_bytes: int, what: str = "request") -> Json:
    """The one JSON value in `raw`, read strictly; whitespace around it is allowed.

    `max_bytes` bounds the UTF-8 length of `raw` and is looked at before anything else; `what` names
    the input in messages. Raises InvalidRequest for everything that `dumps` refuses and for: too
    many bytes, no value, text after the value, a byte order mark, bytes that are not UTF-8, a
    member that stands twice in an object (compared after unescaping), NaN and Infinity, and
    numbers of more than 100 characters.
    """
    text = _text(raw, max_bytes, what)
    try:
        value = _decode(text)
        _check(value, 0)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise InvalidRequest(f"{what} is not JSON: {error.msg} ({where})") from None
    except RecursionError:
        raise InvalidRequest(f"{what} is nested deeper than {MAX_DEPTH} levels") from None
    except _Problem as problem:
        raise InvalidRequest(f"{what}{problem}") from None
    return value  # type: ignore[no-any-return]  # _check let only JSON through


def join(members: Mapping[str, bytes]) -> bytes:
    """The canonical object with these member values, each already canonical bytes.

    It saves encoding a large value twice. Names must be ASCII, where Python's order is the order of
    RFC 8785 section 3.2.3; another name is a fault of the caller and raises ValueError. The values
    are trusted.
    """
    for name in members:
        if not name.isascii():
            raise ValueError(f"join takes ASCII member names only, not {name!a}")
    return b"{" + b",".join(quote(name) + b":" + members[name] for name in sorted(members)) + b"}"


def quote(text: str) -> bytes:
    """The canonical JSON string of `text` (RFC 8785 section 3.2.2.2).

    Raises InvalidRequest for a lone surrogate.
    """
    return dumps(text)


def sha256(data: bytes) -> bytes:
    """The SHA-256 digest of `data`: 32 bytes."""
    return hashlib.sha256(data).digest()


def sha256_hex(data: bytes) -> str:
    """The SHA-256 digest of `data` as 64 lowercase hex digits."""
    return hashlib.sha256(data).hexdigest()


class _Problem(Exception):
    """What is wrong with a value; the steps to its place are added on the way up."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.steps: list[object] = []

    def __str__(self) -> str:
        steps = (str(step).replace("~", "~0").replace("/", "~1") for step in reversed(self.steps))
        pointer = _shown("".join(f"/{step}" for step in steps))  # RFC 6901
        return f" at {pointer}: {self.problem}" if pointer else f": {self.problem}"


class _Unreadable:
    """Stands where the text holds something that is refused, until `_check` names its place."""

    __slots__ = ("problem",)

    def __init__(self, problem: str) -> None:
        self.problem = problem


def _shown(text: str) -> str:
    """Foreign text for a message: printable ASCII, at most 100 characters of the original."""
    return json.dumps(text[:100])[1:-1] + ("..." if len(text) > 100 else "")


def _check(value: Any, depth: int) -> bool:
    """Hold every rule for a value inside `depth` containers; _Problem for the first that breaks.

    True says that the C encoder writes the value canonically: it has no float and no member name
    for which code point order and UTF-16 order differ.
    """
    kind = type(value)
    if kind is str:
        if not value.isascii():
            _check_unicode(value)
        return True
    if kind is int:
        if not -MAX_INTEGER <= value <= MAX_INTEGER:
            raise _Problem("an integer beyond 2**53-1; send it as a string")
        return True
    if kind is bool or value is None:
        return True
    if kind is dict or kind is list or kind is tuple:
        if depth == MAX_DEPTH:
            raise _Problem(f"nested deeper than {MAX_DEPTH} levels")
        return (_check_object if kind is dict else _check_array)(value, depth + 1)
    if kind is float:
        _check_float(value)
        return False
    if kind is _Unreadable:
        raise _Problem(value.problem)
    raise _Problem(f"a {kind.__name__}; use dict, list, tuple, str, int, float, bool or None")


def _check_object(members: dict[Any, Any], depth: int) -> bool:
    """`_check` for the members of an object inside `depth` containers, itself included."""
    plain = True
    for name, member in members.items():
        try:
            plain = _check_name(name) and plain
            plain = _check(member, depth) and plain
        except _Problem as problem:
            problem.steps.append(name)
            raise
    return plain


def _check_array(items: Sequence[Any], depth: int) -> bool:
    """`_check` for the items of an array inside `depth` containers, itself included."""
    plain = True
    for index, item in enumerate(items):
        try:
            plain = _check(item, depth) and plain
        except _Problem as problem:
            problem.steps.append(index)
            raise
    return plain


def _check_name(name: Any) -> bool:
    """`_check` for a member name."""
    if type(name) is not str:
        raise _Problem(f"a member name of type {type(name).__name__}; it must be a str")
    if name.isascii():
        return True
    _check_unicode(name)
    # Surrogates, which UTF-16 uses from U+10000 on, sort before U+E000 to U+FFFF.
    return max(name) < "\ue000"


def _check_unicode(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _Problem("a lone surrogate, which is not valid Unicode") from None


def _check_float(number: float) -> None:
    if not math.isfinite(number):
        raise _Problem(f"{number} is not a finite double")
    if MAX_INTEGER < abs(number) < _EXPONENT_FROM:
        raise _Problem(f"{number!r} is an integer beyond 2**53-1; send it as a string")


# The checks above already end a cycle.
_encode_plain = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, check_circular=False
).encode


def _encode(value: Any) -> str:
    """The canonical text of a checked value; slower than `_encode_plain`, and right for all."""
    kind = type(value)
    if kind is float:
        return _number(value)
    if kind is dict:
        # Big-endian UTF-16 compares as its code units do (RFC 8785 section 3.2.3).
        names = sorted(value, key=lambda name: name.encode("utf-16-be"))
        return "{" + ",".join(f"{_encode_plain(n)}:{_encode(value[n])}" for n in names) + "}"
    if kind is list or kind is tuple:
        return "[" + ",".join(map(_encode, value)) + "]"
    return _encode_plain(value)


def _number(number: float) -> str:
    """The ECMAScript text of a finite double (RFC 8785 section 3.2.2.3, Number::toString).

    Python and ECMAScript find the same shortest digits and differ only in how they lay them out.
    """
    if number == 0:
        return "0"  # also for -0.0
    sign = "-" if number < 0 else ""
    mantissa, _, exponent = repr(abs(number)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    # The value is 0.DIGITS times ten to the power `point`.
    point = len(digits) - len(fraction) + int(exponent or 0)
    digits = digits.rstrip("0")
    if len(digits) <= point <= 21:
        return sign + digits + "0" * (point - len(digits))
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    dot = "." if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{dot}{digits[1:]}e{point - 1:+d}"


def _text(raw: bytes | str, max_bytes: int, what: str) -> str:
    """The text of `raw` after the checks on size and encoding."""
    # A str has at least as many bytes as characters, so a huge one is not encoded in vain.
    if len(raw) > max_bytes:
        raise InvalidRequest(f"{what} is larger than {max_bytes} bytes")
    try:
        data, text = (raw.encode(), raw) if isinstance(raw, str) else (raw, raw.decode())
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"{what} has a lone surrogate at character {error.start}") from None
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{what} is not UTF-8 at byte {error.start}") from None
    if len(data) > max_bytes:
        raise InvalidRequest(f"{what} is larger than {max_bytes} bytes")
    if not data:
        raise InvalidRequest(f"{what} is empty; send one JSON value")
    if text.startswith("\ufeff"):
        raise InvalidRequest(f"{what} starts with a byte order mark; leave it out")
    return text


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any] | _Unreadable:
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
    return _Unreadable(f'member "{_shown(twice)}" stands more than once')


def _integer(text: str) -> int | _Unreadable:
    if len(text) <= _MAX_INTEGER_CHARS:
        return int(text)
    return _Unreadable("an integer beyond 2**53-1; send it as a string")


def _float(text: str) -> float | _Unreadable:
    if len(text) <= _MAX_NUMBER_CHARS:
        return float(text)
    return _Unreadable(f"a number of {len(text)} characters; at most {_MAX_NUMBER_CHARS}")


# NaN and the infinities are read as floats, and `_check_float` refuses them with their place.
_decode = json.JSONDecoder(object_pairs_hook=_object, parse_int=_integer, parse_float=_float).decode
