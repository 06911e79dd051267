"""Runs the application under uvicorn: sockets, TLS, what a connection may bear, the stop."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import ssl
import threading
from asyncio import TimerHandle
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from fencepost.clock import Clock
from fencepost.handle import Handle
from fencepost.issues import InvalidRequest, Unavailable
from fencepost.server.answers import Fault, digest_header, of_fault
from fencepost.server.app import Application
from fencepost.server.logs import Lines, Shown
from fencepost.server.settings import ServerSettings, checked

BACKLOG = 1_024
ENDING = (signal.SIGINT, signal.SIGTERM)


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


def bound_protocol(settings: ServerSettings) -> type[HttpToolsProtocol]:
    """uvicorn's connection, with bounds on how long and how slow a request's head may be."""

    class Bounded(HttpToolsProtocol):
        _head = 0
        _slow: TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._wait_for_head()

        def connection_lost(self, exc: Exception | None) -> None:
            self._no_wait()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self._slow is None and getattr(self.cycle, "response_complete", False):
                self._wait_for_head()  # a request after an answered one on this connection
            super().data_received(data)

        def on_message_begin(self) -> None:
            self._head = 0
            super().on_message_begin()

        def on_url(self, url: bytes) -> None:
            self._count(len(url))
            super().on_url(url)

        def on_header(self, name: bytes, value: bytes) -> None:
            self._count(len(name) + len(value) + 4)
            super().on_header(name, value)

        def on_headers_complete(self) -> None:
            self._no_wait()
            super().on_headers_complete()

        def send_400_response(self, msg: str) -> None:
            """What cannot be read as a request is told so, unless that would be taken for the
            answer to a request before it, which may have been carried out."""
            cycle = self.cycle
            if self.pipeline:
                self.transport.close()
            elif cycle is not None and not (cycle.response_complete or cycle.more_body):
                cycle.keep_alive = False  # its own answer comes, and then the end
                self.flow.pause_reading()
            else:
                self.transport.write(unreadable(self._head > settings.max_header_bytes))
                self.transport.close()

        def _count(self, size: int) -> None:
            self._head += size
            if self._head > settings.max_header_bytes:
                raise ValueError(f"a request's head is above {settings.max_header_bytes} bytes")

        def _wait_for_head(self) -> None:
            self._slow = self.loop.call_later(settings.header_seconds, self._too_slow)

        def _no_wait(self) -> None:
            if self._slow is not None:
                self._slow.cancel()
                self._slow = None

        def _too_slow(self) -> None:
            self._slow = None
            self.transport.close()

    return Bounded


class Server(uvicorn.Server):
    """uvicorn's server, which tells the application of the stop before it waits for answers."""

    def __init__(self, config: uvicorn.Config, app: Application) -> None:
        super().__init__(config)
        self._app = app
        app.connections = self.server_state.connections
        self._loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Everything that belongs to the loop is made before the first request."""
        self._loop = asyncio.get_running_loop()
        self._app.begin()
        await super().startup(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A first signal ends claims and streams and lets commits finish."""
        super().handle_exit(sig, frame)
        with suppress(RuntimeError):  # the loop has ended already
            if self._loop is not None:  # a signal comes between any two steps of the loop's
                self._loop.call_soon_threadsafe(self._app.stop)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """While it serves. uvicorn would raise the signal once more after the stop, and so end the
        process before the store is closed. A second signal does what it does to any process."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in ENDING}

        def first(number: int, frame: FrameType | None) -> None:
            for each in ENDING:
                signal.signal(each, signal.SIG_DFL)
            self.handle_exit(number, frame)

        for number in ENDING:
            signal.signal(number, first)
        try:
            yield
        finally:
            if signal.getsignal(signal.SIGINT) is first:
                for number, handler in before.items():
                    signal.signal(number, handler)


def listen(settings: ServerSettings) -> socket.socket:
    """The socket, bound. Raises Unavailable where the address cannot be had."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # The protocol is named: asyncio sets TCP_NODELAY on none of which it is not told, and an answer
    # of head and body would wait for the other side's delayed acknowledgement, 40 ms.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((settings.host, settings.port))
        made.listen(BACKLOG)
    except OSError as error:
        made.close()
        raise Unavailable(
            f"cannot listen on {settings.host} port {settings.port}: {error.strerror}"
        ) from None
    return made


def check_tls(settings: ServerSettings) -> None:
    """Raises InvalidRequest where the certificate or its key cannot be used. Nobody is asked for a
    password: a service may start with no terminal."""
    if settings.certfile is None:
        return
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(settings.certfile, settings.keyfile, password=_no_password)
    except OSError as error:  # ssl.SSLError is one
        why = error.strerror if error.errno and not isinstance(error, ssl.SSLError) else error
        raise InvalidRequest(
            f"serve: {settings.certfile} and {settings.keyfile} are no certificate and its key: "
            f"{why}"
        ) from None


def _no_password() -> str:
    raise InvalidRequest("serve: the key has a password; give a key file without one")


def server(fp: Handle, settings: ServerSettings, clock: Clock, lines: Lines) -> Server:
    """The server for a store that is open; `run(sockets=[…])` serves until a signal."""
    checked(settings)
    app = Application(fp, settings, clock, lines)
    config = uvicorn.Config(
        app, loop="asyncio", http=bound_protocol(settings), ws="none", lifespan="off",
        log_config=None, access_log=False, server_header=False, date_header=True,
        proxy_headers=False, timeout_keep_alive=settings.idle_seconds,
        timeout_graceful_shutdown=settings.stop_seconds, backlog=BACKLOG,
        ssl_certfile=settings.certfile, ssl_keyfile=settings.keyfile,
    )  # fmt: skip
    return Server(config, app)


def watched_logs(lines: Lines) -> None:
    """What the library, uvicorn and the loop say goes out as lines of ours, and nowhere else."""
    for name in ("fencepost", "uvicorn", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers = [Shown(lines)]
        logger.propagate = False


def run(made: Server, listener: socket.socket) -> None:
    """Serve until a signal, and end as after a stop that was meant: without a trace."""
    with suppress(KeyboardInterrupt):
        made.run(sockets=[listener])


def close(fp: Handle, seconds: float) -> bool:
    """Close the store. False where that has to wait for a turn that another process keeps: nobody
    was told that what waits for it was done, and it ends with this process, undone."""
    closing = threading.Thread(target=fp.close, name="fencepost-closing", daemon=True)
    closing.start()
    closing.join(seconds)
    if closing.is_alive():  # what waits, or what it does, such as sealing a long journal
        try:
            fp.probe_turn(seconds)
        except Unavailable:
            return False
        closing.join()
    return True
