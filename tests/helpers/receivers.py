"""Receivers for the tests of deliveries: one that is scripted and hostile, one made of the kit."""

from __future__ import annotations

import contextlib
import socket
import sqlite3
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fencepost.receiver.receiver import Receiver
from fencepost.receiver.sqlite import SqliteStore

EFFECTS = "create table if not exists effect (operation text, body blob, n integer primary key)"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


class Asked(NamedTuple):
    """A request as it came."""

    line: str
    headers: dict[str, str]
    body: bytes


class Reply(NamedTuple):
    """What is sent back, a piece after another with a pause between them, and whether the
    connection is closed then."""

    data: bytes
    close: bool = False
    piece: int = 1 << 20
    pause: float = 0.0


Answer = Callable[[Asked], "Reply | bytes | None"]


def http(status: int, body: bytes = b"", **headers: str) -> bytes:
    """The bytes of an answer."""
    told = {
        "content-length": str(len(body)),
        **{n.replace("_", "-"): v for n, v in headers.items()},
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in told.items() if value)
    return f"HTTP/1.1 {status} Whatever\r\n{lines}\r\n".encode() + body


class Web:
    """A server in threads. `answer` makes a reply of a request; None closes the connection without
    one. `greeting`: what is sent, or done, before anything is read."""

    def __init__(
        self, answer: Answer, *, context: ssl.SSLContext | None = None,
        before: Callable[[socket.socket], bool] = lambda sock: True,
    ) -> None:  # fmt: skip
        self.answer, self._context, self._before = answer, context, before
        self.asked: list[Asked] = []
        self.connections = 0
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listener: socket.socket | None = None
        self.port = 0

    def __enter__(self) -> Web:
        self.listen()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def listen(self) -> None:
        """Begin to take connections, on the same port as before."""
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        listener.listen(64)
        self.port = listener.getsockname()[1]
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def close(self) -> None:
        """Take no more connections, and end those that there are."""
        listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        with self._lock:
            left, self._open = self._open, set()
        for sock in left:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    @property
    def url(self) -> str:
        return f"http{'s' if self._context else ''}://127.0.0.1:{self.port}/hook"

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            with self._lock:
                self.connections += 1
                self._open.add(sock)
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError):
            if self._before(sock):
                if self._context is not None:
                    sock = self._context.wrap_socket(sock, server_side=True)
                self._talk(sock)
        with self._lock:
            self._open.discard(sock)
        sock.close()

    def _talk(self, sock: socket.socket) -> None:
        file = sock.makefile("rb")
        while (asked := _read(file)) is not None:
            with self._lock:
                self.asked.append(asked)
            reply = self.answer(asked)
            if reply is None:
                return
            if isinstance(reply, bytes):
                reply = Reply(reply)
            for start in range(0, len(reply.data), reply.piece):
                sock.sendall(reply.data[start : start + reply.piece])
                if reply.pause:
                    time.sleep(reply.pause)
            if reply.close:
                return


def _read(file: Any) -> Asked | None:
    line = file.readline().decode("latin-1").rstrip()
    if not line:
        return None
    headers: dict[str, str] = {}
    while (each := file.readline().decode("latin-1").rstrip()) != "":
        name, _, value = each.partition(":")
        headers[name.lower()] = value.strip()
    return Asked(line, headers, file.read(int(headers.get("content-length", 0))))


class Kit:
    """The receiver kit behind `Web`: a table of effects in a SQLite file, in one transaction with
    the receipt."""

    def __init__(self, path: Any, secrets: list[str] | None = None, **options: Any) -> None:
        with contextlib.closing(sqlite3.connect(path)) as own:
            own.execute(EFFECTS)
        store = SqliteStore(str(path))
        self.secrets = secrets or [SECRET]
        self.receiver = Receiver(store, self._effect, lambda: self.secrets, **options)
        self.path = path
        self.effect: Callable[[Any], None] = lambda event: None

    def _effect(self, connection: Any, event: Any) -> None:
        self.effect(event)
        connection.execute(
            "insert into effect (operation, body) values (?, ?)", (event.operation, event.data)
        )

    def answer(self, asked: Asked) -> bytes:
        """The kit's answer, as bytes."""
        return answer_bytes(self.receiver.handle(asked.headers, asked.body))

    def effects(self) -> list[tuple[str, bytes]]:
        """What was done, in its order."""
        with contextlib.closing(sqlite3.connect(self.path)) as own:
            return own.execute("select operation, body from effect order by n").fetchall()

    def close(self) -> None:
        self.receiver.close()


def answer_bytes(answer: Any) -> bytes:
    """An answer of the kit's as HTTP."""
    headers: Mapping[str, str] = answer.headers
    return http(answer.status, answer.body, **{n.replace("-", "_"): v for n, v in headers.items()})
