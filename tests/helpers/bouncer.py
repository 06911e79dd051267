"""A pgbouncer in transaction mode before the PostgreSQL of the tests: few sessions for many."""

from __future__ import annotations

import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg.conninfo import conninfo_to_dict

from helpers.postgres import as_user, free_port
from helpers.tools import need

CONFIG = """
[databases]
* = host={host} port={port} user={user}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {sessions}
max_client_conn = 200
logfile = {folder}/log
"""


@contextmanager
def bouncer(url: str, sessions: int = 3) -> Iterator[str]:
    """The URL of the same database through a pooler that has so many sessions; without pooled=1."""
    program = need("pgbouncer")
    facts = {"port": "5432", "user": "postgres", **conninfo_to_dict(url)}
    with tempfile.TemporaryDirectory(prefix="fencepost-bouncer-") as folder:
        listen = free_port()
        config = Path(folder) / "pgbouncer.ini"
        config.write_text(CONFIG.format(listen=listen, sessions=sessions, folder=folder, **facts))
        process = subprocess.Popen(
            [*as_user(), program, "-q", str(config)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            through = (
                f"postgresql://{quote(str(facts['user']))}@127.0.0.1:{listen}/{facts['dbname']}"
            )
            _wait(through, process, Path(folder) / "log")
            yield through
        finally:
            process.terminate()
            process.wait(30)


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(1_000):
        try:
            psycopg.connect(url, connect_timeout=5, prepare_threshold=None).close()
            return
        except psycopg.OperationalError as error:
            told = error
        assert process.poll() is None, f"pgbouncer has ended: {log.read_text()}"
        threading.Event().wait(0.02)
    raise AssertionError(f"{told}\n{log.read_text()}")
