"""Reads one HTTP/1.1 answer from a socket, within a time and a size for all of it.

Strict, since it is a stranger's: what two readers could understand in two ways is no answer. It
costs a third of what `http.client` takes for the same, which was most of a delivery.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple, Protocol

MAX_HEAD_BYTES = 32 * 1024
MAX_LINE_BYTES = 256  # of a chunk's size
PART = 1 << 16
STATUS = re.compile(r"HTTP/1\.([01]) ([1-5][0-9]{2})(?: [^\r\n]*)?")
NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
CHUNK = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?")
LENGTH = re.compile(r"[0-9]{1,15}")


class Cut(Exception):
    """The connection ended before the answer did. `early`: before its first byte."""

    def __init__(self, told: str, *, early: bool = False) -> None:
        super().__init__(told)
        self.early = early


class Strange(Exception):
    """It is no answer that can be read, or too long."""


class Heard(NamedTuple):
    """A whole answer. `keep`: the connection can be used again."""

    status: int
    headers: dict[str, str]
    body: bytes
    keep: bool


class Wire(Protocol):
    """What an ear needs of a socket."""

    def settimeout(self, value: float, /) -> None: ...
    def recv(self, size: int, /) -> bytes: ...


class Ear:
    """What comes on one socket, after what has come already. `left` gives the seconds that are
    left, and raises TimeoutError."""

    def __init__(
        self, sock: Wire, left: Callable[[], float], max_bytes: int, got: bytes = b""
    ) -> None:
        self._sock, self._left, self._max_bytes = sock, left, max_bytes
        self._got = got
        self._any = bool(got)

    def answer(self) -> Heard:
        """The answer. Raises Cut, Strange, TimeoutError and OSError."""
        while True:
            status, headers, old = self._head()
            if status >= 200:
                break
            if status == 101:
                raise Strange("it would speak another protocol")
        connection = headers.get("connection", "").lower()
        keep = "close" not in connection and not (old and "keep-alive" not in connection)
        if status in (204, 304):
            return Heard(status, headers, b"", keep and not self._got)
        coding = headers.get("transfer-encoding")
        if coding is not None:
            if coding.lower() != "chunked" or "content-length" in headers or old:
                raise Strange("its end cannot be told")
            body = self._chunks()
        elif (length := headers.get("content-length")) is not None:
            if LENGTH.fullmatch(length) is None:
                raise Strange("its length is no number")
            body = self._exactly(self._bounded(int(length)))
        else:
            body, keep = self._all(), False
        return Heard(status, headers, body, keep and not self._got)

    def _head(self) -> tuple[int, dict[str, str], bool]:
        while (end := self._got.find(b"\r\n\r\n")) < 0:
            if len(self._got) > MAX_HEAD_BYTES:
                raise Strange("its head is too long")
            self._more()
        lines = self._got[:end].decode("latin-1").split("\r\n")
        self._got = self._got[end + 4 :]
        first = STATUS.fullmatch(lines[0])
        if first is None:
            raise Strange("it is no HTTP/1.1")
        headers: dict[str, str] = {}
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            if not colon or NAME.fullmatch(name) is None:
                raise Strange("a line of its head cannot be read")
            name, value = name.lower(), value.strip(" \t")
            if name in headers and name in ("content-length", "transfer-encoding"):
                raise Strange("it gives its length twice")
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        return int(first[2]), headers, first[1] == "0"

    def _more(self) -> None:
        self._sock.settimeout(self._left())
        part = self._sock.recv(PART)
        if not part:
            raise Cut("it was cut off", early=not self._any)
        self._any = True
        self._got += part

    def _bounded(self, size: int) -> int:
        if size > self._max_bytes:
            raise Strange(f"it is longer than {self._max_bytes} bytes")
        return size

    def _exactly(self, size: int) -> bytes:
        while len(self._got) < size:
            self._more()
        body, self._got = self._got[:size], self._got[size:]
        return body

    def _line(self) -> bytes:
        while (end := self._got.find(b"\r\n")) < 0:
            if len(self._got) > MAX_LINE_BYTES:
                raise Strange("a line in it is too long")
            self._more()
        line, self._got = self._got[:end], self._got[end + 2 :]
        return line

    def _chunks(self) -> bytes:
        parts: list[bytes] = []
        size = 0
        while True:
            head = CHUNK.fullmatch(self._line())
            if head is None:
                raise Strange("a chunk of it cannot be read")
            length = int(head[1], 16)
            size = self._bounded(size + length)
            if length == 0:
                break
            parts.append(self._exactly(length))
            if self._exactly(2) != b"\r\n":
                raise Strange("a chunk of it does not end")
        for _ in range(32):
            if not self._line():
                return b"".join(parts)
        raise Strange("its trailer does not end")

    def _all(self) -> bytes:
        """Up to the end of the connection: how an answer without a length ends."""
        while True:
            self._bounded(len(self._got))
            self._sock.settimeout(self._left())
            part = self._sock.recv(PART)
            if not part:
                body, self._got = self._got, b""
                return body
            self._got += part
