"""Deliveries over HTTP: one POST, an answer within bounds, and how far the bytes got.

Connections are made to the address that was judged (`guard.py`), through no proxy, and kept. An
unfenced destination gets a new one each time: on a kept one nobody can tell whether a request that
found no answer was read.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from secrets import token_hex
from typing import NamedTuple

from fencepost.clock import SECOND, SystemClock
from fencepost.deliveries import answers, guard
from fencepost.deliveries.answers import Answer
from fencepost.deliveries.event import Event
from fencepost.deliveries.flights import LOST, Flight, Stale, Unheard, left, told, unheard
from fencepost.deliveries.hearing import Ear, Heard
from fencepost.deliveries.places import Greeting, Place, Try
from fencepost.receiver import signing
from fencepost.receiver.wire import EVENT_TYPE, HELLO_TYPE
from fencepost.remote.transport import silent
from fencepost.version import VERSION

CONNECT_SECONDS = 10.0
LAUNCHED_BYTES = 16 * 1024  # of a request: what a connection takes without waiting
MAX_GREETING_BYTES = 8 * 1024 * 1024
"""Of the answer to a hello, which lists effects with their data: whatever is said of deliveries."""
_CLOCK = SystemClock()


class Unsent(Exception):
    """Surely no byte of the request was sent."""


class Kept(NamedTuple):
    """An open connection, and the process that opened it."""

    sock: socket.socket
    process: int


class Exchange:
    """Requests to one URL. May be shared by threads."""

    def __init__(
        self, url: str, *, allow_private: bool, max_bytes: int, keep: int,
        headers: dict[str, str] | None = None, resolve: guard.Resolve = guard.resolve,
    ) -> None:  # fmt: skip
        self.target = guard.target_of(url)
        self._allow_private, self._max_bytes, self._keep = allow_private, max_bytes, keep
        self._resolve = resolve
        self._context = ssl.create_default_context() if self.target.secure else None
        more = _lines(headers or {})
        self._head = f"Host: {self.target.authority}\r\nUser-Agent: fencepost/{VERSION}\r\n{more}"
        self._kept: list[Kept] = []  # append and pop of a list are atomic
        self._closed = False

    def post(
        self, kind: str, body: bytes, signed: dict[str, str], seconds: float,
        max_bytes: int | None = None,
    ) -> Answer:  # fmt: skip
        """Send a body and hear the answer, of this length at most if it is not the usual one.
        Raises Unsent or Unheard."""
        return self._exchange(self._posted(kind, body, signed), seconds, max_bytes)

    def _posted(self, kind: str, body: bytes, signed: dict[str, str]) -> bytes:
        head = (
            f"POST {self.target.path} HTTP/1.1\r\n{self._head}Content-Type: {kind}\r\n"
            f"Content-Length: {len(body)}\r\n{_lines(signed)}\r\n"
        )
        return head.encode("ascii") + body

    def get(self, path: str, signed: dict[str, str], seconds: float) -> Answer:
        """Ask for a path of the same host. Raises Unsent or Unheard."""
        head = f"GET {path} HTTP/1.1\r\n{self._head}{_lines(signed)}\r\n"
        return self._exchange(head.encode("ascii"), seconds)

    def send(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes, seconds: float
    ) -> Answer:
        """A request of another's making, to a path of the same host. Raises Unsent or Unheard."""
        head = (
            f"{method} {path} HTTP/1.1\r\n{self._head}{_lines(headers)}"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        return self._exchange(head.encode("ascii") + body, seconds)

    def close(self) -> None:
        """Close what is kept, and keep nothing more."""
        self._closed = True
        while self._kept:
            with suppress(IndexError):  # another thread has it
                self._kept.pop().sock.close()

    def _exchange(self, request: bytes, seconds: float, max_bytes: int | None = None) -> Answer:
        until = _CLOCK.steady() + round(seconds * SECOND)
        most = self._max_bytes if max_bytes is None else max_bytes
        kept = self._take()
        if kept is not None:
            try:
                return self._once(kept, request, until, most, fresh=False)
            except Unheard as error:
                if not error.stale:
                    raise
        return self._once(self._connect(until), request, until, most, fresh=True)

    def _once(
        self, sock: socket.socket, request: bytes, until: int, most: int, *, fresh: bool
    ) -> Answer:
        try:
            sock.settimeout(left(until))
            broken = _put(sock, request, lambda: left(until))
            heard = Ear(sock, lambda: left(until), most).answer()
        except LOST as error:
            sock.close()
            raise unheard(error, fresh=fresh) from None
        except BaseException:
            sock.close()
            raise
        return self.ended(sock, heard, broken=broken)

    def launch(
        self, kind: str, body: bytes, signed: dict[str, str], seconds: float
    ) -> Flight | None:
        """Post on a kept connection and do not wait for the answer. None where there is none, or
        where it cannot be looked at without waiting (TLS). Raises Unheard."""
        kept = None if self._context is not None else self._take()
        if kept is None:
            return None
        request = self._posted(kind, body, signed)
        until = _CLOCK.steady() + round(seconds * SECOND)
        try:
            kept.settimeout(0)
            broken = _put(kept, request, lambda: left(until))
            kept.settimeout(0)
        except LOST as error:
            kept.close()
            raise unheard(error, fresh=False) from None
        except BaseException:
            kept.close()
            raise
        return Flight(self, kept, until, self._max_bytes, broken)

    @property
    def ready(self) -> int:
        """About how many could be launched now."""
        return 0 if self._context is not None else len(self._kept)

    def ended(self, sock: socket.socket, heard: Heard, *, broken: bool) -> Answer:
        """The answer is whole: its connection is kept for the next, or closed."""
        if heard.keep and not broken and len(self._kept) < self._keep:
            self._kept.append(Kept(sock, os.getpid()))
            if self._closed:  # meanwhile: nobody else will
                self.close()
        else:
            sock.close()
        return Answer(heard.status, heard.headers, heard.body)

    # -- connections

    def _take(self) -> socket.socket | None:
        while self._kept:
            try:
                kept = self._kept.pop()
            except IndexError:
                return None
            if kept.process == os.getpid() and silent(kept.sock):
                return kept.sock
            kept.sock.close()
        return None

    def _connect(self, until: int) -> socket.socket:
        """A connection to the very address that was judged. Raises Unsent."""
        try:
            addresses = guard.permitted(
                self.target, allow_private=self._allow_private, resolve=self._resolve
            )
            return self._secured(self._reached(addresses, until), until)
        except guard.Refused as error:
            raise Unsent(f"nothing was sent: {error}") from None
        except (OSError, ValueError) as error:  # ssl.SSLError is one; UnicodeError is the other
            raise Unsent(f"no connection: {told(error)}") from None

    def _reached(self, addresses: list[str], until: int) -> socket.socket:
        last: OSError = OSError("there is no address")
        for address in addresses:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
            try:
                sock.settimeout(min(CONNECT_SECONDS, left(until)))
                sock.connect((address, self.target.port))
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except OSError as error:
                sock.close()
                last = error
            else:
                return sock
        raise last

    def _secured(self, sock: socket.socket, until: int) -> socket.socket:
        if self._context is None:
            return sock
        try:
            sock.settimeout(min(CONNECT_SECONDS, left(until)))
            return self._context.wrap_socket(sock, server_hostname=self.target.host)
        except BaseException:
            sock.close()
            raise


class HttpSender:
    """Delivers to one URL. See `places.Sender`."""

    def __init__(
        self, place: Place, now: Callable[[], float], resolve: guard.Resolve = guard.resolve
    ) -> None:
        options = place.options
        self.greets = place.kind == "fenced"
        self._place, self._now = place, now
        self._keys = [signing.secret_bytes(secret) for secret in place.secrets]
        self._timeout = float(options["timeout_seconds"])
        self._exchange = Exchange(
            place.address, allow_private=options["allow_private"],
            max_bytes=options["max_response_bytes"], headers=options["headers"], resolve=resolve,
            keep=0 if place.kind == "unfenced" else options["concurrency"],
        )  # fmt: skip

    def send(self, event: Event, seconds: float) -> Try:
        """One try. The same bytes at each, but for the time and the signature over it."""
        place = self._place
        try:
            answer = self._post(EVENT_TYPE, event.id, event.body, seconds)
        except Unsent as error:
            return Try("unsent", str(error))
        except Unheard as error:
            return Try("unanswered", str(error))
        return answers.understood(place.kind, event, answer, self._keys, self._now())

    @property
    def ready(self) -> int:
        """See `together.Launcher`."""
        return self._exchange.ready

    def launch(self, event: Event, seconds: float) -> Flight | None:
        """See `together.Launcher`."""
        if len(event.body) > LAUNCHED_BYTES:
            return None
        seconds = min(seconds, self._timeout)
        signed = self._signed(event.id, event.body)
        try:
            return self._exchange.launch(EVENT_TYPE, event.body, signed, seconds)
        except Unheard as error:
            if error.stale:
                return None
            raise

    def heard(self, event: Event, flight: Flight, *, wait: bool) -> Try | None:
        """See `together.Launcher`."""
        try:
            answer = flight.rest() if wait else flight.hear()
        except Unheard as error:
            if error.stale:
                raise Stale from None
            return Try("unanswered", str(error))
        if answer is None:
            return None
        return answers.understood(self._place.kind, event, answer, self._keys, self._now())

    def greet(self, body: bytes, seconds: float) -> Greeting:
        """A hello, and what the receiver says to it."""
        message_id = f"hello_{token_hex(12)}"
        try:
            answer = self._post(HELLO_TYPE, message_id, body, seconds, MAX_GREETING_BYTES)
        except (Unsent, Unheard) as error:
            return Greeting(0, None, str(error))
        return answers.greeted(answer, message_id, self._keys, self._now())

    def close(self) -> None:
        self._exchange.close()

    def _post(
        self, kind: str, message_id: str, body: bytes, seconds: float, max_bytes: int | None = None
    ) -> Answer:
        signed = self._signed(message_id, body)
        return self._exchange.post(kind, body, signed, min(seconds, self._timeout), max_bytes)

    def _signed(self, message_id: str, body: bytes) -> dict[str, str]:
        if not self._keys:
            return {}
        return signing.sign(self._keys, message_id, int(self._now()), body)


def _lines(headers: Mapping[str, str]) -> str:
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items())


def _put(sock: socket.socket, request: bytes, left: Callable[[], float]) -> bool:
    """Send it. True where it was refused before all of it was read: the answer may be there."""
    try:
        try:
            sent = sock.send(request)
        except BlockingIOError:
            sent = 0
        if sent < len(request):
            sock.settimeout(left())
            sock.sendall(request[sent:])
    except ConnectionError:
        return True
    return False
