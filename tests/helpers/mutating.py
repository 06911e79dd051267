"""Makes inputs nobody meant: mutants of good ones, as bytes and as JSON, the same for each seed."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from typing import Any

from fencepost.commands import COMMANDS

# What a parser may stumble on. The same words go to atheris as its dictionary.
WORDS: tuple[bytes, ...] = (
    b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-0", b"0.0", b"1e0", b"1E+2", b"00", b"01",
    b"9007199254740991", b"9007199254740992", b"-9007199254740993", b"9007199254740993.0", b"1e21",
    b"999999999999999", b"1000000000000000", b"0.1e-7", b"123456789" * 13,
    b"null", b"true", b"false", b"[]", b"{}", b'""', b"[[", b"]]", b'{"a":', b'{"a":1,"a":2}',
    b'"\\ud800"', b'"\\u0000"', b"\\u0061", b"\\/", b'"\\ud83d\\ude00"', b"\xef\xbb\xbf", b"\xff",
    b"\x00", "²".encode(), "é".encode(), "\U0001f600".encode(), "\ue000".encode(), b"\xed\xa0\x80",
    b" ", b"\n", b"\r\n", b"\t", b",", b":", b'"', b"\\", b"-", b"+", b"=", b"/", b"A", b"F", b"0",
    b'"before":"leased",', b'"role":"obligation",', b'"role":"followup",', b'"note":{},',
    b'"queue":"q",', b'"key":"k",', b'"due_at":"2026-01-01T00:00:00+05:30"', b'"epoch":1,',
    b"2026-13-01T00:00:00Z", b"0001-01-01T00:00:00.000000Z", b"9999-12-31T23:59:60Z",
    b"previous none", b"previous 1 ", b"fencepost/", b"a" * 65, b"x" * 300,
    *(b'"%s"' % verb.encode() for verb in COMMANDS),
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 2**31, 2**32, 2**53 - 1, 2**53, 10**15 - 1, 10**15, 10**30,
    1.0, 0.5, 1e300, "", "a", "é", "\x00", "\ud800", "\U0001f600", "2026-01-01T00:00:00.000000Z",
    "ready", "leased", "done", "followup", "obligation", "f" * 64, "F" * 64, "a" * 65, [], {}, [[]],
    {"a": 1}, [1], ["a", "a"], [None] * 300,
)  # fmt: skip
DEEPEST = 30  # of nodes that are looked at; what lies deeper is a mutant of bytes only


class Mutator:
    """Draws one mutant after another from good inputs, dictionary words and nasty values."""

    def __init__(self, seeds: Sequence[bytes], draw: random.Random) -> None:
        self.seeds = seeds
        self.draw = draw

    def one(self) -> bytes:
        """A mutant of one of the seeds."""
        return self.of(self.draw.choice(self.seeds))

    def of(self, raw: bytes) -> bytes:
        """A mutant of `raw`: one to four changes, more often few."""
        for _ in range(self.draw.choice((1, 1, 1, 2, 2, 3, 4))):
            as_json = self.draw.random() < 0.5
            raw = (self._json(raw) if as_json else None) or self._bytes(raw)
        return raw

    def _bytes(self, raw: bytes) -> bytes:
        draw = self.draw
        numbers = list(re.finditer(rb"\d+", raw)) if draw.random() < 0.15 else []
        if numbers:
            number = draw.choice(numbers)
            other = draw.choice((b"0" + number[0], number[0] * 2, b"-" + number[0], b"0", b"1",
                                 b"%d" % (int(number[0][:30]) + 1), number[0] + b".5"))  # fmt: skip
            return raw[: number.start()] + other + raw[number.end() :]
        start = draw.randint(0, len(raw))
        end = min(len(raw), start + draw.choice((0, 1, 1, 2, 4, 8, 32)))
        head, piece, tail = raw[:start], raw[start:end], raw[end:]
        kind = draw.randrange(7)
        if kind == 0 and piece:
            return head + bytes([piece[0] ^ 1 << draw.randrange(8)]) + piece[1:] + tail
        if kind == 1:
            return head + tail
        if kind == 2:
            return head + piece * 2 + tail
        if kind == 3:
            other = draw.choice(self.seeds)
            cut = draw.randint(0, len(other))
            return head + other[cut : cut + draw.randint(1, 64)] + tail
        if kind == 4:
            return head
        if kind == 5:
            return head + draw.choice(WORDS) + piece + tail
        return head + draw.choice(WORDS) + tail

    def _json(self, raw: bytes) -> bytes | None:
        """The same JSON with one node changed, in canonical order; None if it is no JSON."""
        try:
            value = json.loads(raw)
        except (ValueError, RecursionError):
            return None
        places = list(_places(value))
        if not places:
            return None
        holder, name = self.draw.choice(places)
        kind = self.draw.randrange(6)
        if kind == 0:
            del holder[name]
        elif kind == 1:
            other, where = self.draw.choice(places)
            holder[name] = json.loads(json.dumps(other.get(where) if type(other) is dict
                                                 else other[where]))  # fmt: skip
        elif kind == 2 and type(holder) is dict:
            holder[self.draw.choice(("", "a", "role", "key", "note", "due_at"))] = holder[name]
        else:
            holder[name] = self.draw.choice(VALUES)
        try:
            text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
            return text.encode()
        except (UnicodeEncodeError, RecursionError):
            return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _places(value: Any, depth: int = 0) -> Any:
    """(container, name or index) of every node below `value`."""
    if depth > DEEPEST or type(value) not in (dict, list):
        return
    for name in list(value) if type(value) is dict else range(len(value)):
        yield value, name
        yield from _places(value[name], depth + 1)
