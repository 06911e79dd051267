"""The two ends of the scale: one-row commits of the disk, and a naive queue in the same tables.

The naive queue does the same work as the product (fence, expiry, result, obligation, entry with
digests), straightforwardly: one command, one transaction, one commit. It keeps no keys and
answers no retry.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from time import perf_counter
from typing import Any

from fencepost.clock import SystemClock
from fencepost.engine import SystemDraw
from fencepost.operate.bench.lab import DESTINATION, LEASE_SECONDS, QUEUE, CheckFailed
from fencepost.storage.sqlite.connect import connect, use_wal
from fencepost.storage.sqlite.driver import STATEMENTS
from fencepost.storage.sqltext import statements

SQL = statements("fencepost.operate.bench", "plain.sql")


def open_plain(path: Path) -> Any:
    """A connection as durable as the product's; SQLite itself checkpoints, as is its default."""
    connection = connect(path, writable=True)
    connection.execute("pragma wal_autocheckpoint = 1000")
    return connection


def commits_per_second(folder: Path, number: int) -> float:
    """L: transactions of one row, on this disk, with WAL and FULL."""
    path = folder / "limit.db"
    path.touch()
    connection = open_plain(path)
    try:
        use_wal(connection)
        connection.execute(SQL["create_limit"])
        began = perf_counter()
        for n in range(number):
            connection.execute(SQL["insert_limit"], (n,))  # its own transaction
        return number / (perf_counter() - began)
    finally:
        connection.close()


class Naive:
    """One connection, one commit a command."""

    def __init__(self, path: Path) -> None:
        self._connection = open_plain(path)
        self._execute = self._connection.execute
        ((self._queue,),) = self._execute(SQL["queue_id"], (QUEUE,))
        ((self._out,),) = self._execute(SQL["queue_id"], (DESTINATION,))
        self._clock, self._draw = SystemClock(), SystemDraw()

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[list[Any]]:
        """Begin, the store's numbers to be counted up, commit."""
        self._execute(SQL["begin"])
        ((*numbers, writer_id),) = self._execute(SQL["numbers"])
        now = self._clock.wall()
        state = [*numbers, now, writer_id]
        try:
            yield state
        except BaseException:
            self._connection.rollback()
            raise
        self._execute(SQL["count_up"], state[:4])
        self._execute(SQL["commit"])

    def enqueue(self, given: Any) -> str:
        """One task. Returns its id."""
        with self._transaction() as state:
            task_id = self._new_task(state, self._queue, given, state[2] + 1, None)
            self._record(state, {"verb": "enqueue", "task_id": task_id}, None, given)
        return task_id

    def claim(self, worker: str) -> tuple[str, int] | None:
        """(task id, fence) of the first ready task, or None."""
        with self._transaction() as state:
            rows = self._execute(SQL["first_ready"], (self._queue,)).fetchall()
            if not rows:
                return None
            ((row, task_id),) = rows
            state[0] += 1
            now, ends = state[3], state[3] + LEASE_SECONDS * 1_000_000
            lease = (ends, state[0], worker, now, ends, now, state[2] + 1, row)
            self._execute(SQL["lease"], lease)
            entry = {"verb": "claim", "task_id": task_id, "fence": state[0], "state": "leased"}
            self._record(state, entry, None, entry)
            return task_id, state[0]

    def complete(self, task_id: str, worker: str, fence: int, given: Any) -> None:
        """Result, obligation and entry in one transaction, if the lease still stands."""
        with self._transaction() as state:
            ((row, status, holder, own, ends, revision, round_),) = self._execute(
                SQL["find"], (task_id,)
            ).fetchall()
            now, number = state[3], state[2] + 1
            if status != "leased" or holder != worker or own != fence or now >= ends:
                raise CheckFailed("the naive queue lost a lease")
            self._execute(SQL["finish"], (now, now, number, row, fence))
            body = as_bytes(given)
            digest = sha256(body).digest()
            self._execute(
                STATEMENTS["insert_result"], (row, revision + 1, round_, digest, number, body)
            )
            message = {"task_id": task_id, "revision": revision + 1, "result": given}
            owed = self._new_task(state, self._out, message, number, row)
            entry = {
                "verb": "complete", "task_id": task_id, "fence": fence, "before": "leased",
                "state": "done", "revision": revision + 1, "obligation": owed,
                "result": digest.hex(),
            }  # fmt: skip
            self._record(state, entry, row, given, digest)

    def _new_task(
        self, state: list[Any], queue: int, given: Any, number: int, parent: int | None
    ) -> str:
        state[1] += 1
        body, salt = as_bytes(given), self._draw.salt()
        task_id = self._draw.task_id(state[3])
        values = {
            "id": state[1], "task_id": task_id, "queue": queue, "now": state[3], "entry": number,
            "content": sha256(salt + body).digest(), "parent": parent,
        }  # fmt: skip
        self._execute(SQL["insert_task"], values)
        self._execute(STATEMENTS["insert_payload"], (state[1], salt, body))
        return task_id

    def _record(
        self, state: list[Any], entry: dict[str, Any], row: int | None, given: Any,
        digest: bytes | None = None,
    ) -> None:  # fmt: skip
        """The entry of a command, with the digests that the product's has."""
        state[2] += 1
        request = sha256(as_bytes(given)).digest()
        entry = {**entry, "at": state[3], "writer": state[4], "request": request.hex()}
        entry["after"] = sha256(as_bytes(entry)).hexdigest()
        number = int.from_bytes(request[:8], "big", signed=True)
        columns = (
            state[2], None, row, number, as_bytes(entry), self._draw.salt(), request, digest,
        )  # fmt: skip
        self._execute(STATEMENTS["insert_entry"], columns)


def as_bytes(value: Any) -> bytes:
    """As the contenders write JSON."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
