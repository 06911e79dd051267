"""What has come in: the headers, the body, the key. Read strictly, and nothing is repaired."""

from __future__ import annotations

import asyncio
import re
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from hashlib import sha256, sha512
from typing import Any
from urllib.parse import parse_qsl

from fencepost.model import Caller
from fencepost.server.answers import Fault

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

ONCE = frozenset(
    [
        b"authorization", b"content-digest", b"content-encoding", b"content-length",
        b"content-type", b"host", b"idempotency-key", b"if-match", b"if-none-match",
        b"last-event-id",
    ]
)  # fmt: skip
CLOSE = ((b"connection", b"close"),)
MAX_KEY_HEADER = 1_024
QUOTED = re.compile(r'"((?:[ !#-\[\]-~]|\\["\\])*)"[ \t]*(?:;.*)?')
ALGORITHMS = {"sha-256": sha256, "sha-512": sha512}
DIGEST = re.compile(r"\s*([a-z0-9*-]+)\s*=\s*:([A-Za-z0-9+/=]*):\s*")
REVISION = re.compile(r'"r(0|[1-9][0-9]{0,14})"')


class Asked:
    """One request. `caller` is set once it has been recognised."""

    __slots__ = ("caller", "headers", "held", "params", "query", "scope")

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.params: dict[str, str] = scope.get("path_params", {})
        self.headers = _headers(scope["headers"])
        _framed(scope, self.headers)
        self.query: dict[str, str] | None = None
        self.caller: Caller | None = None
        self.held = 0

    def header(self, name: bytes) -> str | None:
        """A header's value, stripped; None where it was not sent."""
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1").strip()

    def ask(self, *names: str) -> dict[str, str]:
        """The query's parameters; Fault for one that is not known here, or stands twice."""
        raw = self.scope["query_string"]
        if not raw:
            return {}
        found: dict[str, str] = {}
        try:
            pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, strict_parsing=True,
                              errors="strict", max_num_fields=20)  # fmt: skip
        except (ValueError, UnicodeDecodeError):
            raise Fault(400, "the query cannot be read: write it as name=value&…") from None
        for name, value in pairs:
            if name not in names:
                known = f"known here: {', '.join(names)}" if names else "this path takes none"
                raise Fault(400, f"{name[:40]!a} is no parameter of this path; {known}")
            if name in found:
                raise Fault(400, f"the parameter {name} stands twice")
            found[name] = value
        return found


def _headers(pairs: list[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    for name, value in pairs:
        if name in found and name in ONCE:
            raise Fault(400, f"the header {name.decode()} stands twice")
        found[name] = value
    return found


def _framed(scope: Scope, headers: dict[bytes, bytes]) -> None:
    """What two readers of one connection could read differently is refused (RFC 9112 §3.2, 6.1)."""
    version = scope.get("http_version", "1.1")
    if version not in ("1.0", "1.1"):
        raise Fault(400, f"HTTP/{version} is not spoken here, HTTP/1.1 is", headers=CLOSE)
    if version == "1.1" and b"host" not in headers:
        raise Fault(400, "the header host is missing", headers=CLOSE)
    if headers.get(b"transfer-encoding", b"chunked").strip().lower() != b"chunked":
        raise Fault(400, "send Transfer-Encoding: chunked, or none", headers=CLOSE)


def whole(text: str | None, name: str, low: int, high: int, default: int) -> int:
    """A whole number of the query between `low` and `high`."""
    if text is None:
        return default
    if not re.fullmatch(r"-?(0|[1-9][0-9]{0,14})", text) or not low <= int(text) <= high:
        raise Fault(400, f"{name}: give a whole number from {low} to {high}")
    return int(text)


# -- the command's bytes and what travels beside them


def idempotency_key(asked: Asked) -> str | None:
    """The key, sent bare or as a structured-field string; its parameters are ignored."""
    text = asked.header(b"idempotency-key")
    if text is None:
        return None
    if len(text) > MAX_KEY_HEADER:
        raise Fault(400, f"Idempotency-Key: longer than {MAX_KEY_HEADER} characters")
    if not text.startswith('"'):
        return text
    quoted = QUOTED.fullmatch(text)
    if quoted is None:
        raise Fault(400, 'Idempotency-Key: a quoted key ends with its quote: "key"')
    return re.sub(r'\\(["\\])', r"\1", quoted[1])


def bound_revision(asked: Asked) -> int | None:
    """The revision that `If-Match` restates. None where it was not sent."""
    text = asked.header(b"if-match")
    if text is None:
        return None
    match = REVISION.fullmatch(text)
    if match is None:
        raise Fault(400, 'If-Match: give the revision as one strong tag, like "r3"')
    return int(match[1])


def check_media(asked: Asked) -> None:
    """Only plain JSON: bytes that were packed or of another type could mean two things."""
    media = (asked.header(b"content-type") or "").split(";")
    if media[0].strip().lower() != "application/json" or any(
        part.strip().lower() not in ("", "charset=utf-8") for part in media[1:]
    ):
        raise Fault(415, "send Content-Type: application/json", headers=CLOSE)
    encoding = (asked.header(b"content-encoding") or "identity").lower()
    if encoding != "identity":
        raise Fault(415, "send the body as it is, without Content-Encoding", headers=CLOSE)


async def body(
    asked: Asked, receive: Receive, limit: int, seconds: float, hold: Callable[[Asked, int], None]
) -> bytes:
    """The body's bytes, within `limit` and `seconds`, agreeing with Content-Digest if sent.

    `hold` is told of bytes as they come, and raises where there is no room for them."""
    length = asked.header(b"content-length")
    if length is not None and (not length.isdigit() or len(length) > 15 or int(length) > limit):
        raise Fault(413, f"the body is larger than {limit} bytes", headers=CLOSE)
    try:
        async with asyncio.timeout(seconds):
            data = await _collect(receive, limit, partial(hold, asked))
    except TimeoutError:
        raise Fault(408, f"the body did not come within {seconds:g} s", headers=CLOSE) from None
    if not data and asked.header(b"upgrade") is not None:
        raise Fault(400, "HTTP/1.1 alone is spoken here: send no Upgrade, with which the body is "
                    "not read (curl: --http1.1)", headers=CLOSE)  # fmt: skip
    check_digest(asked, data)
    return data


async def _collect(receive: Receive, limit: int, hold: Callable[[int], None]) -> bytes:
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise Fault(400, "the connection ended before the body did", headers=CLOSE)
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > limit:  # before the next is waited for
            raise Fault(413, f"the body is larger than {limit} bytes", headers=CLOSE)
        hold(len(parts[-1]))
        more = message.get("more_body", False)
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def gone(receive: Receive) -> None:
    """Until the other side has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


def check_digest(asked: Asked, data: bytes) -> None:
    """RFC 9530: each digest of a known algorithm must be that of the body."""
    text = asked.header(b"content-digest")
    if text is None:
        return
    for member in text.split(","):
        match = DIGEST.fullmatch(member)
        if match is None:
            raise Fault(400, "Content-Digest: write it as sha-256=:base64:")
        made = ALGORITHMS.get(match[1])
        if made is None:
            continue
        try:
            agrees = b64decode(match[2], validate=True) == made(data).digest()
        except NotBase64:
            agrees = False
        if not agrees:
            raise Fault(
                400, f"the body is not what its Content-Digest ({match[1]}) says; send it again"
            )
