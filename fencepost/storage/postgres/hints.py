"""Wake-up hints: who waits for a task hears of one soon after its commit, from any process.

They are told by NOTIFY on a connection of their own, after the commit and never in it: a NOTIFY in
a transaction holds one lock of the whole instance until its commit is done. Nothing depends on a
hint. Whoever waits looks at the store as well, so one that is lost is only waited out.
"""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager, suppress

import psycopg

from fencepost.clock import SECOND, Clock, SystemClock
from fencepost.issues import FencepostError
from fencepost.log import Log
from fencepost.storage.postgres.driver import Connection, run
from fencepost.storage.steps import rows_of

log = Log("fencepost.storage")

Place = tuple[str, str]
Hinted = Callable[[Place], None]
APART = SECOND // 20
"""Microseconds between two hints of one queue: what comes in between is told by one."""
AGAIN = 1 * SECOND


class Pace:
    """Which queues are to be told of now, each at most twenty times a second."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._open: set[Place] = set()
        self._told: dict[Place, int] = {}

    def add(self, places: Collection[Place]) -> None:
        self._open.update(places)

    def due(self) -> list[Place]:
        """Those whose time has come; they are taken as told."""
        now = self._clock.steady()
        self._told = {place: at for place, at in self._told.items() if now - at < APART}
        found = sorted(self._open - self._told.keys())
        self._open.difference_update(found)
        self._told.update((place, now) for place in found)
        return found

    def seconds(self) -> float | None:
        """Until the next one is due; None where none is open."""
        if not self._open:
            return None
        first = min(self._told.get(place, 0) for place in self._open) + APART
        return max(0, first - self._clock.steady()) / SECOND


class Hints:
    """One thread and one connection a store, from when first somebody tells or listens."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._clock = SystemClock()
        self._pace = Pace(self._clock)
        self._lock = threading.Lock()
        self._listeners: dict[object, Hinted] = {}
        self._thread: threading.Thread | None = None
        self._closed = False
        self._schema, self._pid = "", 0
        self._ears, self._mouth = socket.socketpair()
        self._ears.setblocking(False)
        self._mouth.setblocking(False)

    def tell(self, places: Collection[Place]) -> None:
        """These queues have tasks, since the commit that was just made. Returns at once."""
        self._heard(places)
        with self._lock:
            self._pace.add(places)
        self._wake()

    @contextmanager
    def listening(self, hinted: Hinted) -> Iterator[None]:
        """While inside, `hinted` is called with each queue that is told of, here or elsewhere. It
        must be short and raise nothing."""
        mine = object()
        with self._lock:
            self._listeners[mine] = hinted
        self._wake()
        try:
            yield
        finally:
            with self._lock:
                del self._listeners[mine]

    def close(self) -> None:
        with self._lock:
            self._closed, thread = True, self._thread
        if thread is not None:
            self._wake()
            thread.join()
        self._ears.close()
        self._mouth.close()

    def _wake(self) -> None:
        with self._lock:
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(
                    target=self._run, name="fencepost-hints", daemon=True
                )
                self._thread.start()
        with suppress(BlockingIOError):  # enough has been said to wake it
            self._mouth.send(b".")

    def _heard(self, places: Collection[Place]) -> None:
        with self._lock:
            listeners = list(self._listeners.values())
        for hinted in listeners:
            for place in places:
                hinted(place)

    # -- in the thread

    def _run(self) -> None:
        while not self._closed:
            try:
                with closing(self._connect()) as connection:
                    self._converse(connection)
            except (psycopg.Error, FencepostError, OSError) as error:
                log.warning("no hints until the server is there again: %s", error)
                self._rest(AGAIN / SECOND)

    def _converse(self, connection: Connection) -> None:
        """Listen and tell until the store is closed. Raises where the connection ends."""
        connection.add_notify_handler(self._notified)
        self._pid = connection.info.backend_pid
        ((self._schema,),) = run(connection, rows_of("schema_of_hints"))
        run(connection, rows_of("listen"))
        while not self._closed:
            with self._lock:
                places = self._pace.due()
            if places:
                run(connection, rows_of("hint", places=places))
            with self._lock:
                seconds = self._pace.seconds()
            if self._rest(seconds, connection.fileno()):
                connection.pgconn.consume_input()
                while (note := connection.pgconn.notifies()) is not None:
                    self._notified(psycopg.Notify(
                        note.relname.decode(), note.extra.decode(), note.be_pid
                    ))  # fmt: skip

    def _rest(self, seconds: float | None, *files: int) -> bool:
        """Until somebody wakes us, the time is over, or a file has something: whether one has."""
        with selectors.DefaultSelector() as waiting:
            for file in (self._ears.fileno(), *files):
                waiting.register(file, selectors.EVENT_READ)
            ready = {key.fd for key, _ in waiting.select(seconds)}
        with suppress(BlockingIOError):
            while self._ears.recv(4_096):
                pass
        return bool(ready.intersection(files))

    def _notified(self, note: psycopg.Notify) -> None:
        """`SCOPE QUEUE SCHEMA`, or whatever else somebody sends on the channel."""
        scope, _, rest = note.payload.partition(" ")
        queue, _, schema = rest.partition(" ")
        if schema == self._schema and note.pid != self._pid:  # our own are heard at once
            self._heard([(scope, queue)])
