"""One delivery over HTTP to receivers of every kind of bad behaviour: what is known of it after."""

from __future__ import annotations

import json
import socket
import ssl
import time
from contextlib import closing

import pytest
from helpers.receivers import SECRET, Kit, Reply, Web, answer_bytes, http

from fencepost import destinations
from fencepost.deliveries.event import Voice, event_of
from fencepost.deliveries.hello import hello
from fencepost.deliveries.http import HttpSender
from fencepost.deliveries.places import Place
from fencepost.model import Writer
from fencepost.receiver import signing
from tests.test_deliver_event import OBLIGATION, VOICE, payload

KEY = signing.secret_bytes(SECRET)


def sender(url, kind="fenced", *, resolve=None, **options):
    given = destinations.complete({"allow_private": True, "timeout_seconds": 5, **options})
    more = {} if resolve is None else {"resolve": resolve}
    return HttpSender(Place(url, kind, given, (SECRET,)), time.time, **more)


def send(url, kind="fenced", seconds=5.0, event=None, **options):
    made = sender(url, kind, **options)
    try:
        return made.send(event or event_of(OBLIGATION, payload(), VOICE), seconds)
    finally:
        made.close()


@pytest.fixture
def kit(tmp_path):
    made = Kit(tmp_path / "receiver.db")
    made.receiver.handle(**greeting())
    yield made
    made.close()


def greeting(voice=VOICE):
    writer = Writer(voice.epoch, voice.incarnation, "installed", 0)
    body = hello(voice, [writer], 0, None)
    signed = signing.sign([KEY], "hello_1", int(time.time()), body)
    kind = {"content-type": "application/vnd.fencepost.hello+json"}
    return {"headers": {**signed, **kind}, "body": body}


# -- what a status says


@pytest.mark.parametrize(
    ("status", "headers", "word", "wait"),
    [
        (202, {}, "taken", None),
        (301, {"location": "http://169.254.169.254/"}, "failed", None),
        (302, {"location": "/"}, "failed", None),
        (307, {"location": "/"}, "failed", None),
        (308, {"location": "/"}, "failed", None),
        (304, {}, "failed", None),
        (400, {}, "failed", None),
        (401, {}, "failed", None),
        (404, {}, "failed", None),
        (409, {}, "failed", None),
        (410, {}, "gone", None),
        (429, {"retry_after": "120"}, "later", 120.0),
        (429, {}, "later", None),
        (503, {"retry_after": "7"}, "later", 7.0),
        (503, {"retry_after": "soon"}, "later", None),
        (500, {}, "failed", None),
        (501, {}, "failed", None),
        (502, {}, "unanswered", None),
        (504, {}, "unanswered", None),
        (599, {}, "failed", None),
    ],
)
@pytest.mark.parametrize("kind", ["fenced", "idempotent", "unfenced"])
def test_a_status_is_understood(kind, status, headers, word, wait):
    with Web(lambda asked: http(status, b"x" * 40, **headers)) as web:
        tried = send(web.url, kind)
        assert (tried.word, tried.wait_seconds) == (word, wait)
        assert web.connections == 1 and len(web.asked) == 1  # nothing is followed


@pytest.mark.parametrize("status", [200, 201, 204, 299])
def test_a_2xx_is_delivered_to_who_keeps_no_fence_and_is_no_receipt_of_one_who_does(status):
    body = b"" if status == 204 else b"ok"
    with Web(lambda asked: http(status, body)) as web:
        tried = send(web.url, "idempotent")
        assert tried.word == "delivered"
        assert (tried.evidence["status"], tried.evidence["bytes"]) == (status, len(body))
        assert send(web.url, "fenced").word == "failed"


def test_retry_after_may_be_a_date():
    with Web(lambda asked: http(503, retry_after="Fri, 31 Dec 9999 23:59:59 GMT")) as web:
        tried = send(web.url)
        assert tried.word == "later" and tried.wait_seconds > 1e9


# -- the receiver's kit


def test_a_receipt_that_is_signed_is_evidence_that_can_be_verified_again(kit):
    with Web(kit.answer) as web:
        event = event_of(OBLIGATION, payload(), VOICE)
        tried = send(web.url, event=event)
        assert tried.word == "delivered"
        kept = tried.evidence
        headers = {name.replace("_", "-"): value for name, value in kept.items()}
        signing.verify([KEY], headers, kept["receipt"].encode(), time.time())
        assert json.loads(kept["receipt"])["operation"] == event.operation
        assert kit.effects() == [(event.operation, event.data)]
        again = send(web.url, event=event)
        assert again.evidence["receipt"] == kept["receipt"] and len(kit.effects()) == 1


def wrong_ids(answer):
    other = signing.sign([KEY], "msg_other", int(time.time()), answer.body)
    return {**answer.headers, **other}


def by_another(answer):
    key = signing.secret_bytes(signing.new_secret())
    return {
        **answer.headers,
        **signing.sign([key], f"msg_{OBLIGATION}", int(time.time()), answer.body),
    }


def of_long_ago(answer):
    past = signing.sign([KEY], f"msg_{OBLIGATION}", int(time.time()) - 400, answer.body)
    return {**answer.headers, **past}


@pytest.mark.parametrize("change", [wrong_ids, by_another, of_long_ago, lambda answer: {}])
def test_a_receipt_that_was_not_signed_for_this_very_message_proves_nothing(kit, change):
    def answer(asked):
        given = kit.receiver.handle(asked.headers, asked.body)
        headers = {name.replace("-", "_"): value for name, value in change(given).items()}
        return http(given.status, given.body, **headers)

    with Web(answer) as web:
        assert send(web.url).word == "failed"


def test_a_receipt_of_another_effect_is_none_of_this_one(kit):
    other = event_of(OBLIGATION, payload(result={"n": 2}), VOICE)
    sealed = kit.receiver.handle(
        {**signing.sign([KEY], other.id, int(time.time()), other.body),
         "content-type": "application/cloudevents+json"}, other.body,
    )  # fmt: skip
    with Web(lambda asked: answer_bytes(sealed)) as web:
        tried = send(web.url)
        assert tried.word == "failed" and "data_sha256" in tried.told


def test_what_a_receiver_refuses_is_told_with_what_it_has(kit):
    with Web(kit.answer) as web:
        newer = event_of(OBLIGATION, payload(revision=2, fencing_token=8589934602), VOICE)
        assert send(web.url, event=newer).word == "delivered"
        late = send(web.url)
        assert late.word == "stale_result" and newer.operation in late.told
        other = event_of(OBLIGATION, payload(revision=2, fencing_token=8589934602, result=7), VOICE)
        assert send(web.url, event=other).word == "effect_conflict"
        copy = Voice(VOICE.stream, VOICE.epoch, "0" * 8 + VOICE.incarnation[8:])
        forked = send(web.url, event=event_of(OBLIGATION, payload(revision=3), copy))
        assert forked.word == "fork" and forked.has["incarnation"] == VOICE.incarnation
        old = Voice(VOICE.stream, VOICE.epoch - 1, copy.incarnation)
        assert (
            send(web.url, event=event_of(OBLIGATION, payload(revision=3), old)).word == "old_epoch"
        )
        new = Voice(VOICE.stream, VOICE.epoch + 1, copy.incarnation)
        assert (
            send(web.url, event=event_of(OBLIGATION, payload(revision=3), new)).word
            == "hello_needed"
        )


@pytest.mark.parametrize("code", ["fork", "old_epoch", "stale_result", "effect_conflict", "gap"])
def test_a_strangers_word_decides_nothing(code):
    """Whoever answers 409 without a signature makes a delivery fail, and nothing else."""
    body = json.dumps({"code": code, "status": 409}).encode()
    with Web(lambda asked: http(409, body, content_type="application/problem+json")) as web:
        assert send(web.url).word == "failed"


# -- how far the bytes got


def test_what_reached_nobody_was_not_sent():
    free = socket.socket()
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]  # bound and not listening: refused
    try:
        assert send(f"http://127.0.0.1:{port}/").word == "unsent"
    finally:
        free.close()
    gone = socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    def unknown(host, port):
        raise gone

    tried = send("http://no.such.example/", resolve=unknown)
    assert tried.word == "unsent" and "Name or service" in tried.told


def test_a_private_address_that_is_not_allowed_was_not_sent_to():
    with Web(lambda asked: http(200)) as web:
        tried = send(web.url, allow_private=False)
        assert tried.word == "unsent" and web.connections == 0


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate for `right.example`, signed by itself."""
    import subprocess

    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-keyout", "key.pem", "-out", "cert.pem", "-days", "2",
         "-subj", "/CN=right.example", "-addext", "subjectAltName=DNS:right.example"],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    return folder


def test_a_certificate_of_another_name_is_not_sent_to(certificate, monkeypatch):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    here = lambda host, port: ["127.0.0.1"]  # noqa: E731
    with Web(lambda asked: http(200), context=context) as web:
        stranger = send(f"https://right.example:{web.port}/", "idempotent", resolve=here)
        assert stranger.word == "unsent" and "not trusted" in stranger.told
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate / "cert.pem"))
        wrong = send(f"https://wrong.example:{web.port}/", "idempotent", resolve=here)
        assert wrong.word == "unsent" and "wrong.example" in wrong.told
        assert web.asked == []
        right = send(f"https://right.example:{web.port}/", "idempotent", resolve=here)
        assert right.word == "delivered" and len(web.asked) == 1


def test_an_answer_that_is_cut_at_any_byte_is_uncertain(kit):
    """Each prefix of the kit's own answer: only the whole of it is a delivery. The receiver has the
    effect after the first, and gives the same receipt each time."""
    whole = {}

    def answer(asked):
        whole["bytes"] = kit.answer(asked)
        return Reply(whole["bytes"][: whole["cut"]], close=True)

    with Web(answer) as web:
        whole["cut"] = 0
        assert send(web.url).word == "unanswered"
        for cut in range(1, len(whole["bytes"])):
            whole["cut"] = cut
            assert send(web.url).word == "unanswered", whole["bytes"][:cut]
        whole["cut"] = len(whole["bytes"])
        assert send(web.url).word == "delivered"
        assert len(kit.effects()) == 1


def test_one_that_closes_before_it_reads_may_have_read():
    with Web(lambda asked: http(200), before=lambda sock: False) as web:
        assert send(web.url).word == "unanswered"


def test_one_that_says_nothing_is_left_in_time():
    with Web(lambda asked: Reply(b"", close=False, pause=0)) as web:
        begun = time.monotonic()
        assert send(web.url, seconds=0.3).word == "unanswered"
        assert time.monotonic() - begun < 5


def test_one_that_drips_its_answer_is_left_in_time():
    with Web(lambda asked: Reply(http(200, b"x" * 20), piece=1, pause=0.05)) as web:
        begun = time.monotonic()
        tried = send(web.url, "idempotent", seconds=0.5)
        assert tried.word == "unanswered" and "timed out" in tried.told
        assert time.monotonic() - begun < 5


CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "answer",
    [
        http(200, b"x" * 2_000), b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 2_000,
        CHUNKED + b"fff\r\n" + b"x" * 4_095 + b"\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 20_000,
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ncontent-length: -2\r\n\r\nok",
        CHUNKED + b"2\r\nokno\r\n0\r\n\r\n",
        CHUNKED + b"-2\r\nok\r\n",
        b"HTTP/1.1 101 Switching\r\n\r\n", b"HTTP/2 200\r\n\r\n", b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n folded: x\r\n\r\n", b"HTTP/1.1 200 OK\nx: y\n\n", b"\0" * 50_000,
    ],
    ids=range(16),
)  # fmt: skip
def test_an_answer_that_is_too_long_or_none_at_all_is_not_believed(answer):
    with Web(lambda asked: Reply(answer, close=True)) as web:
        assert send(web.url, "idempotent", max_response_bytes=1_000).word == "unanswered"


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 100 Continue\r\n\r\n" + http(200, b"ok"),
        CHUNKED + b"1\r\no\r\n1;x=y\r\nk\r\n0\r\na: b\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\nok", b"HTTP/1.1 200\r\ncontent-length: 2\r\n\r\nok",
    ],
    ids=range(4),
)  # fmt: skip
@pytest.mark.parametrize("piece", [1, 1 << 20])
def test_an_answer_may_be_framed_as_http_allows_and_come_in_any_pieces(answer, piece):
    with Web(lambda asked: Reply(answer, close=True, piece=piece)) as web:
        tried = send(web.url, "idempotent")
        assert (tried.word, tried.evidence["bytes"]) == ("delivered", 2)


# -- connections


def test_a_connection_is_kept_and_one_that_was_closed_meanwhile_is_noticed():
    close = []
    with Web(lambda asked: Reply(http(200), close=bool(close))) as web:
        made = sender(web.url, "idempotent")
        event = event_of(OBLIGATION, payload(), VOICE)
        for _ in range(3):
            assert made.send(event, 5).word == "delivered"
        assert web.connections == 1
        close.append(1)
        assert made.send(event, 5).word == "delivered"
        assert made.send(event, 5).word == "delivered"
        assert web.connections == 2 and len(web.asked) == 5
        made.close()


def test_what_found_a_kept_connection_dead_is_sent_again_with_the_same_bytes():
    """The other side reads the second request of each connection and closes without a word."""
    seen = []

    def answer(asked):
        seen.append(asked)
        return None if len(seen) == 2 else http(200)

    with Web(answer) as web, closing(sender(web.url, "idempotent")) as made:
        event = event_of(OBLIGATION, payload(), VOICE)
        assert made.send(event, 5).word == "delivered"
        assert made.send(event, 5).word == "delivered"
        assert [each.body for each in seen] == [event.body] * 3 and web.connections == 2


def test_an_unfenced_destination_is_asked_on_a_new_connection_each_time():
    with Web(lambda asked: http(200)) as web, closing(sender(web.url, "unfenced")) as made:
        for _ in range(3):
            assert made.send(event_of(OBLIGATION, payload(), VOICE), 5).word == "delivered"
        assert web.connections == 3


def test_headers_of_the_destinations_own_are_sent_along():
    with Web(lambda asked: http(200)) as web:
        send(web.url, "idempotent", headers={"Authorization": "Bearer x"})
        (asked,) = web.asked
        assert asked.line == "POST /hook HTTP/1.1"
        assert asked.headers["authorization"] == "Bearer x"
        assert asked.headers["content-type"] == "application/cloudevents+json"
        signing.verify([KEY], asked.headers, asked.body, time.time())
