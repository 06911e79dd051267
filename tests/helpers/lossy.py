"""A network that loses answers: a proxy that cuts, repeats and delays requests and answers at the
byte that a plan names. It understands just enough HTTP to know where a message ends.

`Lossy(port, plan)` listens on a port of its own. The plan is asked once a request and tells the
fault to do to it, or None. Places in a message are fractions of it, or names (`PLACES`).
"""

from __future__ import annotations

import random
import re
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, Self

END_OF_HEAD = b"\r\n\r\n"
LENGTH = re.compile(rb"(?i)\r\ncontent-length:[ \t]*([0-9]+)")
PART = 1 << 16
PIECE = 7  # bytes of an answer that comes in pieces
# A name: where that is in a message of so many bytes, of which so many are its head.
PLACES: dict[str, Callable[[int, int], int]] = {
    "before": lambda head, whole: 0,
    "first byte": lambda head, whole: 1,
    "in the head": lambda head, whole: head // 2,
    "at the end of the head": lambda head, whole: head,
    "in the body": lambda head, whole: (head + whole) // 2,
    "before the last byte": lambda head, whole: whole - 1,
}


class Fault(NamedTuple):
    """What is done to one request or its answer.

    `request cut`: only the bytes before `at` get through. `request twice`: it gets through twice,
    and the second answer is told. `request late`: the client hears nothing, and the request gets
    through behind the next one, before that is answered. `answer cut`: only the bytes before `at`
    come back. `answer twice`: it comes back twice. `answer in pieces`: a few bytes at a time.
    """

    what: str
    at: str | float = 0.0
    reset: bool = True  # how a connection ends that is cut: RST, or as if all had been said

    @property
    def delivered(self) -> bool:
        """Whether the service gets the whole request."""
        return self.what != "request cut"

    def place(self, message: bytes) -> int:
        """The byte before which this message is cut."""
        if isinstance(self.at, str):
            return PLACES[self.at](head_of(message), len(message))
        return int(self.at * len(message))


WHOLE = ("request twice", "request late", "answer twice", "answer in pieces")
TABLE = [
    *(Fault("request cut", place, reset) for place in PLACES for reset in (True, False)),
    *(Fault("answer cut", place, reset) for place in PLACES for reset in (True, False)),
    *map(Fault, WHOLE),
]
Plan = Callable[[bytes], Fault | None]


def head_of(message: bytes) -> int:
    """The number of bytes of its head, the empty line included."""
    return message.index(END_OF_HEAD) + len(END_OF_HEAD)


def seeded(seed: int, share: float) -> Plan:
    """A plan that hurts this share of all requests, at any byte."""
    chance = random.Random(seed)

    def plan(request: bytes) -> Fault | None:
        if chance.random() >= share:
            return None
        what = chance.choice(("request cut", "answer cut", *WHOLE))
        return Fault(what, chance.random(), chance.random() < 0.5)

    return plan


class Peer:
    """One side of the proxy: whole messages in, bytes out."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._come = b""

    def message(self) -> bytes:
        """The next whole message; empty where the other side has ended."""
        while END_OF_HEAD not in self._come:
            if not self._more():
                return b""
        head = head_of(self._come)
        found = LENGTH.search(self._come, 0, head)
        size = head + (int(found[1]) if found else 0)
        while len(self._come) < size:
            if not self._more():
                return b""
        message, self._come = self._come[:size], self._come[size:]
        return message

    def _more(self) -> bool:
        try:
            part = self.sock.recv(PART)
        except OSError:
            return False
        self._come += part
        return bool(part)

    def send(self, data: bytes) -> None:
        with suppress(OSError):
            self.sock.sendall(data)

    def end(self, *, reset: bool = False) -> None:
        """Close; with `reset` the other side hears a RST and not an end."""
        with suppress(OSError):
            if reset:
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.sock.close()


class Lossy:
    """The proxy, as a context manager. `quiet` lets everything through, `undelivered_only` does
    only what keeps a request from the service whole: for what must not be sent twice."""

    def __init__(self, upstream: int, plan: Plan) -> None:
        self.upstream, self.plan = upstream, plan
        self.quiet = self.undelivered_only = False
        self.done: Counter[str] = Counter()
        self._held: list[bytes] = []
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        self._peers: set[Peer] = set()
        self._closed = False
        self._thread = threading.Thread(target=self._listen, name="lossy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for peer in list(self._peers):
            with suppress(OSError):
                peer.sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)

    def _listen(self) -> None:
        while not self._closed:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            peer = Peer(sock)
            self._peers.add(peer)
            threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, client: Peer) -> None:
        try:
            while request := client.message():
                if not self._pass_on(client, request):
                    return
        finally:
            client.end()
            self._peers.discard(client)

    def _fault(self, request: bytes) -> Fault | None:
        with self._lock:
            fault = None if self.quiet else self.plan(request)
        if fault is None or (self.undelivered_only and fault.delivered):
            return None
        self.done[fault.what] += 1
        return fault

    def _pass_on(self, client: Peer, request: bytes) -> bool:
        """One request. Whether the connection stays."""
        fault = self._fault(request)
        if fault is None:
            return self._answer(client, self._told(request))
        if fault.what == "request cut":
            self._cut(request[: fault.place(request)], fault.reset)
        elif fault.what == "request late":
            self._held.append(request)
        else:
            answer = self._told(request)
            if fault.what == "request twice":
                return self._answer(client, self._told(request))
            if fault.what == "answer twice":
                return self._answer(client, answer + answer)
            if fault.what == "answer in pieces":
                for place in range(0, len(answer), PIECE):
                    client.send(answer[place : place + PIECE])
                return bool(answer)
            client.send(answer[: fault.place(answer)] if answer else b"")
        client.end(reset=fault.reset)
        return False

    def _answer(self, client: Peer, answer: bytes) -> bool:
        client.send(answer)
        return bool(answer)

    def _told(self, request: bytes) -> bytes:
        """What the service answers; empty if it does not. Then what was held back gets through."""
        answer = self._exchange(request)
        with self._lock:
            held, self._held = self._held, []
        for late in held:
            self._exchange(late)
        return answer

    def _exchange(self, request: bytes) -> bytes:
        try:
            service = Peer(socket.create_connection(("127.0.0.1", self.upstream), 30))
        except OSError:
            return b""
        service.send(request)
        answer = service.message()
        service.end()
        return answer

    def _cut(self, part: bytes, reset: bool) -> None:
        if not part:
            return
        with suppress(OSError):
            service = Peer(socket.create_connection(("127.0.0.1", self.upstream), 30))
            service.send(part)
            service.end(reset=reset)
