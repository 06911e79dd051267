"""The product and the reference of the conformance kit side by side: the same bytes, the same steps
of the clock, the same chance; so they must answer alike to the byte."""

from __future__ import annotations

import json
from typing import Any

import fencepost
from fencepost.clock import FakeClock
from fencepost.commands import Request
from fencepost.conformance.product import READS
from fencepost.conformance.sqlite_reference import Reference
from fencepost.issues import InvalidRequest
from fencepost.model import Caller, Outcome

Json = dict[str, Any]
WRITER = "01900000-0000-7000-8000-000000000000"
OWNER = "A"


class NoChance:
    """Task ids are counted, salts and jitter are always the same."""

    def __init__(self, salt: Any) -> None:
        self.tasks, self._salt = 0, salt

    def salt(self) -> Any:
        return self._salt

    def jitter(self) -> float:
        return 0.25

    def task_id(self, now: int) -> str:
        self.tasks += 1
        return f"01900000-0000-7000-8000-{self.tasks:012x}"


class Differs(AssertionError):
    """The two do not answer alike."""


class Pair:
    """One store each; `steps` is what was done to both, for the report of a difference."""

    def __init__(self, reference: type[Reference] = Reference) -> None:
        self.reference = reference(":memory:")
        self.reference.chance = NoChance("11" * 32)
        self.reference.fresh(OWNER)
        db = self.reference.owners[OWNER].db
        rename = "update kept set row = json_set(row, '$.writer', ?) where kind = 'store'"
        db.execute(rename, (WRITER,))
        self.clock = FakeClock(self.reference.clock.wall)
        draw = NoChance(b"\x11" * 32)
        self.fp = fencepost.open(":memory:", create=True, clock=self.clock, draw=draw)
        connection = self.fp._store._write  # type: ignore[attr-defined]
        connection.execute("update fencepost_store set writer_id = ?", (WRITER,))
        self.steps: list[Any] = []
        self.purged = False

    def close(self) -> None:
        self.fp.close()
        self.reference.close()

    def advance(self, microseconds: int) -> None:
        self.steps.append(("advance", microseconds))
        self.clock.advance(microseconds / 1_000_000)
        self.reference.clock.advance(microseconds)

    def jump(self, seconds: int) -> None:
        self.steps.append(("jump", seconds))
        self.clock.jump_wall(seconds)
        self.reference.clock.jump(seconds * 1_000_000)

    def send(self, caller: Json, body: str, key: str | None = None) -> Json:
        """What both answer. Raises Differs, with all the steps, where it is not the same."""
        self.steps.append((caller, body, key))
        theirs = self.reference.send(OWNER, caller, body, key)
        ours = self._product(Caller(**caller), body, key).to_json()
        self.same("outcome", told(theirs), told(ours))
        self.purged |= '"purge"' in body
        return ours

    def _product(self, caller: Caller, body: str, key: str | None) -> Outcome:
        """As the engine's thread does it, without handing the command to that thread."""
        try:
            request = Request.read(body.encode(), key)
        except InvalidRequest as error:
            return Outcome("failed", (error.code,), str(error))
        store, transactor = self.fp._store, self.fp._writer.transactor
        with store.transaction() as transaction:  # type: ignore[attr-defined]
            (outcome,) = transactor.settle(store, transaction, [(caller, request)]).outcomes
        return outcome

    def compare(self, caller: Json) -> None:
        """All that this caller's scope holds."""
        handle = self.fp.as_caller(caller["actor"], caller["kind"], caller["scope"])
        tasks = self._read(handle, caller, "tasks", queue=None, state=None)
        counts = READS["counts"](handle), self.reference.read(OWNER, caller, "counts")
        if not self.purged:  # which drops the entries' bodies, as far as they are sealed
            self.same("counts", counts[1], counts[0])
        ours, theirs = READS["entries"](handle), self.reference.read(OWNER, caller, "entries")
        scope = caller["scope"]
        self.same("openings", openings(theirs, scope), openings(ours, scope))
        for task in tasks:
            self._read(handle, caller, "task", task_id=task["task_id"])
            self._read(handle, caller, "results", task_id=task["task_id"])

    def _read(self, handle: Any, caller: Json, what: str, **names: Any) -> Any:
        ours = READS[what](handle, **names)
        theirs = self.reference.read(OWNER, caller, what, **names)
        self.same(what, theirs, ours)
        return ours

    def same(self, what: str, theirs: Any, ours: Any) -> None:
        if theirs == ours:
            return
        steps = "\n".join(json.dumps(step) for step in self.steps)
        found = f"reference {json.dumps(theirs)}\nproduct   {json.dumps(ours)}"
        raise Differs(f"{steps}\n{what}\n{found}")


def openings(entries: list[Json], scope: str) -> Json:
    """What can still be opened, and so be answered again: what erasing and purging have left."""
    opened = (entry for entry in entries if "opening" in entry)
    return {e["number"]: e["opening"] for e in opened if json.loads(e["entry"])["scope"] == scope}


def told(outcome: Json) -> Json:
    """An outcome but for the text for people."""
    return {name: value for name, value in outcome.items() if name != "message"}
