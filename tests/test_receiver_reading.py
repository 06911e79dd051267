"""What an event and a hello have to be, to the byte."""

from __future__ import annotations

import hashlib
import json

import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_structured_event
from helpers.receiving import STREAM, Sender, incarnation, task
from hypothesis import example, given
from hypothesis import strategies as st

from fencepost import canonical
from fencepost.receiver import wire
from fencepost.receiver.reading import Malformed, read_event, read_hello

SENDER = Sender(3, incarnation(3), lineage=((1, incarnation(1)),))


def read(sent):
    return read_event(sent.body, sent.id)


def test_every_member_of_an_event_is_read():
    sent = SENDER.event(7, revision=2, fence=9, epoch=1, ordered=True, value={"a": [1, None]})
    event = read(sent)
    assert event == wire.Event(
        id=sent.id, stream=STREAM, kind="result", subject=f"pages/{task(7)}",
        time="2027-01-01T00:00:00.000000Z", sequence=1, previous=bytes(32), writer_epoch=3,
        incarnation=incarnation(3), epoch=1, fence=9, revision=2, round=0,
        operation=f"{task(7)}:2", data=event.data, data_sha256=sent.data_sha256,
        result_sha256="0" * 64, final=True,
    )  # fmt: skip
    assert (event.queue, event.task_id, event.order) == ("pages", task(7), (1, 9, 2, 0))
    assert event.value()["result"] == {"a": [1, None]}
    assert hashlib.sha256(event.data).digest() == event.data_sha256


@pytest.mark.parametrize("kind", ["done", "dead", "cancelled", "blocked"])
def test_another_outcome_is_named_by_its_round_and_fence(kind):
    event = read(SENDER.event(7, revision=0, fence=34, kind=kind, round=12))
    assert (event.kind, event.round, event.operation) == (kind, 12, f"{task(7)}:12:34:{kind}")


@pytest.mark.parametrize("data", [{}, {"final": "true", "result_sha256": "0" * 63}, {"final": 1}])
def test_what_the_data_do_not_say_of_their_result_is_not_known(data):
    event = read(SENDER.event(data=data))
    assert (event.final, event.result_sha256) == (None, None)


def test_the_bytes_are_those_of_rfc_8785():
    for value in ('é\u2028€\U0001f600\\"\x07', 1e21, -0.0, 1.5e-9, {"b": 1, "a": 2}, [True, None]):
        sent = SENDER.event(value=value)
        again = canonical.dumps(json.loads(sent.body))
        assert read_event(again, sent.id).value() == json.loads(again)["data"]


def test_the_cloudevents_library_reads_what_is_sent():
    sent = SENDER.event(7, ordered=True, value="é")
    message = HTTPMessage({"content-type": wire.EVENT_TYPE}, sent.body)
    event = from_structured_event(message)
    assert event.get_id() == sent.id
    assert event.get_source() == f"/fencepost/{STREAM}"
    assert event.get_type() == "dev.fencepost.result.accepted.v1"
    assert event.get_specversion() == "1.0"
    assert event.get_extension("fpwriterepoch") == "3"
    assert event.get_extension("sequence") == "000000000000001"
    assert event.get_data()["result"] == "é"


def changed(**members):
    return lambda: SENDER.event(**members)


WRONG_EVENTS = {
    "no id": changed(id="other"), "another specversion": changed(specversion="0.3"),
    "no specversion": changed(specversion=None), "another source": changed(source="/other/x"),
    "a source of two parts": changed(source="/fencepost/a/b"),
    "a source of four parts": changed(source="/fencepost/a/b/c/d"),
    "an unknown type": changed(type="dev.fencepost.result.accepted.v2"),
    "no type": changed(type=None), "no subject": changed(subject=None),
    "a subject without a task": changed(subject="pages"),
    "another task's operation": changed(fpoperation=f"{task(9)}:1"),
    "another revision's operation": changed(fpoperation=f"{task(1)}:2"),
    "an outcome's operation of a result": changed(fpoperation=f"{task(1)}:1:dead"),
    "revision 0 of a result": changed(revision=0, fpoperation=f"{task(1)}:0"),
    "a result's operation of an outcome": changed(kind="dead", fpoperation=f"{task(1)}:1"),
    "another outcome": changed(kind="dead", fpoperation=f"{task(1)}:1:1:done"),
    "a round that is no number": changed(kind="dead", fpoperation=f"{task(1)}:x:1:dead"),
    "a round with a zero before": changed(kind="dead", fpoperation=f"{task(1)}:01:1:dead"),
    "no round": changed(kind="dead", fpoperation=f"{task(1)}::1:dead"),
    "no fence in an outcome's operation": changed(kind="dead", fpoperation=f"{task(1)}:1:dead"),
    "another fence in an outcome's operation": changed(kind="dead",
                                                       fpoperation=f"{task(1)}:1:2:dead"),
    "a fence that is a number": changed(fpfence=1), "a fence below zero": changed(fpfence="-1"),
    "a fence with a zero before": changed(fpfence="01"), "no fence": changed(fpfence=None),
    "a fence of 16 digits": changed(fpfence="1" * 16), "no epoch": changed(fpepoch=None),
    "no writer's epoch": changed(fpwriterepoch=None),
    "a fence in Arabic": changed(fpfence="\u0661"),
    "an incarnation in capitals": changed(fpincarnation=incarnation(10).upper()),
    "a time without digits": changed(time="2027-01-01T00:00:00Z"),
    "a time elsewhere": changed(time="2027-01-01T00:00:00.000000+00:00"),
    "another data type": changed(datacontenttype="text/plain"),
    "a sequence alone": changed(sequence="000000000000001"),
    "a head alone": changed(fpprevious="0" * 64),
    "a short sequence": changed(ordered=True, sequence="1"),
    "sequence 0": changed(ordered=True, sequence="0" * 15),
    "a head in capitals": changed(ordered=True, fpprevious="A" * 64),
    "a member that is no string": changed(traceparent={"a": 1}),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG_EVENTS)
def test_an_event_that_is_wrong_in_one_member_is_malformed(wrong):
    sent = WRONG_EVENTS[wrong]()
    with pytest.raises(Malformed):
        read_event(sent.body, Sender(3, incarnation(3)).event().id if wrong == "no id" else sent.id)


def test_a_further_string_is_no_fault():
    assert read(SENDER.event(traceparent="00-ab-cd-01")).kind == "result"


BODY = SENDER.event().body
BENT = {
    "a space before data": BODY.replace(b'{"data":', b'{ "data":'),
    "data last": b"{" + BODY[BODY.rindex(b',"datacontenttype"') + 1 : -1] + b',"data":1}',
    "data twice": BODY.replace(b',"fpepoch"', b',"data":1,"fpepoch"'),
    "a member twice": BODY.replace(b',"fpepoch":"3"', b',"fpepoch":"3","fpepoch":"4"'),
    "a member twice in data": BODY.replace(b'"queue":"pages"', b'"queue":"pages","queue":"p"'),
    "NaN in data": BODY.replace(b'"result":null', b'"result":NaN'),
    "half of a surrogate": BODY.replace(b'"result":null', b'"result":"\\ud800"'),
    "no UTF-8": BODY.replace(b'"result":null', b'"result":"\xff"'),
    "data that are no object": b'{"data":[]' + BODY[BODY.rindex(b',"datacontenttype"') :],
    "no data": b'{"data":' + BODY[BODY.rindex(b',"datacontenttype"') :],
    "two values of data": BODY.replace(b'{"data":', b'{"data":1 '),
    "cut": BODY[:-1], "more": BODY + b"x", "nothing": b"", "an array": b"[]",
    "deep": BODY.replace(b'"result":null', b'"result":' + b"[" * 100_000 + b"]" * 100_000),
    "a number without end": BODY.replace(b'"result":null', b'"result":' + b"1" * 5000),
    "a byte order mark": b"\xef\xbb\xbf" + BODY,
}  # fmt: skip


@pytest.mark.parametrize("bent", BENT)
def test_bytes_that_two_could_read_in_two_ways_are_malformed(bent):
    assert BENT[bent] != BODY
    with pytest.raises(Malformed):
        read_event(BENT[bent], SENDER.event().id)


def test_data_that_look_like_the_members_after_them_do_not_confuse():
    tricky = {"datacontenttype": "application/json", "x": ',"datacontenttype":"', "fpepoch": "9"}
    event = read(SENDER.event(value=tricky))
    assert event.value()["result"] == tricky and event.writer_epoch == 3


@given(st.binary(max_size=300), st.integers(0, len(BODY)), st.integers(0, 20))
@example(b"", 0, 0)
def test_whatever_bytes_come_they_are_read_or_malformed(junk, place, cut):
    for body in (junk, BODY[:place] + junk + BODY[place + cut :]):
        try:
            event = read_event(body, SENDER.event().id)
        except Malformed:
            continue
        assert body.startswith(b'{"data":' + event.data)


def test_every_member_of_a_hello_is_read():
    sent = Sender(3, incarnation(3), lineage=((1, incarnation(1)),), sequence=4).hello(
        after=7, limit=9, adopt={"epoch": 2, "incarnation": incarnation(2)}, ask_only=True
    )
    said = read_hello(sent.body)
    assert said == wire.Hello(
        stream=STREAM, writer=wire.Writer(3, incarnation(3)),
        lineage=(wire.Writer(1, incarnation(1)), wire.Writer(3, incarnation(3))), after=7, limit=9,
        sequence=4, head=bytes(32), adopt=wire.Writer(2, incarnation(2)), ask_only=True,
    )  # fmt: skip


def test_what_a_hello_may_leave_out_has_a_meaning():
    said = read_hello(SENDER.hello(after=None, limit=None, sequence=None, head=None).body)
    assert (said.after, said.limit, said.sequence, said.head) == (0, 1000, None, None)
    assert (said.adopt, said.ask_only) == (None, False)


PAIR = [3, incarnation(3)]
WRONG_HELLOS = {
    "another version": {"hello": 2}, "true": {"hello": True}, "no version": {"hello": None},
    "no stream": {"stream": None}, "a stream of two parts": {"stream": "a/b"},
    "no lineage": {"lineage": None}, "an empty lineage": {"lineage": []},
    "a lineage that ends with another": {"lineage": [[1, incarnation(1)]]},
    "a lineage out of order": {"lineage": [[4, incarnation(1)], PAIR]},
    "an epoch twice": {"lineage": [[3, incarnation(1)], PAIR]},
    "a lineage too long": {"lineage": [[n, incarnation(n)] for n in range(1001)]},
    "a writer of three": {"lineage": [[*PAIR, 1]]}, "an epoch that is text": {"epoch": "3"},
    "an epoch that is true": {"epoch": True}, "an epoch below zero": {"epoch": -1},
    "an incarnation that is no UUID": {"incarnation": "x"},
    "after below zero": {"after": -1}, "after a fraction": {"after": 1.5},
    "limit 0": {"limit": 0}, "limit too high": {"limit": 1001},
    "a head without sequence": {"head": "0" * 64, "sequence": None},
    "a short head": {"head": "00", "sequence": 1}, "a sequence below zero": {"sequence": -1},
    "adopt without epoch": {"adopt": {"incarnation": incarnation(1)}},
    "adopt with more": {"adopt": {"epoch": 1, "incarnation": incarnation(1), "x": 1}},
    "ask_only that is 1": {"ask_only": 1}, "a member nobody knows": {"force": True},
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG_HELLOS)
def test_a_hello_that_is_wrong_in_one_member_is_malformed(wrong):
    with pytest.raises(Malformed):
        read_hello(SENDER.hello(**WRONG_HELLOS[wrong]).body)


def _nested(inner):
    return st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3)


PLAIN = st.none() | st.booleans() | st.floats() | st.text(max_size=9) | st.integers()


@given(st.binary(max_size=200), st.recursive(PLAIN, _nested, max_leaves=8))
def test_whatever_hello_comes_it_is_read_or_malformed(junk, value):
    for body in (junk, json.dumps(value).encode(), SENDER.hello().body[:-1] + junk):
        try:
            read_hello(body)
        except Malformed:
            continue


def test_a_lineage_may_be_a_thousand_long():
    lineage = [[n, incarnation(n)] for n in range(1, 1000)] + [[1000, incarnation(3)]]
    said = read_hello(SENDER.hello(epoch=1000, lineage=lineage).body)
    assert len(said.lineage) == 1000
