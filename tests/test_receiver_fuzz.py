"""Whatever is posted to a receiver it answers, with a code of the protocol, and does no more."""

from __future__ import annotations

import json

import pytest
from helpers.receiving import KEY, SECRET, START_US, Sender, Sent
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.receiver import Receiver, SqliteStore, signing, wire
from fencepost.receiver.reading import read_event

SECONDS = START_US // 1_000_000
SENDER = Sender()
GOOD = [SENDER.event(1, ordered=True), SENDER.event(2), SENDER.hello(), SENDER.hello(after=3)]
KINDS = st.sampled_from([wire.EVENT_TYPE, wire.HELLO_TYPE])


@pytest.fixture(scope="module")
def receiver():
    done = []
    made = Receiver(
        SqliteStore(":memory:"), lambda connection, event: done.append(event.operation), [SECRET],
        now=lambda: START_US, max_body_bytes=8192,
    )  # fmt: skip
    made.done = done
    yield made
    made.close()


def judged(receiver, headers, body):
    """The answer's code, after what holds for every answer."""
    before = len(receiver.done)
    answer = receiver.handle(headers, body)
    value = json.loads(answer.body)
    if answer.status == 200:
        code = value["status"]
    else:
        code = value["code"]
        assert answer.status == wire.CODES[code][0] < 500
    assert len(receiver.done) - before == (1 if code == "accepted" else 0) or (
        answer.headers.get(wire.REPLAYED) == "true"
    )
    return code


@settings(max_examples=200, deadline=None)
@given(
    KINDS, st.binary(max_size=600), st.sampled_from(GOOD), st.integers(0, 900), st.integers(0, 9)
)
def test_well_signed_bytes_of_any_kind_are_judged(receiver, kind, junk, good, place, cut):
    for body in (junk, good.body[:place] + junk + good.body[place + cut :], good.body):
        sent = Sent(good.id, body, kind)
        judged(receiver, sent.headers(SECONDS), body)


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["content-type", "content-encoding", *signing.sign([KEY], "x", 0, b"")]),
        st.text(max_size=60), min_size=1,
    ),
    st.sampled_from(GOOD),
)  # fmt: skip
def test_bent_headers_are_refused_to_strangers_and_nothing_is_done(receiver, bent, good):
    headers = good.headers(SECONDS)
    code = judged(receiver, {**headers, **bent}, good.body)
    changed = {name for name, value in bent.items() if headers.get(name) != value}
    if changed - {"content-type", "content-encoding"}:
        assert code in ("bad_signature", "unsupported_media_type")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=20)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)


@settings(max_examples=100, deadline=None)
@given(JSON)
def test_any_result_comes_back_in_a_hello_byte_for_byte(receiver, value):
    """Nulls, surrogate pairs, large numbers."""
    other = Sender(stream="33333333-3333-7333-8333-333333333333/default/out")

    def send(sent):
        answer = receiver.handle(sent.headers(SECONDS), sent.body)
        assert answer.status == 200, answer.body
        return answer.body

    position = json.loads(send(other.hello()))["position"]
    sent = other.event(position + 1, value=value)
    assert json.loads(send(sent))["position"] == position + 1
    data = read_event(sent.body, sent.id).data
    assert b'"event":' + data + b"}" in send(other.hello(after=position))


@pytest.mark.parametrize("length", [8192, 8193, 100_000])
def test_the_longest_body_that_is_taken_is_the_one_that_was_said(receiver, length):
    body = SENDER.event(99, value="").body
    body = SENDER.event(99, value="x" * (length - len(body))).body
    assert len(body) == length
    sent = Sent(SENDER.event(99).id, body)
    code = judged(receiver, sent.headers(SECONDS), body)
    assert (code == "too_large") == (length > 8192)
