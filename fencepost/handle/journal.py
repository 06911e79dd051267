"""The journal's face on the handle: seal, prove, read, verify."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost import fields
from fencepost.commands import Command
from fencepost.handle.verbs import Verbs
from fencepost.issues import FencepostError, JournalBroken, Unavailable, error_for
from fencepost.journal import checkpoint, tree
from fencepost.journal.checkpoint import Checkpoint
from fencepost.machine.batch import refuse
from fencepost.machine.rows import Stored
from fencepost.model import EVERY_SCOPE, Caller, Outcome, Receipt, StoreState, Task, Writer
from fencepost.record import dataclass
from fencepost.rules import authority
from fencepost.storage import reading
from fencepost.storage.port import Store
from fencepost.storage.steps import Read, Steps, rows_of

if TYPE_CHECKING:
    from fencepost.journal.proof import ConsistencyProof, Proof
    from fencepost.journal.verify import Progress, Verification

SEAL_AT_ONCE = 2_000


@dataclass(frozen=True, slots=True)
class EntryView:
    """An entry as a caller may see it.

    `body` is None where a purge has dropped it, or where it is of another scope or queue than the
    caller's (operator and auditor see those too, unless a token binds them). `receipt` has the
    opening too; None where either is gone.
    `leaf_hash` (32 bytes) is always there, so that whoever sees only hashes can still recompute
    the tree.
    """

    number: int
    body: bytes | None
    receipt: Receipt | None
    leaf_hash: bytes

    def to_json(self) -> dict[str, Any]:
        opening = {} if self.receipt is None else self.receipt.to_json()
        entry = None if self.body is None else self.body.decode()
        return {
            **opening, "number": self.number, "entry": entry, "leaf_hash": self.leaf_hash.hex(),
        }  # fmt: skip


class Journal(Verbs):
    """What can be asked of the journal. Everybody may prove what is in his own scope."""

    caller: Caller
    _store: Store

    @abstractmethod
    def now(self) -> int:
        """The store's time."""

    @abstractmethod
    def _may_read(self) -> None: ...

    @abstractmethod
    def _task(self, task_id: str, *, with_payload: bool = True) -> tuple[int, Task]: ...

    # -- sealing

    def seal(self) -> Checkpoint:
        """Put all committed entries into the tree; returns the checkpoint that covers them.

        Raises Forbidden to all but the scope's operator, Unavailable where the store is read-only.
        """
        self._only("operator")
        return self._sealed()

    def _sealed(self) -> Checkpoint:
        left = True
        while left and not self._store.read_only:
            with self._store.turn():
                left = self._store.seal(self.now(), SEAL_AT_ONCE)
                self._store.tidy(erased=False)
        return self._store.read(_last_checkpoint())

    # -- proofs

    def prove(self, entry: int | Receipt) -> Proof:
        """The proof that this entry is in the journal, under a checkpoint that covers it.

        Seals first if it is not sealed yet. Raises NotFound for an entry that is not there or
        not the caller's to see, ReceiptErased where a purge has dropped its bytes (a proof given
        before stays valid), Unavailable where it would have to be sealed in a read-only store.
        """
        from fencepost.journal.proof import Proof

        self._may_read()
        number = entry.number if isinstance(entry, Receipt) else fields.fence(entry, "number")
        if self._store.read(reading.place(number)) is None:
            self._own_entry(number)  # the turn to write is taken for what there is to be proved
            self._sealed()
        with self._store.reading():
            body = self._own_entry(number)
            head = self._store.read(_last_checkpoint())
            place = self._store.read(reading.place(number))
            if place is None:
                raise Unavailable(f"entry {number} is not sealed, and the store is read-only")
            path = self._path(lambda nodes: tree.inclusion_proof(place, head.size, nodes))
        proof = Proof(place + 1, body, head.size, path, head.text())
        proof.check()
        return proof

    def _own_entry(self, number: int) -> bytes:
        stored = self._store.read(reading.entry(number))
        sees = authority.sees_every_scope(self.caller)
        if stored is not None and stored.body is None and sees:
            raise error_for(
                Outcome("failed", ("receipt_erased",), f"entry {number} has been purged")
            )
        body = None if stored is None else self._shown(stored)
        if body is None:
            raise error_for(Outcome("failed", ("not_found",), f"there is no entry {number}"))
        return body

    def prove_consistency(self, old: int | Checkpoint) -> ConsistencyProof:
        """The proof that the journal goes on from a checkpoint: the one given, or this store's
        of that size. Raises NotFound for a size without one, JournalBroken if it does not."""
        from fencepost.journal.proof import ConsistencyProof

        self._may_read()
        with self._store.reading():
            first = old if isinstance(old, Checkpoint) else self._checkpoint_of(old)
            head = self._store.read(_last_checkpoint())
            path: tuple[bytes, ...] = ()
            if 0 < first.size <= head.size:
                path = self._path(
                    lambda nodes: tree.consistency_proof(first.size, head.size, nodes)
                )
        proof = ConsistencyProof(first.text(), head.text(), path)
        proof.check()
        return proof

    def _checkpoint_of(self, size: int) -> Checkpoint:
        fields.fence(size, "size")
        rows = self._store.read(rows_of("checkpoints", after=size - 1, limit=1))
        if not rows or rows[0][0] != size:
            raise error_for(
                Outcome("failed", ("not_found",), f"there is no checkpoint of {size} entries")
            )
        return parsed(rows[0][2])

    def _path(self, find: Callable[[tree.Nodes], list[bytes]]) -> tuple[bytes, ...]:
        from fencepost.storage.verifying import StoredNodes

        try:
            return tuple(find(StoredNodes(self._store.read)))
        except LookupError as error:
            raise JournalBroken(f"the tree cannot prove it: {error}") from None

    # -- reading

    def entries(self, after: int = 0) -> Iterator[EntryView]:
        """The journal in its order, from behind the entry `after` on: by number on SQLite, in the
        order of the tree on PostgreSQL."""
        fields.count(after, "after")
        self._may_read()
        self._store.listed()
        return self._entries(after)

    def _entries(self, after: int) -> Iterator[EntryView]:
        while page := self._store.read(reading.entries(after)):
            yield from map(self._view, page)
            after = page[-1].number

    def history(self, task_id: str) -> Iterator[EntryView]:
        """The entries whose target is this task, by number. Raises NotFound.

        Entries that name several tasks (an enqueue, a claim, a sweep) are not among them.
        """
        row_id, _ = self._task(task_id, with_payload=False)
        numbers = [number for number, _ in self._store.read(reading.entries_of_task(row_id))]
        found = (self._store.read(reading.entry(number)) for number in numbers)
        return (self._view(stored) for stored in found if stored is not None)

    def _view(self, stored: Stored) -> EntryView:
        if stored.body is not None:
            leaf = tree.leaf_hash(stored.body)
            body = self._shown(stored)
            receipt = None if body is None else stored.receipt()
            return EntryView(stored.number, body, receipt, leaf)
        place = self._store.read(reading.place(stored.number))
        rows = self._store.read(rows_of("node", level=0, position=-1 if place is None else place))
        if not rows:
            raise JournalBroken(f"entry {stored.number} has neither bytes nor a leaf hash")
        return EntryView(stored.number, None, None, rows[0][0])

    def _shown(self, stored: Stored) -> bytes | None:
        """The bytes, if they are the caller's to see."""
        if stored.body is None or authority.sees_every_scope(self.caller):
            return stored.body
        entry = json.loads(stored.body)
        own = entry["scope"] == self.caller.scope and self._of_own_queues(entry)
        return stored.body if own else None

    def _of_own_queues(self, entry: dict[str, Any]) -> bool:
        """Whether it happened on queues of the caller's: the entry's own, or where it has none
        that of each task it names. What is of no queue at all concerns the whole scope."""
        if self.caller.queues is None:
            return True
        named = {item["queue"] for item in entry["tasks"] if "queue" in item}
        queues = {entry["queue"]} if "queue" in entry else named
        return bool(queues) and queues <= self.caller.queues

    def checkpoints(self) -> Iterator[Checkpoint]:
        """All checkpoints of the store, the smallest first."""
        self._may_read()
        return self._checkpoints()

    def _checkpoints(self) -> Iterator[Checkpoint]:
        after = -1
        while rows := self._store.read(rows_of("checkpoints", after=after, limit=reading.PAGE)):
            yield from (parsed(body) for _, _, body in rows)
            after = rows[-1][0]

    def verify(
        self,
        since: Checkpoint | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> Verification:
        """Check the whole store against its journal, on one snapshot; nobody waits for it.

        Problems are in the answer, not raised. `since` is a checkpoint that was kept elsewhere.
        Raises Forbidden to all but operator and auditor of every scope, Unavailable for a file
        that cannot be read.
        """
        self._of_the_store(*authority.SEES_ALL)
        with self._store.snapshot() as read:
            return verified(read, since, progress)

    # -- the store as a whole

    def copy_to(self, target: Path, told: Callable[[int, int], None]) -> None:
        """Copy the store as it is now to a new file; `told(done, all)` counts pages. Raises
        Forbidden to all but the operator. `operate.backup` is what people use: it checks too."""
        self._of_the_store("operator")
        self._store.backup(target, told)

    def about(self) -> dict[str, Any]:
        """What the store stands on, its counters, and what is waiting to be done in it."""
        self._of_the_store(*authority.SEES_ALL)
        now = self.now()
        with self._store.reading():
            ((writer_id, *numbers),) = self._store.read(rows_of("store"))
            ((sealed,),) = self._store.read(rows_of("tree_size"))
            ((unsealed,),) = self._store.read(rows_of("unsealed_count"))
            ((lapsed,),) = self._store.read(rows_of("lapsed_leases", now=now))
        state = StoreState(writer_id, *numbers)
        return {
            **self._store.about(),
            "writer_id": writer_id, "epoch": state.epoch, "floor": state.floor,
            "last_fence": state.last_fence, "entries": sealed + unsealed, "mark": state.mark,
            "now": now, "unsealed": unsealed, "lapsed": lapsed,
        }  # fmt: skip

    def examined(self) -> dict[str, Any]:
        """The same, and what takes longer to find out: for `doctor`."""
        writers = self._store.read(reading.writers())
        return {**self.about(), **self._store.examine(), "writers": writers}

    def probe_turn(self, seconds: float) -> float:
        """Take the turn to write and give it back: the seconds waited. Raises Unavailable,
        naming the process that has it, if it did not come in time."""
        return self._store.probe_turn(seconds)

    def held(self, seconds: float) -> AbstractContextManager[Any]:
        """Keep the turn to write while the block lasts: no command of anybody's is done meanwhile,
        where the store has turns. Raises Unavailable if it did not come in time."""
        self._of_the_store("operator")
        return self._store.turn(seconds)

    def begin_writer(self, why: str, heard: int = 0) -> Writer:
        """Another writer begins (`lineage.RESTORED`, `ADOPTED`): a new incarnation, an epoch above
        every one that was `heard` of. Every lease ends and every destination stands still.
        `operate.restore` is what people use. Raises Forbidden to all but the operator,
        InvalidRequest where too few epochs would be left above it."""
        self._of_the_store("operator")
        fields.integer(0, fields.MAX_HEARD)(heard, "the epoch that was heard of")
        self._store.begin_writer(why, heard)
        return self._store.read(reading.writers())[-1]

    def scope_names(self) -> list[str]:
        """Every scope that has a queue, a token or something that was set. Raises Forbidden to all
        but operator and auditor of them all."""
        self._of_the_store(*authority.SEES_ALL)
        names = set(self._store.read(reading.scope_names()))
        names |= {scope for _, _, scope, *_ in self._store.read(rows_of("all_tokens"))}
        return sorted(names - {EVERY_SCOPE})

    def _only(self, *kinds: str) -> None:
        """For these kinds, and for who is of the whole scope."""
        self._may_read()
        if self.caller.kind not in kinds or self.caller.queues is not None:
            raise turned_away("forbidden")

    def _of_the_store(self, *kinds: str) -> None:
        """The same for who is of every scope."""
        self._only(*kinds)
        if not self.caller.every_scope:
            raise turned_away("forbidden")


def turned_away(code: str) -> FencepostError:
    """What is raised to whoever may not read."""
    return error_for(refuse((code,), Command()).outcome)


def verified(
    read: Read,
    since: Checkpoint | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Verification:
    """Verify what `read` reads from; `progress` is told of every 500 entries and tasks."""
    from fencepost.journal.verify import verify
    from fencepost.storage.verifying import Pages

    steps = verify(Pages(read), since)
    try:
        while True:
            done = next(steps)
            if progress is not None:
                progress(done)
    except StopIteration as stop:
        found: Verification = stop.value
        return found


def _last_checkpoint() -> Steps[Checkpoint]:
    rows = yield from rows_of("last_checkpoint")
    if rows:
        return parsed(rows[0][2])
    ((writer_id, *_),) = yield from rows_of("store")
    return Checkpoint(f"fencepost/{writer_id}", 0, tree.EMPTY_ROOT)


def parsed(text: bytes) -> Checkpoint:
    """A stored checkpoint. Raises JournalBroken."""
    try:
        return checkpoint.parse(text)
    except ValueError as error:
        raise JournalBroken(f"a stored checkpoint cannot be read: {error}") from None
