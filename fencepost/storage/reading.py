"""What people ask: tasks, results, receipts, entries, counts. Pages by cursor, never by offset."""

from __future__ import annotations

import json
from typing import Any

from fencepost.machine.rows import Stored
from fencepost.model import RefusedResult, Result, Task, Token, Writer
from fencepost.storage.loading import buried
from fencepost.storage.rows import request_id, token_row
from fencepost.storage.steps import Steps, one

PAGE = 200


def task(
    scope: str, task_id: str, queues: list[str] | None, *, with_payload: bool = True
) -> Steps[tuple[int, Task] | None]:
    """(row id, task) or None where the scope has no such task on one of these queues (None: on
    any). The content of another is not even read: that takes the longer, the longer it is."""
    rows = yield one("task", scope=scope, task_id=task_id)
    if not rows or (queues is not None and _task(rows[0]).queue not in queues):
        return None
    content: tuple[bytes | None, ...] = ()
    if with_payload:
        content = next(iter((yield one("content", task=rows[0][-1]))), ())
    return rows[0][-1], _task(rows[0], content)


def _task(row: tuple[Any, ...], content: tuple[bytes | None, ...] = ()) -> Task:
    *columns, reason, erased, _ = row
    payload, progress, log = map(_json, content or (None, None, None))
    return Task(*(*columns, _json(reason), bool(erased), payload, progress, log))


def _json(value: bytes | None) -> Any:
    return None if value is None else json.loads(value)


def task_id_of_key(scope: str, queue: str, key: str) -> Steps[str | None]:
    rows = yield one("task_by_key", scope=scope, queue=queue, key=key)
    return rows[0][0] if rows else None


def tasks(
    scope: str, queues: list[str] | None, state: str | None, after: int, limit: int = PAGE
) -> Steps[tuple[list[Task], int]]:
    """One page of tasks of these queues (None: of all) in the order of their enqueueing, and the
    cursor after it (0: the end)."""
    rows = yield one(
        "list_tasks", scope=scope, queues=queues, state=state, after=after, limit=limit
    )
    return [_task(row) for row in rows], rows[-1][-1] if len(rows) == limit else 0


def results(row_id: int, task_id: str, after: int, limit: int = PAGE) -> Steps[list[Result]]:
    """One page of a task's results, by revision."""
    rows = yield one("results", task=row_id, after=after, limit=limit)
    return [
        Result(
            task_id, revision, round_, None if sha256 is None else sha256.hex(), body is not None,
            None if body is None else json.loads(body), commitment, entry,
        )
        for revision, round_, sha256, commitment, entry, body in rows
    ]  # fmt: skip


def refused(
    row_id: int, task_id: str, after: int, limit: int = PAGE
) -> Steps[tuple[list[RefusedResult], int]]:
    """One page of what was kept aside for a task, and the cursor after it (0: the end)."""
    rows = yield one("refused", task=row_id, after=after, limit=limit)
    found = [
        RefusedResult(
            task_id, worker_id, fence, at, tuple(issues.split(",")), sha256.hex(), json.loads(body)
        )
        for worker_id, fence, at, issues, sha256, body, _ in rows
    ]
    return found, rows[-1][-1] if len(rows) == limit else 0


def token_by_sha256(sha256: bytes) -> Steps[Token | None]:
    """The token of this digest, dead or alive: whether it still counts is a rule
    (rules/authority.py, `unauthenticated`)."""
    rows = yield one("token_by_sha256", sha256=sha256)
    return token_row(rows[0]) if rows else None


def token_by_id(token_id: str) -> Steps[Token | None]:
    rows = yield one("tokens_by_id", ids=[token_id])
    return token_row(rows[0]) if rows else None


def tokens_of_scope(scope: str) -> Steps[list[Token]]:
    """The tokens of a scope (or those of `*`), in the order in which they were made."""
    rows = yield one("tokens_of_scope", scope=scope)
    return [token_row(row) for row in rows]


def receipt(lookup: str) -> Steps[Stored | None]:
    rows = yield one("receipt", key=lookup)
    return Stored(*rows[0]) if rows else None


def is_erased(lookup: str) -> Steps[bool]:
    """Whether the receipt of this key has been erased, or purged not long ago."""
    ((*_, secret),) = yield one("store_about")
    rows = yield one("tombstone", lookup=buried(secret, lookup))
    return bool(rows)


def receipt_of_request(scope: str, sha256: bytes) -> Steps[Stored | None]:
    """The receipt of a command that had no key, by the digest of its bytes."""
    rows = yield one("receipts_by_digest", scope=scope, request_id=request_id(sha256))
    found = [Stored(*row) for row in rows]
    return next((stored for stored in found if stored.request_sha256 == sha256), None)


def entry(number: int) -> Steps[Stored | None]:
    rows = yield one("entry", number=number)
    return Stored(*rows[0]) if rows else None


def place(number: int) -> Steps[int | None]:
    """Where in the tree an entry stands, from 0; None where it is not sealed."""
    rows = yield one("place", number=number)
    return int(rows[0][0]) if rows else None


def entries(after: int, limit: int = PAGE) -> Steps[list[Stored]]:
    """One page of the journal, in its order; `after` is the number of the last one seen."""
    rows = yield one("entries", after=after, limit=limit)
    return [Stored(*row) for row in rows]


def entries_of_task(row_id: int) -> Steps[list[tuple[int, bytes | None]]]:
    rows = yield one("entries_of_task", task=row_id)
    return [(number, body) for number, body in rows]


def claimable(scope: str, queue: str, now: int, limit: int) -> Steps[int]:
    """How many tasks a claim of this queue would find now, ready, due or lapsed; counted up to
    `limit` of each."""
    rows = yield one("claimable", scope=scope, queue=queue, now=now, limit=limit)
    return int(rows[0][0])


def scope_names() -> Steps[list[str]]:
    """All scopes of the store."""
    rows = yield one("scope_names")
    return [name for (name,) in rows]


def writers() -> Steps[tuple[Writer, ...]]:
    """The lineage, the oldest first; the last one writes now."""
    rows = yield one("writers")
    return tuple(Writer(*row) for row in rows)


def counts(scope: str, now: int) -> Steps[list[dict[str, Any]]]:
    """Tasks by queue and state; those that wait for their time are counted apart (`waiting`).

    `since` is the first of them: its due time, its lease end or when it ended. `lapsed` leases
    have ended and are not settled yet.
    """
    rows = yield one("counts", scope=scope, now=now)
    return [
        {
            "queue": queue, "state": PLACE_NAMES[place], "tasks": number,
            "since": None if place == 0 else since, "lapsed": lapsed or 0,
        }
        for queue, place, number, since, lapsed in rows
    ]  # fmt: skip


PLACE_NAMES = ("ready", "waiting", "leased", "blocked", "done", "dead", "cancelled")
