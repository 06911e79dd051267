"""What the reference reads and writes is what the product does: JSON, instants, commands."""

from __future__ import annotations

import json
import math
import random
import struct

import pytest
from helpers.wires import LEAST, MORE

from fencepost import canonical
from fencepost.clock import from_rfc3339, to_rfc3339
from fencepost.commands import Request
from fencepost.conformance import reference_bytes as bytes_
from fencepost.fields import MAX_BODY_BYTES
from fencepost.issues import InvalidRequest

WHO = bytes_.Row(scope="s", kind="operator", actor="local")
# What one of them could take for something else: neither may.
TEXTS = [
    "", " ", "1", " 1 ", "-0", "-0.0", "1e400", "1E2", "01", "+1", ".5", "5.", "1e21", "1e20",
    "1e999",
    "9007199254740991", "9007199254740992", "-9007199254740991", "-9007199254740992", "1" * 5000,
    "9007199254740993.0", "0." + "1" * 98, "0." + "1" * 99, "NaN", "Infinity", "-Infinity", "nan",
    '"\\ud800"', '"\\ud83d\\ude00"', '"\\u0000"', '"\x01"', '"\x7f"', "'a'", '{"a":1,"a":1}',
    '{"a":1,"\\u0061":2}', '{"a":1,}', "[1,]", "{} {}", "\ufeff1", "nul", "null", "true",
    "[" * 64 + "]" * 64,
    "[" * 65 + "]" * 65, "[" * 100_000, '{"\ue000":1,"\U0001f600":2,"z":3}', '"a\u2028b"', '"a\nb"',
]  # fmt: skip
TIMES = [
    "2026-01-01T00:00:00Z", "2026-01-01T00:00:00.5+05:30", "2026-01-01T00:00:00.123456789Z",
    "2026-01-01T00:00:00.123456000Z", "2026-01-01T00:00:00.1234567Z", "2026-01-01T00:00:00.-1Z",
    "2026-01-01t00:00:00z", "2026-01-01 00:00:00Z", "2026-01-01T00:00:00", "2026-01-01T24:00:00Z",
    "2026-01-01T23:59:60Z", "2026-02-29T00:00:00Z", "2024-02-29T00:00:00-23:59",
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59-00:01",
    "0000-01-01T00:00:00Z", "2026-01-01T00:00:00+24:00", "2026-01-01T00:00:00+00:60",
    "1969-12-31T23:59:59.999999Z", "2026-01-01T00:00:00.Z", "2026-1-1T00:00:00Z",
    "2026-01-01T00:00Z",
    "\u0662026-01-01T00:00:00Z", "2026-01-01T00:00:00Z\n", "20260101T000000Z",
    "2026-01-01T00:00:00-00:00",
]  # fmt: skip
# Values for members: right ones of every kind, and near misses.
VALUES = [
    None, True, False, 0, 1, -1, 2, 100, 101, 180, 181, 200, 201, 900, 1_000, 1_001, 1_000_000,
    1_000_001,
    316_224_000, 316_224_001, 10**15 - 1, 10**15, 232_829, 232_830, 1.0, "", "1", "q", "-q",
    "q" * 64,
    "q" * 65, "k" * 255, "k" * 256, "a b", 'a"', "a\\", "é", "retry", "block", "done", "accepted",
    [], ["q"],
    ["q", "q"], [1], ["q"] * 17, {}, {"x": 1}, {"paused": 1}, {"paused": True},
    {"retain_seconds": None},
    {"destinations": ["a", "b"]}, {"destinations": "a"}, [{"payload": 1}], [{"payload": 1,
    "queue": "q"}],
    [{"payload": 1, "key": "k", "due_at": "2026-01-01T00:00:00Z"}], [{"key": "k"}], "r" * 4_096,
    "é" * 2_049,
    "01900000-0000-7000-8000-000000000000", "01900000-0000-7000-8000-00000000000G",
]  # fmt: skip


def ours(text: str):
    try:
        return canonical.dumps(canonical.loads(text, max_bytes=MAX_BODY_BYTES)).decode()
    except InvalidRequest:
        return "refused"


def theirs(text: str):
    try:
        return bytes_.canonical(bytes_.read_json(text))
    except bytes_.Malformed:
        return "refused"


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_both_read_the_same_texts_and_write_the_same_bytes(text):
    assert theirs(text) == ours(text)


def test_both_write_the_same_numbers():
    rng = random.Random(1)
    doubles = [struct.unpack(">d", rng.randbytes(8))[0] for _ in range(3_000)]
    doubles += [rng.choice((-1, 1)) * rng.randrange(10**17) / 10 ** rng.randrange(25)
                for _ in range(3_000)]  # fmt: skip
    for number in filter(math.isfinite, doubles):
        text = json.dumps(number)
        assert theirs(text) == ours(text), text


@pytest.mark.parametrize("text", TIMES, ids=range(len(TIMES)))
def test_both_take_the_same_times_for_the_same_instants(text):
    try:
        expected = from_rfc3339(text)
    except ValueError:
        assert not bytes_.is_time(text)
    else:
        assert bytes_.is_time(text) and bytes_.instant(text) == expected
        assert bytes_.rfc3339(expected) == to_rfc3339(expected)


def both_read(command: dict) -> tuple[bool, bool]:
    body = json.dumps(command)
    try:
        Request.read(body.encode())
        product = True
    except InvalidRequest:
        product = False
    try:
        bytes_.read_command(body, WHO, None)
    except bytes_.Malformed:
        return product, False
    return product, True


def test_the_reference_offers_every_verb_but_those_of_tokens_which_are_a_faces():
    outside = {verb for verb in LEAST if verb.startswith(("token.", "destination."))}
    assert set(LEAST) - set(bytes_.VERBS) == outside
    assert not any(both_read({"verb": verb, **LEAST[verb]})[1] for verb in set(LEAST)
                   - set(bytes_.VERBS))  # fmt: skip


@pytest.mark.parametrize("verb", bytes_.VERBS)
def test_both_take_the_same_values_for_every_member_of_a_verb(verb):
    names = [part.rstrip("?").split("?")[0].split("=")[0] for part in bytes_.VERBS[verb].split()]
    for base in (LEAST[verb], {**LEAST[verb], **MORE.get(verb, {})}):
        for name in (*names, "unknown"):
            without = {"verb": verb, **base}
            without.pop(name, None)
            for command in (without, *({**without, name: value} for value in VALUES)):
                product, reference = both_read(command)
                assert product == reference, command
