"""A network between us and PostgreSQL that loses what a test names. It understands just enough of
the protocol to know where a turn of the client ends: at a Sync or at a simple query.

`Proxy(server)` listens on a port of its own; `proxy.url(database)` leads through it. Turns are
counted from `arm` on, over all connections; at the one that the plan names its fault is done, once.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Self

import psycopg

from helpers.postgres import Server

SYNC, QUERY, READY, KEY = b"S", b"Q", b"Z", b"K"
# What can be done to one turn. `cut before`: the server never hears of it. `cut after`: it is
# carried out, and the answer is lost. `terminate`: the server ends the session before it hears of
# it. `hold`: it is carried out, and the answer never comes, though nobody hangs up.
FAULTS = ("cut before", "cut after", "terminate", "hold")


class Turn:
    """What the client said up to a Sync or a query."""

    def __init__(self, number: int, text: bytes) -> None:
        self.number, self.text = number, text

    @property
    def commits(self) -> bool:
        return self.text.endswith(b"commit\0")


Plan = Callable[[Turn], str | None]


def nothing(turn: Turn) -> str | None:
    """A plan that leaves all as it is."""
    return None


class Proxy:
    """The network, as a context manager."""

    def __init__(self, server: Server) -> None:
        assert server.tcp
        self.server = server
        self.turns = 0
        self.done: list[tuple[str, int]] = []
        self._plan: Plan = nothing
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        self._links: list[_Link] = []
        self._thread = threading.Thread(target=self._listen, name="pg-proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for link in self._links:
            link.end()
        self._thread.join(10)

    def url(self, database: str = "postgres") -> str:
        return (
            f"postgresql://postgres@127.0.0.1:{self.port}/{database}"
            "?sslmode=disable&gssencmode=disable"
        )

    def arm(self, plan: Plan) -> None:
        """Count turns anew, and do what the plan says of the first that it says something of."""
        with self._lock:
            self._plan, self.turns, self.done = plan, 0, []

    def at(self, number: int, fault: str) -> None:
        """Arm it for the turn of this number (from 1)."""
        self.arm(lambda turn: fault if turn.number == number else None)

    def at_commit(self, fault: str) -> None:
        """Arm it for the next COMMIT."""
        self.arm(lambda turn: fault if turn.commits else None)

    def fault(self, text: bytes) -> str | None:
        with self._lock:
            self.turns += 1
            found = self._plan(Turn(self.turns, text))
            if found is not None:
                self.done.append((found, self.turns))
                self._plan = nothing
            return found

    def cut(self) -> None:
        """Every connection that leads through it now, and none that is made because of it."""
        for link in list(self._links):
            link.cut()

    def terminate(self, pid: int) -> None:
        """End this session at the server; returns when it is gone."""
        with psycopg.connect(self.server.url(), autocommit=True) as admin:
            admin.execute("select pg_terminate_backend(%s, 20000)", (pid,))

    def _listen(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                upstream = socket.create_connection(("127.0.0.1", self.server.port), 20)
            except OSError:
                client.close()
                continue
            upstream.settimeout(None)
            link = _Link(self, client, upstream)
            self._links.append(link)
            link.start()


class _Link:
    """One connection and its two directions."""

    def __init__(self, proxy: Proxy, client: socket.socket, upstream: socket.socket) -> None:
        self.proxy, self.client, self.upstream = proxy, client, upstream
        for sock in (client, upstream):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.pid = 0
        self.swallowing = self.cut_at_ready = False

    def start(self) -> None:
        self._threads = [threading.Thread(target=way) for way in (self._up, self._down)]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Hang up, and give all back."""
        self.cut()
        for thread in self._threads:
            thread.join(20)
        self.client.close()
        self.upstream.close()

    def cut(self) -> None:
        """Hang up on both sides."""
        for sock in (self.client, self.upstream):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _up(self) -> None:
        """Client to server, a turn at a time."""
        with suppress(OSError, EOFError):
            length = _read(self.client, 4)
            self.upstream.sendall(length + _read(self.client, struct.unpack("!I", length)[0] - 4))
            turn = b""
            while True:
                kind, message = _message(self.client)
                turn += message
                if kind in (SYNC, QUERY):
                    if not self._passed(turn):
                        break
                    turn = b""
                elif kind == b"X":
                    self.upstream.sendall(turn)
                    break
        self.cut()

    def _passed(self, turn: bytes) -> bool:
        fault = self.proxy.fault(turn)
        if fault == "cut before":
            return False
        if fault == "terminate":
            self.proxy.terminate(self.pid)
        self.swallowing = fault in ("cut after", "hold")
        self.cut_at_ready = fault == "cut after"
        with suppress(OSError):  # whoever was terminated does not hear it
            self.upstream.sendall(turn)
        return True

    def _down(self) -> None:
        """Server to client."""
        with suppress(OSError, EOFError):
            while True:
                kind, message = _message(self.upstream)
                if kind == KEY:
                    (self.pid,) = struct.unpack("!I", message[5:9])
                if not self.swallowing:
                    self.client.sendall(message)
                elif kind == READY and self.cut_at_ready:
                    break
        if not self.swallowing or self.cut_at_ready:
            self.cut()


def _message(sock: socket.socket) -> tuple[bytes, bytes]:
    head = _read(sock, 5)
    return head[:1], head + _read(sock, struct.unpack("!I", head[1:])[0] - 4)


def _read(sock: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        part = sock.recv(size - len(found))
        if not part:
            raise EOFError
        found += part
    return found
