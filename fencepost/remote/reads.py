"""What can be read over HTTP: the same questions as a local handle's, and the same answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TypeVar
from urllib.parse import urlencode

from fencepost import fields
from fencepost.handle.journal import EntryView
from fencepost.handle.verbs import Verbs
from fencepost.issues import (
    ISSUES,
    FencepostError,
    InvalidRequest,
    JournalBroken,
    NotFound,
    Unavailable,
    error_for,
)
from fencepost.journal import tree
from fencepost.journal.checkpoint import Checkpoint
from fencepost.journal.proof import ConsistencyProof, Proof
from fencepost.machine.rows import QueueRow
from fencepost.model import (
    STATES,
    Outcome,
    QueueSettings,
    Receipt,
    RefusedResult,
    Result,
    Scope,
    Task,
    Token,
    Writer,
)
from fencepost.outward import Destination
from fencepost.remote import answers, reading
from fencepost.remote.asking import Ask, Asking, Failed
from fencepost.remote.paths import of_scope
from fencepost.remote.skew import Skew
from fencepost.remote.transport import Answer

T = TypeVar("T")
PAGE = 200


class Reads(Verbs):
    """Reading, over `_asking`. Whatever fails raises Unavailable: to read again is harmless."""

    _scope: str
    _asking: Asking
    _skew: Skew

    def _get(self, path: str, read: Callable[[Any], T], **query: Any) -> T:
        return self._asked(Ask("GET", _with(path, query)), read)

    def _asked(self, ask: Ask, read: Callable[[Any], T]) -> T:
        def judge(answer: Answer, tries: int) -> T | Outcome:
            self._skew.note(answer)
            return answers.value(answer, read)

        try:
            found = self._asking.ask(ask, judge).value
        except Failed as error:
            raise unavailable(error) from None
        if isinstance(found, Outcome):
            raise error_for(found)
        return found

    def _pages(
        self, path: str, member: str, read: Callable[[Any], T], size: int | None = PAGE,
        **query: Any,
    ) -> Iterator[T]:  # fmt: skip
        """A list, page by page; the first is asked for at once, so that a refusal is raised.
        `size` None: a list that is told whole."""

        def page(token: str) -> tuple[list[T], str]:
            more = {"page_token": token} if token else {}
            return self._get(path, shown, page_size=size, **query, **more)

        def shown(given: Any) -> tuple[list[T], str]:
            return [read(item) for item in given[member]], reading.text(given["next_page_token"])

        first = page("")
        return self._rest(first, page)

    def _rest(
        self, found: tuple[list[T], str], page: Callable[[str], tuple[list[T], str]]
    ) -> Iterator[T]:
        items, token = found
        while True:
            yield from items
            if not token:
                return
            (items, token), before = page(token), token
            if token == before:
                raise Unavailable("the service's pages go in a circle")

    # -- tasks

    def task(self, task_id: str) -> Task:
        """One task with its payload. Raises NotFound."""
        fields.task_id(task_id, "task_id")
        return self._get(of_scope(self._scope, "tasks", task_id), reading.task)

    def task_by_key(self, queue: str, key: str) -> Task:
        """The task that bears this key on the queue. Raises NotFound."""
        fields.name(queue, "queue")
        fields.key(key, "key")
        return self._get(of_scope(self._scope, "queues", queue, "keys", key), reading.task)

    def tasks(self, queue: str | None = None, *, state: str | None = None) -> Iterator[Task]:
        """Tasks in the order of their enqueueing, without payloads."""
        fields.optional(fields.name)(queue, "queue")
        fields.optional(fields.one_of(*STATES))(state, "state")
        path = of_scope(self._scope, "tasks")
        return self._pages(path, "tasks", reading.task, queue=queue, state=state)

    def results(self, task_id: str) -> Iterator[Result]:
        """The accepted results of a task by revision, with the state of their commitments."""
        return self._of_task(task_id, "results", "results", reading.result)

    def refused(self, task_id: str) -> Iterator[RefusedResult]:
        """Late results that were refused and kept aside (`keep_refused`), oldest first."""
        return self._of_task(task_id, "refused", "refused", reading.refused)

    def _of_task(
        self, task_id: str, what: str, member: str, read: Callable[[Any], T]
    ) -> Iterator[T]:
        fields.task_id(task_id, "task_id")
        return self._pages(of_scope(self._scope, "tasks", task_id, what), member, read)

    def receipt(self, key: str, *, actor: str | None = None) -> Receipt:
        """The receipt of the command that had this key. Raises NotFound or ReceiptErased.

        The key is the token's actor's (or of `actor`); for a lease command without one it is the
        SHA-256 of its bytes in hex. Raises JournalBroken for a receipt that does not open.
        """
        fields.key(key, "key")
        fields.optional(fields.name)(actor, "actor")
        path = of_scope(self._scope, "receipts", key)
        found = self._get(path, reading.receipt, actor=actor)
        if not answers.opens(found):
            raise JournalBroken(f"the receipt of entry {found.number} does not open its entry")
        return found

    # -- queues, scope, store

    def queue(self, queue: str) -> QueueSettings:
        """The settings of a queue. Raises NotFound."""
        fields.name(queue, "queue")
        return self._get(of_scope(self._scope, "queues", queue), self._queue_row).settings

    def queue_rows(self) -> list[QueueRow]:
        """All queues of the scope, by name."""
        return list(self._pages(of_scope(self._scope, "queues"), "queues", self._queue_row, None))

    def _queue_row(self, given: Any) -> QueueRow:
        return reading.queue_row(self._scope, given)

    def destination(self, queue: str) -> Destination:
        """Where the obligations of a queue go. Its secrets, and what may be one in its address and
        headers, are told to operator and dispatcher alone. Raises NotFound."""
        fields.name(queue, "queue")
        return self._get(of_scope(self._scope, "queues", queue, "destination"), reading.destination)

    def destinations(self) -> list[Destination]:
        """All destinations of the scope that have an address, by name; as `destination` tells
        them."""
        path = of_scope(self._scope, "destinations")
        return list(self._pages(path, "destinations", reading.destination, None))

    def scope(self) -> Scope:
        """The scope of this handle: policy version, revocation, retention."""
        return self._get(of_scope(self._scope), reading.scope)

    def stats(self) -> dict[str, Any]:
        """Tasks by queue and state, and the store's time. `clock_jumps` stand in the service's
        own log and are none here."""
        return self._get(of_scope(self._scope, "stats"), reading.stats)

    def now(self) -> int:
        """The store's time (microseconds UTC)."""
        return int(self.stats()["now"])

    def about(self) -> dict[str, Any]:
        """What the store stands on, its counters, and what is waiting to be done in it."""
        return self._get(of_scope(self._scope, "about"), lambda given: reading.typed(given, dict))

    def tokens(self) -> list[Token]:
        """The tokens of this scope without their digests, in the order they were made."""
        return list(self._pages(of_scope(self._scope, "tokens"), "tokens", reading.token, None))

    def writers(self) -> tuple[Writer, ...]:
        """The lineage of the store: each writer that was recognised, the oldest first; the last
        one writes now. Raises Forbidden to all but operator, dispatcher and auditor."""
        found = self._pages(of_scope(self._scope, "writers"), "writers", reading.writer, None)
        return tuple(found)

    # -- the journal

    def seal(self) -> Checkpoint:
        """Put all committed entries into the tree; returns the checkpoint that covers them."""
        headers = {"Content-Type": "application/json"}
        ask = Ask("POST", of_scope(self._scope, "seal"), headers, b"")
        return self._asked(ask, reading.checkpoint)

    def prove(self, entry: int | Receipt) -> Proof:
        """The proof that this entry is in the journal, checked here. Raises NotFound,
        ReceiptErased, and JournalBroken for a proof that does not hold or is of another entry."""
        number = entry.number if isinstance(entry, Receipt) else fields.fence(entry, "number")
        path = of_scope(self._scope, "journal", "entries", str(number), "proof")
        proof = self._get(path, Proof.from_json)
        proof.check()
        if proof.number != number or (isinstance(entry, Receipt) and proof.entry != entry.body):
            raise JournalBroken(f"entry {number} of the journal is not the receipt's")
        return proof

    def prove_consistency(self, old: int | Checkpoint) -> ConsistencyProof:
        """The proof that the journal goes on from a checkpoint, checked here: from the one given,
        or from the store's of that size. Raises NotFound for a size without one, JournalBroken if
        it does not go on from what was given."""
        size = old.size if isinstance(old, Checkpoint) else fields.fence(old, "size")
        path = of_scope(self._scope, "journal", "consistency")
        try:
            proof = self._get(path, ConsistencyProof.from_json, size=size)
        except NotFound:
            if isinstance(old, Checkpoint):
                raise JournalBroken(
                    f"the store has no checkpoint of {size} entries: it is another one, or was cut"
                ) from None
            raise
        if isinstance(old, Checkpoint):
            proof = ConsistencyProof(old.text(), proof.new, proof.path)
        proof.check()
        return proof

    def entries(self, after: int = 0) -> Iterator[EntryView]:
        """The journal by number, from `after` + 1 on. Raises JournalBroken for an entry that is
        not under its own leaf hash."""
        fields.count(after, "after")
        path = of_scope(self._scope, "journal", "entries")
        return map(_checked, self._pages(path, "entries", reading.entry_view, after=after or None))

    def history(self, task_id: str) -> Iterator[EntryView]:
        """The entries whose target is this task, by number. Raises NotFound."""
        return map(_checked, self._of_task(task_id, "history", "entries", reading.entry_view))

    def checkpoints(self) -> Iterator[Checkpoint]:
        """All checkpoints of the store, the smallest first."""
        path = of_scope(self._scope, "journal", "checkpoints")
        return self._pages(path, "checkpoints", reading.checkpoint)

    # -- what needs the file itself

    def verify(self, *_: Any, **__: Any) -> NoReturn:
        """Not over HTTP."""
        raise _here(
            "verify", "run `fencepost verify` where the store is; from here, keep a checkpoint and "
            "ask prove_consistency",
        )  # fmt: skip

    def copy_to(self, *_: Any, **__: Any) -> NoReturn:
        """Not over HTTP."""
        raise _here("backup", "run `fencepost backup` where the store is")

    def examined(self) -> NoReturn:
        """Not over HTTP."""
        raise _here("examined", "ask the service's /readyz, or run `fencepost doctor` there")

    def held(self, *_: Any) -> NoReturn:
        """Not over HTTP."""
        raise _here("held", "a service gives its turn to nobody; run `fencepost copy` there")

    def within(self, *_: Any, **__: Any) -> NoReturn:
        """Not over HTTP."""
        raise _here(
            "within", "a transaction of your own needs the store in your own database; from here, "
            "write down your key first and send the command under it",
        )  # fmt: skip

    within_async = within

    def changed(self) -> NoReturn:
        """Not over HTTP."""
        raise _here("changed", "wait with claim(wait_seconds=…), or follow journal/events")

    def probe_turn(self, *_: Any) -> NoReturn:
        """Not over HTTP."""
        raise _here("probe_turn", "ask the service's /readyz, or run `fencepost doctor` there")

    def begin_writer(self, *_: Any, **__: Any) -> NoReturn:
        """Not over HTTP."""
        raise _here("begin_writer", "a copy that is to live is adopted where it lies, with "
                    "`fencepost adopt`")  # fmt: skip

    def scope_names(self) -> NoReturn:
        """Not over HTTP."""
        raise _here("scope_names", "open the store where it lies")

    def as_caller(self, *_: Any, **__: Any) -> NoReturn:
        """Not over HTTP."""
        raise _here("as_caller", "who sends is told by the token: open another handle with his")


def unavailable(error: Failed) -> FencepostError:
    """What is raised where no answer came and nothing was done."""
    return ISSUES[error.code].raises(str(error))


def _checked(view: EntryView) -> EntryView:
    if view.body is not None and tree.leaf_hash(view.body) != view.leaf_hash:
        raise JournalBroken(f"entry {view.number} is not under its leaf hash")
    return view


def _here(what: str, instead: str) -> InvalidRequest:
    return InvalidRequest(f"{what} cannot be done over HTTP: {instead}")


def _with(path: str, query: dict[str, Any]) -> str:
    given = {name: value for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path
