"""The product behind the kit's protocol: a process of its own, with controls for tests that the
shipped code does not have. They are put in from here, in this process only.

Run by the kit as `python3 product.py SEED`; it needs `fencepost` importable.
"""

from __future__ import annotations

import hashlib
import json
import logging
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from fencepost import version
from fencepost.clock import SECOND, FakeClock
from fencepost.commands import COMMANDS, Request
from fencepost.conformance.product_pin import pin
from fencepost.engine import SystemDraw
from fencepost.handle import Handle, open_handle
from fencepost.issues import FencepostError, OutcomeUnknown
from fencepost.model import KINDS, Outcome
from fencepost.storage import saving
from fencepost.storage.sqlite.transaction import SqliteTransaction

Json = dict[str, Any]
START = 1_767_225_600_000_000  # 2026-01-01T00:00:00Z


class Cut(Exception):
    """The failure that a case asked for."""


class Product:
    """Stores under one clock: whatever the database, these are the controls. `transaction` is the
    class whose commit the fail-points stand around."""

    backend: str
    transaction: type[Any]

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.clock = FakeClock(START)
        self.addresses: dict[str, str] = {}
        self.handles: dict[str, Handle] = {}
        self.faults: dict[str, str] = {}
        self.opened = 0

    def describe(self) -> Json:
        return {**described(), "backend": self.backend}

    # -- the stores

    def fresh(self, owner: str) -> None:
        self._reopen(owner, self._new_address(), create=True)

    def copy(self, source: str, target: str, pinned: bool) -> None:
        """What `source` holds, as another store. Pinned: the copy cannot know that it is one."""
        raise NotImplementedError

    def _new_address(self) -> str:
        """Where nothing is yet."""
        raise NotImplementedError

    def _reopen(self, owner: str, address: str, *, create: bool = False) -> None:
        if owner in self.handles:
            self.handles.pop(owner).close()
        self.faults.pop(owner, None)
        self.addresses[owner] = address
        self.handles[owner] = self._open(address, create=create)

    def _open(self, address: str, *, create: bool = False) -> Handle:
        self.opened += 1
        draw = SystemDraw(Random(f"{self.seed} {self.opened}").randbytes)  # noqa: S311  # for tests
        return open_handle(address, create=create, clock=self.clock, draw=draw)

    # -- time and failures

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def advance_microseconds(self, microseconds: int) -> None:
        self.clock.advance(microseconds / SECOND)

    def fail_next(self, owner: str, place: str) -> None:
        if place not in FAULTS:
            raise NotImplementedError(f"there is no fail-point {place}")
        self.faults[owner] = place

    # -- commands

    def send(self, owner: str, caller: Json, body: str, key: str | None) -> Json:
        place = self.faults.pop(owner, None)
        if place is None:
            return sent(self.handles[owner], caller, body, key)
        with FAULTS[place](self.transaction):
            outcome = sent(self.handles[owner], caller, body, key)
        # What comes after a failure comes to a process that has just opened the store.
        self._reopen(owner, self.addresses[owner])
        if place == "after_commit":  # whatever was said: nobody has heard it
            return Outcome("failed", (OutcomeUnknown.code,), "the answer is lost").to_json()
        return outcome

    def race(self, sends: list[Json]) -> list[Json]:
        handles = [self._open(self.addresses[one.pop("owner")]) for one in sends]
        outcomes: list[Json] = [{}] * len(sends)
        start = threading.Barrier(len(sends))

        def run(place: int) -> None:
            start.wait()
            outcomes[place] = sent(handles[place], **sends[place])

        threads = [threading.Thread(target=run, args=(place,)) for place in range(len(sends))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for handle in handles:
            handle.close()
        return outcomes

    def close(self) -> None:
        for handle in self.handles.values():
            handle.close()

    # -- reading

    def read(self, owner: str, caller: Json, what: str, **names: Any) -> Any:
        handle = self.handles[owner].as_caller(caller["actor"], caller["kind"], caller["scope"])
        try:
            return READS[what](handle, **names)
        except FencepostError as error:
            return refusal(error).to_json()


class OnFiles(Product):
    """On SQLite: files below one temporary folder."""

    backend = "sqlite"
    transaction = SqliteTransaction

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(seed)
        self.folder = folder

    def copy(self, source: str, target: str, pinned: bool) -> None:
        address = self._new_address()
        self.handles[source].copy_to(Path(address), lambda done, all: None)
        if pinned:
            pin(Path(address))
        self._reopen(target, address)  # what is not pinned has to see by itself what it is

    def _new_address(self) -> str:
        self.opened += 1
        return str(self.folder / f"{self.opened}.db")


def described() -> Json:
    """What the product says it is, whatever it is reached by."""
    return {
        "name": "fencepost", "version": version.VERSION,
        "controls": ["fresh", "clock", "faults", "copy", "threads"],
        "operations": list(COMMANDS), "principals": list(KINDS), "sha256": sources(),
    }  # fmt: skip


def sent(handle: Handle, caller: Json, body: str, key: str | None) -> Json:
    """The outcome of one command; what is raised is an outcome too."""
    try:
        request = Request.read(body.encode(), key)
        twin = handle.as_caller(caller["actor"], caller["kind"], caller["scope"])
        (outcome,) = twin.execute([request])
    except UnicodeEncodeError:
        outcome = Outcome("failed", ("invalid_request",), "command is not UTF-8")
    except (FencepostError, Cut) as error:
        outcome = refusal(error)
    return outcome.to_json()


def refusal(error: Exception) -> Outcome:
    """An error as an outcome."""
    known: Outcome | None = getattr(error, "outcome", None)
    code = getattr(error, "code", "store_unavailable")
    return known or Outcome("failed", (code,), str(error) or type(error).__name__)


def counts(handle: Handle) -> Json:
    """Results, receipts of results and obligations of the handle's scope."""
    tasks = list(handle.tasks())
    owed = {row.queue for row in handle.queue_rows() if row.is_destination}
    bodies = [json.loads(entry.body) for entry in handle.entries() if entry.body is not None]
    scope = handle.caller.scope
    return {
        "results": sum(len(list(handle.results(task.task_id))) for task in tasks),
        "receipts": sum("result" in body and body["scope"] == scope for body in bodies),
        "obligations": sum(task.queue in owed for task in tasks),
    }


READS: dict[str, Callable[..., Any]] = {
    "task": lambda handle, task_id: handle.task(task_id).to_json(),
    "tasks": lambda handle, **names: [task.to_json() for task in handle.tasks(**names)],
    "results": lambda handle, task_id: [row.to_json() for row in handle.results(task_id)],
    "receipt": lambda handle, key, actor: handle.receipt(key, actor=actor).to_json(),
    "counts": counts,
    "entries": lambda handle, after=0: [entry.to_json() for entry in handle.entries(after)],
}


# -- the fail-points


@contextmanager
def replaced(owner: Any, name: str, stand_in: Any) -> Iterator[None]:
    """Another function in the place of one of the product's, inside the block."""
    honest = getattr(owner, name)
    setattr(owner, name, stand_in)
    try:
        yield
    finally:
        setattr(owner, name, honest)


def obligation_insert(transaction: type[Any]) -> Any:
    """A row on a destination queue cannot be inserted; everything before it was."""
    honest = saving.save

    def save(changes: Any, loaded: Any, bury: Any) -> Any:
        owed = [
            task for task in changes.inserted.values()
            if loaded.queues[task.scope, task.queue].is_destination
        ]  # fmt: skip
        yield from honest(changes, loaded, bury)
        if owed:
            raise Cut(f"{owed[0].queue} takes no row")

    return replaced(saving, "save", save)


def before_commit(transaction: type[Any]) -> Any:
    """All is written, then the process fails."""

    def commit(going: Any) -> None:
        raise Cut("before the commit")

    return replaced(transaction, "commit", commit)


def after_commit(transaction: type[Any]) -> Any:
    """The commit stands, and the process fails before it answers."""
    honest = transaction.commit

    def commit(going: Any) -> None:
        honest(going)
        raise Cut("after the commit")

    return replaced(transaction, "commit", commit)


FAULTS: dict[str, Callable[[type[Any]], Any]] = {
    "obligation_insert": obligation_insert,
    "before_commit": before_commit,
    "after_commit": after_commit,
}


def sources() -> str:
    """Digest of the product's own files, the kit left out: of `sha256  path` lines, sorted."""
    root = Path(version.__file__).resolve().parent
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(root).as_posix()}\n"
        for path in root.rglob("*")
        if path.suffix in (".py", ".sql") and "conformance" not in path.parts
    ]
    return hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()


def main(seed: int) -> None:
    """Serve on standard input and output until the kit is done."""
    with tempfile.TemporaryDirectory(prefix="fencepost-conform-") as folder:
        serve_until_done(OnFiles(Path(folder), seed))


def serve_until_done(product: Product) -> None:
    """The kit's protocol on standard input and output."""
    logging.disable()  # failures that the kit asked for are no news
    from fencepost.conformance.adapters import serve

    try:
        serve(product, sys.stdin, sys.stdout)
    finally:
        product.close()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
