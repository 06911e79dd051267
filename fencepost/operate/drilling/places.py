"""Receivers of a drill: the kit's program over HTTP, and a table that a fenced sender writes to."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fencepost.issues import Unavailable
from fencepost.operate.children import environment
from fencepost.receiver.sqlite import SqliteStore
from fencepost.storage.sqltext import statements

SQL = statements("fencepost.operate.drilling", "drill.sql")
LISTENING = "listening on "


class Place:
    """One receiver: the name of its destination, its address, the file that it writes to."""

    def __init__(self, name: str, address: str, file: Path) -> None:
        self.name, self.address, self.file = name, address, file

    def effects(self) -> list[tuple[str, Any]]:
        """Each effect that is there, in its order: the operation and the data of its event."""
        store = SqliteStore(str(self.file))
        store.open()
        try:
            rows = store.connection.execute(SQL[f"effects_{self.name}"]).fetchall()
        finally:
            store.close()
        return [(operation, json.loads(data)) for operation, data in rows]


@contextmanager
def web(folder: Path, secret: Path) -> Iterator[Place]:
    """`python -m fencepost.receiver`, in a process of its own."""
    file = folder / "web.db"
    with (folder / "receiver.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "fencepost.receiver", "--store", str(file), "--secret-file",
             str(secret), "--port", "0", "--name", "web", "--quiet"],
            stdout=subprocess.PIPE, stderr=log, text=True, env=environment(),
        )  # fmt: skip
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith(LISTENING):
            raise Unavailable(f"the drill's receiver did not start: {line.strip()}")
        yield Place("web", line.removeprefix(LISTENING).strip() + "/", file)
    finally:
        process.terminate()
        process.communicate()


def table(folder: Path) -> Place:
    """A table in a database of its own; the sender makes it."""
    file = folder / "table.db"
    return Place("table", f"sqlite:{file}#page", file)
