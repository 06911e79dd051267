"""Changes that the rules would never make, one for each guard in SQL.

Each case folds a command that is right, bends what is to be written (or the rows beneath) in one
dimension, and saves. The unbent change passes, so that only the bent dimension is refused.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, replace

from fencepost import commands as c
from fencepost.issues import GuardTripped
from fencepost.machine.fold import fold
from fencepost.machine.rows import Changes, Loaded
from fencepost.storage.port import Conflict
from helpers.situations import bring
from helpers.stand import WORKER, Make, Stand

REFUSED = (GuardTripped, sqlite3.IntegrityError, Conflict)
Bend = Callable[[Stand, Changes, Loaded], None]


@dataclass(frozen=True)
class Case:
    """`state` the task is brought to, the `command` that is folded there, and the bend."""

    state: str
    command: Callable[[str], c.Command]
    bend: Bend
    by: tuple[type[Exception], ...] = REFUSED


def submit(task_id: str) -> c.Command:
    return c.Submit(task_id, WORKER, 2, result={"row": 2}, expected_revision=1)


def renew(task_id: str) -> c.Command:
    return c.Renew(task_id, WORKER, 2, progress=[40], log="said")


def cancel(task_id: str) -> c.Command:
    return c.Cancel(task_id)


def review(task_id: str) -> c.Command:
    return c.Review(task_id, 1, "accepted")


def purge(task_id: str) -> c.Command:
    return c.Purge()


def claim(task_id: str) -> c.Command:
    return c.Claim("v", task_id=task_id)


CASES: dict[str, Case] = {}


def case(name: str, state: str, command: Callable[[str], c.Command],
         by: tuple[type[Exception], ...] = REFUSED) -> Callable[[Bend], Bend]:  # fmt: skip
    """Registers a bend under the name of what it must not be able to do."""

    def register(bend: Bend) -> Bend:
        CASES[name] = Case(state, command, bend, by)
        return bend

    return register


def attempt(name: str, make: Make) -> None:
    """Save the bent change: it must be refused, and after the undoing nothing has changed."""
    chosen = CASES[name]
    with make() as stand:
        stand.fp.set_policy(retain_seconds=0)
        stand.task("neighbour", "elsewhere")
        task_id = bring(stand, chosen.state)
        command = chosen.command(task_id)
        stand.fp.seal()  # as is done before a purge
        before = stand.dump()
        _save(stand, command, lambda *_: None)  # the change as the rules made it
        assert stand.dump() == before
        try:
            _save(stand, command, chosen.bend)
        except chosen.by:
            pass
        else:
            raise AssertionError(f"{name}: the change was written")
        assert stand.dump() == before


def _save(stand: Stand, command: c.Command, bend: Bend) -> None:
    kind = "human" if command.verb == "review" else "operator"
    with stand.loaded(command, kind=kind) as loaded:
        caller = stand.fp.as_caller("local", kind).caller
        request = c.Request.of(command, "guarded")
        (verdict,), changes = fold([(caller, request)], loaded)
        assert verdict.outcome.accepted
        bend(stand, changes, loaded)
        stand.save(changes, loaded)


def guard(changes: Changes, fence: int, revision: int | None) -> None:
    """Pretend that the caller presented this."""
    (row,) = changes.updated.values()
    row.guard = (fence, revision)


# --- the fence, the revision, the tombstone ---------------------------------------------------


@case("a result under the fence before the last", "leased", submit)
def _(stand: Stand, changes: Changes, loaded: Loaded) -> None:
    guard(changes, 1, 1)


@case("a result under a fence never drawn", "leased", submit)
def _(stand: Stand, changes: Changes, loaded: Loaded) -> None:
    guard(changes, 3, 1)


@case("a progress under the fence before the last", "leased", renew)
def _(stand: Stand, changes: Changes, loaded: Loaded) -> None:
    guard(changes, 1, None)


@case("a result for a revision that has passed", "leased", submit)
def _(stand: Stand, changes: Changes, loaded: Loaded) -> None:
    guard(changes, 2, 0)


@case("a result for a revision to come", "leased", submit)
def _(stand: Stand, changes: Changes, loaded: Loaded) -> None:
    guard(changes, 2, 2)


@case("a change of an erased task", "leased", cancel)
def _(stand: Stand, changes: Changes, loaded: Loaded) -> None:
    stand.connection.execute("update fencepost_task set erased = 1 where fence = 2")


@case("a change of a task that is not there", "leased", cancel)
def _(stand: Stand, changes: Changes, loaded: Loaded) -> None:
    (row,) = changes.updated.values()
    row.id = 99


@case("a change of a task that was claimed meanwhile", "leased", cancel)
def _(stand: Stand, changes: Changes, loaded: Loaded) -> None:
    stand.connection.execute("update fencepost_task set fence = 3 where fence = 2")


@case("a claim over a fence that was drawn meanwhile", "ready", claim)
def _(stand: Stand, changes: Changes, loaded: Loaded) -> None:
    stand.connection.execute("update fencepost_task set fence = 3 where fence = 2")


# --- the store's row --------------------------------------------------------------------------


def _store(**other: object) -> Bend:
    def bend(stand: Stand, changes: Changes, loaded: Loaded) -> None:
        loaded.store = replace(loaded.store, **other)  # type: ignore[arg-type]

    return bend


case("numbers under another writer", "leased", submit)(_store(writer_id="copy"))
case("numbers of an older epoch", "leased", submit)(_store(epoch=-1))
case("a fence that another has drawn", "leased", submit)(_store(last_fence=1))
case("an entry that another has written", "leased", submit)(_store(last_entry=3))


# --- results and commitments ------------------------------------------------------------------


@case("a second word of a human on one revision", "done", review)
def _(stand: Stand, changes: Changes, loaded: Loaded) -> None:
    stand.connection.execute("update fencepost_result set commitment = 'rejected'")


@case("a human's word on a revision that is not there", "done", review)
def _(stand: Stand, changes: Changes, loaded: Loaded) -> None:
    ((verdict, task, _),) = changes.reviews
    changes.reviews[:] = [(verdict, task, 2)]


@case("a human's word on another task's revision", "done", review)
def _(stand: Stand, changes: Changes, loaded: Loaded) -> None:
    ((verdict, _, revision),) = changes.reviews
    changes.reviews[:] = [(verdict, 99, revision)]


@case("a second result for one revision", "leased", submit)
def _(stand: Stand, changes: Changes, loaded: Loaded) -> None:
    changes.results[:] = [replace(changes.results[0], revision=1)]


@case("the same result twice in one round", "leased", submit)
def _(stand: Stand, changes: Changes, loaded: Loaded) -> None:
    first = stand.connection.execute("select sha256 from fencepost_result").fetchone()[0]
    changes.results[:] = [replace(changes.results[0], sha256=first)]


# --- entries, ids, rows -----------------------------------------------------------------------


@case("an entry under a number that is taken", "leased", submit)
def _(stand: Stand, changes: Changes, loaded: Loaded) -> None:
    changes.entries[0].number = 1


@case("an entry under a key that is taken", "leased", submit)
def _(stand: Stand, changes: Changes, loaded: Loaded) -> None:
    taken = "select key from fencepost_entry where key is not null limit 1"
    changes.entries[0].key = stand.connection.execute(taken).fetchone()[0]


@case("a fence above 10^15 - 1", "ready", claim)
def _(stand: Stand, changes: Changes, loaded: Loaded) -> None:
    (row,) = changes.updated.values()
    row.fence = 10**15


@case("a last fence above 10^15 - 1", "ready", claim)
def _(stand: Stand, changes: Changes, loaded: Loaded) -> None:
    assert changes.store is not None
    changes.store = replace(changes.store, last_fence=10**15)


def _back(**other: int) -> Bend:
    def bend(stand: Stand, changes: Changes, loaded: Loaded) -> None:
        assert changes.store is not None
        changes.store = replace(changes.store, **other)  # type: ignore[arg-type]

    return bend


case("a last fence that goes back", "ready", claim)(_back(last_fence=1))
case("an entry number that goes back", "ready", claim)(_back(last_entry=5))


@case("an epoch that goes back", "ready", claim)
def _(stand: Stand, changes: Changes, loaded: Loaded) -> None:
    stand.connection.execute("update fencepost_store set epoch = 1")
    loaded.store = replace(loaded.store, epoch=1)
    assert changes.store is not None and changes.store.epoch == 0


@case("a floor above the epoch", "ready", claim)
def _(stand: Stand, changes: Changes, loaded: Loaded) -> None:
    assert changes.store is not None
    changes.store = replace(changes.store, floor=1)


@case("a lease without a worker", "ready", claim)
def _(stand: Stand, changes: Changes, loaded: Loaded) -> None:
    (row,) = changes.updated.values()
    row.worker_id = None


@case("a state that there is not", "ready", claim, (LookupError,))
def _(stand: Stand, changes: Changes, loaded: Loaded) -> None:
    (row,) = changes.updated.values()
    row.state = "paused"  # type: ignore[assignment]


@case("a purge of a task that lives", "done", purge)
def _(stand: Stand, changes: Changes, loaded: Loaded) -> None:
    stand.connection.execute("update fencepost_task set place = 0")


@case("a purge under another fence than the task ended with", "done", purge)
def _(stand: Stand, changes: Changes, loaded: Loaded) -> None:
    changes.purged[0].guard = (1, None)


@case("a purge of a task that is not there", "done", purge)
def _(stand: Stand, changes: Changes, loaded: Loaded) -> None:
    changes.purged[0].id = 99
