"""The HTTP wire as docs/http.md has it: which path a command takes, what an answer says, one
exchange on one connection. The standard library alone, so that the copied folder can use it."""

from __future__ import annotations

import json
import os
import re
import ssl
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from select import select
from time import sleep
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit
from zlib import crc32

from .cases.store import Json

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:@-]{0,63}")
HEADER_KEY = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]{0,998}[\x21-\x7e])?")
NOBODY = "00000000-0000-7000-8000-000000000000"
ON_A_TASK = frozenset(
    [
        "renew", "submit", "complete", "fail", "release", "cancel", "requeue", "resolve", "review",
        "import", "erase",
    ]
)  # fmt: skip
VERBS = frozenset(
    [
        *ON_A_TASK, "enqueue", "claim", "sweep", "purge", "queue.set", "scope.set_policy",
        "scope.revoke", "clock.reset", "token.create", "token.revoke", "destination.set",
        "destination.secret", "destination.advance",
    ]
)  # fmt: skip
# Where a body goes of which no verb can be read: to a verb that the caller's kind may send.
UNREADABLE = {"worker": "renew", "dispatcher": "renew", "human": "review", "producer": "cancel"}
DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
PROBLEM, JSON = "application/problem+json", "application/json"
LOOPBACK = ("localhost", "127.0.0.1", "::1")
PATIENCE = 20  # times that a 429 is waited for


class Lost(Exception):
    """The answer did not come, or not whole: nobody here knows what was done."""


class Answer(NamedTuple):
    """What came back whole. Header names are in small letters."""

    status: int
    headers: dict[str, str]
    body: bytes


class Origin(NamedTuple):
    """Where the service is."""

    secure: bool
    host: str
    port: int
    prefix: str

    @classmethod
    def of(cls, url: str) -> Origin:
        """Raises ValueError for what is no URL of a service, with the reason."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!a} is no URL: give http://HOST:PORT or https://HOST")
        if parts.query or parts.fragment or parts.username is not None:
            raise ValueError(f"{url!a}: give scheme, host and port, perhaps a path, and no more")
        secure = parts.scheme == "https"
        if not secure and parts.hostname not in LOOPBACK:
            raise ValueError(f"tokens would cross the network to {parts.hostname} in the clear; "
                             "use https")  # fmt: skip
        port = parts.port or (443 if secure else 80)
        return cls(secure, parts.hostname, port, parts.path.rstrip("/"))


class Wire:
    """One connection to a service, kept as long as both sides like. For one thread."""

    def __init__(self, origin: Origin, seconds: float) -> None:
        self.origin, self.seconds = origin, seconds
        self._kept: HTTPConnection | None = None

    def ask(
        self, method: str, target: str, token: str, body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:  # fmt: skip
        """The answer. One that says "too often, nothing was done" is waited for. Raises Lost."""
        given = {"Authorization": f"Bearer {token}", **(headers or {})}
        for _ in range(PATIENCE):
            answer = self._once(method, target, body, given)
            if answer.status != 429:
                break
            sleep(min(float(answer.headers.get("retry-after", "1")), 10.0))
        return answer

    def _once(self, method: str, target: str, body: bytes | None, given: dict[str, str]) -> Answer:
        connection = self._connection()
        try:
            connection.request(method, self.origin.prefix + target, body, given)
            response = connection.getresponse()
            data = response.read()
            headers = {name.lower(): value for name, value in response.getheaders()}
            # a head that was cut off is read as one that ends there
            if not response.chunked and headers.get("content-length") != str(len(data)):
                raise Lost("the answer does not say where it ends")
            digest = headers.get("content-digest", "")
            if digest.startswith("sha-256=") and digest != digest_of(data):
                raise Lost("the answer is not what its Content-Digest says")
        except (OSError, HTTPException, ValueError, Lost) as error:
            self.close()
            told = str(error) or type(error).__name__
            raise Lost(f"the answer did not come: {told}") from None
        if response.will_close:
            self.close()
        return Answer(response.status, headers, data)

    def _connection(self) -> HTTPConnection:
        """The kept one, if the service has not closed it; else a new one."""
        kept = self._kept
        if kept is not None and kept.sock is not None:
            if not select([kept.sock], [], [], 0)[0]:
                return kept
            self.close()
        origin = self.origin
        if origin.secure:
            context = ssl.create_default_context()
            self._kept = HTTPSConnection(
                origin.host, origin.port, timeout=self.seconds, context=context
            )
        else:
            self._kept = HTTPConnection(origin.host, origin.port, timeout=self.seconds)
        return self._kept

    def close(self) -> None:
        """Close the connection; the next question opens another."""
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.close()


def digest_of(data: bytes) -> str:
    """Content-Digest (RFC 9530)."""
    return f"sha-256=:{b64encode(sha256(data).digest()).decode()}:"


# -- a command on its way


class Post(NamedTuple):
    """A command as a request: the bytes of its body are the command's own, or hold them as a
    slice where the key can stand in no header."""

    target: str
    body: bytes
    headers: dict[str, str]


def post_of(scope: str, kind: str, body: str, key: str | None) -> Post:
    """The request that carries these bytes under this key."""
    raw = body.encode("utf-8", "surrogatepass")
    headers = {"Content-Type": JSON, "Content-Digest": digest_of(raw)}
    if key is None:
        return Post(path_of(scope, kind, body), raw, headers)
    if HEADER_KEY.fullmatch(key):
        quoted = '"' + key.replace("\\", "\\\\").replace('"', '\\"') + '"'
        return Post(path_of(scope, kind, body), raw, {**headers, "Idempotency-Key": quoted})
    text = json.dumps(key).encode()
    batch = b'{"commands":[{"command":' + raw + b',"key":' + text + b"}]}"
    headers["Content-Digest"] = digest_of(batch)
    return Post(f"/v1/{scope}/batch", batch, headers)


def path_of(scope: str, kind: str, body: str) -> str:
    """The path that agrees with a command. Where something in the body can stand in no path, what
    stands there in its place is read after the body has been refused."""
    try:
        members = json.loads(body)
    except (ValueError, RecursionError):
        members = None
    if not isinstance(members, dict):
        members = {}
    verb = members.get("verb")
    if not isinstance(verb, str) or verb not in VERBS:
        verb = UNREADABLE.get(kind, "sweep")
    root = f"/v1/{scope}"
    if verb in ON_A_TASK:
        return f"{root}/tasks/{_name(members.get('task_id'), NOBODY)}/{verb}"
    if verb == "enqueue":
        return f"{root}/queues/{_name(members.get('queue'), 'none')}/tasks"
    if verb == "claim":
        queues = members.get("queues")
        one = _name(queues[0], "") if isinstance(queues, list) and len(queues) == 1 else ""
        return f"{root}/queues/{one}/claims" if one else f"{root}/claims"
    return f"{root}/{verb}"


def _name(value: Any, otherwise: str) -> str:
    good = isinstance(value, str) and NAME.fullmatch(value)
    return quote(value, safe="") if good else otherwise


# -- what an answer says


def value_of(answer: Answer) -> Any:
    """What was read; of a refusal its outcome. Raises Lost for what is no answer of the wire."""
    if media_of(answer) == PROBLEM:
        return refusal_of(answer)
    if answer.status != 200 or media_of(answer) != JSON:
        raise Lost(f"status {answer.status} with {media_of(answer) or 'no type'} is no answer: "
                   f"{answer.body[:80]!r}")  # fmt: skip
    return _loaded(answer)


def outcome_of(answer: Answer) -> Json:
    """The outcome of one command, or of a batch of one."""
    told = value_of(answer)
    if media_of(answer) == PROBLEM:
        return told  # type: ignore[no-any-return]  # an outcome already
    replayed = answer.headers.get("idempotent-replayed") == "true"
    if "outcomes" in told:
        replayed = 0 in told["replayed"]
        (told,) = told["outcomes"]
    return {**told, "replayed": replayed}


def refusal_of(answer: Answer) -> Json:
    """Problem details as the outcome that they tell of."""
    told = _loaded(answer)
    if told.get("status") != answer.status or told.get("code") != (told.get("issues") or [None])[0]:
        raise Lost(f"a problem that does not agree with itself: {answer.body[:200]!r}")
    return {
        "status": told["outcome"], "issues": told["issues"], "message": told["detail"],
        "receipt": None, "task_ids": [], "leases": [], "replayed": False, "facts": told["facts"],
    }  # fmt: skip


def media_of(answer: Answer) -> str:
    """The type of the answer's content."""
    return answer.headers.get("content-type", "").partition(";")[0].strip()


def _loaded(answer: Answer) -> Any:
    try:
        return json.loads(answer.body)
    except (ValueError, RecursionError):
        raise Lost(f"status {answer.status} with a body that is no JSON") from None


# -- tokens


def new_token() -> str:
    """`fp_`, 256 random bits in 43 base62 characters, and their CRC-32 in 6."""
    secret = "fp_" + _base62(int.from_bytes(os.urandom(32), "big"), 43)
    return secret + _base62(crc32(secret.encode()), 6)


def _base62(number: int, width: int) -> str:
    digits = []
    for _ in range(width):
        number, place = divmod(number, 62)
        digits.append(DIGITS[place])
    return "".join(reversed(digits))
