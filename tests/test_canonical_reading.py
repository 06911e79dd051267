"""Reading JSON strictly: what two parsers could understand in two ways is refused, not repaired."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.canonical import MAX_DEPTH, dumps, loads
from fencepost.issues import InvalidRequest

ROOMY = 10_000_000


def read(raw):
    return loads(raw, max_bytes=ROOMY)


def refusal(raw, **options):
    with pytest.raises(InvalidRequest) as caught:
        loads(raw, **{"max_bytes": ROOMY, **options})
    return str(caught.value)


@settings(max_examples=300, derandomize=True, database=None, deadline=None)
@given(st.text() | st.binary() | st.text('[]{}",:019.e-\\ud8antrufls '))
def test_loads_answers_any_input_with_a_value_or_a_refusal(raw):
    try:
        value = read(raw)
    except InvalidRequest:
        return
    assert read(dumps(value)) == value


def test_text_may_be_nested_to_the_limit_and_no_further():
    value = read(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)
    for _ in range(MAX_DEPTH - 1):
        (value,) = value
    assert value == []
    assert "nested deeper than 64 levels" in refusal(b"[" * 65 + b"]" * 65)
    assert "nested deeper than 64 levels" in refusal(b'{"a":' * 65 + b"1" + b"}" * 65)


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'[{"a":'])
def test_a_hundred_thousand_openings_are_a_clean_refusal(opening):
    assert "nested deeper than 64 levels" in refusal(opening * 100_000)


@pytest.mark.parametrize(
    "raw",
    [
        b"9007199254740992",
        b"-9007199254740992",
        b"9007199254740993.0",
        b"9007199254740992e0",
        b"1e20",
        b"123456789012345678901234567890",
        b"1" * 5_000,
        b"-" + b"1" * 1_000_000,
    ],
    ids=lambda raw: raw[:32].decode(),
)
def test_an_integer_beyond_what_doubles_hold_is_refused(raw):
    assert "beyond 2**53-1; send it as a string" in refusal(raw)
    assert refusal(b'{"a":[' + raw + b"]}").startswith("request at /a/0: ")


@pytest.mark.parametrize("raw", [b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-1e999"])
def test_a_number_that_is_not_finite_is_refused(raw):
    assert "not a finite double" in refusal(raw)
    assert refusal(b'{"a":[' + raw + b"]}").startswith("request at /a/0: ")


def test_a_number_of_a_million_digits_is_refused_quickly():
    started = time.perf_counter()
    assert "beyond 2**53-1" in refusal(b"7" * 1_000_000)
    assert "a number of 1000002 characters" in refusal(b"0." + b"7" * 1_000_000)
    assert "a number of 1000002 characters" in refusal(b"1e" + b"0" * 1_000_000)
    assert time.perf_counter() - started < 1


def test_numbers_within_the_limits_are_read_as_they_are():
    assert read(b"[9007199254740991,-9007199254740991,0,-0,1.5,1e21,-1e-7,1E2]") == [
        9007199254740991, -9007199254740991, 0, 0, 1.5, 1e21, -1e-7, 100.0,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b'{"a":1,"a":1}', 'request: member "a" stands more than once'),
        (b'{"a":1,"\\u0061":2}', 'request: member "a" stands more than once'),
        (b'{"x":[0,{"b":1,"c":2,"b":3}]}', 'request at /x/1: member "b" stands more than once'),
        (b'{"":1,"":2}', 'request: member "" stands more than once'),
        (b'{"\\u001b":1,"\\u001B":2}', 'request: member "\\u001b" stands more than once'),
    ],
)
def test_a_duplicate_member_is_refused(raw, message):
    assert refusal(raw) == message
    assert refusal(raw.decode()) == message


def test_names_that_only_look_alike_are_different_members():
    raw = b'{"a":1,"A":2,"\\u00e9":3,"e\\u0301":4}'
    assert read(raw) == {"a": 1, "A": 2, "\u00e9": 3, "e\u0301": 4}


@pytest.mark.parametrize(
    "raw",
    [
        b'"\\ud800"',
        b'"\\udc00"',
        b'"\\ude00\\ud83d"',
        b'"\\uD83Dx"',
        b'{"\\udbff":1}',
        b'[["a\\udfff"]]',
        '"\ud800"',
        '"\ud83d\ude00"',
    ],
)
def test_a_lone_surrogate_is_refused(raw):
    assert "lone surrogate" in refusal(raw)


@pytest.mark.parametrize(
    "raw",
    [b'"\xed\xa0\x80"', b'"\xff"', b'"\xc0\xaf"', b'"\xe2\x82"', "1".encode("utf-16")],
)
def test_bytes_that_are_not_utf8_are_refused_with_their_place(raw):
    assert "request is not UTF-8 at byte" in refusal(raw)


def test_a_surrogate_pair_is_one_character():
    assert read(b'"\\ud83d\\ude00"') == "\U0001f600"


def test_a_byte_order_mark_is_refused():
    assert "byte order mark" in refusal(b"\xef\xbb\xbf{}")
    assert "byte order mark" in refusal("\ufeff{}")


@pytest.mark.parametrize("raw", [b"", ""])
def test_empty_input_is_refused(raw):
    assert refusal(raw, what="payload") == "payload is empty; send one JSON value"


@pytest.mark.parametrize(
    "raw",
    [
        b" ", b"{} {}", b"1 2", b"{}x", b"[1,]", b'{"a":1,}', b"{a:1}", b"'a'", b"01", b"+1", b".5",
        b"1.", b"0x10", b"tru", b"nan", b'"a', b'"\n"', b'"\x00"', b"\x00", b"{}\x00", b'"\\x"',
        b'"\\u12"', b"[1] //", b"\xc2\xa01", b"\x0c1", b"[", b'{"a"', b"1e", b"-", b"\xd9\xa1",
    ],
)  # fmt: skip
def test_text_that_is_not_one_json_value_is_refused(raw):
    message = refusal(raw, what="payload")
    assert message.startswith("payload is not JSON: ")
    assert "(line " in message


def test_white_space_around_the_value_is_allowed():
    assert read(b' \t\r\n{ "a" : [ 1 ] }\n') == {"a": [1]}


def test_a_nul_character_inside_a_string_survives():
    assert read(b'{"a\\u0000":"\\u0000b"}') == {"a\x00": "\x00b"}
    assert dumps({"a\x00": "\x00b"}) == b'{"a\\u0000":"\\u0000b"}'


def test_the_limit_counts_utf8_bytes_and_is_looked_at_first():
    assert loads('"é"', max_bytes=4) == "é"
    assert refusal('"é"', max_bytes=3) == "request is larger than 3 bytes"
    assert refusal(b'"abc"', max_bytes=4) == "request is larger than 4 bytes"
    assert refusal(b"\xff" * 5, max_bytes=4) == "request is larger than 4 bytes"
    assert refusal("\ud800" * 5, max_bytes=4) == "request is larger than 4 bytes"


def test_a_message_stays_short_and_printable_whatever_the_names_are():
    message = refusal(b'{"\\u001b[31m' + b"x" * 10_000 + b'":NaN}')
    assert len(message) < 200
    assert message.isprintable()
