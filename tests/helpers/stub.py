"""A small service of the tests' own, on bare sockets: it speaks the wire of docs/http-client.md
over a local handle, and can do to each exchange what networks do.

A fault is a function of one exchange; the next one in `script` is used up by each request. What is
not scripted is answered as it should be.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from fencepost.clock import SECOND, Clock, SystemClock, to_rfc3339
from fencepost.commands import Request
from fencepost.handle import Handle
from fencepost.issues import ISSUES, FencepostError, Refused
from fencepost.model import Outcome

PAGE = 2
JSON, PROBLEM = "application/json", "application/problem+json"


@dataclass
class Seen:
    """A request as it came. `connection` counts from 0."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int

    @property
    def path(self) -> list[str]:
        return [unquote(part) for part in urlsplit(self.target).path.strip("/").split("/")]

    @property
    def query(self) -> dict[str, str]:
        return {name: given[0] for name, given in parse_qs(urlsplit(self.target).query).items()}


@dataclass
class Exchange:
    """One request and the socket that its answer goes to."""

    stub: Stub
    seen: Seen
    socket: socket.socket

    def answer(self) -> bytes:
        """Carry it out; the whole answer, as bytes."""
        return self.stub.answer(self.seen)

    def send(self, raw: bytes) -> None:
        self.socket.sendall(raw)

    def reset(self) -> None:
        """End the connection with a reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


Fault = Callable[[Exchange], bool]
"""Returns whether the connection goes on."""


@dataclass
class Stub:
    """Listens on loopback. `offset` (seconds) is how far its clock is ahead."""

    fp: Handle | None = None
    clock: Clock = field(default_factory=SystemClock)
    offset: float = 0.0
    extra: dict[str, str] = field(default_factory=dict)
    script: deque[Fault] = field(default_factory=deque)
    seen: list[Seen] = field(default_factory=list)
    default: Fault | None = None

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self.connections = 0
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join(10)
        for each in list(self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)

    def wrap(self, connection: socket.socket) -> socket.socket:
        """For a stub that speaks TLS."""
        return connection

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            number, self.connections = self.connections, self.connections + 1
            thread = threading.Thread(target=self._serve, args=(connection, number), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, raw: socket.socket, number: int) -> None:
        self._open.append(raw)
        with raw, suppress(OSError, ValueError), self.wrap(raw) as connection:
            file = connection.makefile("rb")
            with file:
                while (seen := _read(file, number)) is not None:
                    self.seen.append(seen)
                    fault = self.script.popleft() if self.script else self.default or right
                    if not fault(Exchange(self, seen, connection)):
                        return

    # -- what it answers

    def raw(
        self, status: int, body: bytes, media: str = JSON, headers: dict[str, str] | None = None
    ) -> bytes:
        """The bytes of an answer."""
        now = self.clock.wall() + round(self.offset * SECOND)
        digest = b64encode(sha256(body).digest()).decode()
        lines = {
            "Content-Type": media, "Content-Length": str(len(body)),
            "Content-Digest": f"sha-256=:{digest}:", "Fencepost-Time": to_rfc3339(now),
            **self.extra, **(headers or {}),
        }  # fmt: skip
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        return f"HTTP/1.1 {status} X\r\n{head}\r\n".encode() + body

    def told(self, value: Any, **headers: str) -> bytes:
        return self.raw(200, json.dumps(value).encode(), headers=headers)

    def problem(self, outcome: Outcome, **headers: str) -> bytes:
        code = outcome.issues[0]
        status = ISSUES[code].http if code in ISSUES else 409
        given = outcome.to_json()
        body = {
            "type": f"/problems/{code}", "title": code, "status": status, "code": code,
            "detail": outcome.message, "issues": given["issues"], "outcome": outcome.status,
            "facts": given["facts"], "retryable": False,
        }  # fmt: skip
        return self.raw(status, json.dumps(body).encode(), PROBLEM, headers)

    def answer(self, seen: Seen) -> bytes:
        if seen.path == ["livez"]:
            return self.raw(200, b"ok\n", "text/plain")
        assert self.fp is not None
        try:
            if seen.method == "GET":
                return self.told(_look(self.fp, seen))
            return self._commands(self.fp, seen)
        except FencepostError as error:
            known = error.outcome if isinstance(error, Refused) else None
            return self.problem(known or Outcome("failed", (error.code,), str(error)))

    def _commands(self, fp: Handle, seen: Seen) -> bytes:
        if seen.path[-1] == "seal":
            return self.told({"checkpoint": fp.seal().text().decode()})
        if seen.path[-1] == "batch":
            return self._batch(fp, seen)
        key = seen.headers.get("idempotency-key", "").strip('"') or None
        (outcome,) = fp.execute([Request.read(seen.body, key)])
        if not outcome.accepted:
            return self.problem(outcome)
        replayed = {"Idempotent-Replayed": "true"} if outcome.replayed else {}
        return self.told(_bare(outcome), **replayed)

    def _batch(self, fp: Handle, seen: Seen) -> bytes:
        given = json.loads(seen.body)["commands"]
        canonical = [json.dumps(each["command"], sort_keys=True, separators=(",", ":"),
                                ensure_ascii=False).encode() for each in given]  # fmt: skip
        assert all(raw in seen.body for raw in canonical), "tests send canonical commands"
        requests = [
            Request.read(raw, each.get("key")) for raw, each in zip(canonical, given, strict=True)
        ]
        outcomes = fp.execute(requests)
        replayed = [place for place, outcome in enumerate(outcomes) if outcome.replayed]
        return self.told(
            {"status": "x", "outcomes": [_bare(o) for o in outcomes], "replayed": replayed}
        )


def _bare(outcome: Outcome) -> dict[str, Any]:
    given = outcome.to_json()
    del given["replayed"]
    return given


def _read(file: Any, number: int) -> Seen | None:
    first = file.readline()
    if not first:
        return None
    method, target, _ = first.decode().split()
    headers = {}
    while (line := file.readline().decode("latin-1").strip()) != "":
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    return Seen(method, target, headers, file.read(int(headers.get("content-length", 0))), number)


def _look(fp: Handle, seen: Seen) -> Any:
    rest, query = seen.path[2:], seen.query
    match rest:
        case []:
            scope = fp.scope()
            return {"scope": scope.scope, "policy_version": scope.policy_version,
                    "revoked": scope.revoked, "retain_seconds": scope.retain_seconds}  # fmt: skip
        case ["stats"]:
            found = fp.stats()
            rows = [{**r, "since": r["since"] and to_rfc3339(r["since"])} for r in found["queues"]]
            return {"scope": found["scope"], "now": to_rfc3339(found["now"]), "queues": rows}
        case ["about"]:
            return fp.about()
        case ["tasks", task_id]:
            return fp.task(task_id).to_json()
        case ["queues", queue, "keys", key]:
            return fp.task_by_key(queue, key).to_json()
        case ["queues", queue]:
            return next(q for q in _queues(fp) if q["queue"] == queue)
        case ["receipts", key]:
            return fp.receipt(key, actor=query.get("actor")).to_json()
        case ["journal", "entries", number, "proof"]:
            return fp.prove(int(number)).to_json()
        case ["journal", "consistency"]:
            return fp.prove_consistency(int(query["size"])).to_json()
        case _:
            return _paged(fp, rest, query)


def _queues(fp: Handle) -> list[dict[str, Any]]:
    return [{"queue": row.queue, "is_destination": row.is_destination,
             "settings": row.settings.to_json()} for row in fp.queue_rows()]  # fmt: skip


def _paged(fp: Handle, rest: list[str], query: dict[str, str]) -> Any:
    match rest:
        case ["tasks"]:
            name, found = "tasks", fp.tasks(query.get("queue"), state=query.get("state"))
        case ["tasks", task_id, "history"]:
            name, found = "entries", fp.history(task_id)
        case ["tasks", task_id, what]:
            name, found = what, getattr(fp, what)(task_id)
        case ["journal", "entries"]:
            name, found = "entries", fp.entries(int(query.get("after", 0)))
        case ["journal", "checkpoints"]:
            name, found = "checkpoints", (c.text().decode() for c in fp.checkpoints())
        case ["queues"]:
            name, found = "queues", _queues(fp)
        case ["tokens"]:
            name, found = "tokens", fp.tokens()
        case ["writers"]:
            name, found = "writers", fp.writers()
        case _:
            raise ValueError(f"the stub knows no {rest}")
    items = [item.to_json() if hasattr(item, "to_json") else item for item in found]
    start = int(query.get("page_token", 0))
    more = str(start + PAGE) if start + PAGE < len(items) else ""
    return {name: items[start : start + PAGE], "next_page_token": more}


# -- faults


def right(exchange: Exchange) -> bool:
    """Answered as it should be."""
    exchange.send(exchange.answer())
    return True


def lost(exchange: Exchange) -> bool:
    """Carried out, and the connection ends without a byte."""
    exchange.answer()
    return False


def unheard(exchange: Exchange) -> bool:
    """Read, and not carried out."""
    return False


def reset(exchange: Exchange) -> bool:
    """Carried out, and the connection is reset."""
    exchange.answer()
    exchange.reset()
    return False


def cut(place: float) -> Fault:
    """Carried out; of the answer only this part arrives (below 1: a share, else bytes)."""

    def fault(exchange: Exchange) -> bool:
        raw = exchange.answer()
        exchange.send(raw[: int(len(raw) * place) if place < 1 else int(place)])
        return False

    return fault


def doubled(exchange: Exchange) -> bool:
    """Carried out twice, as where a proxy repeats it."""
    exchange.answer()
    exchange.send(exchange.answer())
    return True


def hung_up(exchange: Exchange) -> bool:
    """Answered; then the connection ends, which the answer did not say."""
    exchange.send(exchange.answer())
    return False


def spoilt(exchange: Exchange) -> bool:
    """Carried out; the body arrives with one bit turned."""
    raw = bytearray(exchange.answer())
    raw[-2] ^= 1
    exchange.send(bytes(raw))
    return True


def saying(status: int, body: bytes = b"", media: str = "text/html", **headers: str) -> Fault:
    """Something else answers, and nothing is carried out."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}

    def fault(exchange: Exchange) -> bool:
        exchange.send(exchange.stub.raw(status, body, media, names))
        return True

    return fault


def refusing(code: str, **headers: str) -> Fault:
    """A refusal of this code; nothing is carried out."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}

    def fault(exchange: Exchange) -> bool:
        exchange.send(exchange.stub.problem(Outcome("failed", (code,), "not now"), **names))
        return True

    return fault


@contextmanager
def serving(fp: Handle | None = None, **options: Any) -> Iterator[Stub]:
    """A stub over the handle, by its clock."""
    if fp is not None:
        options.setdefault("clock", fp.clock)
    stub = Stub(fp, **options)
    try:
        yield stub
    finally:
        stub.close()
