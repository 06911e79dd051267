"""Requests as no decent client writes them: each has one status and one code, or ends the
connection, and none leaves anything behind."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator

import pytest
from helpers.rawhttp import (
    BYTEWISE,
    CHUNKS,
    ENQUEUE,
    TASKS,
    chunked,
    coded,
    heard,
    nothing_done,
    request,
)
from helpers.web import Served

from fencepost.server.serve import listen
from fencepost.server.settings import ServerSettings


@pytest.fixture(scope="module")
def web() -> Iterator[Served]:
    settings = {"header_seconds": 1, "body_seconds": 1}
    with Served(dev=True, settings=settings) as served:
        yield served


# -- what is read as it should be

ACCEPTED = {
    "a chunked body": chunked(CHUNKS),
    "a chunk for each byte": chunked(BYTEWISE),
    "HTTP/1.0": request(version="HTTP/1.0", close=False),
    "HTTP/1.0 without a host": request(version="HTTP/1.0", host=False, close=False),
    "the absolute form": request(target=f"http://x{TASKS}"),
    "white space around the JSON": request(body=b" \n" + ENQUEUE + b"\r\n\t "),
    "the largest whole number": request(body=ENQUEUE.replace(b":1}", b":9007199254740991}")),
    "an encoding that is none": request("Content-Encoding: identity"),
    "a charset that says the same": request("Accept-Charset: utf-16"),
    "an unknown header twice": request("X-A: 1", "X-A: 2"),
}


@pytest.mark.parametrize("what", ACCEPTED)
def test_an_odd_but_clear_request_is_carried_out_once(web: Served, what: str) -> None:
    before = web.fp.about()["entries"]
    told = heard(web, ACCEPTED[what])
    assert (told.statuses, told.ended) == ([200], True), told.raw
    assert web.fp.about()["entries"] == before + 1


def test_who_says_no_more_after_his_request_is_answered_or_hears_nothing(web: Served) -> None:
    before = web.fp.about()["entries"]
    told = heard(web, request("Idempotency-Key: no-more"), then_end=True)
    assert told.ended and told.statuses in ([200], [])
    assert heard(web, request("Idempotency-Key: no-more")).statuses == [200]
    assert web.fp.about()["entries"] == before + 1


def test_a_body_is_asked_for_where_the_client_waits_for_that(web: Served) -> None:
    assert heard(web, request("Expect: 100-continue")).statuses == [100, 200]


def test_a_key_in_a_trailer_or_under_a_name_like_its_own_is_no_key(web: Served) -> None:
    trailer = CHUNKS[:-2] + b"Idempotency-Key: t\r\nContent-Digest: nonsense\r\n\r\n"
    for data in (chunked(trailer), request("Idempotency_Key: t")):
        told = [heard(web, data) for _ in range(2)]
        assert [one.statuses for one in told] == [[200], [200]]
        assert b"idempotent-replayed" not in told[1].raw
    assert web.get("/v1/default/receipts/t").status == 404


def test_requests_one_behind_the_other_are_answered_in_their_order(web: Served) -> None:
    asked = [request(f"Idempotency-Key: line-{n % 2}", close=n == 3) for n in range(4)]
    told = heard(web, b"".join(asked))
    assert (told.statuses, told.ended) == ([200] * 4, True)
    ids = re.findall(rb'"task_ids":\["([^"]+)"\]', told.raw)
    assert ids[0] == ids[2] and ids[1] == ids[3] and ids[0] != ids[1]


def test_what_comes_behind_a_request_never_changes_its_answer(web: Served) -> None:
    """Rubbish behind a command that is carried out is not told as the answer to it."""
    for behind in (
        b"GARBAGE\r\n\r\n",
        b"x",
        b"\x00\xff",
        b"POST / HTTP/1.1\r\nContent-Length: -1\r\n",
    ):
        told = heard(web, request(close=False) + behind)
        assert (told.statuses, told.ended) == ([200], True), (behind, told.raw)


def test_of_two_requests_and_rubbish_no_answer_is_for_another(web: Served) -> None:
    """Nor is the first carried out twice, though its answer may never be heard."""
    rubbish = request("Transfer-Encoding: chunked", body=b"zz\r\n", length=None)
    before = web.fp.about()["entries"]
    for n in range(5):
        told = heard(web, request(f"Idempotency-Key: behind-{n}", close=False) + rubbish)
        assert told.ended and told.statuses in ([], [200], [200, 400]), told.raw
        assert heard(web, request(f"Idempotency-Key: behind-{n}")).statuses == [200]
    assert web.fp.about()["entries"] == before + 5


# -- what is refused

FRAMING = {
    "no host": (request(host=False), 400),
    "two hosts": (request("Host: y"), 400),
    "two equal lengths": (request(f"Content-Length: {len(ENQUEUE)}"), 400),
    "two lengths": (request("Content-Length: 3"), 400),
    "a list of lengths": (request(length=f"{len(ENQUEUE)}, {len(ENQUEUE)}"), 400),
    "a length below 0": (request(length="-5"), 400),
    "a length with a sign": (request(length=f"+{len(ENQUEUE)}"), 400),
    "a length in hex": (request(length="0x36"), 400),
    "a length beyond 64 bits": (request(length=str(2**64 + len(ENQUEUE))), 400),
    "a length and chunks": (request("Transfer-Encoding: chunked", body=CHUNKS), 400),
    "a length too short": (request(length=str(len(ENQUEUE) - 5)), 400),
    "a length too long": (request(length=str(len(ENQUEUE) + 5)), 408),
    "no length": (request(length=None), 400),
    "a chunk without a size": (chunked(b"zz\r\n" + ENQUEUE + b"\r\n0\r\n\r\n"), 400),
    "a chunk beyond 64 bits": (chunked(b"f" * 18 + b"\r\n" + ENQUEUE), 400),
    "chunks that are packed": (chunked(CHUNKS, "Transfer-Encoding: gzip"), 400),
    "packed and chunked": (coded("gzip, chunked"), 400),
    "a coding like chunked": (coded("xchunked"), 400),
    "a packed body": (request("Content-Encoding: gzip"), 415),
    "another type": (request().replace(b"application/json", b"text/json"), 415),
    "HTTP/2.0": (request(version="HTTP/2.0"), 400),
    "HTTP/0.9": (b"GET /livez\r\n\r\n", 400),
    "the preface of HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "a TLS hello": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"a" * 50, 400),
    "a name without a colon": (request("nonsense"), 400),
    "a space before the colon": (request("Idempotency-Key : a"), 400),
    "a folded line": (request("X: a\r\n b"), 400),
    "a NUL in a header": (request("X: a\0b"), 400),
    "a bare CR": (request("X: a\rb"), 400),
    "lines that end by LF alone": (request().replace(b"\r\n", b"\n"), 400),
    "a space in the target": (request(target="/v1/a b"), 400),
    "raw bytes in the target": (request(target="/v1/default/tasks/\xe9"), 400),
    "an unknown method": (request(method="BREW"), 400),
    "a method in small letters": (request(method="post"), 400),
    "a tunnel": (request(method="CONNECT", target="x:80"), 400),
    "one long header": (request("X: " + "a" * 40_000), 431),
    "many headers": (request(*(f"X{n}: a" for n in range(5_000))), 431),
    "a long target": (request(target="/v1/" + "a" * 40_000), 431),
    "a parameter of no meaning": (request(target=f"{TASKS}?key=a"), 400),
}  # fmt: skip


@pytest.mark.parametrize("what", FRAMING)
def test_what_could_be_read_in_two_ways_is_refused_and_the_connection_ends(
    web: Served, what: str
) -> None:
    data, status = FRAMING[what]
    with nothing_done(web):
        told = heard(web, data)
    assert (told.statuses, told.codes, told.ended) == ([status], ["invalid_request"], True), (
        told.raw
    )
    assert b"content-type: application/problem+json" in told.raw.lower()
    assert b"cache-control: no-store" in told.raw.lower()


SINGLE = [
    "Idempotency-Key: a", 'If-Match: "r1"', "Authorization: Bearer x", "Content-Encoding: identity",
    "Content-Type: application/json", "Content-Digest: sha-256=:x:", 'If-None-Match: "x"',
    "Last-Event-ID: 1",
]  # fmt: skip


@pytest.mark.parametrize("header", SINGLE)
def test_a_header_that_stands_twice_is_refused_though_both_say_the_same(
    web: Served, header: str
) -> None:
    with nothing_done(web):
        told = heard(web, request(header, header))
    assert (told.statuses, told.codes) == ([400], ["invalid_request"])
    assert b"stands twice" in told.raw


@pytest.mark.parametrize(
    "data",
    [
        request(length=str(len(ENQUEUE) + 5)),
        chunked(CHUNKS[:-5]),
        request()[: -len(ENQUEUE) - 10],
    ],
    ids=["a body cut off", "chunks cut off", "a head cut off"],
)
def test_what_is_cut_off_is_not_carried_out(web: Served, data: bytes) -> None:
    with nothing_done(web):
        told = heard(web, data, then_end=True)
    assert told.ended and told.statuses in ([], [400])


def test_a_head_or_body_that_does_not_go_on_is_given_up(web: Served) -> None:
    with nothing_done(web):
        head, body = heard(web, b"POST /v1/de"), heard(web, request()[:-10])
    assert (head.statuses, head.ended) == ([], True)
    assert (body.statuses, body.codes, body.ended) == ([408], ["invalid_request"], True)


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "PUT", "PATCH", "DELETE", "TRACE", "GET"])
def test_another_method_is_405_with_those_that_there_are(web: Served, method: str) -> None:
    with nothing_done(web):
        told = heard(web, request(method=method, target=TASKS))
    assert told.statuses == [405] and b"\r\nallow: POST\r\n" in told.raw
    if method == "HEAD":
        assert told.raw.endswith(b"\r\n\r\n"), "no body"


@pytest.mark.parametrize("target", [
    "/v1/default/../livez", "/v1/%2e%2e/livez", "//livez", "/livez/", "/v1/a%2Fb", "/v1/a%00b",
    "/v1/a%zz", "/LIVEZ", "/v1/default/tasks/..%2f..", "/v1/default/tasks/%252e",
])  # fmt: skip
def test_a_target_is_taken_as_it_is_and_never_tidied(web: Served, target: str) -> None:
    told = heard(web, request(method="GET", target=target, body=b"", length=None))
    assert told.statuses in ([404], [400])
    assert told.codes[0] in ("not_found", "invalid_request")


def test_a_body_where_none_belongs_is_not_the_next_request(web: Served) -> None:
    smuggled = request()
    data = request(method="GET", target="/livez", body=smuggled, close=False)
    with nothing_done(web):
        told = heard(web, data + request(method="GET", target="/livez", body=b""))
    assert told.statuses == [200, 200]


def test_the_body_of_a_refused_request_is_not_the_next_request(web: Served) -> None:
    data = request("Content-Digest: nonsense", body=request(), close=False)
    with nothing_done(web):
        told = heard(web, data + request(method="GET", target="/livez", body=b""))
    assert told.statuses[:1] == [400] and told.statuses[1:] in ([200], [])


@pytest.mark.parametrize("what", ["websocket", "h2c"])
def test_no_other_protocol_is_taken_up(web: Served, what: str) -> None:
    upgrade = request(
        f"Upgrade: {what}", "Connection: Upgrade", method="GET", target="/livez", body=b"",
        close=False,
    )  # fmt: skip
    told = heard(web, upgrade)
    assert 101 not in told.statuses and told.statuses[0] == 200


def test_an_answer_is_not_held_back_for_the_acknowledgement_of_its_head() -> None:
    """Only of a socket whose protocol is named does the loop turn Nagle's algorithm off."""
    with listen(ServerSettings(port=0)) as listener:
        assert listener.proto == socket.IPPROTO_TCP


def test_after_all_that_the_service_works_and_its_store_is_whole(web: Served) -> None:
    assert heard(web, request()).statuses == [200]
    assert web.fp.verify().clean
