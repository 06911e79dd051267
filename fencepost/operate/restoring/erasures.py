"""Which tasks were erased: told by one store, so that a restored one erases them again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from fencepost import fields
from fencepost.handle import Handle
from fencepost.issues import InvalidRequest


def erasures(fp: Handle) -> Iterator[dict[str, Any]]:
    """One object for each task that was erased, oldest first: `scope`, `task_id`, `erased_at`; the
    obligations that went with it are tasks too. What an erase entry itself was purged of is not
    among them."""
    for view in fp.entries():
        entry = {} if view.body is None else json.loads(view.body)
        if entry.get("verb") != "erase":
            continue
        for item in entry["tasks"]:
            yield {
                "scope": entry["scope"], "task_id": item["task_id"], "erased_at": entry["at"],
            }  # fmt: skip


def read(lines: Iterable[str]) -> tuple[dict[str, Any], ...]:
    """What `erasures` has written, a JSON object a line. Raises InvalidRequest."""
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            each = json.loads(line)
            fields.name(each["scope"], "scope")
            fields.task_id(each["task_id"], "task_id")
        except (ValueError, KeyError, TypeError, RecursionError, InvalidRequest) as error:
            raise InvalidRequest(
                f"erasures, line {number}: give an object with scope and task_id, as "
                f"`fencepost erasures` writes them ({error})"
            ) from None
        found.append(each)
    return tuple(found)
