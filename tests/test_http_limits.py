"""What a caller cannot make the service bear: size, slowness, numbers. Each limit is refused with
a code and a way on, and has changed nothing."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from helpers.web import Served

from fencepost.clock import SECOND, FakeClock
from fencepost.issues import InvalidRequest
from fencepost.model import Caller
from fencepost.server.answers import Fault
from fencepost.server.limits import Bucket, Limits
from fencepost.server.settings import ServerSettings, checked

START = 1_767_225_600_000_000
HEAD = b"POST /v1/default/queues/q/tasks HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
WORKER = Caller("default", "worker", "w", "tok_w")


@pytest.fixture(scope="module")
def web() -> Iterator[Served]:
    small = {"max_body_bytes": 2_000, "max_header_bytes": 4_000, "header_seconds": 1,
             "body_seconds": 1, "max_streams_per_token": 2}  # fmt: skip
    with Served(dev=True, settings=small) as served:
        yield served


def raw(web: Served, *parts: bytes, pause: float = 0.0) -> bytes:
    """Everything that comes back for bytes sent as they are."""
    with socket.create_connection(("127.0.0.1", web.port), timeout=15) as link:
        for part in parts:
            try:
                link.sendall(part)
            except OSError:
                break
            time.sleep(pause)
        found = b""
        try:
            while part := link.recv(65_536):
                found += part
        except ConnectionResetError:
            pass
        return found


def tasks(web: Served) -> int:
    return len(web.get("/v1/default/tasks?queue=q").json["tasks"])


def test_a_body_above_the_limit_is_refused_before_it_is_read(web: Served) -> None:
    answer = raw(web, HEAD + b"Content-Length: 2001\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 413 ") and b"connection: close" in answer.lower()
    assert tasks(web) == 0


def test_a_chunked_body_is_counted_as_it_comes(web: Served) -> None:
    chunk = b"400\r\n" + b"x" * 1_024 + b"\r\n"
    answer = raw(web, HEAD + b"Transfer-Encoding: chunked\r\n\r\n", chunk, chunk, chunk)
    assert answer.startswith(b"HTTP/1.1 413 ")
    at_once = raw(web, HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 2)
    assert at_once.startswith(b"HTTP/1.1 413 "), "the first part alone is too long"
    assert tasks(web) == 0


def test_a_body_that_does_not_come_is_given_up(web: Served) -> None:
    began = time.monotonic()
    answer = raw(web, HEAD + b"Content-Length: 100\r\n\r\n{")
    assert answer.startswith(b"HTTP/1.1 408 ") and b"connection: close" in answer.lower()
    assert 0.9 < time.monotonic() - began < 10


def test_a_head_that_does_not_come_is_given_up(web: Served) -> None:
    began = time.monotonic()
    assert raw(web, HEAD) == b""
    assert 0.9 < time.monotonic() - began < 10
    first = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
    again = raw(web, first, b"GET /li", pause=0.2)  # the second request of a kept connection
    assert again.count(b"HTTP/1.1 200 ") == 1


def test_a_head_above_the_limit_ends_the_connection(web: Served) -> None:
    answer = raw(web, HEAD + b"X-Much: " + b"y" * 5_000 + b"\r\n\r\n")
    assert answer.startswith((b"HTTP/1.1 431 ", b"HTTP/1.1 400 ")) or answer == b""
    many = b"".join(b"X-%d: y\r\n" % number for number in range(1_000))
    assert b" 200 " not in raw(web, HEAD + many + b"\r\n")[:20]


def test_a_token_may_hold_so_many_streams_and_no_more(web: Served) -> None:
    ask = b"GET /v1/default/journal/events HTTP/1.1\r\nHost: x\r\n\r\n"
    with ExitStack() as stack:
        for _ in range(2):
            link = stack.enter_context(socket.create_connection(("127.0.0.1", web.port), 15))
            link.sendall(ask)
            assert link.recv(100).startswith(b"HTTP/1.1 200 ")
        reply = web.get("/v1/default/journal/events")
        assert (reply.status, reply.code) == (429, "rate_limited")
        assert int(reply.headers["retry-after"]) >= 1


def test_above_so_many_connections_each_more_is_told_to_come_again_and_closed() -> None:
    with Served(dev=True, settings={"max_connections": 3}) as web, ExitStack() as stack:
        for _ in range(3):
            link = stack.enter_context(socket.create_connection(("127.0.0.1", web.port), 15))
            link.sendall(b"GET /v1/default HTTP/1.1\r\nHost: x\r\n\r\n")
            assert link.recv(100).startswith(b"HTTP/1.1 200 ")
        reply = web.get("/v1/default")
        assert (reply.status, reply.code, reply.json["retryable"]) == (503, "rate_limited", True)
        assert (reply.headers["retry-after"], reply.headers["connection"]) == ("1", "close")
        assert reply.headers["content-type"] == "application/problem+json"
        assert web.get("/livez").status == 200, "the process lives"
        stack.close()
        for _ in range(500):
            if not web.server.server_state.connections:
                break
            time.sleep(0.01)  # the loop hears of a closed connection by itself
        assert web.get("/v1/default").status == 200


def test_requests_above_the_rate_are_told_when_to_come_again() -> None:
    clock = FakeClock(START)
    with Served(clock=clock, dev=True, settings={"max_requests_per_second": 3}) as web:
        statuses = [web.get("/v1/default").status for _ in range(4)]
        assert statuses == [200, 200, 200, 429]
        refused = web.get("/v1/default")
        assert (refused.code, refused.json["retryable"]) == ("rate_limited", True)
        assert refused.headers["retry-after"] == "1"
        clock.advance(1)
        assert web.get("/v1/default").status == 200


def test_a_token_claims_no_more_tasks_a_minute_than_it_may() -> None:
    clock = FakeClock(START)
    with Served(clock=clock, dev=True, settings={"max_claimed_per_minute": 10}) as web:
        web.fp.enqueue_many("q", [{"payload": number} for number in range(40)])
        body = {"verb": "claim", "queues": ["q"], "worker_id": "w", "limit": 20}
        path = "/v1/default/queues/q/claims"
        assert len(web.post(path, body).json["leases"]) == 20
        assert web.post(path, body).status == 429
        assert web.post("/v1/default/batch", {"commands": [{"command": body}]}).status == 429
        clock.advance(61)
        assert web.post(path, body).status == 200


def test_a_bucket_fills_at_its_pace_and_no_further() -> None:
    bucket = Bucket(10, 1, 0)
    assert [bucket.take(5, 0), bucket.take(5, 0)] == [0.0, 0.0]
    assert bucket.take(1, 0) == pytest.approx(0.1)
    assert bucket.take(5, SECOND // 2) == 0.0
    assert bucket.take(10, 100 * SECOND) == 0.0
    assert bucket.take(1, 100 * SECOND) > 0.0


def test_one_tokens_rate_is_none_of_anothers() -> None:
    limits = Limits(ServerSettings(max_requests_per_second=1), FakeClock(START))
    limits.ask(WORKER)
    with pytest.raises(Fault, match="requests a second"):
        limits.ask(WORKER)
    limits.ask(Caller("default", "worker", "w", "tok_other"))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"host": "192.0.2.1"}, "in the clear"),
        ({"host": "192.0.2.1", "dev": True}, "loopback only"),
        ({"host": "example.org", "dev": True, "behind_proxy": True}, "loopback only"),
        ({"host": "::", "dev": True}, "loopback only"),
        ({"certfile": "c.pem"}, "belong together"),
    ],
)  # fmt: skip
def test_settings_that_would_give_tokens_away_are_refused(
    given: dict[str, object], said: str
) -> None:
    with pytest.raises(InvalidRequest, match=said):
        checked(ServerSettings(**given))  # type: ignore[arg-type]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_needs_no_tls(host: str) -> None:
    assert checked(ServerSettings(host=host, dev=True)).host == host


def test_bodies_in_flight_have_a_bound_together() -> None:
    small = {"max_body_bytes": 60_000, "max_bytes_in_flight": 100_000, "body_seconds": 5}
    with Served(dev=True, settings=small) as web, ExitStack() as stack:
        for _ in range(2):
            link = stack.enter_context(socket.create_connection(("127.0.0.1", web.port), 15))
            link.sendall(HEAD + b"Content-Length: 50001\r\n\r\n" + b" " * 49_000)
        held = web.server._app.service.limits
        for _ in range(2_000):
            if held._in_flight == 98_000:
                break
            time.sleep(0.002)
        body = b'{"verb":"enqueue","queue":"q","tasks":[{"payload":"' + b"x" * 5_000 + b'"}]}'
        path = "/v1/default/queues/q/tasks"
        reply = web.post(path, body)
        assert (reply.status, reply.code) == (503, "rate_limited")
        assert "retry-after" in reply.headers and tasks(web) == 0
        stack.close()
        for _ in range(2_000):
            if held._in_flight == 0:
                break
            time.sleep(0.002)
        assert web.post(path, body).status == 200


def test_the_claims_of_a_batch_ask_for_no_more_tasks_than_an_answer_should_hold() -> None:
    with Served(dev=True, settings={"max_batch_claims": 150}) as web:
        web.fp.enqueue("q", 1)
        claim = {"command": {"verb": "claim", "queues": ["q"], "worker_id": "w", "limit": 100}}
        reply = web.post("/v1/default/batch", {"commands": [claim, claim]})
        assert (reply.status, reply.code) == (400, "invalid_request")
        assert [task.state for task in web.fp.tasks()] == ["ready"]
        assert web.post("/v1/default/batch", {"commands": [claim]}).status == 200


def test_one_token_takes_no_more_than_its_places_to_wait() -> None:
    settings = ServerSettings(max_waiting=3, max_waiting_per_token=2)
    limits = Limits(settings, FakeClock(START))
    other = Caller("default", "worker", "w", "tok_other")
    assert [limits.enter_waiting(WORKER) for _ in range(3)] == [True, True, False]
    assert [limits.enter_waiting(other) for _ in range(2)] == [True, False]
    limits.leave_waiting(WORKER)
    assert limits.enter_waiting(other) and limits.waiting == 3


def test_a_page_of_what_may_be_long_is_short() -> None:
    with Served(dev=True) as web:
        for number in range(120):
            web.fp.enqueue("q", number)
        page = web.get("/v1/default/journal/entries?page_size=1000").json
        assert len(page["entries"]) == 100 and page["next_page_token"]
        assert len(web.get("/v1/default/tasks?page_size=1000").json["tasks"]) == 120
