"""The stores of the reference: files by their owners' names, their clock, and what the conformance
kit asks of a target. The rules stand in `sqlite_reference.py`; here is only what holds them: one
command, one transaction of SQLite. Standard library only; no line of it is shared with a product.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

from . import reference_bytes as wire
from . import reference_parts as parts
from .reference_bytes import Row
from .reference_parts import SECOND, Fault, Refused


class Stores:
    """Stores by their owners' names: on files, or, at `:memory:`, there and for one thread only."""

    name: str
    transaction: Any  # what carries out one command at one moment

    def __init__(self, place: str = "") -> None:
        self.folder, self.place = TemporaryDirectory(prefix="reference-"), place
        self.clock, self.chance, self.owners = parts.Clock(), parts.Chance(), dict[str, Any]()

    def describe(self) -> dict[str, Any]:
        controls = ["fresh", "clock", "faults", "copy", "threads"][: 4 if self.place else 5]
        return parts.about(self.name, controls)

    def connect(self, path: str) -> sqlite3.Connection:
        db = sqlite3.connect(path, isolation_level=None, timeout=30)
        db.executescript("pragma journal_mode = truncate; pragma synchronous = full")
        return db

    def fresh(self, owner: str) -> None:
        self.close(owner)
        path = self.place or f"{self.folder.name}/{uuid4()}.db"
        o = self.owners[owner] = SimpleNamespace(path=path, last=(0, 0), fails="")
        o.db = self.connect(path)
        o.db.executescript("create table kept (kind, name, row, primary key (kind, name));"
                           "create table receipt (lookup primary key, entry, gone)")
        store = {**parts.NEW_STORE, "writer": str(uuid4()), "secret": self.chance.salt()}
        o.db.execute("insert into kept values ('store', '', ?)", (json.dumps(store),))

    def close(self, *names: str) -> None:
        """These stores, or all of them, and then for good."""
        for name in (name for name in names or list(self.owners) if name in self.owners):
            self.owners.pop(name).db.close()
        if not names:
            self.folder.cleanup()

    def copy(self, source: str, target: str, pinned: bool) -> None:
        """With its identity as it is, or recognised as a copy: no lease from before counts."""
        self.fresh(target)
        o = self.owners[target]
        self.owners[source].db.backup(o.db)
        if not pinned:
            t = self.transaction(self, o, o.db, Row(scope="", actor=""), Row())
            t.new_epoch()
            t.put("store", "", t.store)

    def advance(self, seconds: float) -> None:
        self.clock.advance(round(seconds * SECOND))

    def advance_microseconds(self, microseconds: int) -> None:
        self.clock.advance(microseconds)

    def fail_next(self, owner: str, place: str) -> None:
        self.owners[owner].fails = place

    def fault(self, owner: Any, place: str) -> None:
        if owner.fails == place:
            raise Fault("outcome_unknown" if place == "after_commit" else "store_unavailable")

    def send(self, owner: str, caller: dict[str, Any], body: str, key: str | None,
             db: sqlite3.Connection | None = None) -> dict[str, Any]:
        o, who = self.owners[owner], Row(caller)
        db = db or o.db
        try:
            c = wire.read_command(body, who, key)
        except wire.Malformed as error:
            return parts.refusal(["invalid_request"], str(error))
        db.execute("begin immediate")  # from here on nobody else writes; then the time is asked
        try:
            t = self.transaction(self, o, db, who, c, body, key)
            told = t.decide()
            t.put("store", "", Row({**t.store, "mark": t.now}))
            self.fault(o, "before_commit")
            db.execute("commit")
            self.fault(o, "after_commit")
            return parts.outcome(told)
        except (Refused, Fault) as error:
            codes = error.issues if isinstance(error, Refused) else [str(error)]
            return parts.refusal(codes, **getattr(error, "facts", {}))
        finally:
            o.fails = ""
            if db.in_transaction:
                db.execute("rollback")

    def race(self, sends: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """All at once, each from a connection of its own."""
        def one(wait: Callable[[], object], given: dict[str, Any]) -> dict[str, Any]:
            with closing(self.connect(self.owners[given["owner"]].path)) as db:
                wait()
                return self.send(**given, db=db)

        return parts.at_once(one, sends)

    def read(self, owner: str, caller: dict[str, Any], what: str, **names: Any) -> Any:
        o = self.owners[owner]
        return parts.read(self.transaction(self, o, o.db, Row(caller), Row()), what, Row(names))
