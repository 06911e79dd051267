"""Requests as bytes, and all that comes back on a connection."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from helpers.web import Served

TASKS = "/v1/default/queues/q/tasks"
ENQUEUE = b'{"verb":"enqueue","queue":"q","tasks":[{"payload":1}]}'
CHUNKS = b"%x\r\n" % len(ENQUEUE) + ENQUEUE + b"\r\n0\r\n\r\n"
BYTEWISE = b"".join(b"1\r\n%c\r\n" % byte for byte in ENQUEUE) + b"0\r\n\r\n"


class Heard(NamedTuple):
    """All that came back on one connection."""

    statuses: list[int]
    codes: list[str]
    ended: bool
    raw: bytes


def heard(web: Served, data: bytes, *, then_end: bool = False) -> Heard:
    """Send these bytes and hear until the service ends the connection, or is silent for 3 s."""
    raw, ended = b"", False
    with socket.create_connection(("127.0.0.1", web.port)) as link:
        link.settimeout(3)
        link.sendall(data)
        if then_end:
            link.shutdown(socket.SHUT_WR)
        try:
            while part := link.recv(65_536):
                raw += part
            ended = True
        except TimeoutError:
            pass
        except ConnectionError:
            ended = True
    statuses = [int(found) for found in re.findall(rb"HTTP/1\.1 (\d\d\d) ", raw)]
    codes = [found.decode() for found in re.findall(rb'"code":"(\w+)"', raw)]
    return Heard(statuses, codes, ended, raw)


def request(
    *headers: str, method: str = "POST", target: str = TASKS, version: str = "HTTP/1.1",
    body: bytes = ENQUEUE, length: str | None = "right", host: bool = True, close: bool = True,
) -> bytes:  # fmt: skip
    lines = [f"{method} {target} {version}", *(["Host: x"] if host else [])]
    lines += ["Content-Type: application/json", *headers, *(["Connection: close"] if close else [])]
    if length is not None:
        lines.append(f"Content-Length: {len(body) if length == 'right' else length}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def chunked(body: bytes, *headers: str) -> bytes:
    return request("Transfer-Encoding: chunked", *headers, body=body, length=None)


def coded(coding: str) -> bytes:
    return request(f"Transfer-Encoding: {coding}", body=CHUNKS, length=None)


@contextmanager
def nothing_done(web: Served) -> Iterator[None]:
    before = web.fp.about()["entries"]
    yield
    assert web.fp.about()["entries"] == before, "it left an entry"
