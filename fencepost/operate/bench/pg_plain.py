"""The naive queue on PostgreSQL, as one writes it in an afternoon: claim one with SKIP LOCKED;
result, obligation and entry in the completion's transaction. And the counts that are held."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

from fencepost.clock import SystemClock
from fencepost.engine import SystemDraw
from fencepost.operate.bench.callers import at_once
from fencepost.operate.bench.lab import (
    DESTINATION,
    LEASE_SECONDS,
    QUEUE,
    CheckFailed,
    payload,
    reopen,
    result,
)
from fencepost.operate.bench.pg_place import SQL, Server, connect, run
from fencepost.operate.bench.plain import as_bytes

TRIES = 1_000


class Naive:
    """One connection, one transaction a command. It keeps no keys and answers no retry."""

    def __init__(self, url: str, worker: str) -> None:
        self._connection = connect(url)
        self._worker = worker
        self._clock, self._draw = SystemClock(), SystemDraw()
        self._queue = self._rows("queue_id", queue=QUEUE)[0][0]
        self._out = self._rows("queue_id", queue=DESTINATION)[0][0]

    def close(self) -> None:
        self._connection.close()

    def _rows(self, name: str, **values: Any) -> list[Any]:
        return run(self._connection, SQL[name], values)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._rows("begin")
        try:
            yield
        except BaseException:
            self._connection.rollback()
            raise
        self._rows("commit")

    def enqueue(self, given: Any) -> None:
        """One task."""
        with self._transaction():
            now, task, entry = self._drawn()
            task_id = self._new_task(now, task, entry, self._queue, given, None)
            self._record(now, entry, {"verb": "enqueue", "task_id": task_id}, None, given)

    def claim(self) -> tuple[str, int] | None:
        """(task id, fence) of the first ready task, or None."""
        with self._transaction():
            now, _, entry = self._drawn()
            ends = now + LEASE_SECONDS * 1_000_000
            found = self._rows(
                "lease", ends=ends, worker=self._worker, now=now, queue=self._queue
            )
            if not found:
                return None
            ((_, task_id, fence),) = found
            told = {"verb": "claim", "task_id": task_id, "fence": fence}
            self._record(now, entry, told, None, told)
            return task_id, fence

    def complete(self, task_id: str, fence: int, given: Any) -> None:
        """Result, obligation and entry in one transaction, if the lease still stands."""
        with self._transaction():
            now, owed, entry = self._drawn()
            found = self._rows(
                "finish", now=now, task_id=task_id, fence=fence, worker=self._worker
            )
            if not found:
                raise CheckFailed("the naive queue lost a lease")
            ((task, revision, round_),) = found
            body = as_bytes(given)
            digest = sha256(body).digest()
            self._rows(
                "insert_result", task=task, revision=revision, round=round_, sha256=digest,
                entry=entry, body=body,
            )  # fmt: skip
            message = {"task_id": task_id, "revision": revision, "result": given}
            out = self._new_task(now, owed, entry, self._out, message, task)
            told = {
                "verb": "complete", "task_id": task_id, "fence": fence, "revision": revision,
                "obligation": out, "result": digest.hex(),
            }  # fmt: skip
            self._record(now, entry, told, task, given, digest)

    def _drawn(self) -> tuple[int, int, int]:
        ((task, entry),) = self._rows("numbers")
        return self._clock.wall(), task, entry

    def _new_task(
        self, now: int, task: int, entry: int, queue: int, given: Any, parent: int | None
    ) -> str:
        body, salt = as_bytes(given), self._draw.salt()
        task_id = self._draw.task_id(now)
        self._rows(
            "insert_task", id=task, task_id=task_id, queue=queue, now=now, entry=entry,
            content=sha256(salt + body).digest(), parent=parent,
        )  # fmt: skip
        self._rows("insert_payload", task=task, salt=salt, body=body)
        return task_id

    def _record(
        self, now: int, number: int, told: dict[str, Any], task: int | None, given: Any,
        digest: bytes | None = None,
    ) -> None:  # fmt: skip
        request = sha256(as_bytes(given)).digest()
        told = {**told, "at": now, "request": request.hex()}
        told["after"] = sha256(as_bytes(told)).hexdigest()
        self._rows(
            "insert_entry", number=number, task=task, body=as_bytes(told),
            request_id=int.from_bytes(request[:8], "big", signed=True),
            salt=self._draw.salt(), request_sha256=request, result_sha256=digest,
        )  # fmt: skip

    def drain(self, number: int) -> None:
        for n in range(number):
            self.complete(*self._sure(), result(n))

    def _sure(self) -> tuple[str, int]:
        """A claim, where there is a task for each: it may be in another's hand for a moment."""
        for _ in range(TRIES):
            if (claimed := self.claim()) is not None:
                return claimed
        raise CheckFailed("the naive queue found no task")

    def lives(self, number: int) -> None:
        for n in range(number):
            self.enqueue(payload(n))
            self.drain(1)


def beside(url: str, connections: int, work: Callable[[Naive], None]) -> None:
    """The same work on so many connections, a thread each."""
    crew = [Naive(url, f"worker-{n}") for n in range(connections)]
    try:
        at_once([lambda queue=queue: work(queue) for queue in crew])  # type: ignore[misc]
    finally:
        for queue in crew:
            queue.close()


COUNTED = (
    "tasks that are done", "tasks that are not", "results", "tasks with a result", "receipts",
    "tasks with a receipt", "obligations", "tasks that owe one",
)  # fmt: skip


def check(server: Server, url: str, done: int, *, left: int = 0, told: int | None = None) -> None:
    """As checks.check for a file: what was acknowledged is there, once each. CheckFailed if not."""
    if told not in (None, done):
        raise CheckFailed(f"{told} completions were acknowledged for {done} tasks")
    with server.connected(url) as execute:
        ((queue,),) = execute("queue_id", queue=QUEUE)
        (found,) = execute("counts", queue=queue)
    expected = (done, left, *[done] * 6)
    for what, here, wanted in zip(COUNTED, found, expected, strict=True):
        if here != wanted:
            raise CheckFailed(f"{what}: expected {wanted}, found {here}")


def check_journal(url: str) -> None:
    """`verify` finds nothing."""
    with reopen(url) as handle:
        found = handle.verify()
    if not found.clean:
        raise CheckFailed(f"verify found {found.problems[0]}")
