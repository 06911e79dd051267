"""A small HTTP server for one receiver: one thread, keep-alive, nothing but POST.

The transaction runs in the loop's own thread: whatever has come in meanwhile shares the next one.
So effects have to be short, as those of `python -m fencepost.receiver` are.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from http import HTTPStatus

from . import answers
from .answers import Answer
from .desk import MOST, Job
from .receiver import Receiver

MAX_HEAD_BYTES = 16 * 1024
MAX_CONNECTIONS = 1_000
IDLE_SECONDS = 60.0
"""A connection without a whole request for so long is closed."""

_REQUEST = re.compile(rb"([A-Z]{1,16}) (/[!-~]{0,2047}) HTTP/1\.([01])")
_NAME = re.compile(rb"[!#-'*+\-.^-`|~0-9A-Za-z]+")
_VALUE = re.compile(rb"[\t -~\x80-\xff]*")
_LENGTH = re.compile(r"[0-9]{1,15}")

Told = Callable[[Answer], object]


class Server:
    """Answers deliveries on a port. `told` hears of every answer to a signed request."""

    def __init__(self, receiver: Receiver, told: Told = lambda answer: None) -> None:
        self.receiver, self._told = receiver, told
        self._waiting: list[tuple[Connection, str | None, Job]] = []
        self._connections: set[Connection] = set()
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen; the port that it got."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Connection(self), host, port, backlog=1024)
        found: int = self._server.sockets[0].getsockname()[1]
        return found

    async def stop(self) -> None:
        """Answer what has come, then close everything."""
        if self._server is not None:
            self._server.close()
        while self._waiting:
            await asyncio.sleep(0)
        for connection in list(self._connections):
            connection.end()
        await asyncio.sleep(0)
        self.receiver.close()

    def take(self, connection: Connection, headers: dict[str, str], body: bytes) -> None:
        """A whole request has come."""
        message_id, found = self.receiver.admit(headers, body)
        if isinstance(found, Answer):
            self._answer(connection, message_id, found)
            return
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._carry_out)
        self._waiting.append((connection, message_id, found))

    def _carry_out(self) -> None:
        taken, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._carry_out)
        found = self.receiver.desk.carry_out([job for *_, job in taken])
        for (connection, message_id, _), answer in zip(taken, found, strict=True):
            self._answer(connection, message_id, answer)

    def _answer(self, connection: Connection, message_id: str | None, answer: Answer) -> None:
        connection.answer(self.receiver.seal(message_id, answer))
        if message_id is not None:
            self._told(answer)

    @property
    def full(self) -> bool:
        """Whether there are more connections than are served."""
        return len(self._connections) > MAX_CONNECTIONS

    def opened(self, connection: Connection) -> None:
        """A connection that is to be closed with the server."""
        self._connections.add(connection)

    def closed(self, connection: Connection) -> None:
        """It has been."""
        self._connections.discard(connection)


class Connection(asyncio.Protocol):
    """One client: its requests are answered one after another."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._headers: dict[str, str] | None = None
        self._length = 0
        self._answering = self._reading = self._over = False
        self._keep = True
        self._since: float | None = None  # when it began to wait for a request
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody has connected."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._server.opened(self)
        self._rest()
        if self._server.full:
            self.end()

    def connection_lost(self, error: Exception | None) -> None:
        """He is gone; what he asked for is done all the same."""
        self._transport = None
        self._rest(over=True)
        if self._timer is not None:
            self._timer.cancel()
        self._server.closed(self)

    def data_received(self, data: bytes) -> None:
        """More bytes. What comes while a request is being answered waits, and not much of it."""
        self._buffer += data
        if not self._answering:
            self._read_on()
        elif len(self._buffer) > MAX_HEAD_BYTES and self._transport is not None:
            self._transport.pause_reading()

    def end(self) -> None:
        """Close, once what was written is sent."""
        if self._transport is not None:
            self._transport.close()

    def answer(self, answer: Answer) -> None:
        """Write an answer, and go on to the next request."""
        self._answering = False
        if self._transport is None:
            return
        lines = [f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}"]
        lines += [f"{name}: {value}" for name, value in answer.headers.items()]
        lines.append(f"content-length: {len(answer.body)}")
        if not self._keep:
            lines.append("connection: close")
        head = "\r\n".join(lines).encode("latin-1")
        self._transport.write(head + b"\r\n\r\n" + answer.body)
        if not self._keep:
            self._over = True
            self._transport.close()
            return
        self._transport.resume_reading()
        self._rest()
        if self._buffer and not self._reading:
            self._read_on()

    def _read_on(self) -> None:
        """Take requests out of what has come while they are whole and answered at once."""
        self._reading = True
        while not self._over and not self._answering and self._read():
            pass
        self._reading = False

    def _read(self) -> bool:
        """Take one request, if it is whole."""
        if self._headers is None and not self._head():
            return False
        if len(self._buffer) < self._length or self._headers is None:
            return False
        body = bytes(self._buffer[: self._length])
        del self._buffer[: self._length]
        headers, self._headers, self._answering = self._headers, None, True
        self._rest(over=True)
        self._server.take(self, headers, body)
        return True

    def _head(self) -> bool:
        """Read the head, if it is all there. What cannot be read is answered and cut."""
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0 or end > MAX_HEAD_BYTES:
            if len(self._buffer) > MAX_HEAD_BYTES:
                self._refuse("malformed", "the head is too long")
            return False
        first, *lines = bytes(self._buffer[:end]).split(b"\r\n")
        del self._buffer[: end + 4]
        request = _REQUEST.fullmatch(first)
        headers = _headers(lines)
        if request is None or headers is None:
            self._refuse("malformed", "no HTTP request that can be read here")
            return False
        method, _, minor = request.groups()
        self._keep = minor == b"1" and headers.get("connection", "").lower() != "close"
        length = headers.get("content-length", "0")
        if "transfer-encoding" in headers or not _LENGTH.fullmatch(length):
            self._refuse("malformed", "the body's length has to be told by content-length")
        elif method != b"POST":
            self._refuse("method_not_allowed", "")
        elif int(length) > self._server.receiver.max_body_bytes:
            self._refuse("too_large", f"at most {self._server.receiver.max_body_bytes:,} bytes")
        else:
            self._headers, self._length = headers, int(length)
            if headers.get("expect", "").lower() == "100-continue" and self._transport:
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            return True
        return False

    def _refuse(self, code: str, detail: str) -> None:
        """Where the next request would begin can no longer be told, so this is the last one."""
        self._keep = False
        self.answer(self._server.receiver.seal(None, answers.problem(code, detail)))

    def _rest(self, over: bool = False) -> None:
        """Wait for a request, or no more. A timer for each would cost more than to look at the
        clock."""
        loop = asyncio.get_running_loop()
        self._since = None if over else loop.time()
        if self._timer is None and not over:
            self._timer = loop.call_later(IDLE_SECONDS, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._since is None:
            return  # a request is being answered; then it waits again
        loop = asyncio.get_running_loop()
        left = self._since + IDLE_SECONDS - loop.time()
        if left <= 0:
            self.end()
        else:
            self._timer = loop.call_later(left, self._look)


def _headers(lines: list[bytes]) -> dict[str, str] | None:
    """Headers by lower-case name; one that stands twice has both values. None: not readable."""
    found: dict[str, str] = {}
    for line in lines:
        raw, colon, rest = line.partition(b":")
        if not colon or _NAME.fullmatch(raw) is None or _VALUE.fullmatch(rest) is None:
            return None
        name, value = raw.decode().lower(), rest.strip(b" \t").decode("latin-1")
        found[name] = f"{found[name]}, {value}" if name in found else value
    return found
