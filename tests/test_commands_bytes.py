"""The bytes of a command: strict JSON when read, RFC 8785 when written, the same at every try."""

from __future__ import annotations

import json

import pytest
from helpers.stand import UNKNOWN
from helpers.wires import LEAST, MORE, refusal
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost import canonical, fields
from fencepost.commands import COMMANDS, Claim, Complete, Enqueue, NewTask, Request, Submit
from fencepost.issues import InvalidRequest
from fencepost.parts import NOTHING

# --- bytes that are no strict JSON ------------------------------------------------------------

PAYLOAD = b'{"queue":"q","tasks":[{"payload":%s}],"verb":"enqueue"}'
BAD_BYTES = {
    "a duplicate member": b'{"verb":"sweep","limit":1,"limit":2}',
    "a duplicate verb": b'{"verb":"sweep","verb":"purge"}',
    "a duplicate by escape": b'{"verb":"sweep","limit":1,"l\\u0069mit":1}',
    "a duplicate in a payload": PAYLOAD % b'{"a":1,"a":1}',
    "nan": PAYLOAD % b"NaN",
    "infinity": PAYLOAD % b"-Infinity",
    "a lone surrogate": PAYLOAD % b'"\\ud800"',
    "an encoded surrogate": PAYLOAD % b'"\xed\xa0\x80"',
    "a surrogate in a name": PAYLOAD % b'{"\\udc00":1}',
    "an integer beyond 2^53-1": PAYLOAD % b"9007199254740992",
    "5,000 digits": PAYLOAD % (b"9" * 5_000),
    "a fraction of 5,000 digits": PAYLOAD % (b"0." + b"1" * 5_000),
    "an endless exponent": PAYLOAD % b"1e999",
    "65 containers": PAYLOAD % (b"[" * 65 + b"]" * 65),
    "100,000 containers": PAYLOAD % (b"[" * 100_000 + b"]" * 100_000),
    "no UTF-8": PAYLOAD % b'"\xff"',
    "UTF-16": '{"verb":"sweep"}'.encode("utf-16"),
    "overlong UTF-8": PAYLOAD % b'"\xc0\xaf"',
    "a NUL": b'{"verb":"sweep"}\x00',
    "a raw control character": PAYLOAD % b'"\x01"',
    "a byte order mark": b'\xef\xbb\xbf{"verb":"sweep"}',
    "two values": b'{"verb":"sweep"}{"verb":"purge"}',
    "a comment": b'{"verb":"sweep"/**/}',
    "a trailing comma": b'{"verb":"sweep",}',
    "single quotes": b"{'verb':'sweep'}",
    "nothing": b"",
    "white space": b"  ",
}


@pytest.mark.parametrize("raw", BAD_BYTES.values(), ids=BAD_BYTES)
def test_bytes_that_two_parsers_could_read_differently_are_refused(raw):
    assert refusal(raw).startswith("command")


def test_a_command_larger_than_the_protocol_allows_is_refused_before_it_is_parsed(monkeypatch):
    monkeypatch.setattr(fields, "MAX_BODY_BYTES", 1_000)
    assert "1000 bytes" in refusal(PAYLOAD % (b'"' + b"x" * 1_000 + b'"'))


@pytest.mark.parametrize("value", [float("nan"), 2**53, "\ud800", {1: 2}, {1, 2}, b"x", NOTHING])
def test_from_python_too_what_is_no_json_is_refused(value):
    for make in (lambda: NewTask(value), lambda: Submit(UNKNOWN, "w", 1, result=value)):
        with pytest.raises(InvalidRequest):
            make()


# --- from Python ------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", COMMANDS)
def test_from_python_none_is_not_taken_for_a_needed_field(verb):
    kind = COMMANDS[verb]
    right = {kind.WIRE[name]: value for name, value in LEAST[verb].items()}
    for name in right:
        null_may_stand = ("result", "queues", "task_id", "policy_version", "stopped")
        if name in null_may_stand and verb != "cancel":
            continue  # null is a result, or has it go on; the others have a twin that may stand
        if (verb, name) == ("import", "evidence"):
            continue  # what a receiver says may be any JSON
        with pytest.raises(InvalidRequest, match=name if name != "fence" else "fencing_token"):
            kind(**{**right, name: None})


def test_from_python_an_empty_tuple_is_an_empty_array_as_content_and_refused_elsewhere():
    assert Request.of(Submit(UNKNOWN, "w", 1, result=())).body.count(b'"result":[]') == 1
    assert Request.of(Complete(UNKNOWN, "w", 1, result=())).body.count(b'"result":[]') == 1
    assert NewTask(()).members["payload"] == b"[]"
    for make in (lambda: Enqueue("q", ()), lambda: Claim("w", ())):
        with pytest.raises(InvalidRequest, match="0 members"):
            make()


def test_a_field_left_out_is_not_in_the_bytes_and_a_null_result_is():
    without, null = Complete(UNKNOWN, "w", 1), Complete(UNKNOWN, "w", 1, result=None)
    head = b'{"fencing_token":1,'
    rest = b'"task_id":"%s","verb":"complete","worker_id":"w"}' % UNKNOWN.encode()
    assert Request.of(without).body == head + rest
    assert Request.of(null).body == head + b'"result":null,' + rest


# --- any command ------------------------------------------------------------------------------

texts = st.text(st.characters(codec="utf-8"), max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | texts
    | st.floats(-1e15, 1e15, allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
SEVERAL = {
    "result": values, "evidence": values, "reason": texts,
    "tasks": st.lists(st.fixed_dictionaries({"payload": values}), min_size=1, max_size=2),
}  # fmt: skip


@st.composite
def objects(draw):
    """The JSON object of any command."""
    verb = draw(st.sampled_from(sorted(COMMANDS)))
    together = ("to", "evidence", "verdict", "requeue")
    more = MORE.get(verb, {}).items()
    chosen = {name: value for name, value in more if name in together or draw(st.booleans())}
    members = {**LEAST[verb], **chosen}
    for name in sorted(members.keys() & SEVERAL.keys()):
        members[name] = draw(SEVERAL[name])
    return {**members, "verb": verb}


@given(objects())
@settings(derandomize=True, max_examples=200, deadline=None)
def test_the_bytes_of_any_command_are_canonical_and_read_back_as_the_same_command(given_object):
    command = Request.read(canonical.dumps(given_object)).command
    request = Request.of(command)
    parsed = json.loads(request.body)
    assert request.body == canonical.dumps(parsed)
    assert request.sha256 == canonical.sha256(request.body)
    assert Request.read(request.body).command == command
    left_out = {spec.wire for spec in command.SPECS} - set(given_object)
    added = {name for name in left_out if name in parsed}
    assert added <= {  # words with a default
        "limit", "then", "to", "requeue", "revoked", "every_scope", "keep_seconds",
    }


@given(objects(), st.data())
@settings(derandomize=True, max_examples=100, deadline=None)
def test_a_command_may_be_sent_in_any_layout_and_its_bytes_are_those_sent(given_object, data):
    names = data.draw(st.permutations(sorted(given_object)))
    raw = json.dumps({name: given_object[name] for name in names}, indent=2).encode()
    request = Request.read(raw)
    assert (request.body, request.sha256) == (raw, canonical.sha256(raw))
    assert request.command == Request.read(canonical.dumps(given_object)).command


def test_a_command_made_here_is_as_long_at_most_as_one_that_is_read(monkeypatch):
    monkeypatch.setattr(fields, "MAX_BODY_BYTES", 1_000)
    room = fields.MAX_BODY_BYTES - len(PAYLOAD % b'""')
    body = Request.of(Enqueue("q", (NewTask("x" * room),))).body
    assert len(body) == fields.MAX_BODY_BYTES and Request.read(body).body == body
    with pytest.raises(InvalidRequest, match="larger than"):
        Request.of(Enqueue("q", (NewTask("x" * (room + 1)),)))
