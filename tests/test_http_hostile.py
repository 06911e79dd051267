"""Callers who mean no good, and those who hang up: what they learn, and what is left of them."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import ENOSPC
from hashlib import sha256
from typing import Any

import pytest
from helpers.web import Reply, Served, Sink

from fencepost.clock import FakeClock
from fencepost.commands import Request, Sweep
from fencepost.engine import Call
from fencepost.handle import Handle
from fencepost.model import Caller
from fencepost.server import tail
from fencepost.server.answers import of_fault
from fencepost.server.bridge import Bridge
from fencepost.server.limits import limited
from fencepost.server.logs import Lines, Shown
from fencepost.storage import reading as storage

LONG = 20  # seconds that a claim would wait, if it waited
NOWHERE = "01a22a71-5a07-717a-9af3-614358177f40"
EMPTY = f"sha-256=:{b64encode(sha256().digest()).decode()}:"


@pytest.fixture
def web() -> Iterator[Served]:
    with Served() as served:
        served.fp.enqueue("seen", 1)
        served.fp.enqueue("unseen", 2)
        yield served


def claim(queue: str, worker: str = "w", **more: Any) -> bytes:
    given = {"verb": "claim", "queues": [queue], "worker_id": worker, **more}
    return json.dumps(given).encode()


@contextmanager
def sent(
    web: Served, head: str, token: str, body: bytes = b"", *, apart: bool = False
) -> Iterator[socket.socket]:
    """A request on its way; its answer is not read. `apart`: the body comes a moment later."""
    first, _, more = head.partition("\r\n")
    lines = (
        first if " HTTP/" in first else f"{first} HTTP/1.1", "Host: x", *filter(None, [more]),
        f"Authorization: Bearer {token}", "Content-Type: application/json",
        f"Content-Length: {len(body)}", "", "",
    )  # fmt: skip
    written = "\r\n".join(lines).encode()
    with socket.create_connection(("127.0.0.1", web.port), 15) as link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link.sendall(written if apart else written + body)
        if apart:
            time.sleep(0.05)  # so that it is another segment: either way it must hold
            with suppress(ConnectionError):
                link.sendall(body)
        yield link


def to_the_end(link: socket.socket) -> bytes:
    """All that comes until the connection ends, be it by a reset."""
    heard = b""
    with suppress(ConnectionError):
        while part := link.recv(65_536):
            heard += part
    return heard


def until(holds: Any, seconds: float = 15.0) -> None:
    """Look until it holds: what the service's own loop does has no event of its own here."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it never came about"
        time.sleep(0.005)


# -- what the time of an answer tells


@pytest.mark.parametrize("queue", ["unseen", "empty"])
def test_a_claim_that_may_not_be_made_does_not_wait_and_so_tells_nothing_of_the_queue(
    web: Served, queue: str
) -> None:
    token = web.token("worker", "w", queues=["seen"])
    begun = time.monotonic()
    reply = web.post(f"/v1/default/claims?wait_seconds={LONG}", claim(queue), token)
    assert (reply.status, reply.code) == (403, "forbidden")
    assert time.monotonic() - begun < LONG / 2


def test_nobody_learns_by_waiting_which_keys_another_worker_has_used(web: Served) -> None:
    other, own = web.token("worker", "w"), web.token("worker", "x")
    assert web.post("/v1/default/claims", claim("empty"), other, key="known").status == 200
    path = f"/v1/default/claims?wait_seconds={LONG}"
    begun = time.monotonic()
    replies = [web.post(path, claim("empty"), own, key=key) for key in ("known", "unknown")]
    assert [(reply.status, reply.code) for reply in replies] == [(403, "forbidden")] * 2
    assert replies[0].json.keys() == replies[1].json.keys()
    assert time.monotonic() - begun < LONG / 2


def test_a_revoked_token_and_a_revoked_scope_wait_for_nothing(web: Served) -> None:
    ended, other = (web.token("worker", worker, scope="gone") for worker in ("w", "x"))
    beside = web.fp.as_caller("local", scope="gone")
    beside.token_revoke(next(t.token_id for t in beside.tokens() if t.actor == "w"))
    begun = time.monotonic()
    path = f"/v1/gone/claims?wait_seconds={LONG}"
    assert web.post(path, claim("empty"), ended).code == "unauthenticated"
    beside.revoke()
    assert web.post(path, claim("empty", "x"), other).code == "scope_revoked"
    assert time.monotonic() - begun < LONG / 2


# -- who hangs up


def test_a_claim_whose_client_hangs_up_while_it_waits_is_not_made(web: Served) -> None:
    token = web.token("worker", "w")
    limits = web.server._app.service.limits
    body = claim("later")
    with sent(web, f"POST /v1/default/claims?wait_seconds={LONG}", token, body):
        until(lambda: limits.waiting == 1)
    until(lambda: limits.waiting == 0)
    task_id = web.fp.enqueue("later", 1).task_id
    reply = web.post("/v1/default/claims", claim("later"), token)
    assert [lease["task_id"] for lease in reply.json["leases"]] == [task_id]
    assert reply.json["leases"][0]["attempt"] == 1, "nobody has had it before"


def test_who_waits_for_the_writer_and_is_ended_leaves_nothing_to_be_done() -> None:
    """A stop ends a request whose call the writer has not begun: it is not carried out then."""

    class Store:
        def hand_in(self, commands: Any, told: Any) -> Call:
            self.call = Call(list(commands), told)
            return self.call

    async def scene() -> tuple[Store, list[Any]]:
        loop = asyncio.get_running_loop()
        heard: list[Any] = []
        loop.set_exception_handler(lambda _, context: heard.append(context))
        store = Store()
        bridge = Bridge(store, 30.0)  # type: ignore[arg-type]
        request = Request.of(Sweep())
        asking = loop.create_task(bridge.send([(Caller("default", "operator", "o"), request)]))
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert not store.call.begin()
        store.call.fail(RuntimeError("told to nobody"))
        await asyncio.sleep(0)
        assert not bridge._pending
        return store, heard

    assert asyncio.run(scene())[1] == []


# -- streams


def test_head_of_the_tail_has_its_headers_and_holds_no_stream_open(web: Served) -> None:
    token = web.token("auditor", "a")
    for _ in range(web.server._app.service.settings.max_streams_per_token + 1):
        reply = web.ask("HEAD", "/v1/default/journal/events", token=token)
        assert (reply.status, reply.headers["content-type"]) == (200, "text/event-stream")
    assert web.server._app.service.limits.open_streams == 0


def test_a_tail_that_is_woken_for_nothing_still_shows_that_it_lives(
    web: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A renewal commits and leaves no entry: it wakes whoever follows."""
    monkeypatch.setattr(tail, "COMMENT_SECONDS", 0.2)
    token = web.token("auditor", "a")
    (lease,) = web.fp.claim("seen", worker_id="w")
    with sent(web, f"GET /v1/default/journal/events?after={10**9}", token) as link:
        link.settimeout(0.02)
        heard = b""
        for _ in range(500):
            lease.renew(60)
            try:
                heard += link.recv(65_536)
            except TimeoutError:
                continue
            if b"\n:\n\n" in heard:
                break
        assert b"\n:\n\n" in heard, heard


# -- headers


def test_when_to_come_again_is_told_once() -> None:
    headers = [value for name, value in of_fault(limited("a rule", 5)).headers
               if name == b"retry-after"]  # fmt: skip
    assert headers == [b"6"]


def tagged(web: Served, **headers: str) -> Reply:
    (row, *_) = web.fp.tasks("seen")
    return web.get(f"/v1/default/tasks/{row.task_id}", web.token("auditor", "a"), **headers)


def test_what_has_not_changed_is_told_without_the_length_of_something_else(web: Served) -> None:
    first = tagged(web)
    for tag in (first.headers["etag"], "*", f'"x", W/{first.headers["etag"]}'):
        reply = tagged(web, If_None_Match=tag)
        assert (reply.status, reply.body) == (304, b"")
        assert reply.headers["etag"] == first.headers["etag"]
        assert "content-length" not in reply.headers and "content-digest" not in reply.headers


def test_head_tells_the_length_of_what_get_has_and_the_digest_of_what_it_sends(
    web: Served,
) -> None:
    (row, *_) = web.fp.tasks("seen")
    path, token = f"/v1/default/tasks/{row.task_id}", web.token("auditor", "a")
    get, head = (web.ask(method, path, token=token) for method in ("GET", "HEAD"))
    assert head.body == b"" and head.headers["content-length"] == str(len(get.body))
    assert (head.headers["content-digest"], head.headers["etag"]) == (EMPTY, get.headers["etag"])


def test_a_batch_does_not_pass_over_a_precondition(web: Served) -> None:
    body = {"commands": [{"command": {"verb": "sweep"}}]}
    token = web.token("operator", "o")
    assert web.post("/v1/default/batch", body, token, If_Match='"r1"').status == 400
    assert web.post("/v1/default/batch", body, token).status == 200


@pytest.mark.parametrize("actor", ["a%20b", "%00", ".."])
def test_an_actor_that_cannot_be_is_not_looked_for(web: Served, actor: str) -> None:
    reply = web.get(f"/v1/default/receipts/k?actor={actor}", web.token("auditor", "a"))
    assert (reply.status, reply.code) == (400, "invalid_request")


# -- what the work of an answer tells


def test_of_a_task_that_is_hidden_not_even_the_payload_is_read(
    web: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the time of its 404 would tell that it is there, and how much is in it."""
    (hidden, *_), (own, *_) = web.fp.tasks("unseen"), web.fp.tasks("seen")
    asked: list[str] = []
    real = storage.one

    def watched(name: str, **values: Any) -> Any:
        asked.append(name)
        return real(name, **values)

    monkeypatch.setattr(storage, "one", watched)
    token = web.token("worker", "w", queues=["seen"])
    steps = {}
    for task_id in (hidden.task_id, NOWHERE, own.task_id):
        web.get(f"/v1/default/tasks/{own.task_id}", token)  # the token is known from here on
        asked.clear()
        web.get(f"/v1/default/tasks/{task_id}", token)
        steps[task_id] = list(asked)
    assert steps[hidden.task_id] == steps[NOWHERE]
    assert steps[own.task_id][:-1] == steps[NOWHERE], "its payload is the one read more"


def test_a_proof_of_what_is_not_there_or_not_to_be_seen_takes_no_turn(
    web: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[str] = []
    real = Handle._sealed
    monkeypatch.setattr(Handle, "_sealed", lambda handle: turns.append("sealed") or real(handle))
    token = web.token("worker", "w", queues=["seen"])
    head = web.fp.about()["entries"]
    for number in (2, head + 1, 10**15 - 1):
        assert web.get(f"/v1/default/journal/entries/{number}/proof", token).status == 404
    assert turns == []
    assert web.get("/v1/default/journal/entries/1/proof", token).status == 200


# -- a disk that is full


def test_a_log_that_cannot_be_written_ends_nothing_and_says_nothing_elsewhere() -> None:
    class Full(Sink):
        def write(self, text: str) -> None:
            raise OSError(ENOSPC, "no space left on device")

    lines = Lines(FakeClock(1_767_225_600_000_000), Full())  # type: ignore[arg-type]
    lines.line("info", "answered")
    Shown(lines).handle(logging.LogRecord("fencepost", logging.ERROR, "", 0, "told", (), None))


# -- another protocol


SWITCH = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAA"


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize(("kind", "status"), [("operator", 400), ("auditor", 403), ("", 401)])
def test_a_body_behind_an_upgrade_is_never_taken_for_a_request(
    web: Served, kind: str, status: int, apart: bool
) -> None:
    """Else whoever shares the connection of a proxy would get the answer to it."""
    token = web.token(kind, "o") if kind else "none"
    inner = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
    head = f"POST /v1/default/sweep HTTP/1.1\r\n{SWITCH}"
    with sent(web, head, token, inner, apart=apart) as link:
        heard = to_the_end(link)
    assert heard.startswith(b"HTTP/1.1 %d " % status) and b"HTTP/1.1 200 " not in heard
    assert (b"send no Upgrade" in heard) is (status == 400) and b"connection: close" in heard


def test_a_read_that_would_switch_is_answered_as_any_and_ends_the_connection(web: Served) -> None:
    head = f"GET /v1/default HTTP/1.1\r\n{SWITCH}"
    with sent(web, head, web.token("auditor", "a")) as link:
        heard = to_the_end(link)
    assert heard.startswith(b"HTTP/1.1 200 ") and b"connection: close" in heard


def test_requests_at_other_scopes_count_like_those_at_its_own() -> None:
    clock = FakeClock(1_767_225_600_000_000)
    with Served(clock=clock, settings={"max_requests_per_second": 3}) as web:
        token = web.token("worker", "w")
        asked = ("/v1/other", "/v1/nowhere", "/v1/default", "/v1/other", "/v1/default")
        assert [web.get(path, token).status for path in asked] == [404, 404, 200, 429, 429]
        clock.advance(1)
        assert web.get("/v1/other", token).status == 404
