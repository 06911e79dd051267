"""The entries of a small history, and how the journal's reader takes them with one of them changed.

Without a file and without sealing anew, so that thousands of changes can be tried.
"""

from __future__ import annotations

import pickle
from functools import cache

from fencepost.clock import FakeClock
from fencepost.journal import ledger, verify
from fencepost.journal.problems import Findings, Problem
from fencepost.journal.reading import EntryRow
from fencepost.record import replace
from fencepost.storage.verifying import Pages
from helpers.lab import START
from helpers.workload import every_verb, opened


@cache
def history() -> list[EntryRow]:
    """All entries of `workload.every_verb`, in order from number 1."""
    clock = FakeClock(START)
    with opened(":memory:", clock) as fp:
        every_verb(fp, clock)
        fp.seal()
        with fp._store.snapshot() as read:
            return list(Pages(read).entries())


@cache
def before() -> list[bytes]:
    """The ledger before each entry, and after the last, as pickles."""
    entries = _taking(ledger.Ledger(Findings()), 0)
    states = []
    for row in history():
        states.append(pickle.dumps(entries.ledger))
        entries.take(row)
    assert entries.findings.all() == ()
    return [*states, pickle.dumps(entries.ledger)]


def taking_from(last: int) -> verify.Entries:
    """What has taken the entries up to number `last` and takes the next, without a tree."""
    return _taking(pickle.loads(before()[last]), last)  # noqa: S301  made above


def _taking(told: ledger.Ledger, last: int) -> verify.Entries:
    entries = verify.Entries(told, _NoTree(), told.findings, 0)
    entries.last = last
    return entries


def with_other_bytes(place: int, body: bytes, more: int = 0) -> tuple[Problem, ...]:
    """What is found when the entry at `place` (from 0) has these bytes, and `more` follow."""
    entries = taking_from(place)
    entries.take(replace(history()[place], body=body))
    for row in history()[place + 1 : place + 1 + more]:
        entries.take(row)
    entries.ledger.settle()
    return entries.findings.all()


class _NoTree(verify.TreeCheck):
    """In the place of the tree, which stays out of this."""

    def __init__(self) -> None:
        self.size = 1 << 30

    def take(self, leaf: bytes | None) -> None:
        """Nothing."""
