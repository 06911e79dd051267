"""A receiver over ASGI, over WSGI, and on a port of its own."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

import pytest
from helpers.receiving import (
    KEY,
    OTHER_SECRET,
    Sender,
    Sent,
    place_of,
    task,
)

from fencepost.receiver import __main__ as program
from fencepost.receiver import asgi, signing, wire, wsgi
from fencepost.receiver.serving import IDLE_SECONDS, MAX_HEAD_BYTES, Connection, Server

PACKAGE = Path(program.__file__).parent
OTHER = signing.secret_bytes(OTHER_SECRET)
SENDER = Sender()
EVENT = SENDER.event()


@pytest.fixture
def place(tmp_path):
    with place_of("sqlite", tmp_path, max_body_bytes=4096) as made:
        yield made


def over_asgi(place, method="POST", path="/", headers=None, parts=(), app=None):
    """Status, headers, body of one request; `parts` are the pieces in which the body comes."""
    face = asgi.ReceiverApp(place.receiver, *((app, "/deliveries") if app else ()))
    coming = [
        {"type": "http.request", "body": part, "more_body": number + 1 < len(parts)}
        for number, part in enumerate(parts)
    ] or [{"type": "http.request"}]
    said = []

    async def receive():
        return coming.pop(0) if coming else {"type": "http.disconnect"}

    async def send(message):
        said.append(message)

    raw = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
    scope = {"type": "http", "method": method, "path": path, "headers": raw}
    asyncio.run(face(scope, receive, send))
    if not said:
        return None
    start, body = said
    told = {name.decode(): value.decode() for name, value in start["headers"]}
    return start["status"], told, body["body"]


def over_wsgi(place, method="POST", path="/", headers=None, parts=(), app=None):
    face = validator(wsgi.ReceiverApp(place.receiver, *((app, "/deliveries") if app else ())))
    body = b"".join(parts)
    environ = {
        "REQUEST_METHOD": method, "PATH_INFO": path, "QUERY_STRING": "", "SCRIPT_NAME": "",
        "wsgi.input": io.BytesIO(body),
    }  # fmt: skip
    for name, value in {"content-length": str(len(body)), **(headers or {})}.items():
        key = name.upper().replace("-", "_")
        environ[key if key.startswith("CONTENT_") else f"HTTP_{key}"] = value
    setup_testing_defaults(environ)
    told = {}

    def start(status, headers, exc_info=None):
        told.update(headers, status=int(status.split(" ")[0]))
        return lambda data: None

    answer = face(environ, start)
    try:
        found = b"".join(answer)
    finally:
        answer.close()
    return told.pop("status"), told, found


def over_socket(place, method="POST", path="/", headers=None, parts=(), app=None):
    body = b"".join(parts)
    lines = {"host": "x", "content-length": str(len(body)), **(headers or {})}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    raw = f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body
    ((status, told, found),) = served(place, raw)
    return status, told, found


def served(place, *pieces, answers=1):
    """What our own server answers to these bytes, sent piece by piece on one connection."""
    found, loop = [], asyncio.new_event_loop()

    async def run():
        server = Server(place.open())
        port = await server.start("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        for _ in range(answers):
            head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)).decode("latin-1")
            first, *lines = head.rstrip("\r\n").split("\r\n")
            told = dict(line.split(": ", 1) for line in lines)
            body = await reader.readexactly(int(told["content-length"]))
            found.append((int(first.split(" ")[1]), told, body))
        if found[-1][1].get("connection") == "close":
            assert await asyncio.wait_for(reader.read(), 30) == b""
        writer.close()
        await writer.wait_closed()
        await server.stop()

    try:
        loop.run_until_complete(run())
    finally:
        loop.close()
    return found


FACES = {"asgi": over_asgi, "wsgi": over_wsgi, "socket": over_socket}


@pytest.fixture(params=FACES)
def face(request):
    return FACES[request.param]


def signed(place, sent):
    return sent.headers(place.now // 1_000_000)


def test_a_delivery_goes_through_each_face_and_comes_back_signed(place, face):
    hello = SENDER.hello()
    assert face(place, headers=signed(place, hello), parts=[hello.body])[0] == 200
    status, headers, body = face(place, headers=signed(place, EVENT), parts=[EVENT.body])
    assert (status, json.loads(body)["status"]) == (200, "accepted")
    assert headers["content-type"] == wire.RECEIPT_TYPE
    assert headers["content-length"] == str(len(body))
    assert signing.verify([KEY], headers, body, place.now // 1_000_000).message_id == EVENT.id
    status, headers, again = face(place, headers=signed(place, EVENT), parts=[EVENT.body])
    assert (headers[wire.REPLAYED], again) == ("true", body)
    assert place.effects() == [EVENT.operation]


def test_only_posts_are_taken(place, face):
    for method in ("GET", "PUT", "DELETE", "OPTIONS"):
        status, headers, body = face(place, method)
        assert (status, headers["allow"]) == (405, "POST")
        assert json.loads(body)["code"] == "method_not_allowed"


def test_a_body_that_is_too_long_is_refused_at_once(place, face):
    long = Sent("msg_1", b"x" * 4097)
    status, headers, _ = face(place, headers=signed(place, long), parts=[long.body])
    assert (status, "webhook-signature" in headers) == (413, False)
    just = Sent("msg_1", b"x" * 4096)
    assert face(place, headers=signed(place, just), parts=[just.body])[0] == 400


def test_headers_in_capitals_are_the_same_headers(place, face):
    headers = {name.title(): value for name, value in signed(place, EVENT).items()}
    assert face(place, headers=headers, parts=[EVENT.body])[0] == 409


def test_a_body_that_comes_in_pieces_is_one_body(place):
    pieces = [EVENT.body[place : place + 7] for place in range(0, len(EVENT.body), 7)]
    assert over_asgi(place, headers=signed(place, EVENT), parts=pieces)[0] == 409
    assert over_asgi(place, headers=signed(place, EVENT), parts=[b"x" * 4000, b"x" * 97])[0] == 413
    head = "".join(f"{name}: {value}\r\n" for name, value in signed(place, EVENT).items())
    raw = f"POST / HTTP/1.1\r\n{head}content-length: {len(EVENT.body)}\r\n\r\n".encode()
    raw += EVENT.body
    pieces = [raw[place : place + 11] for place in range(0, len(raw), 11)]
    assert served(place, *pieces)[0][0] == 409


def test_a_client_that_leaves_before_its_body_is_whole_has_sent_nothing(place):
    coming = {"content-length": "10"}
    face = asgi.ReceiverApp(place.receiver)
    messages = [{"type": "http.request", "body": b"x", "more_body": True},
                {"type": "http.disconnect"}]  # fmt: skip

    async def receive():
        return messages.pop(0)

    async def send(message):
        raise AssertionError(message)

    raw = [(name.encode(), value.encode()) for name, value in coming.items()]
    asyncio.run(
        face({"type": "http", "method": "POST", "path": "/", "headers": raw}, receive, send)
    )


def test_a_header_that_stands_twice_is_no_signature(place):
    headers = signed(place, EVENT)
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    raw.append((b"webhook-id", headers["webhook-id"].encode()))
    said = []

    async def receive():
        return {"type": "http.request", "body": EVENT.body}

    async def send(message):
        said.append(message)

    face = asgi.ReceiverApp(place.receiver)
    scope = {"type": "http", "method": "POST", "path": "/", "headers": raw}
    asyncio.run(face(scope, receive, send))
    assert said[0]["status"] == 401


def test_in_front_of_an_application_it_takes_its_own_path_alone(place):
    async def theirs(scope, receive, send):
        await send({"type": "http.response.start", "status": 299, "headers": []})
        await send({"type": "http.response.body", "body": scope["path"].encode()})

    def theirs_wsgi(environ, start):
        start("299 Theirs", [("content-type", "text/plain")])
        return [environ["PATH_INFO"].encode()]

    for face, app in ((over_asgi, theirs), (over_wsgi, theirs_wsgi)):
        assert face(place, path="/other", app=app)[::2] == (299, b"/other")
        answered = face(place, path="/deliveries", headers=signed(place, EVENT),
                        parts=[EVENT.body], app=app)  # fmt: skip
        assert answered[0] == 409
        with pytest.raises(ValueError, match="path"):
            (asgi if face is over_asgi else wsgi).ReceiverApp(place.receiver, app)


def test_the_application_closes_the_receiver_when_the_server_shuts_down(place):
    said = []
    coming = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]

    async def receive():
        return coming.pop(0)

    async def send(message):
        said.append(message["type"])

    asyncio.run(asgi.ReceiverApp(place.receiver)({"type": "lifespan"}, receive, send))
    assert said == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert place.send(EVENT).code == "unavailable"


BAD_HEADS = [
    b"GARBAGE\r\n\r\n", b"POST / HTTP/2.0\r\n\r\n", b"POST http://x/ HTTP/1.1\r\n\r\n",
    b"post / HTTP/1.1\r\n\r\n", b"POST / HTTP/1.1\r\nno colon\r\n\r\n",
    b"POST / HTTP/1.1\r\n folded: x\r\n\r\n", b"POST / HTTP/1.1\r\na\x00b: x\r\n\r\n",
    b"POST / HTTP/1.1\r\nx: \x00\r\n\r\n", b"POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
    b"POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
    b"POST / HTTP/1.1\r\ncontent-length: 0x1\r\n\r\n",
    b"POST / HTTP/1.1\r\ncontent-length: \xb9\r\n\r\n",
    b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST / HTTP/1.1\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\nabc",
    b"x" * (MAX_HEAD_BYTES + 1), b"POST / HTTP/1.1\r\nx: " + b"y" * MAX_HEAD_BYTES + b"\r\n\r\n",
]  # fmt: skip


@pytest.mark.parametrize("raw", BAD_HEADS, ids=range(len(BAD_HEADS)))
def test_our_server_answers_what_it_cannot_read_and_closes(place, raw):
    """Where the next request would begin cannot be told: nothing more is read there."""
    ((status, headers, body),) = served(place, raw)
    assert (status, headers["connection"], json.loads(body)["code"]) == (400, "close", "malformed")


def test_our_server_keeps_connections_and_answers_in_order(place):
    """Twenty requests in one piece; good, bad and unsigned ones among them."""
    hello = SENDER.hello()
    raw = b""
    for number in range(20):
        sent = hello if number == 0 else SENDER.event(number)
        headers = signed(place, sent) if number % 3 != 2 else {"content-type": wire.EVENT_TYPE}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        raw += f"POST / HTTP/1.1\r\n{lines}content-length: {len(sent.body)}\r\n\r\n".encode()
        raw += sent.body
    found = served(place, raw, answers=20)
    assert [status for status, *_ in found] == [401 if n % 3 == 2 else 200 for n in range(20)]
    assert place.effects() == [f"{task(n)}:1" for n in range(1, 20) if n % 3 != 2]


def test_a_thousand_bad_requests_in_one_piece_are_answered_one_after_another(place):
    raw = b"POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\n" * 1000
    assert {status for status, *_ in served(place, raw, answers=1000)} == {415}


def test_our_server_says_that_it_goes_on_and_closes_when_asked(place):
    lines = "".join(f"{name}: {value}\r\n" for name, value in signed(place, EVENT).items())
    head = f"POST / HTTP/1.1\r\n{lines}content-length: {len(EVENT.body)}\r\n"
    ((status, headers, _),) = served(place, f"{head}connection: close\r\n\r\n".encode(), EVENT.body)
    assert (status, headers["connection"]) == (409, "close")
    ((status, headers, _),) = served(
        place, head.replace("HTTP/1.1", "HTTP/1.0").encode() + b"\r\n", EVENT.body
    )
    assert (status, headers["connection"]) == (409, "close")

    async def asks():
        server = Server(place.open())
        port = await server.start("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"{head}expect: 100-continue\r\n\r\n".encode())
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(EVENT.body)
        assert (await reader.readline()).startswith(b"HTTP/1.1 409")
        writer.close()
        await server.stop()

    asyncio.run(asks())


class Line(asyncio.Transport):
    """A transport that says whether it was closed."""

    closed = False

    def close(self):
        self.closed = True


def test_a_connection_without_a_request_for_so_long_is_closed_and_a_busy_one_is_not():
    async def run():
        server, line = Server(None), Line()
        connection = Connection(server)
        connection.connection_made(line)
        assert connection._timer.when() - asyncio.get_running_loop().time() > IDLE_SECONDS - 5
        connection._rest(over=True)  # a request is being answered
        connection._look()
        assert not line.closed and connection._timer is None
        connection._rest()
        connection._timer.cancel()
        connection._since -= IDLE_SECONDS - 20
        connection._look()  # it has waited, and not for so long
        left = connection._timer.when() - asyncio.get_running_loop().time()
        assert not line.closed and 10 < left <= 20
        connection._since -= 20
        connection._look()
        assert line.closed
        connection.connection_lost(None)
        assert connection._timer is None or connection._timer.cancelled()

    asyncio.run(run())
