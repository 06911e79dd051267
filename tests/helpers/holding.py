"""Somebody else has the store for a while: a thread, a process that is stopped, another program."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fencepost.storage.sqlite.turn import TurnLock
from helpers.children import start
from helpers.crowd import stop_inside_the_turn


def hold_the_turn(path: Path, seconds: float) -> threading.Thread:
    """A thread that has it already, and for so long."""
    has = threading.Event()

    def hold() -> None:
        turn = TurnLock(path)
        with turn:
            has.set()
            time.sleep(seconds)
        turn.close()

    thread = threading.Thread(target=hold)
    thread.start()
    assert has.wait(20)
    return thread


@contextmanager
def stopped_with_the_turn(path: Path) -> Iterator[None]:
    """A process that is stopped with it; it goes on at the end."""
    ready = path.with_suffix(".ready")
    child = start(stop_inside_the_turn, str(path), str(ready))
    try:
        while not ready.exists():
            assert child.poll() is None, "it ended"
            time.sleep(0.005)
        yield
        os.kill(child.pid, signal.SIGCONT)
        assert child.wait(40) == 0
    finally:
        child.kill()
        child.communicate()


@contextmanager
def foreign(path: Path, statement: str) -> Iterator[None]:
    """Another program's transaction, which knows nothing of turns."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=20)
    try:
        connection.execute(statement)
        connection.execute("select count(*) from fencepost_task").fetchone()
        yield
        connection.execute("rollback")
    finally:
        connection.close()
