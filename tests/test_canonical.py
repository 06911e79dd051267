"""Writing canonical JSON: one value has one byte string, and it is that of RFC 8785."""

from __future__ import annotations

import json
import math
import struct

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost import canonical
from fencepost.canonical import MAX_DEPTH, dumps, join, loads, quote, sha256, sha256_hex
from fencepost.issues import InvalidRequest


def read(raw):
    return loads(raw, max_bytes=10_000_000)


def refusal(value):
    with pytest.raises(InvalidRequest) as caught:
        dumps(value)
    return str(caught.value)


def double(bits):
    return struct.unpack(">d", bytes.fromhex(bits))[0]


# RFC 8785 appendix B, without NaN and Infinity, which stand in a test of their own.
NUMBERS = [
    ("0000000000000000", "0"),
    ("8000000000000000", "0"),
    ("0000000000000001", "5e-324"),
    ("8000000000000001", "-5e-324"),
    ("7fefffffffffffff", "1.7976931348623157e+308"),
    ("ffefffffffffffff", "-1.7976931348623157e+308"),
    ("4340000000000000", "9007199254740992"),
    ("c340000000000000", "-9007199254740992"),
    ("4430000000000000", "295147905179352830000"),
    ("44b52d02c7e14af5", "9.999999999999997e+22"),
    ("44b52d02c7e14af6", "1e+23"),
    ("44b52d02c7e14af7", "1.0000000000000001e+23"),
    ("444b1ae4d6e2ef4e", "999999999999999700000"),
    ("444b1ae4d6e2ef4f", "999999999999999900000"),
    ("444b1ae4d6e2ef50", "1e+21"),
    ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
    ("3eb0c6f7a0b5ed8d", "0.000001"),
    ("41b3de4355555553", "333333333.3333332"),
    ("41b3de4355555554", "333333333.33333325"),
    ("41b3de4355555555", "333333333.3333333"),
    ("41b3de4355555556", "333333333.3333334"),
    ("41b3de4355555557", "333333333.33333343"),
    ("becbf647612f3696", "-0.0000033333333333333333"),
    ("43143ff3c1cb0959", "1424953923781206.2"),
]


@pytest.mark.parametrize(("bits", "text"), NUMBERS)
def test_a_double_is_laid_out_as_in_appendix_b_of_rfc_8785(bits, text):
    assert canonical._number(double(bits)) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, b"1"),
        (-0.0, b"0"),
        (0.1 + 0.2, b"0.30000000000000004"),
        (1e-7, b"1e-7"),
        (1e-6, b"0.000001"),
        (1e21, b"1e+21"),
        (123456.0, b"123456"),
        (-1.5e-10, b"-1.5e-10"),
        (9007199254740991.0, b"9007199254740991"),
        (2**53 - 1, b"9007199254740991"),
        (-(2**53 - 1), b"-9007199254740991"),
        (True, b"true"),
        (None, b"null"),
        ({}, b"{}"),
        ([], b"[]"),
        ((1, "a"), b'[1,"a"]'),
    ],
)
def test_a_value_has_these_bytes(value, text):
    assert dumps(value) == text


def test_the_example_of_rfc_8785_section_3_2_2_has_the_bytes_of_section_3_2_4():
    example = {
        "numbers": [333333333.33333329, 1e30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\"/",
        "literals": [None, True, False],
    }
    assert dumps(example) == (
        b'{"literals":[null,true,false],'
        b'"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        b'"string":"\xe2\x82\xac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )


def test_names_are_sorted_as_in_rfc_8785_section_3_2_3():
    names = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\u0080", "\u00f6"]
    ordered = ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]
    assert list(json.loads(dumps(dict.fromkeys(names, 1)))) == ordered
    assert list(json.loads(dumps([dict.fromkeys(names, 0.5)]))[0]) == ordered


def test_control_characters_use_the_short_escape_where_there_is_one():
    assert (
        dumps("\x00\b\t\n\f\r\x1f\x7f/\u2028")
        == b'"\\u0000\\b\\t\\n\\f\\r\\u001f\x7f/\xe2\x80\xa8"'
    )


characters = st.characters(exclude_categories=["Cs"])
names = st.text(
    st.one_of(characters, st.sampled_from("a\x00\x7f\u20ac\ud7ff\ue000\ufb33\uffff\U0001f600")),
    max_size=4,
)
integers = st.integers(-(2**53 - 1), 2**53 - 1)
finite = st.floats(allow_nan=False, allow_infinity=False)
floats = finite.filter(lambda number: not 2**53 <= abs(number) < 1e21)
scalars = st.none() | st.booleans() | integers | floats | st.text(characters)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)
quick = settings(max_examples=300, derandomize=True, database=None, deadline=None)


@quick
@given(values)
def test_dumps_writes_what_the_rfc8785_package_writes(value):
    assert dumps(value) == rfc8785.dumps(value)


@quick
@given(finite)
def test_a_finite_double_is_written_as_the_rfc8785_package_writes_it(number):
    assert canonical._number(number).encode() == rfc8785.dumps(number)


@quick
@given(values)
def test_what_dumps_writes_loads_reads_and_dumps_writes_again(value):
    raw = dumps(value)
    assert read(raw) == value
    assert read(raw.decode()) == value
    assert dumps(read(raw)) == raw


@pytest.mark.parametrize(
    ("value", "place", "problem"),
    [
        (math.nan, "value: ", "not a finite double"),
        ({"a": [0, math.inf]}, "value at /a/1: ", "not a finite double"),
        ({"a": -math.inf}, "value at /a: ", "not a finite double"),
        ({"n": 2**53}, "value at /n: ", "beyond 2**53-1"),
        ([-(2**53)], "value at /0: ", "beyond 2**53-1"),
        ([10**5000], "value at /0: ", "beyond 2**53-1"),
        ([2.0**53], "value at /0: ", "beyond 2**53-1"),
        ([-1e20], "value at /0: ", "beyond 2**53-1"),
        ({"a/b~": b"x"}, "value at /a~1b~0: ", "a bytes; use dict"),
        ({"a": {1, 2}}, "value at /a: ", "a set; use dict"),
        ({"a": {7: 1}}, "value at /a/7: ", "a member name of type int"),
        ({None: 1}, "value at /None: ", "a member name of type NoneType"),
        ("\ud800", "value: ", "lone surrogate"),
        (["ok", "a\udfffb"], "value at /1: ", "lone surrogate"),
        ({"\ud83d": 1}, "value at /\\ud83d: ", "lone surrogate"),
    ],
)
def test_dumps_refuses_and_names_the_place(value, place, problem):
    message = refusal(value)
    assert message.startswith(place)
    assert problem in message
    assert message.isascii()


def test_subclasses_of_json_types_are_refused():
    class Name(str):
        __slots__ = ()

    class Members(dict):
        __slots__ = ()

    assert "a Name;" in refusal([Name("x")])
    assert "a Members;" in refusal(Members(a=1))
    assert "a member name of type Name" in refusal({Name("x"): 1})


def nested(depth):
    value: list[object] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def test_a_value_may_be_nested_to_the_limit_and_no_further():
    assert dumps(nested(MAX_DEPTH)) == b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    assert "nested deeper than 64 levels" in refusal(nested(MAX_DEPTH + 1))


def test_a_cycle_is_refused():
    wheel: list[object] = []
    wheel.append(wheel)
    ring: dict[str, object] = {}
    ring["next"] = [ring]
    assert "nested deeper" in refusal(wheel)
    assert "nested deeper" in refusal({"a": ring})


def test_join_makes_the_bytes_that_dumps_makes_of_the_whole():
    whole = {"result": {"x": [1, 2.5]}, "a": None, "Z": "é", "a b": 1}
    assert join({name: dumps(member) for name, member in whole.items()}) == dumps(whole)
    assert join({}) == b"{}"


def test_join_takes_ascii_names_only():
    with pytest.raises(ValueError, match="ASCII member names only"):
        join({"é": b"1"})


def test_quote_escapes_as_dumps_does():
    assert quote('a"\\\n\x00é') == b'"a\\"\\\\\\n\\u0000\xc3\xa9"'
    with pytest.raises(InvalidRequest):
        quote("\udc80")


def test_digests_are_sha256():
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert sha256_hex(b"") == empty
    assert sha256(b"") == bytes.fromhex(empty)
