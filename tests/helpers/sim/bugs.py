"""Faults of the product that the simulation must find. Most are those of `helpers/mutants.py`,
taken by their names; here are those that only a life of crashes, clocks and copies can show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fencepost.clock import StoreTime
from fencepost.engine.transact import Transactor
from fencepost.machine import claims
from fencepost.machine.batch import Batch
from fencepost.rules import fence, retry
from fencepost.storage.sqlite import driver
from fencepost.storage.sqlite.store import SqliteStore
from fencepost.storage.sqlite.transaction import SqliteTransaction
from helpers.faults import Patch, dropped, edit, replace_function
from helpers.mutants import MACHINE, RULES

Plant = Callable[[Patch], None]


def no_fence_anywhere(patch: Patch) -> None:
    """Neither the rule nor the guard compares the fence."""
    replace_function(patch, fence.stale_fence, lambda *_: None)
    patch.setitem(driver.STATEMENTS, "update_task", dropped("update_task", "fence = ?"))


def no_floor_anywhere(patch: Patch) -> None:
    """A reset leaves leases as they are, and nobody compares their epoch with the floor."""
    edit(patch, fence.stale_epoch, "below or wrong", "wrong")
    edit(patch, fence.lapsed, "task.epoch < moment.floor", "False")
    nothing = "update fencepost_task set rank = rank where id = :now and id = :floor"
    patch.setitem(driver.STATEMENTS, "end_leases", nothing)


def sweeps_what_is_done(patch: Patch) -> None:
    """A sweep gives back tasks that are done, and leases that live."""
    sql = driver.STATEMENTS["lapsed_tasks"]
    ended = "place = 2 and rank >= :since and rank <= :now"
    assert sql.count(ended) == 1
    both = sql.replace(ended, "place in (2, 4) and :since < :now")
    patch.setitem(driver.STATEMENTS, "lapsed_tasks", both)
    edit(patch, claims.sweep, "if lapsed(row, batch.moment(row.scope))", "")


def lost_on_opening(patch: Patch) -> None:
    """What was committed last is gone when the store is opened again."""
    real = SqliteStore.resume_cleaning

    def forget(store: Any) -> None:
        store._write.execute(
            "delete from fencepost_entry where number = (select max(number) from fencepost_entry)"
        )
        real(store)

    patch.setattr(SqliteStore, "resume_cleaning", forget)


def acknowledged_too_early(patch: Patch) -> None:
    """One commit in fifty is answered and not made."""
    real, made = SqliteTransaction.commit, [0]

    def commit(transaction: Any) -> None:
        made[0] += 1
        (transaction.rollback if made[0] % 50 == 0 else lambda: real(transaction))()

    patch.setattr(SqliteTransaction, "commit", commit)


def edited(function: Callable[..., Any], old: str, new: str) -> Plant:
    return lambda patch: edit(patch, function, old, new)


OWN: dict[str, Plant] = {
    "no fence anywhere": no_fence_anywhere,
    "no floor anywhere": no_floor_anywhere,
    "a sweep gives back what is done": sweeps_what_is_done,
    "the last commit is lost on opening": lost_on_opening,
    "an answer before the commit": acknowledged_too_early,
    "the first answer is not the stored receipt": edited(
        Batch.record, "return Receipt(stored.number, body,",
        "return Receipt(stored.number, body + b' ',",
    ),
    "the time follows the wall clock back": edited(
        StoreTime._reckon, "wall >= mark and wall >= self._last", "True"
    ),
    "a new process forgets the mark": edited(StoreTime._reckon, "max(wall, mark), 0", "wall, 0"),
    "a lowered mark is not learnt": edited(Transactor.time_of, "self.time.reset()", "pass"),
    "an unknown commit is told as undone": edited(
        Transactor._found, "if known is not None:", "if False:"
    ),
    "what waits never comes due": edited(
        retry.due, "task.due_at <= now or task.due_at == task.created_at",
        "task.due_at == task.created_at",
    ),
}  # fmt: skip
TAKEN = (
    "stale_fence never refuses", "lease_expired never refuses", "stale_policy never refuses",
    "stale_epoch never refuses", "wrong_worker never refuses", "a lease lives at its very end",
    "a lapse comes after the very end", "a fence is given twice", "a replay by the key alone",
    "nothing is replayed", "a replay goes before authority", "a revision does not step",
    "a result owes nothing", "a claim takes live leases", "a reset raises no floor",
    "an erased task answers",
)  # fmt: skip
BUGS: dict[str, Plant] = {
    **OWN, **{m.name: m.plant for m in (*RULES, *MACHINE) if m.name in TAKEN},
}  # fmt: skip
