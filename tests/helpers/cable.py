"""A cable between clients and a service on this machine, which can be cut: bytes are passed on as
they are, whatever they mean. See lossy.py for what loses single messages."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from typing import Self

PART = 1 << 16


class Cable:
    """A context manager; clients connect to `port`. What is cut stays so until `mend`."""

    def __init__(self, upstream: int) -> None:
        self.upstream = upstream
        self._flows = threading.Event()
        self._flows.set()
        self._refuses = self._closed = False
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._ends: set[socket.socket] = set()

    def __enter__(self) -> Self:
        threading.Thread(target=self._listen, name="cable", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._flows.set()
        self._end_all()

    def cut(self, *, silent: bool) -> None:
        """Nothing gets through, either way. `silent`: nobody is told, and what was on its way waits
        as TCP keeps it; else every connection ends, and new ones end at once."""
        self._flows.clear()
        if not silent:
            self._refuses = True
            self._end_all()

    def mend(self) -> None:
        """All is as before, what was held back first."""
        self._refuses = False
        self._flows.set()

    def _end_all(self) -> None:
        with self._lock:
            ends = list(self._ends)
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _listen(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._join, args=(client,), name="cable", daemon=True).start()

    def _join(self, client: socket.socket) -> None:
        """One connection, until either side ends it."""
        if self._refuses or self._closed:
            _reset(client)
            return
        self._flows.wait()
        try:
            service = socket.create_connection(("127.0.0.1", self.upstream), 10)
        except OSError:
            _reset(client)
            return
        service.settimeout(None)
        with self._lock:
            self._ends |= {client, service}
        back = threading.Thread(target=self._pump, args=(service, client), daemon=True)
        back.start()
        self._pump(client, service)
        back.join()
        with self._lock:
            self._ends -= {client, service}
        client.close()
        service.close()

    def _pump(self, out: socket.socket, into: socket.socket) -> None:
        with suppress(OSError):
            out.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while data := out.recv(PART):
                self._flows.wait()
                if self._refuses:
                    break
                into.sendall(data)
        for end in (out, into):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def _reset(end: socket.socket) -> None:
    with suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        end.close()
