"""Runs the application under uvicorn: sockets, TLS, what a connection may bear, the stop."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

import uvicorn

from fencepost.clock import Clock
from fencepost.handle import Handle
from fencepost.issues import InvalidRequest, Unavailable
from fencepost.server.app import Application
from fencepost.server.logs import Lines, Shown
from fencepost.server.meters import Family
from fencepost.server.protocol import bound_protocol
from fencepost.server.settings import ServerSettings, checked

BACKLOG = 1_024
ENDING = (signal.SIGINT, signal.SIGTERM)


class Server(uvicorn.Server):
    """uvicorn's server, which tells the application of the stop before it waits for answers."""

    def __init__(self, config: uvicorn.Config, app: Application) -> None:
        super().__init__(config)
        self._app = app
        app.connections = self.server_state.connections
        self._loop: asyncio.AbstractEventLoop | None = None
        self._others: list[Callable[[], Iterable[Family]]] = []

    def counts_too(self, families: Callable[[], Iterable[Family]]) -> None:
        """`/metrics` tells these as well: of what runs beside the service. Before it starts."""
        self._others.append(families)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Everything that belongs to the loop is made before the first request."""
        self._loop = asyncio.get_running_loop()
        self._app.begin()
        self._app.service.meters.others += self._others
        await super().startup(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A first signal ends claims and streams and lets commits finish."""
        super().handle_exit(sig, frame)
        with suppress(RuntimeError):  # the loop has ended already
            if self._loop is not None:  # a signal comes between any two steps of the loop's
                self._loop.call_soon_threadsafe(self._app.stop)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """While it serves. uvicorn would raise the signal once more after the stop, and so end the
        process before the store is closed. A second signal does what it does to any process."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in ENDING}

        def first(number: int, frame: FrameType | None) -> None:
            for each in ENDING:
                signal.signal(each, signal.SIG_DFL)
            self.handle_exit(number, frame)

        for number in ENDING:
            signal.signal(number, first)
        try:
            yield
        finally:
            if signal.getsignal(signal.SIGINT) is first:
                for number, handler in before.items():
                    signal.signal(number, handler)


def listen(settings: ServerSettings) -> socket.socket:
    """The socket, bound. Raises Unavailable where the address cannot be had."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # The protocol is named: asyncio sets TCP_NODELAY on none of which it is not told, and an answer
    # of head and body would wait for the other side's delayed acknowledgement, 40 ms.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((settings.host, settings.port))
        made.listen(BACKLOG)
    except OSError as error:
        made.close()
        raise Unavailable(
            f"cannot listen on {settings.host} port {settings.port}: {error.strerror}"
        ) from None
    return made


def check_tls(settings: ServerSettings) -> None:
    """Raises InvalidRequest where the certificate or its key cannot be used. Nobody is asked for a
    password: a service may start with no terminal."""
    if settings.certfile is None:
        return
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(settings.certfile, settings.keyfile, password=_no_password)
    except OSError as error:  # ssl.SSLError is one
        why = error.strerror if error.errno and not isinstance(error, ssl.SSLError) else error
        raise InvalidRequest(
            f"serve: {settings.certfile} and {settings.keyfile} are no certificate and its key: "
            f"{why}"
        ) from None


def _no_password() -> str:
    raise InvalidRequest("serve: the key has a password; give a key file without one")


def server(fp: Handle, settings: ServerSettings, clock: Clock, lines: Lines) -> Server:
    """The server for a store that is open; `run(sockets=[…])` serves until a signal."""
    checked(settings)
    app = Application(fp, settings, clock, lines)
    config = uvicorn.Config(
        app, loop="asyncio", http=bound_protocol(settings), ws="none", lifespan="off",
        log_config=None, access_log=False, server_header=False, date_header=True,
        proxy_headers=False, timeout_keep_alive=settings.idle_seconds,
        timeout_graceful_shutdown=settings.stop_seconds, backlog=BACKLOG,
        ssl_certfile=settings.certfile, ssl_keyfile=settings.keyfile,
    )  # fmt: skip
    return Server(config, app)


def watched_logs(lines: Lines) -> None:
    """What the library, uvicorn and the loop say goes out as lines of ours, and nowhere else."""
    for name in ("fencepost", "uvicorn", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers = [Shown(lines)]
        logger.propagate = False


def run(made: Server, listener: socket.socket) -> None:
    """Serve until a signal, and end as after a stop that was meant: without a trace."""
    with suppress(KeyboardInterrupt):
        made.run(sockets=[listener])


def close(fp: Handle, seconds: float) -> bool:
    """Close the store. False where that has to wait for a turn that another process keeps: nobody
    was told that what waits for it was done, and it ends with this process, undone."""
    closing = threading.Thread(target=fp.close, name="fencepost-closing", daemon=True)
    closing.start()
    closing.join(seconds)
    if closing.is_alive():  # what waits, or what it does, such as sealing a long journal
        try:
            fp.probe_turn(seconds)
        except Unavailable:
            return False
        closing.join()
    return True
