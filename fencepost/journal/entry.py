"""The bytes of an entry, its commitments, and the digest of a task that it names as `after`.

An entry is RFC 8785 JSON, at most 65,535 bytes, and names no payload, result, key or secret,
nor a bare digest of them: they appear as commitments, SHA-256 over a label, a salt of 32
random bytes and the value, so that an entry whose opening has been erased tells nothing. The
entry of a command with a key is its receipt. The bytes are written here by hand, since all
that goes in has been checked to need no escape; a test holds them against `canonical.dumps`.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from struct import Struct

from fencepost.clock import to_rfc3339
from fencepost.model import TaskRow
from fencepost.record import dataclass

VERSION = 1
SALT_BYTES = 32
NUMBERS = Struct(">11q").pack


def commit(label: bytes, salt: bytes, value: bytes) -> bytes:
    """The commitment to `value` (32 bytes). `label` keeps one kind from standing for another."""
    return sha256(b"fencepost-commit-v1\0" + label + b"\0" + salt + value).digest()


def content_commitment(salt: bytes, key: str | None, payload: bytes) -> bytes:
    """The commitment to a task's key and payload; its salt lies beside the payload."""
    named = b"" if key is None else key.encode()
    return commit(b"content", salt, named + b"\0" + sha256(payload).digest())


def projection(task: TaskRow) -> str:
    """The `after` of a task: SHA-256 in hex over version 1 of its lasting columns.

    The names a line each, the numbers as 64-bit big-endian, the commitment to its content. No
    end of a lease (renew leaves no entry), no physical column. Names hold no line feed and all
    else has a fixed length, so no two tasks share a projection.
    """
    names = f"1\n{task.task_id}\n{task.scope}\n{task.queue}\n{task.state}\n{task.worker_id or ''}\n"
    numbers = NUMBERS(
        task.priority, task.due_at, task.attempt, task.max_attempts, task.round, task.revision,
        task.fence, task.epoch, task.policy_version, task.created_at, task.erased,
    )  # fmt: skip
    return sha256(names.encode() + numbers + task.content).hexdigest()


def item(task: TaskRow, before: str | None, queue: str = "", role: str = "") -> str:
    """What an entry says of one task: its fence, revision, states before and after, `after`.

    `queue` is named only where it is not the entry's own; `role` tells a follow-up or an
    obligation from the task that the command is about.
    """
    elsewhere = f'"queue":"{task.queue}",' if task.queue != queue else ""
    part = f'"role":"{role}",' if role else ""
    was = f'"before":"{before}",' if before is not None else ""
    return (
        f'{{"after":"{projection(task)}",{was}"fence":{task.fence},{elsewhere}'
        f'"revision":{task.revision},{part}"state":"{task.state}","task_id":"{task.task_id}"}}'
    )


def gone(task: TaskRow, queue: str) -> str:
    """What a `purge` entry says of a task: the state it ended in, and that it is there no more."""
    elsewhere = f'"queue":"{task.queue}",' if task.queue != queue else ""
    return (
        f'{{"before":"{task.state}","fence":{task.fence},{elsewhere}'
        f'"revision":{task.revision},"task_id":"{task.task_id}"}}'
    )


@dataclass(slots=True)
class Heading:
    """What an entry says beside its tasks."""

    verb: str
    scope: str
    actor: str
    at: int
    epoch: int
    writer_id: str


def body(
    heading: Heading,
    items: Sequence[str],
    salt: bytes,
    request_sha256: bytes,
    *,
    queue: str = "",
    key: str | None = None,
    result_sha256: bytes | None = None,
    note: str = "",
    token_sha256: bytes | None = None,
    destination: bytes | None = None,
) -> bytes:
    """The entry's bytes. `note` is one more member, `"note":{…}`, already canonical."""
    request = commit(b"request", salt, request_sha256).hex()
    keyed = f'"key":"{commit(b"key", salt, key.encode()).hex()}",' if key is not None else ""
    noted = f'"note":{note},' if note else ""
    queued = f'"queue":"{queue}",' if queue else ""
    handed = (
        f'"result":"{commit(b"result", salt, result_sha256).hex()}",'
        if result_sha256 is not None
        else ""
    )
    let_in = (
        f'"token":"{commit(b"token", salt, token_sha256).hex()}",'
        if token_sha256 is not None
        else ""
    )
    place = (
        f'"destination":"{commit(b"destination", salt, destination).hex()}",'
        if destination is not None
        else ""
    )
    return (
        f'{{"actor":"{heading.actor}","at":"{to_rfc3339(heading.at)}",{place}"epoch":{heading.epoch},'
        f'{keyed}{noted}{queued}"request":"{request}",{handed}"scope":"{heading.scope}",'
        f'"tasks":[{",".join(items)}],{let_in}"v":{VERSION},"verb":"{heading.verb}",'
        f'"writer":"{heading.writer_id}"}}'
    ).encode()


# The longest item on the entry's own queue: numbers at their maximum, long states, hex digests.
LONGEST_ITEM = 100 + len(
    '{"after":"","before":"cancelled","fence":999999999999999,'
    '"revision":999999999999999,"state":"cancelled","task_id":""},'
)
LONGEST_ROLE = len('"role":"obligation",')
LONGEST_QUEUE = len('"queue":"",') + 64
LONGEST_HEADING = 2_048


def longest(tasks: int, elsewhere: int, obligations: int) -> int:
    """An upper bound in bytes for an entry.

    It names `tasks` on its own queue, `elsewhere` follow-ups on other queues and `obligations`.
    It depends on the command and on constants alone, so two tries of a command agree.
    """
    others = (elsewhere + obligations) * (LONGEST_ITEM + LONGEST_ROLE + LONGEST_QUEUE)
    return LONGEST_HEADING + tasks * LONGEST_ITEM + others
