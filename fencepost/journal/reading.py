"""Reads an entry back, strictly: version 1, its exact members, and the opening beside it.

`entry.py` writes what is read here; a test holds the two against each other for every verb.
"""

from __future__ import annotations

import json
import re
from typing import Any

from fencepost import canonical
from fencepost.clock import from_rfc3339
from fencepost.fields import MAX_ENTRY_BYTES, MAX_EPOCH, MAX_INTEGER, NAME, TASK_ID
from fencepost.issues import InvalidRequest
from fencepost.journal.entry import VERSION, commit
from fencepost.model import STATES
from fencepost.record import dataclass


@dataclass(frozen=True, slots=True)
class Shape:
    """What the entry of a verb holds. `tasks`: `one` names its task first (and what that brings
    about after it), `each` any number (and what each brings about after it), `many` any number,
    `none` none. `targeted` entries bear their task's row."""

    tasks: str
    note: bool = False
    result: str = "no"
    targeted: bool = False
    queue: str = "yes"
    token: bool = False
    destination: bool = False


SHAPES: dict[str, Shape] = {
    "enqueue": Shape("many"),
    "claim": Shape("many", queue="maybe"),
    "submit": Shape("one", result="yes", targeted=True),
    "complete": Shape("one", result="maybe", targeted=True),
    "fail": Shape("one", targeted=True),
    "release": Shape("one", targeted=True),
    "cancel": Shape("one", targeted=True),
    "requeue": Shape("one", targeted=True),
    "resolve": Shape("one", result="maybe", targeted=True),
    "review": Shape("one", note=True, targeted=True),
    "import": Shape("one", note=True, result="yes", targeted=True),
    "sweep": Shape("each", queue="maybe"),
    "erase": Shape("many", targeted=True, queue="no"),
    "purge": Shape("many", queue="maybe"),
    "queue.set": Shape("none", note=True),
    "scope.set_policy": Shape("none", note=True, queue="no"),
    "scope.revoke": Shape("none", note=True, queue="no"),
    "clock.reset": Shape("none", note=True, queue="no"),
    "token.create": Shape("none", note=True, queue="no", token=True),
    "token.revoke": Shape("none", note=True, queue="no"),
    "destination.set": Shape("none", note=True, destination=True),
    "destination.secret": Shape("none", note=True, destination=True),
    "destination.advance": Shape("none", note=True, destination=True),
}
"""Every verb that leaves an entry."""

_ALWAYS = {"actor", "at", "epoch", "request", "scope", "tasks", "v", "verb", "writer"}
_ITEM = {"after", "fence", "revision", "state", "task_id"}
_GONE = {"before", "fence", "revision", "task_id"}
_ITEM_MAY = {"before", "queue", "role"}
_HEX = re.compile(r"[0-9a-f]{64}")
_WRITER = re.compile(r"[A-Za-z0-9._:-]{1,64}")


@dataclass(frozen=True, slots=True)
class EntryRow:
    """An entry as it is stored. `body` is gone after a purge, the opening after an erasure.

    `key` is (scope, actor, key) of a caller's key, `task` the target's row id. `indexed` is
    whether the store finds the entry under what its opening says.
    """

    number: int
    key: tuple[str, ...] | None
    task: int | None
    indexed: bool
    body: bytes | None
    salt: bytes | None
    request_sha256: bytes | None
    result_sha256: bytes | None

    @property
    def closed(self) -> bool:
        """The opening has been erased."""
        return self.salt is None


def read(body: bytes, *, strict: bool = True) -> dict[str, Any]:
    """The entry of these bytes. ValueError says what is not as version 1 has it.

    Without `strict` the bytes are known to be good (a kept checkpoint covers them) and only
    parsed.
    """
    try:
        parsed = json.loads(body)
        if strict:
            _form(body, parsed)
    except (InvalidRequest, RecursionError, KeyError, TypeError) as error:
        raise ValueError(str(error)) from None
    return parsed  # type: ignore[no-any-return]


def _form(body: bytes, entry: Any) -> None:
    if type(entry) is not dict:
        raise ValueError("it is not an object")
    if len(body) > MAX_ENTRY_BYTES:
        raise ValueError(f"it has {len(body)} bytes; at most {MAX_ENTRY_BYTES} are allowed")
    if canonical.dumps(entry) != body:
        raise ValueError("it is not canonical JSON")
    if entry.get("v") is True or entry.get("v") != VERSION:  # True equals 1
        raise ValueError(f"its version is {entry.get('v')!a}, not {VERSION}")
    shape = SHAPES.get(entry.get("verb", ""))
    if shape is None:
        raise ValueError(f"there is no verb {entry.get('verb')!a}")
    _members(entry, shape)
    for name in ("actor", "scope"):
        _match(NAME, entry[name], name)
    _match(_WRITER, entry["writer"], "writer")
    from_rfc3339(entry["at"])
    _integer(entry["epoch"], MAX_EPOCH, "epoch")
    for name in ("request", "result", "key", "token", "destination"):
        if name in entry:
            _match(_HEX, entry[name], name)
    _items(entry["tasks"], entry["verb"], shape)


def _members(entry: dict[str, Any], shape: Shape) -> None:
    must, may = set(_ALWAYS), {"key"}
    for name, word in (("result", shape.result), ("queue", shape.queue)):
        if word == "yes":
            must.add(name)
        elif word == "maybe":
            may.add(name)
    must.update(name for name in ("note", "token", "destination") if getattr(shape, name))
    missing, extra = must - entry.keys(), entry.keys() - must - may
    if missing or extra:
        raise ValueError(f"members missing: {sorted(missing)}; not allowed: {sorted(extra)}")
    if shape.note and type(entry["note"]) is not dict:
        raise ValueError("its note is not an object")
    if "queue" in entry:
        _match(NAME, entry["queue"], "queue")


def _items(items: Any, verb: str, shape: Shape) -> None:
    if type(items) is not list or not all(type(item) is dict for item in items):
        raise ValueError("its tasks are not a list of objects")
    if shape.tasks == "none" and items:
        raise ValueError(f"{verb} names no tasks")
    roles = [item.get("role") for item in items]
    if shape.tasks == "one" and (not items or roles[0] is not None or None in roles[1:]):
        raise ValueError(f"{verb} names one task, and after it what that brings about")
    if shape.tasks == "each" and roles[:1] not in ([], [None]):
        raise ValueError(f"{verb} names a task, and after it what that brings about")
    if shape.tasks == "many" and any(roles):
        raise ValueError(f"{verb} brings about no follow-ups and no obligations")
    for item in items:
        _item(item, _GONE if verb == "purge" else _ITEM)


def _item(item: dict[str, Any], must: set[str]) -> None:
    missing, extra = must - item.keys(), item.keys() - must - _ITEM_MAY
    if missing or extra:
        raise ValueError(f"a task's members missing: {sorted(missing)}; extra: {sorted(extra)}")
    _match(TASK_ID, item["task_id"], "task_id")
    _integer(item["fence"], MAX_INTEGER, "fence")
    _integer(item["revision"], MAX_INTEGER, "revision")
    if "after" in item:
        _match(_HEX, item["after"], "after")
    for name in ("state", "before"):
        if name in item and item[name] not in STATES:
            raise ValueError(f"there is no state {item[name]!a}")
    if "queue" in item:
        _match(NAME, item["queue"], "queue")
    if item.get("role") not in (None, "followup", "obligation"):
        raise ValueError(f"there is no role {item['role']!a}")


def _match(pattern: re.Pattern[str], value: Any, name: str) -> None:
    if type(value) is not str or pattern.fullmatch(value) is None:
        raise ValueError(f"{name} is not as it must be")


def _integer(value: Any, high: int, name: str) -> None:
    if type(value) is not int or not 0 <= value <= high:
        raise ValueError(f"{name} is not a number from 0 to {high}")


def opening_problem(row: EntryRow, entry: dict[str, Any]) -> str | None:
    """What is wrong with the opening beside an entry: it must open every commitment in it."""
    salt, request = row.salt, row.request_sha256
    if salt is None or request is None:
        beside = (salt, request, row.result_sha256, row.key)
        whole = row.indexed and all(part is None for part in beside)
        return None if whole else "a part of it is missing"
    found = {"request": commit(b"request", salt, request).hex()}
    if row.result_sha256 is not None:
        found["result"] = commit(b"result", salt, row.result_sha256).hex()
    if row.key is not None:
        if row.key[:-1] != (entry["scope"], entry["actor"]):
            return "its key belongs to another scope or actor"
        found["key"] = commit(b"key", salt, row.key[-1].encode()).hex()
    for name in ("request", "result", "key"):
        if found.get(name) != entry.get(name):
            return f"it does not open the commitment to the {name}"
    return None if row.indexed else "the store would not find the entry by it"
