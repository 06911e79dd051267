"""When a request is tried again, how long it is tried, and what is told in the end."""

from __future__ import annotations

import random
from contextlib import suppress
from email.message import Message
from email.utils import format_datetime

import pytest
from helpers import stub
from helpers.remote import fake, pair
from helpers.stand import QUEUE
from helpers.stub import Stub

import fencepost
from fencepost.clock import SECOND, to_rfc3339
from fencepost.issues import InvalidRequest, QueuePaused, RateLimited, Refused, Unavailable
from fencepost.remote.asking import Ask, Asking, Busy, Failed, retry_after, service_time, waited
from fencepost.remote.transport import Answer, Lost, NotSent


def answer(clock, status=200, **headers):
    told = Message()
    for name, value in headers.items():
        told[name.replace("_", "-")] = value
    moment = (clock.steady(), clock.wall())
    return Answer(status, told, b"", moment, moment)


class Scripted:
    """A transport that gives what is scripted: an answer, or an exception. Each try costs time."""

    def __init__(self, clock, *script, cost=0.0):
        self.clock, self.script, self.cost = clock, list(script), cost
        self.asked = []

    def exchange(self, method, target, headers, body, seconds, *, fresh=False):
        self.asked.append((target, body, round(seconds, 3), fresh, self.clock.steady()))
        self.clock.advance(self.cost)
        found = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(found, Exception):
            raise found
        return found


def asking(clock, transport, deadline=60.0, jitter=1.0):
    slept = []

    def sleep(seconds):
        slept.append(seconds)
        clock.advance(seconds)

    return Asking(transport, clock, deadline, 20.0, sleep, lambda: jitter), slept


def value(told, tries):
    return "value"


ASK = Ask("POST", "/v1/s/x", {}, b"{}")


@pytest.mark.parametrize("seed", range(5))
def test_pauses_double_up_to_five_seconds_each_at_least_half_of_it(seed):
    clock, chance = fake(), random.Random(seed)
    transport = Scripted(clock, Lost("gone"))
    slept = []
    patient = Asking(
        transport, clock, 60, 20, lambda s: (slept.append(s), clock.advance(s)), chance.random
    )
    with pytest.raises(Failed):
        patient.ask(ASK, value)
    full = [min(5.0, 0.1 * 2**n) for n in range(len(slept))]
    assert all(f / 2 <= s <= f for s, f in zip(slept, full, strict=True)), f"seed {seed}: {slept}"


@pytest.mark.parametrize("deadline", [0.05, 1, 7, 60])
def test_no_try_begins_after_the_deadline_and_nobody_sleeps_past_it(deadline):
    clock = fake()
    transport = Scripted(clock, Lost("gone"), cost=0.7)
    patient, slept = asking(clock, transport, deadline)
    with pytest.raises(Failed):
        patient.ask(ASK, value)
    assert all(begun < deadline * SECOND for *_, begun in transport.asked)
    assert sum(slept) < deadline


def test_a_try_waits_no_longer_than_is_left_of_the_deadline():
    clock = fake()
    transport = Scripted(clock, Lost("timed out"), cost=9.0)
    patient, _ = asking(clock, transport, 30)
    with pytest.raises(Failed):
        patient.ask(ASK, value)
    assert [round(seconds) for _, _, seconds, _, _ in transport.asked] == [20, 20, 12, 2]


def test_the_bytes_of_every_try_are_the_same():
    clock = fake()
    transport = Scripted(clock, NotSent("no"), Lost("gone"), Busy("no", reached=False),
                         answer(clock))  # fmt: skip
    patient, _ = asking(clock, transport)
    assert patient.ask(ASK, value).value == "value"
    assert {asked[:2] for asked in transport.asked} == {("/v1/s/x", b"{}")}


@pytest.mark.parametrize(
    ("errors", "reached"),
    [
        ([NotSent("refused")], False),
        ([Busy("busy", reached=False)], False),
        ([Lost("gone")], True),
        ([Lost("gone"), NotSent("refused")], True),
        ([NotSent("refused"), Lost("gone"), Busy("busy", reached=False)], True),
        ([Busy("unknown", reached=True), NotSent("refused")], True),
        ([Lost("stale", stale=True), NotSent("refused")], True),
        ([Lost("gone"), Busy("redirected", reached=False, final=True)], True),
        ([Busy("redirected", reached=False, final=True)], False),
    ],
)
def test_it_tells_whether_any_try_may_have_reached_the_service(errors, reached):
    clock = fake()
    patient, _ = asking(clock, Scripted(clock, *errors))
    with pytest.raises(Failed) as caught:
        patient.ask(ASK, value)
    assert caught.value.reached is reached


def test_what_cannot_be_mended_by_another_try_is_told_at_once():
    for error in (NotSent("certificate", final=True), Lost("too long", final=True)):
        clock = fake()
        transport = Scripted(clock, error)
        with pytest.raises(Failed, match="1 try"):
            asking(clock, transport)[0].ask(ASK, value)
        assert len(transport.asked) == 1


def test_a_stale_connection_costs_neither_a_pause_nor_a_try_and_the_next_is_fresh():
    clock = fake()
    transport = Scripted(clock, Lost("stale", stale=True), answer(clock))
    patient, slept = asking(clock, transport)
    patient.ask(ASK, value)
    assert slept == [] and [fresh for *_, fresh, _ in transport.asked] == [False, True]


def test_what_must_not_be_repeated_goes_on_a_fresh_connection_and_once():
    clock = fake()
    transport = Scripted(clock, Lost("gone"))
    with pytest.raises(Failed) as caught:
        asking(clock, transport)[0].ask(ASK._replace(repeatable=False), value)
    assert caught.value.reached and [fresh for *_, fresh, _ in transport.asked] == [True]


def test_a_lease_counts_from_the_first_try_that_may_have_arrived():
    clock = fake()
    begun = clock.steady()
    transport = Scripted(clock, NotSent("refused"), Lost("gone"), Lost("gone"), answer(clock),
                         cost=1.0)  # fmt: skip
    heard = asking(clock, transport)[0].ask(ASK, value)
    assert heard.first - begun == round(1.1 * SECOND), "after the refused one and its pause"


def test_a_long_poll_asks_for_what_is_left_of_its_wait_and_has_its_deadline_beside_it():
    clock = fake()
    transport = Scripted(clock, Lost("gone"), answer(clock), cost=30.0)
    asking(clock, transport, 5)[0].ask(ASK._replace(wait_seconds=60), value)
    assert [(target, round(seconds)) for target, _, seconds, _, _ in transport.asked] == [
        ("/v1/s/x?wait_seconds=60", 65), ("/v1/s/x?wait_seconds=29", 35),
    ]  # fmt: skip


# -- Retry-After


def test_retry_after_is_read_as_seconds_and_as_a_date_by_the_services_own_clock():
    clock = fake()
    date = format_datetime(fencepost_date(clock, 7), usegmt=True)
    theirs = to_rfc3339(clock.wall() + 3_600 * SECOND)
    ahead = format_datetime(fencepost_date(clock, 3_607), usegmt=True)
    assert retry_after(answer(clock, Retry_After="12")) == 12
    assert retry_after(answer(clock, Retry_After=date)) == 7
    assert retry_after(answer(clock, Retry_After=ahead, Fencepost_Time=theirs)) == 7
    for nonsense in ("", "-3", "1.5", "soon", "١٢", "Thu, 99 Foo 2026"):
        assert retry_after(answer(clock, Retry_After=nonsense)) == 0
    past = format_datetime(fencepost_date(clock, -9), usegmt=True)
    assert retry_after(answer(clock, Retry_After=past)) == 0


def fencepost_date(clock, seconds):
    from datetime import UTC, datetime

    return datetime.fromtimestamp(clock.wall() // SECOND + seconds, UTC)


def test_what_the_service_says_of_time_is_read_strictly():
    clock = fake()
    assert waited(answer(clock, Fencepost_Waited="12.5")) == 12_500_000
    for nonsense in ("", "-1", "1e9", "nan", "inf", "12s", "123456"):
        assert waited(answer(clock, Fencepost_Waited=nonsense)) == 0
        assert service_time(answer(clock, Fencepost_Time=nonsense)) is None


@pytest.mark.parametrize("fault", [
    stub.saying(503, Retry_After="9"), stub.saying(429, Retry_After="9"),
    stub.refusing("store_unavailable", Retry_After="9"),
])  # fmt: skip
def test_the_service_is_given_the_time_it_asks_for(fault):
    with pair() as both:
        both.stub.script.append(fault)
        both.fp.scope()
        assert both.slept == [9.0]


def test_who_is_asked_to_wait_longer_than_the_deadline_is_told_at_once():
    with pair() as both:
        both.stub.default = stub.refusing("rate_limited", Retry_After="61")
        with pytest.raises(RateLimited):
            both.fp.enqueue(QUEUE, 1)
        assert both.slept == []


# -- verdicts


def test_a_verdict_is_told_and_never_tried_again():
    with pair() as both:
        both.here.queue_set(QUEUE, paused=True)
        with pytest.raises(QueuePaused):  # HTTP 503, with Retry-After
            both.fp.claim(QUEUE, worker_id="w")
        assert len(both.stub.seen) == 1


def test_a_code_of_a_later_version_is_a_refusal_that_keeps_it():
    with pair() as both:
        both.stub.script.append(stub.refusing("moon_phase"))
        with pytest.raises(Refused) as caught:
            both.fp.enqueue(QUEUE, 1)
        assert caught.value.issues == ("moon_phase",)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_never_followed(status):
    with pair() as both, stub.serving() as other:
        where = f"{other.url}/v1/s?token=x"
        both.stub.default = stub.saying(status, Location=where)
        for call in (both.fp.scope, lambda: both.fp.enqueue(QUEUE, 1)):
            with pytest.raises(
                Unavailable, match=rf"HTTP {status}: it redirects to http://127"
            ) as c:
                call()
            assert "token=x" not in str(c.value)
        assert other.seen == [] and len(both.stub.seen) == 2 and both.slept == []


@pytest.mark.parametrize("status", [400, 401, 403, 404, 407, 413])
def test_a_page_of_something_else_is_told_as_that_and_not_as_a_verdict(status):
    with pair() as both:
        both.stub.script.append(stub.saying(status, b"<h1>no</h1>"))
        with pytest.raises(Unavailable, match=f"HTTP {status} from something that is not"):
            both.fp.enqueue(QUEUE, 1)
        assert len(both.stub.seen) == 1


def test_an_answer_that_never_ends_is_left(monkeypatch):
    with pair() as both:
        both.fp._transport._max_answer_bytes = 5_000
        both.stub.default = stub.saying(200, b'"' + b"x" * 6_000, "application/json")
        with pytest.raises(Unavailable, match="longer than 5000 bytes"):
            both.fp.scope()
        assert len(both.stub.seen) == 1, "another try would be as long"

        def endless(exchange):
            exchange.send(b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n")
            for _ in range(20):
                exchange.send(b"400\r\n" + b"x" * 1024 + b"\r\n")
            return False

        both.stub.default = endless
        with pytest.raises(Unavailable, match="longer than 5000 bytes"):
            both.fp.scope()


def test_a_head_that_goes_on_for_ever_is_left_when_the_time_of_its_try_is_over():
    """`100 Continue` again and again is no answer, however short the silence between."""
    with pair() as both:
        whole = []

        def greeting(exchange):
            with suppress(OSError):
                for _ in range(200_000):
                    both.stand.clock.advance(0.5)
                    exchange.send(b"HTTP/1.1 100 Continue\r\n\r\n")
                whole.append("it was heard to its end")
            return False

        both.stub.default = greeting
        with pytest.raises(Unavailable, match="timed out"):
            both.fp.scope()
        assert whole == []


def test_a_chunked_answer_is_read_and_a_cut_one_is_not():
    with pair() as both:

        def chunked(cut):
            def fault(exchange):
                head, _, body = exchange.answer().partition(b"\r\n\r\n")
                lines = [line for line in head.split(b"\r\n") if not line.startswith(b"Content-L")]
                parts = b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in (body[:9], body[9:]))
                end = b"" if cut else b"0\r\n\r\n"
                exchange.send(
                    b"\r\n".join([*lines, b"Transfer-Encoding: chunked", b"", parts + end])
                )
                return not cut

            return fault

        both.stub.script.extend([chunked(True), chunked(False)])
        assert both.fp.scope().scope == "s" and len(both.stub.seen) == 2


def test_an_early_refusal_of_a_long_body_is_heard():
    """The service answers and closes before it has read all that is sent."""

    def early(stub_of, connection):
        file = connection.makefile("rb")
        while file.readline().strip():
            pass
        file.close()
        connection.sendall(stub_of.raw(413, b"", headers={"Connection": "close"}))

    class Early(Stub):
        def _serve(self, raw, number):
            with raw:
                early(self, raw)

    with pair() as both:
        other = Early(clock=both.clock)
        try:
            fp = fencepost.open(
                other.url, clock=both.clock, sleep=both.sleep, max_skew_seconds=None
            )
            with pytest.raises((Unavailable, fencepost.OutcomeUnknown)):
                fp.enqueue(QUEUE, "x" * 9_000_000)
        finally:
            other.close()


@pytest.mark.parametrize("options", [
    {"deadline_seconds": 0}, {"deadline_seconds": -1}, {"try_seconds": float("nan")},
    {"deadline_seconds": float("inf")}, {"scope": "a/b"},
])  # fmt: skip
def test_options_that_cannot_hold_are_refused(options):
    with pytest.raises(InvalidRequest):
        fencepost.open("http://127.0.0.1:1", **options)
