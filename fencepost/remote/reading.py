"""What `to_json` wrote, read back: outcomes, receipts and all that can be read of a store.

Members that are not known are passed over: an answer may hold more in a later version. What is
missing or of another kind raises KeyError, TypeError or ValueError, which `answers.py` tells as an
answer that is damaged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from fencepost import canonical
from fencepost.clock import from_rfc3339
from fencepost.handle.journal import EntryView
from fencepost.journal import checkpoint as checkpoints
from fencepost.journal.checkpoint import Checkpoint
from fencepost.machine.rows import QueueRow
from fencepost.model import (
    TIMES,
    Grant,
    Outcome,
    QueueSettings,
    Receipt,
    RefusedResult,
    Result,
    Scope,
    Task,
    Token,
    Writer,
)
from fencepost.outward import Class, Destination, Secret
from fencepost.record import fields

T = TypeVar("T")
Members = Mapping[str, Any]
STATUSES = ("accepted", "failed", "blocked", "pending")


def typed(value: Any, kind: type[T]) -> T:
    """The value, which must be of exactly this kind."""
    if type(value) is not kind:
        raise TypeError(f"{kind.__name__} expected")
    return value


def text(value: Any) -> str:
    return typed(value, str)


def number(value: Any) -> int:
    return typed(value, int)


def either(read: Callable[[Any], T]) -> Callable[[Any], T | None]:
    """The same, or null."""
    return lambda value: None if value is None else read(value)


def instant(value: Any) -> int:
    """A time in RFC 3339 as microseconds UTC."""
    return from_rfc3339(text(value))


def texts(value: Any) -> tuple[str, ...]:
    return tuple(map(text, typed(value, list)))


def digest(value: Any) -> bytes:
    """32 bytes from lowercase hex."""
    found = bytes.fromhex(text(value))
    if len(found) != 32 or found.hex() != value:
        raise ValueError("not a SHA-256 in lowercase hex")
    return found


def receipt(given: Members) -> Receipt:
    opening = given["opening"]
    return Receipt(
        number(given["number"]), text(given["entry"]).encode(), bytes.fromhex(opening["salt"]),
        digest(opening["request_sha256"]), either(digest)(opening.get("result_sha256")),
    )  # fmt: skip


def grant(given: Members) -> Grant:
    """A lease. A payload that is null is read as JSON null: a live task has its payload."""
    return Grant(
        text(given["task_id"]), text(given["queue"]), either(text)(given["key"]),
        text(given["worker_id"]), number(given["fencing_token"]), number(given["revision"]),
        number(given["attempt"]), number(given["max_attempts"]), number(given["epoch"]),
        number(given["policy_version"]), instant(given["granted_at"]),
        instant(given["lease_expires_at"]), canonical.dumps(given["payload"]),
        either(canonical.dumps)(given["progress"]),
    )  # fmt: skip


def facts(given: Members) -> dict[str, Any]:
    """The facts of an outcome, times as microseconds UTC."""
    return {
        name: from_rfc3339(value) if name in TIMES and type(value) is str else value
        for name, value in given.items()
    }


def outcome(given: Members, *, replayed: bool | None = None) -> Outcome:
    """An outcome; over HTTP `replayed` stands in a header and not in the object."""
    status = given["status"]
    if status not in STATUSES:
        raise ValueError("not the status of an outcome")
    issues = texts(given["issues"])
    if (status in ("failed", "blocked")) != bool(issues):
        raise ValueError("status and issues disagree")
    return Outcome(
        status, issues, text(given["message"]), either(receipt)(given["receipt"]),
        texts(given["task_ids"]), tuple(map(grant, given["leases"])),
        typed(given["replayed"], bool) if replayed is None else replayed, facts(given["facts"]),
    )  # fmt: skip


def task(given: Members) -> Task:
    """A task; in a list it comes without its content."""
    values: dict[str, Any] = {}
    for spec in fields(Task):
        name = _WIRE.get(spec.name, spec.name)
        value = given.get(name) if name in _CONTENT else given[name]
        if spec.name in TIMES:
            value = 0 if value is None else instant(value)
        values[spec.name] = value
    number(values["fence"])
    number(values["revision"])
    either(text)(values["log"])
    return Task(**values)


_WIRE = {"fence": "fencing_token"}
_CONTENT = ("payload", "progress", "log")


def result(given: Members) -> Result:
    read = Result(**{spec.name: given[spec.name] for spec in fields(Result)})
    number(read.revision)
    return read


def refused(given: Members) -> RefusedResult:
    return RefusedResult(
        text(given["task_id"]), text(given["worker_id"]), number(given["fencing_token"]),
        instant(given["refused_at"]), texts(given["issues"]), text(given["result_sha256"]),
        given["value"],
    )  # fmt: skip


def settings(given: Members) -> QueueSettings:
    values = {spec.name: given[spec.name] for spec in fields(QueueSettings)}
    outcomes = {name: texts(some) for name, some in typed(values["outcomes"], dict).items()}
    told = {"destinations": texts(values["destinations"]), "outcomes": outcomes}
    return QueueSettings(**{**values, **told})


def queue_row(scope_name: str, given: Members) -> QueueRow:
    """A queue; its row id is the store's own and not told (0)."""
    return QueueRow(
        0, scope_name, text(given["queue"]), settings(given["settings"]),
        typed(given["is_destination"], bool),
    )  # fmt: skip


def destination(given: Members) -> Destination:
    return Destination(
        text(given["queue"]), text(given["address"]), cast(Class, text(given["class"])),
        typed(given["options"], dict), tuple(map(_secret, typed(given["secrets"], list))),
        either(text)(given["stopped"]), number(given["sequence"]), either(text)(given["head"]),
        number(given["heard"]), either(text)(given["announced"]),
    )  # fmt: skip


def _secret(given: Members) -> Secret:
    return Secret(text(given["secret"]), either(instant)(given["until"]))


def scope(given: Members) -> Scope:
    return Scope(
        text(given["scope"]), number(given["policy_version"]), typed(given["revoked"], bool),
        either(number)(given["retain_seconds"]),
    )  # fmt: skip


def token(given: Members) -> Token:
    values = {spec.name: given[spec.name] for spec in fields(Token)}
    for name in ("created_at", "expires_at", "revoked_at"):
        values[name] = either(instant)(values[name])
    queues = either(texts)(values["queues"])
    return Token(**{**values, "queues": None if queues is None else frozenset(queues)})


def writer(given: Members) -> Writer:
    return Writer(
        number(given["epoch"]), text(given["incarnation"]), text(given["why"]),
        instant(given["recognised_at"]),
    )  # fmt: skip


def entry_view(given: Members) -> EntryView:
    body = either(text)(given["entry"])
    return EntryView(
        number(given["number"]), None if body is None else body.encode(),
        receipt(given) if "opening" in given else None, digest(given["leaf_hash"]),
    )  # fmt: skip


def checkpoint(given: Any) -> Checkpoint:
    """A checkpoint from its text, or from an object that holds it."""
    return checkpoints.parse(text(given if type(given) is str else given["checkpoint"]).encode())


def stats(given: Members) -> dict[str, Any]:
    """What `Handle.stats` gives."""
    rows = [{**row, "since": either(instant)(row["since"])} for row in given["queues"]]
    return {
        "scope": text(given["scope"]), "now": instant(given["now"]), "queues": rows,
        "clock_jumps": [],
    }  # fmt: skip
