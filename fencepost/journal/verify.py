"""Reads a whole store and says whether it is what its journal tells, and what is not.

It recomputes the RFC 6962 tree from the entries' bytes (where a purge has dropped them, the
stored leaf hash counts), holds every stored node and checkpoint against it, checks each entry's
form, opening and moves (`reading.py`, `ledger.py`), and then each row against the last entry
that named it (`rows.py`).

What nothing inside a file can show. Whoever can write the file and knows this program can write
another history that is whole in itself: entries, tree, checkpoints and rows anew, or the last
ones cut off with their rows. Only a checkpoint that was kept elsewhere (`since`) shows that. Not
bound by any entry, and so not checked: the end of a lease (renew leaves no entry), the reason of
a failure, results that were refused and kept aside, the keys of what was erased (tombstones), which
entries named a task again by its key, which writers were recognised (but that each epoch has one,
or follows from fences that were used up or a clock that was reset), the time of a seal, the store's
secret, the time of its creation, and by how much the mark of the store's time is later than its
last entry (what leaves no entry moves it too). Entries that are not sealed yet are bound by what
follows from them alone. A purge that left no trace of why an entry's bytes are gone cannot be told
from a right one, but the leaf hash still says what the bytes were.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import chain
from typing import Protocol

from fencepost.journal import checkpoint
from fencepost.journal.checkpoint import Checkpoint
from fencepost.journal.ledger import Ledger
from fencepost.journal.problems import Findings, Problem, Verification
from fencepost.journal.reading import EntryRow, opening_problem, read
from fencepost.journal.rows import Rows, RowSource
from fencepost.journal.tree import EMPTY_ROOT, Frontier, leaf_hash
from fencepost.lineage import Writer
from fencepost.model import StoreState
from fencepost.record import dataclass

__all__ = ["Problem", "Progress", "Source", "Verification", "verify"]

EVERY = 500


@dataclass(frozen=True, slots=True)
class Progress:
    """How far `verify` has come: `done` of `total` entries or tasks."""

    what: str
    done: int
    total: int


class Source(RowSource, Protocol):
    """What `verify` reads: everything of one snapshot of a store."""

    def store(self) -> StoreState: ...

    def writers(self) -> Sequence[Writer]:
        """The lineage, by epoch."""

    def beside(self) -> bool:
        """Whether its transactions run side by side."""

    def tree_size(self) -> int: ...

    def entries(self) -> Iterable[EntryRow]:
        """By number."""

    def nodes(self, level: int) -> Iterable[tuple[int, bytes]]:
        """(position, hash) of one level, by position."""

    def top_level(self) -> int:
        """The highest level of any stored node; -1 where there is none."""

    def checkpoints(self) -> Iterable[tuple[int, bytes]]:
        """(size, text), by size."""


def verify(
    source: Source, since: Checkpoint | None = None
) -> Generator[Progress, None, Verification]:
    """Check everything, yielding progress now and then; returns what was found.

    `since` is a checkpoint that was kept elsewhere: the tree must go through it, and entries
    that it covers are taken as well-formed (they are still read, hashed and followed).
    Memory grows by about 260 bytes for each living task. Problems are found, never raised; what
    reading raises (Unavailable for a damaged file) goes through.
    """
    findings = Findings()
    ledger = Ledger(findings, source.beside(), source.writers())
    store = source.store()
    size = source.tree_size()
    tree = TreeCheck(source, findings, size, since)
    trusted = 0 if since is None else since.size
    entries = Entries(ledger, tree, findings, trusted)
    for row in source.entries():
        entries.take(row)
        if entries.last % EVERY == 0:
            yield Progress("entries", entries.last, store.last_entry)
    tree.finish(ledger.writers | {store.writer_id})
    rows = Rows(ledger)
    living = len(ledger.tasks)
    for done in rows.run(source, store.epoch, EVERY):
        yield Progress("tasks", done, max(done, living))
    ledger.come_to(store.epoch)
    rows.store(store, entries.last)
    ledger.settle()
    return Verification(
        entries.read, len(ledger.purged), rows.tasks, rows.results, size,
        max(entries.last - size, 0), tree.sealed_root, findings.all(),
    )  # fmt: skip


class Entries:
    """Takes the entries one by one: no gap, each with its bytes, its form and its opening."""

    def __init__(
        self, ledger: Ledger, tree: TreeCheck, findings: Findings, trusted: int
    ) -> None:
        self.ledger = ledger
        self.tree = tree
        self.findings = findings
        self.trusted = trusted
        self.last = 0
        self.read = 0

    def take(self, row: EntryRow) -> None:
        for number in range(self.last + 1, row.number):
            self.findings.tell("entry_missing", f"entry {number}", "the journal has a gap here")
            self.tree.take(None)
        self.last = row.number
        self.tree.take(None if row.body is None else leaf_hash(row.body))
        if row.body is None:
            self._purged(row)
            return
        self.read += 1
        try:
            entry = read(row.body, strict=row.number > self.trusted)
            problem = opening_problem(row, entry)
            if problem is not None:
                self.findings.tell("opening", f"entry {row.number}", f"its opening: {problem}")
            self.ledger.take(row, entry)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            self.findings.tell("entry_form", f"entry {row.number}", str(error))

    def _purged(self, row: EntryRow) -> None:
        self.ledger.lose(row.number)
        left = (row.salt, row.request_sha256, row.result_sha256, row.key)
        if row.task is None or row.number > self.tree.size or any(p is not None for p in left):
            message = "its bytes are gone, and not as a purge leaves it"
            self.findings.tell("entry_missing", f"entry {row.number}", message)


class TreeCheck:
    """Recomputes the tree as the leaves come, and compares nodes, checkpoints and `since`.

    Where a leaf differs from the stored one, it is told, and the stored one is taken on: so one
    edited entry is one problem and not one at each node above it.
    """

    def __init__(
        self, source: Source, findings: Findings, size: int, since: Checkpoint | None
    ) -> None:
        self.size = size
        self.sealed_root = EMPTY_ROOT
        self._source = source
        self._findings = findings
        self._frontier = Frontier()
        self._levels: list[Iterator[tuple[int, bytes]]] = []
        self._since = since
        self._origins: dict[str, int] = {}
        self._checkpoints = iter(source.checkpoints())
        self._next = next(self._checkpoints, None)
        self._before: Checkpoint | None = None
        self._reach()

    def take(self, leaf: bytes | None) -> None:
        """The next leaf, computed from an entry's bytes; None where they are gone."""
        sealed = self._frontier.size < self.size
        stored = self._stored(0, self._frontier.size) if sealed else None
        place = f"entry {self._frontier.size + 1}"
        if sealed and leaf is not None and stored is not None and stored != leaf:
            message = "its bytes are not those of its leaf hash"
            self._findings.tell("entry_edited", place, message)
        nodes = self._frontier.append((stored or leaf) or bytes(32))
        for level, index, hash_ in nodes[1:]:
            if (index + 1) << level <= self.size:
                stored = self._stored(level, index)
                if stored is not None and stored != hash_:
                    message = "it is not the hash of what lies below it"
                    self._findings.tell("node", f"node {level}/{index}", message)
        self._reach()

    def _stored(self, level: int, index: int) -> bytes | None:
        """The next node of a level; None (and told) where it is missing."""
        while len(self._levels) <= level:
            self._levels.append(iter(self._source.nodes(len(self._levels))))
        position, hash_ = next(self._levels[level], (None, b""))
        if position == index:
            return hash_
        self._findings.tell("node", f"node {level}/{index}", "it is missing")
        if position is not None:  # the next ones may still be there
            self._levels[level] = chain([(position, hash_)], self._levels[level])
        return None

    def _reach(self) -> None:
        """What has to be compared at the size that the tree has now."""
        size = self._frontier.size
        root = None
        if size == self.size:
            self.sealed_root = root = self._frontier.root()
        while self._next is not None and self._next[0] <= size:
            self._checkpoint(*self._next, root or self._frontier.root())
            self._next = next(self._checkpoints, None)
        since = self._since
        if since is not None and since.size == size and since.root != self._frontier.root():
            message = "the journal is another one up to here: a rewrite or a fork"
            self._findings.tell("since_fork", f"checkpoint of {size}", message)

    def _checkpoint(self, size: int, text: bytes, root: bytes) -> None:
        place = f"checkpoint of {size}"
        try:
            head = checkpoint.parse(text)
        except ValueError as error:
            self._findings.tell("checkpoint", place, str(error))
            return
        if (head.size, head.root) != (size, root):
            self._findings.tell("checkpoint", place, "its root is not that of the entries")
        before = self._before
        known = (None, None) if before is None else (before.size, before.sha256())
        if (head.previous_size, head.previous_sha256) != known:
            self._findings.tell("checkpoint", place, "it does not name the one before it")
        self._origins.setdefault(head.origin, size)
        self._before = head

    def finish(self, writers: set[str]) -> None:
        """After the last entry: nothing may be left over, and nothing be too short."""
        size, tell = self._frontier.size, self._findings.tell
        if size < self.size:
            tell("entry_missing", f"entry {size + 1}", f"the tree covers {self.size} entries")
        for level in range(self._source.top_level() + 1):
            rest = self._levels[level] if level < len(self._levels) else (
                iter(self._source.nodes(level))
            )
            if (more := next(rest, None)) is not None:
                tell("node", f"node {level}/{more[0]}", "it is beyond the tree")
        if self._next is not None:
            tell("checkpoint", f"checkpoint of {self._next[0]}", "it is beyond the journal")
        last = 0 if self._before is None else self._before.size
        if last != self.size:
            tell("checkpoint", f"checkpoint of {last}", f"the tree covers {self.size} entries")
        for origin, first in self._origins.items():
            if origin.removeprefix("fencepost/") not in writers:
                tell("checkpoint", f"checkpoint of {first}", f"{origin} has never written here")
        self._finish_since(writers)

    def _finish_since(self, writers: set[str]) -> None:
        since = self._since
        if since is None:
            return
        place = f"checkpoint of {since.size}"
        if since.origin.removeprefix("fencepost/") not in writers:
            self._findings.tell("since_fork", place, f"{since.origin} has never written here")
        if since.size > min(self._frontier.size, self.size):
            message = f"the journal has only {self.size} sealed entries: its end is cut off"
            self._findings.tell("since_cut", place, message)
