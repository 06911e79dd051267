"""One history told to two stores at once: the product on SQLite and the product on PostgreSQL.

Both draw the same chance, and before each step SQLite's last fence is set to where PostgreSQL's
sequence stands, so that its gaps are in both. What is left of difference are the numbers of
entries: for each that SQLite tells, PostgreSQL tells always the same one, and they rise. All else
has to be the same to the byte: every outcome, all that can be read, and the root of the journal's
tree.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from fencepost import commands as c
from fencepost.conformance.product import READS
from fencepost.issues import InvalidRequest
from fencepost.machine.needs import Sent
from fencepost.model import Caller, Kind, Outcome
from helpers.differential import Differs, Json
from helpers.pg_stand import PgStand
from helpers.stand import SCOPE, Stand

LOCAL = Caller(SCOPE, "operator", "local")


class Twins:
    """The two stands. `steps` is what was done to both, for the report of a difference."""

    def __init__(self, seed: int = 1) -> None:
        self.lite, self.post = Stand(seed), PgStand(seed)
        self.stands = (self.lite, self.post)
        self.steps: list[Any] = []
        self.last_number = 0
        self.numbers: dict[int, int] = {}

    def close(self) -> None:
        for stand in self.stands:
            stand.close()

    def advance(self, microseconds: int) -> None:
        self.steps.append(("advance", microseconds))
        for stand in self.stands:
            stand.clock.advance(microseconds / 1_000_000)

    def jump(self, seconds: int) -> None:
        self.steps.append(("jump", seconds))
        for stand in self.stands:
            stand.clock.jump_wall(seconds)

    def send(self, caller: Json, body: str, key: str | None = None) -> Json:
        """What both answer to these bytes. Raises Differs, with all the steps, where it is not
        the same."""
        self.steps.append((caller, body, key))
        try:
            request = c.Request.read(body.encode(), key)
        except InvalidRequest as error:  # read before any store is asked
            return Outcome("failed", (error.code,), str(error)).to_json()
        (outcome,) = self._both([(Caller(**caller), request)])
        return outcome.to_json()

    def execute(
        self, commands: Sequence[c.Command | c.Request], caller: Caller = LOCAL
    ) -> list[Outcome]:
        """A batch, in one transaction of each."""
        # what has no key is given one that both have: a handle would draw it
        requests = [self._keyed(command) for command in commands]
        self.steps.append([(request.body.decode(), request.key) for request in requests])
        return self._both([(caller, request) for request in requests])

    def _keyed(self, command: c.Command | c.Request) -> c.Request:
        if isinstance(command, c.Request):
            return command
        key = None if command.self_keyed else f"twin-{len(self.steps)}-{command.verb}"
        return c.Request.of(command, key)

    def _both(self, sent: Sequence[Sent]) -> list[Outcome]:
        self.lite.last_fence = self.post.last_fence
        if any(request.command.verb == "purge" for _, request in sent):  # as the writer does
            self.sealed()
        theirs, ours = (stand.batch(sent) for stand in self.stands)
        self.same("outcomes", *([one.to_json() for one in told] for told in (theirs, ours)))
        for outcome in ours:
            if outcome.receipt is not None and not outcome.replayed:
                rises = outcome.receipt.number > self.last_number
                self.same("numbers rise", True, rises)
                self.last_number = outcome.receipt.number
        return ours

    def compare(self, caller: Json) -> None:
        """All that this caller's scope holds, and the tree: PostgreSQL seals what it lists, and a
        purge drops the bytes of what is sealed."""
        self.sealed()
        tasks = self._read(caller, "tasks", queue=None, state=None)
        self._read(caller, "counts")
        self._read(caller, "entries")
        for task in tasks:
            self._read(caller, "task", task_id=task["task_id"])
            self._read(caller, "results", task_id=task["task_id"])

    def _read(self, caller: Json, what: str, **names: Any) -> Any:
        handles = [
            stand.fp.as_caller(caller["actor"], caller["kind"], caller["scope"])
            for stand in self.stands
        ]
        theirs, ours = (READS[what](handle, **names) for handle in handles)
        self.same(what, theirs, ours)
        return ours

    def sealed(self) -> None:
        """The same tree stands over both journals, and both are whole."""
        theirs, ours = (stand.fp.seal() for stand in self.stands)
        self.same("root", (theirs.size, theirs.root.hex()), (ours.size, ours.root.hex()))
        self.same("problems", [], list(self.post.fp.verify().problems))

    def _in_numbers_of(self, ours: Any, theirs: Any) -> Any:
        """The same with the numbers that these entries have on PostgreSQL, as far as they are
        known; what is told first of an entry makes its number known."""
        if isinstance(theirs, dict) and isinstance(ours, dict) and theirs.keys() == ours.keys():
            return {
                name: self.numbers.setdefault(value, ours[name])
                if name in NUMBERS and type(value) is int
                else self._in_numbers_of(ours[name], value)
                for name, value in theirs.items()
            }
        if isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
            return [self._in_numbers_of(*pair) for pair in zip(ours, theirs, strict=True)]
        return theirs

    def same(self, what: str, theirs: Any, ours: Any) -> None:
        theirs = self._in_numbers_of(ours, theirs)
        if theirs == ours:
            return
        steps = "\n".join(json.dumps(step) for step in self.steps)
        raise Differs(f"{steps}\n{difference(what, theirs, ours)}")


def difference(place: str, theirs: Any, ours: Any) -> str:
    """Where the two first part."""
    if isinstance(theirs, dict) and isinstance(ours, dict) and theirs.keys() == ours.keys():
        parts = next(name for name in theirs if theirs[name] != ours[name])
        return difference(f"{place}.{parts}", theirs[parts], ours[parts])
    if isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        at = next(at for at, one in enumerate(theirs) if one != ours[at])
        return difference(f"{place}[{at}]", theirs[at], ours[at])
    return f"{place}\nsqlite     {theirs}\npostgresql {ours}"


NUMBERS = ("number", "entry", "receipt")


class Face:
    """As much of a handle and of its clock as a random history of batches wants."""

    def __init__(self, twins: Twins, caller: Caller = LOCAL) -> None:
        self.twins, self.caller = twins, caller

    def as_caller(self, actor: str, kind: Kind) -> Face:
        return Face(self.twins, Caller(SCOPE, kind, actor))

    def execute(self, commands: Sequence[c.Command | c.Request]) -> list[Outcome]:
        return self.twins.execute(commands, self.caller)

    def seal(self) -> None:
        self.twins.sealed()

    def advance(self, seconds: float) -> None:
        self.twins.advance(int(seconds * 1_000_000))

    def jump_wall(self, seconds: int) -> None:
        self.twins.jump(seconds)
