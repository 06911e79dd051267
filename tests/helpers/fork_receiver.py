"""The one receiver that all owners of a forked store talk to, over HTTP, and what got there."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from fencepost.receiver.receiver import Receiver
from fencepost.receiver.sqlite import SqliteStore
from fencepost.worker.strays import forget, spawning
from helpers.receivers import SECRET, Web, answer_bytes
from helpers.shell import environment

# The program's own table has a key that would hold back a second effect; this one takes it.
OPEN_TABLE = "create table receiver_effect (stream text, operation text, data blob)"
ADD = "insert into receiver_effect values (?, ?, ?)"
ALL = "select stream, operation from receiver_effect order by rowid"


class At:
    """Where the receiver is, and eyes on its table of effects."""

    def __init__(self, url: str, path: Path) -> None:
        self.url, self.path = url, path

    def effects(self, stream: str) -> list[str]:
        """The operations of a stream that have had their effect, in order; twice, if twice."""
        return [operation for there, operation in self._all() if there == stream]

    def twice(self) -> int:
        """How many effects there are beyond one for an operation."""
        return sum(count - 1 for count in Counter(self._all()).values())

    def _all(self) -> list[tuple[str, str]]:
        with closing(sqlite3.connect(self.path)) as own:
            return own.execute(ALL).fetchall()


@contextmanager
def program(folder: Path) -> Iterator[At]:
    """`python -m fencepost.receiver`, as anybody runs it."""
    secret, path = folder / "secret", folder / "effects.db"
    secret.write_text(f"{SECRET}\n", encoding="ascii")
    command = [
        sys.executable, "-m", "fencepost.receiver", "--store", str(path), "--secret-file",
        str(secret), "--port", "0", "--quiet",
    ]  # fmt: skip
    log = (folder / "receiver.log").open("w")
    with spawning() as known:  # a worker that runs in this process kills strangers
        child = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment()
        )
        known.add(child.pid)
    try:
        assert child.stdout is not None
        said = child.stdout.readline()
        assert said.startswith("listening on "), said
        child.stdout.close()
        yield At(said.split()[-1] + "/hook", path)
    finally:
        child.terminate()
        child.wait(60)
        forget(child.pid)
        log.close()


@contextmanager
def inside(folder: Path) -> Iterator[At]:
    """The same kit in this process, so that a fault can be planted in it; its table takes an
    effect as often as it comes."""
    path = folder / "effects.db"
    with closing(sqlite3.connect(path)) as own:
        own.execute(OPEN_TABLE)

    def effect(connection: Any, event: Any) -> None:
        connection.execute(ADD, (event.stream, event.operation, event.data))

    receiver = Receiver(SqliteStore(str(path)), effect, [SECRET])
    try:
        with Web(lambda asked: answer_bytes(receiver.handle(asked.headers, asked.body))) as web:
            yield At(web.url, path)
    finally:
        receiver.close()
