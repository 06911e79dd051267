"""One exchange with the service: a request out, an answer in, and where it broke if it did.

Kept connections are used again, the last one first, by the process that opened them only. Nothing
here decides whether to try again: `NotSent` and `Lost` say what is known.
"""

from __future__ import annotations

import os
import select
import ssl
from base64 import b64encode
from collections.abc import Mapping
from functools import partial
from hashlib import sha256
from http.client import (
    HTTPConnection,
    HTTPException,
    HTTPMessage,
    HTTPResponse,
    HTTPSConnection,
    RemoteDisconnected,
)
from io import BufferedReader, RawIOBase
from socket import socket
from typing import Any, NamedTuple

from fencepost.clock import SECOND, Clock
from fencepost.issues import InvalidRequest
from fencepost.remote.origin import Origin, Secret, is_loopback, refuse_plaintext

MAX_KEPT = 16
PART = 1 << 16
STALE = (RemoteDisconnected, ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError)


class Answer(NamedTuple):
    """What came back whole. `sent` and `received` are (steady, wall) in microseconds."""

    status: int
    headers: HTTPMessage
    body: bytes
    sent: tuple[int, int]
    received: tuple[int, int]


class NotSent(Exception):
    """Surely nothing reached the service. `final`: another try cannot help."""

    def __init__(self, message: str, *, final: bool = False) -> None:
        super().__init__(message)
        self.final = final


class Lost(Exception):
    """The request may have reached the service; its answer did not come, or not whole.

    `stale`: it was sent on a kept connection that gave nothing back, so that most likely the
    service had closed it long before.
    """

    def __init__(self, message: str, *, stale: bool = False, final: bool = False) -> None:
        super().__init__(message)
        self.stale = stale
        self.final = final


class Transport:
    """Connections to one origin. May be shared by threads, and used on in a forked child."""

    def __init__(
        self, origin: Origin, token: Secret | None, clock: Clock, *,
        cafile: str | None = None, allow_plaintext: bool = False, max_answer_bytes: int = 1 << 28,
    ) -> None:  # fmt: skip
        self.origin = origin
        self._token = token
        self._clock = clock
        self._guarded = token is not None and not allow_plaintext
        if self._guarded:
            refuse_plaintext(origin)
        self._max_answer_bytes = max_answer_bytes
        self._context = _context(cafile) if origin.secure else None
        # append and pop of a list are atomic: no lock that a fork could leave taken
        self._kept: list[HTTPConnection] = []
        self._pid = os.getpid()

    def exchange(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None,
        seconds: float, *, fresh: bool = False,
    ) -> Answer:  # fmt: skip
        """Send and hear, each step within `seconds`. `fresh`: on a connection of its own.
        Raises NotSent or Lost."""
        kept = None if fresh else self._take()
        connection = kept or self._connect(seconds)
        until = self._clock.steady() + round(seconds * SECOND)
        sent = (self._clock.steady(), self._clock.wall())
        response: HTTPResponse | None = None
        try:
            connection.sock.settimeout(seconds)
            self._put(connection, method, self.origin.prefix + target, headers, body)
            connection.response_class = partial(_Response, clock=self._clock, until=until)  # type: ignore[assignment]
            response = connection.getresponse()
            data = self._body(response, until)
            response.close()  # read1 does not tell it that all was read
        except (OSError, HTTPException, ValueError) as error:
            connection.close()
            stale = kept is not None and response is None and isinstance(error, STALE)
            raise Lost(f"the answer did not come: {_told(error)}", stale=stale) from None
        except BaseException:
            connection.close()
            raise
        received = (self._clock.steady(), self._clock.wall())
        self._give_back(connection, response)
        return Answer(response.status, response.headers, data, sent, received)

    def close(self) -> None:
        """Close the connections that are kept. The next exchange opens a new one."""
        while (connection := self._take()) is not None:
            connection.close()

    # -- connections

    def _take(self) -> HTTPConnection | None:
        if self._pid != os.getpid():  # a forked child: its parent goes on using those
            theirs, self._kept, self._pid = self._kept, [], os.getpid()
            for connection in theirs:
                connection.close()  # this process's descriptor; nothing is sent
        while True:
            try:
                connection = self._kept.pop()
            except IndexError:
                return None
            if silent(connection.sock):
                return connection
            connection.close()

    def _give_back(self, connection: HTTPConnection, response: HTTPResponse) -> None:
        if response.will_close or len(self._kept) >= MAX_KEPT or self._pid != os.getpid():
            connection.close()
        else:
            self._kept.append(connection)

    def _connect(self, seconds: float) -> HTTPConnection:
        host, port = self.origin.host, self.origin.port
        connection = (
            HTTPConnection(host, port, timeout=seconds) if self._context is None
            else HTTPSConnection(host, port, timeout=seconds, context=self._context)
        )  # fmt: skip
        try:
            connection.connect()
            self._look_where(connection)
        except (OSError, UnicodeError, HTTPException) as error:
            connection.close()
            final = isinstance(error, ssl.SSLCertVerificationError | UnicodeError)
            raise NotSent(f"no connection to {self.origin}: {_told(error)}", final=final) from None
        except BaseException:
            connection.close()
            raise
        return connection

    def _look_where(self, connection: HTTPConnection) -> None:
        """A name that says localhost and leads elsewhere gets no token in the clear."""
        if self._guarded and self._context is None:
            where = str(connection.sock.getpeername()[0])
            if not is_loopback(where):
                raise InvalidRequest(f"{self.origin} leads to another machine; use https")

    # -- bytes

    def _put(
        self, connection: HTTPConnection, method: str, target: str, headers: Mapping[str, str],
        body: bytes | None,
    ) -> None:  # fmt: skip
        connection.putrequest(method, target)
        for name, value in headers.items():
            connection.putheader(name, value)
        if self._token is not None:
            connection.putheader("Authorization", self._token.header())
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
            connection.putheader("Content-Digest", digest_of(body))
        try:
            connection.endheaders(body)
        except ConnectionError:
            if body is None or connection.sock is None:
                raise
            # refused before all of the body was read: the answer may be there already

    def _body(self, response: HTTPResponse, until: int) -> bytes:
        """All of the body: bounded, in time, as long as it says and with the digest it says."""
        framed = response.length is not None or response.chunked
        parts: list[bytes] = []
        size, longest = 0, self._max_answer_bytes
        if (response.length or 0) > longest:
            raise Lost(f"the answer is longer than {longest} bytes", final=True)
        while part := response.read1(PART):
            parts.append(part)
            size += len(part)
            if size > longest:
                raise Lost(f"the answer is longer than {longest} bytes", final=True)
            if self._clock.steady() > until:
                raise TimeoutError("timed out")
        data = b"".join(parts)
        digest = response.headers.get("Content-Digest")
        if response.length:
            raise Lost(f"the answer was cut off: {response.length} bytes are missing")
        if digest is None and not framed:
            raise Lost("the answer does not say where it ends")
        if digest is not None and digest_of(data) not in (d.strip() for d in digest.split(",")):
            raise Lost("the answer is not what its Content-Digest says")
        return data


class _Response(HTTPResponse):
    """An answer whose head has to be there in time too: by itself each line, each byte of it and
    each `100 Continue` would have the whole time anew."""

    def __init__(self, sock: socket, *args: Any, clock: Clock, until: int, **more: Any) -> None:
        super().__init__(sock, *args, **more)
        self.fp = BufferedReader(_InTime(self.fp.detach(), sock, clock, until))


class _InTime(RawIOBase):
    """What comes on a socket, until a moment of the steady clock."""

    def __init__(self, raw: RawIOBase, sock: socket, clock: Clock, until: int) -> None:
        self._raw, self._sock, self._clock, self._until = raw, sock, clock, until

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int | None:
        left = (self._until - self._clock.steady()) / SECOND
        if left <= 0:
            raise TimeoutError("timed out")
        self._sock.settimeout(left)
        return self._raw.readinto(into)

    def close(self) -> None:
        self._raw.close()
        super().close()


def silent(sock: socket) -> bool:
    """Whether nothing has come on a kept connection: neither its end nor what nobody asked for."""
    try:
        return not select.select([sock], [], [], 0)[0]
    except ValueError:  # more descriptors than select knows: the exchange will tell
        return True


def digest_of(body: bytes) -> str:
    """RFC 9530: SHA-256 of the content."""
    return f"sha-256=:{b64encode(sha256(body).digest()).decode()}:"


def _context(cafile: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=cafile)
    except (OSError, ValueError) as error:
        raise InvalidRequest(f"cafile: {cafile!r} cannot be used: {_told(error)}") from None


def _told(error: Exception) -> str:
    """What went wrong, in words that hold nothing of what was sent."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message}); name its CA by cafile"
    if isinstance(error, OSError):
        return error.strerror or str(error) or type(error).__name__
    return type(error).__name__
