"""How a receiver is reached: over HTTP, or as a program that takes a request a line on stdio."""

from __future__ import annotations

import base64
import hmac
import http.client
import json
import os
import shlex
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from .adapters import Broken, Program, Unusable, compact

SECRET = "FENCEPOST_RECEIVER_SECRET"
"""A variable in which a program behind stdio finds the secret."""


class Answer(NamedTuple):
    """What a receiver answers; headers by lower-case name."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Target(Protocol):
    """A receiver that can be posted to, by several threads at once."""

    name: str

    def post(self, headers: Mapping[str, str], body: bytes) -> Answer: ...
    def close(self) -> None: ...


class Url:
    """A receiver behind a URL: a connection for each request."""

    def __init__(self, url: str, seconds: float) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
            raise Unusable(f"receiver:URL is http:// or https:// and a host, not {url!a}")
        self.name, self._seconds = f"{parts.scheme}://{parts.netloc}", seconds
        self._host, self._port, self._tls = parts.hostname, parts.port, parts.scheme == "https"
        self._path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")

    def post(self, headers: Mapping[str, str], body: bytes) -> Answer:
        """One request. Raises Broken where there is no answer."""
        kind = http.client.HTTPSConnection if self._tls else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=self._seconds)
        try:
            connection.request("POST", self._path, body, dict(headers))
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, found, answer.read())
        except (OSError, http.client.HTTPException) as error:
            raise Broken(f"{self.name} did not answer: {type(error).__name__}: {error}") from None
        finally:
            connection.close()

    def close(self) -> None:
        """There is nothing to let go of."""


class Stdio:
    """A program: `{"headers": …, "body": …}` a line in, `{"status": …, "headers": …, "body": …}` a
    line out. One at a time: where the cases want several at once they follow one another."""

    def __init__(self, name: str, argv: Sequence[str], secret: str, seconds: float) -> None:
        self.name, self._seconds = name, seconds
        self._lock = threading.Lock()
        self._program = Program(argv, {**os.environ, SECRET: secret})

    def post(self, headers: Mapping[str, str], body: bytes) -> Answer:
        """One line each way."""
        line = compact({"headers": dict(headers), "body": body.decode()})
        with self._lock:
            try:
                told = self._program.exchange(line + "\n", self._seconds)
            except Empty:
                raise Broken(f"{self.name} did not answer within {self._seconds:g} s") from None
        with suppress(ValueError, TypeError, KeyError, AttributeError):
            found = json.loads(told)
            lowered = {str(name).lower(): str(value) for name, value in found["headers"].items()}
            return Answer(int(found["status"]), lowered, found["body"].encode())
        raise Broken(f"not an answer: {told[:200]!a}")

    def close(self) -> None:
        """End the program."""
        self._program.end()


class Answers(Protocol):
    """What the references are."""

    def answer(self, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]: ...


class InProcess:
    """A reference without a wire. One request at a time, as it is one program."""

    def __init__(self, name: str, made: Answers) -> None:
        self.name, self._made, self._lock = name, made, threading.Lock()

    def post(self, headers: Mapping[str, str], body: bytes) -> Answer:
        """One request."""
        with self._lock:
            return Answer(*self._made.answer(dict(headers), body))

    def close(self) -> None:
        """There is nothing to let go of."""


def reach(target: str, secret: str, seconds: float) -> Target:
    """The receiver that a command line names after `receiver:`. Raises Unusable."""
    kind, _, rest = target.partition(":")
    if kind in ("http", "https"):
        return Url(target, seconds)
    if target == "reference" or kind == "broken":
        from .receiver_broken import BROKEN
        from .receiver_reference import Reference

        if rest and rest not in BROKEN:
            raise Unusable(f"there is no broken receiver {rest!a}; there are {', '.join(BROKEN)}")
        return InProcess(target, (BROKEN[rest] if rest else Reference)(secret))
    argv = shlex.split(rest)
    if kind != "stdio" or not argv:
        known = "receiver:URL, receiver:reference, receiver:broken:NAME and receiver:stdio:COMMAND"
        raise Unusable(f"receiver:{target} is no receiver; there are {known}")
    return Stdio(argv[0], argv, secret, seconds)


def key_of(secret: str) -> bytes:
    """The key of `whsec_…`. Raises Unusable, without a word of it."""
    try:
        key = base64.b64decode(secret.strip().removeprefix("whsec_"), validate=True)
    except ValueError:
        key = b""
    if not 24 <= len(key) <= 64:
        raise Unusable("the secret is not whsec_ and the base64 of 24 to 64 bytes")
    return key


def signature(key: bytes, message_id: str, timestamp: str, body: bytes) -> str:
    """Standard Webhooks, version 1."""
    content = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(key, content, "sha256")).decode()


def read_secret(name: str | None) -> str:
    """The first secret of a file: a secret a line, the newest first. Raises Unusable."""
    if name is None:
        raise Unusable("receiver: needs --secret-file, with the secret that the receiver has too")
    try:
        lines = [line.strip() for line in Path(name).read_text(encoding="ascii").splitlines()]
    except (OSError, UnicodeError) as error:
        raise Unusable(f"the secret cannot be read: {error}") from None
    found = [line for line in lines if line and not line.startswith("#")]
    if not found:
        raise Unusable(f"{name} holds no secret")
    return found[0]
