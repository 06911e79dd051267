"""A connection: how long and how slow a request's head may be, and what is told of one that cannot
be read."""

from __future__ import annotations

from asyncio import TimerHandle
from http import HTTPStatus
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from fencepost.server.answers import Fault, digest_header, of_fault
from fencepost.server.settings import ServerSettings


def bound_protocol(settings: ServerSettings) -> type[HttpToolsProtocol]:
    """The connections of one service."""
    return type("Connection", (Bounded,), {"settings": settings})


class Bounded(HttpToolsProtocol):
    """uvicorn's connection, with bounds on how long and how slow a request's head may be."""

    settings: ClassVar[ServerSettings]
    _head = 0
    _trailing = False
    _switched = False
    _slow: TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._no_wait()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._switched:
            return
        if self._slow is None and getattr(self.cycle, "response_complete", False):
            self._wait_for_head()  # a request after an answered one on this connection
        super().data_received(data)

    def on_message_begin(self) -> None:
        self._head, self._trailing = 0, False
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value) + 4)
        if not self._trailing:  # RFC 9110 §6.5.1: what comes behind a body is no header
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._no_wait()
        self._trailing = True
        super().on_headers_complete()

    def _unsupported_upgrade_warning(self) -> None:
        """Another protocol is asked for (`Upgrade: h2c`) and not had. The parser leaves the body
        where it is, and would take it for the next request: nothing that follows is read."""
        self._switched = True
        if self.cycle is not None:
            self.cycle.keep_alive = False

    def send_400_response(self, msg: str) -> None:
        """What cannot be read as a request is told so, unless that would be taken for the
        answer to a request before it, which may have been carried out."""
        cycle: Any = self.cycle
        if self.pipeline:
            self.transport.close()
        elif cycle is not None and not (cycle.response_complete or cycle.more_body):
            cycle.keep_alive = False  # its own answer comes, and then the end
            self.flow.pause_reading()
        else:
            self.transport.write(unreadable(self._head > self.settings.max_header_bytes))
            self.transport.close()

    def _count(self, size: int) -> None:
        self._head += size
        if self._head > self.settings.max_header_bytes:
            raise ValueError(f"a request's head is above {self.settings.max_header_bytes} bytes")

    def _wait_for_head(self) -> None:
        self._slow = self.loop.call_later(self.settings.header_seconds, self._too_slow)

    def _no_wait(self) -> None:
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None

    def _too_slow(self) -> None:
        self._slow = None
        self.transport.close()


def unreadable(too_long: bool) -> bytes:
    """The whole answer to what is no request: nobody has read it, so it has no id."""
    fault = Fault(431, "the head of the request is too long") if too_long else Fault(
        400, "this is no HTTP request that can be read in one way only"
    )  # fmt: skip
    answer = of_fault(fault)
    headers = (
        (b"content-type", answer.media), (b"content-length", b"%d" % len(answer.body)),
        (b"content-digest", digest_header(answer.body)), (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"), (b"connection", b"close"),
    )  # fmt: skip
    lines = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
    phrase = HTTPStatus(answer.status).phrase.encode()
    return b"HTTP/1.1 %d %s\r\n" % (answer.status, phrase) + lines + b"\r\n" + answer.body
