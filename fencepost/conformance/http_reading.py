"""What a case can read, as questions over HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Protocol
from urllib.parse import quote, urlencode

from .cases.store import Json

PAGE = 1_000
Reader = Callable[..., Any]


class Asked(Protocol):
    """A service that can be asked."""

    earlier: list[Json]  # entries of earlier cases: they are not read again

    def ask(self, method: str, target: str, token: str) -> Any: ...


class Refused(Exception):
    """The outcome that a question was answered with."""

    def __init__(self, outcome: Json) -> None:
        self.outcome = outcome


class Reading:
    """What one caller reads in one scope."""

    def __init__(self, service: Asked, scope: str, token: str) -> None:
        self.service, self.scope, self.token = service, scope, token

    def one(self, path: str, **query: Any) -> Any:
        """What stands there. Raises Refused."""
        asked = f"?{urlencode(query)}" if query else ""
        told = self.service.ask("GET", f"/v1/{self.scope}/{path}{asked}", self.token)
        if "issues" in told and told.get("status") in ("failed", "blocked"):
            raise Refused(told)
        return told

    def pages(self, path: str, **query: Any) -> list[Any]:
        """All pages of a list; its name is the last word of the path."""
        name, found = path.rpartition("/")[2], []
        query["page_size"] = PAGE
        while True:
            page = self.one(path, **query)
            found += page[name]
            if not page["next_page_token"]:
                return found
            query["page_token"] = page["next_page_token"]

    def entries(self, after: int = 0) -> list[Json]:
        """The journal. What was there when the case began is not asked for again."""
        earlier = self.service.earlier
        return [*earlier, *self.pages("journal/entries", after=len(earlier))][after:]

    def results(self, task_id: str) -> list[Json]:
        """The results of a task."""
        return self.pages(f"tasks/{quote(task_id, safe='')}/results")

    def tasks(self, queue: str | None = None, state: str | None = None) -> list[Json]:
        """Tasks, all or those of a queue or state."""
        given = {"queue": queue, "state": state}
        return self.pages("tasks", **{name: v for name, v in given.items() if v is not None})

    def counts(self) -> Json:
        """Results, receipts of results and obligations of the scope."""
        tasks = self.tasks()
        owed = {row["queue"] for row in self.one("queues")["queues"] if row["is_destination"]}
        seen = [entry for entry in self.entries() if entry["entry"] is not None]
        bodies = [json.loads(entry["entry"]) for entry in seen]
        return {
            # each result raises the revision: where it is 0 there are none to ask for
            "results": sum(len(self.results(t["task_id"])) for t in tasks if t["revision"]),
            "receipts": sum("result" in b and b["scope"] == self.scope for b in bodies),
            "obligations": sum(task["queue"] in owed for task in tasks),
        }


def _receipt(reading: Reading, key: str, actor: str) -> Any:
    return reading.one(f"receipts/{quote(key, safe='')}", actor=actor)


def _read(look: Reader) -> Reader:
    def read(reading: Reading, **names: Any) -> Any:
        try:
            return look(reading, **names)
        except Refused as refused:
            return refused.outcome

    return read


READS: dict[str, Reader] = {
    "task": _read(lambda reading, task_id: reading.one(f"tasks/{quote(task_id, safe='')}")),
    "tasks": _read(Reading.tasks),
    "results": _read(Reading.results),
    "receipt": _read(_receipt),
    "counts": _read(Reading.counts),
    "entries": _read(Reading.entries),
}
